"""What docs/howto/operations.md and its study say of tables of operations is what the kept tables have."""

from collections import Counter
from pathlib import Path
from statistics import median

import pytest
from fakes.script import load_script

from ptxbench.catalogue.operations import used_shapes
from ptxbench.model.operation_cost import BOARD_HALF, measured_costs, operation_costs
from ptxbench.storage.operations_file import read_operations
from ptxbench.storage.shipped import SHIPPED

ROOT = Path(__file__).parents[2]
RUNNER = load_script("runners/join_operations.py")
H200, H100 = ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
IN_WORDS = {7: "seven", 8: "eight"}


def between(shares, digits=0):
    least, *_, most = sorted(shares)
    return f"{100 * least:.{digits}f} to {100 * most:.{digits}f}%"


def said_in(name):
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


PAGE, STUDY = said_in("docs/howto/operations.md"), said_in("studies/boards/operations.md")


@pytest.fixture(scope="module")
def rows():
    return {name: RUNNER.kept_rows(folder.name) for name, folder in SHIPPED.items()}


@pytest.fixture(scope="module")
def shipped():
    return {name: read_operations(folder) for name, folder in SHIPPED.items()}


@pytest.fixture(scope="module")
def found(rows):
    return RUNNER.agreements([row for of_gpu in rows.values() for row in of_gpu])


def test_the_tables_have_as_many_operations_and_boards_as_the_page_says(shipped):
    said = []
    for name, least in (("h200", 2), ("h100", 3)):
        costs = measured_costs(shipped[name])
        on_boards = [cost.boards for cost in costs if cost.boards]
        boards = IN_WORDS[len({row.board for row in shipped[name]})]
        several = (
            f"{sum(n >= least for n in on_boards)} of these on {'two' if least == 2 else 'three'} boards"
        )
        said.append((f"{len(costs)}", f"{boards} {name[:1].upper()}{name[1:]}s", len(on_boards), several))
    (h200, h200s, h200_known, h200_several), (h100, h100s, h100_known, h100_several) = said
    assert (
        f"have {h200} operations on {h200s}, {h200_known} of them with a number, {h200_several} or more, and"
        f" {h100} on {h100s}, {h100_known} with a number, {h100_several} or more."
    ) in PAGE
    assert f"It measures {len(used_shapes())} operations on the shapes" in PAGE


def test_both_gpus_differ_by_what_the_page_says(shipped):
    h200, h100 = (
        {cost.operation: cost.energy_j for cost in measured_costs(shipped[name]) if cost.boards}
        for name in ("h200", "h100")
    )
    less = {one: 1 - h200[one] / h100[one] for one in h200 if one in h100}
    copies = median(share for one, share in less.items() if one.op == "copy")
    typical = f"{median(less.values()):.0%}"
    of_how_many = f"at the median of {len(less)} operations, in copies {copies:.0%}"
    assert f"**H200s take less**: {typical} {of_how_many}." in PAGE
    assert f"H200s take {typical} less than H100s {of_how_many} less." in STUDY


def test_boards_differ_by_what_the_pages_say(found):
    for table in RUNNER.repeat_tables(found).split("\n\n")[:2]:
        assert " ".join(table.split()) in STUDY, "copy what runners/join_operations.py repeat prints"
    medians = {
        gpu: {one.boards: median(map(abs, one.logs)) for one in found if one.device == gpu}
        for gpu in BOARD_HALF
    }
    h200 = medians[H200].values()
    assert f"same within {between(h200, 1)} at the median" in PAGE
    apart = Counter(board for pair, off in medians[H100].items() if off > 0.03 for board in pair)
    ((other, _),) = apart.most_common(1)
    alike = [off for pair, off in medians[H100].items() if other not in pair]
    assert f"three take the same within {between(alike, 1)}, and two" in PAGE
    left = list(RUNNER.left_out(found))
    assert f"in {between(one.alone[0] for one in left)} of the cases" in PAGE
    held = {
        gpu: between(
            share
            for one in left
            if one.device == gpu and one.board != other
            for share in (one.alone[1], one.mean[1])
        )
        for gpu in BOARD_HALF
    }
    (most,) = (one for one in left if one.board == other)
    for words in (
        f"For H200s that is ± {BOARD_HALF[H200]:.1%}; then rows hold {held[H200]} of the energies",
        f"For H100s it is ± {BOARD_HALF[H100]:.1%}. What the other boards tell holds {held[H100]} on each of",
        f"of three H100s, but {between((most.alone[1], most.mean[1]))} on the one that draws most.",
    ):
        assert words in PAGE


def test_the_terms_of_cost_are_those_of_the_kept_boards(found):
    assert {name: round(RUNNER.board_half(name, found), 3) for name in BOARD_HALF} == BOARD_HALF


def test_predictions_miss_and_hold_what_the_pages_say(shipped):
    known = [cost for of_gpu in shipped.values() for cost in measured_costs(of_gpu) if cost.boards]
    beside, alone, far, far_alone = (
        RUNNER.judged(RUNNER.left_out_costs(known, is_alone, near))
        for near in (0.0, RUNNER.HOLE)
        for is_alone in (False, True)
    )
    holds, alone_holds, far_holds, far_alone_holds = (
        f"{one.held / one.told:.0%}" for one in (beside, alone, far, far_alone)
    )
    for words in (
        f"a prediction is off by {beside.off:.1%} at the median: {len(known)} operations were left out",
        f"Its interval reaches {beside.up:.0%} up at the median, and {holds} of the intervals hold",
        f"By rows of the same GPU alone it is off by {alone.off:.1%}, the interval reaches",
        f"the interval reaches {alone.up:.0%} up, and {alone_holds} hold.",
        f"Where all rows of the same GPU within {RUNNER.HOLE} powers of two are",
        f"left out, too, {far_holds} hold, and {far_alone_holds} by the same GPU alone.",
    ):
        assert words in PAGE
    for words in (
        f"of {len(known)} operations, each left out in turn, the others of the same GPU tell {alone.told}.",
        f"off by {alone.off:.1%} at the median, and their interval, {alone.up:+.0%} at the median, holds"
        f" {alone_holds}. With the rows of the other GPU, too, {beside.told} are told, off by",
        f"off by {beside.off:.1%} at the median; the interval is {beside.up:+.0%}, and holds {holds}.",
        f"nearer than {RUNNER.HOLE} powers of two the others of the same GPU tell {far_alone.told}, off by",
        f"off by {far_alone.off:.1%}, and their interval, {far_alone.up:+.0%}, holds {far_alone_holds};",
        f"with the other GPU's {far.told}, off by {far.off:.1%}, and {far.up:+.0%} holds {far_holds}.",
    ):
        assert words in STUDY


def test_the_tables_tell_of_the_seventh_h100_what_the_pages_say(shipped):
    new, shapes = (
        read_operations(RUNNER.RESULTS / "nvidia-h100" / name)
        for name in ("operations-4ca5", "operations-4ca5-between")
    )
    before = [row for of_gpu in shipped.values() for row in of_gpu if row.board != new[0].board]
    whole, part = (
        RUNNER.judged(
            (cost, row.energy_j)
            for row in some
            for cost in operation_costs(before, row.operation)
            if cost.device == row.device
        )
        for some in ((*new, *shapes), shapes)
    )
    for words in (
        f"of its {len(new) + len(shapes)} operations that no other H100 has, {len(shapes)} of them shapes",
        f"with this known: {whole.told} are told, and {whole.held} lie within it.",
        f"Of the {len(shapes)} shapes {part.told} are told, and all {part.held} hold.",
    ):
        assert words in PAGE
    assert f"{whole.told} of the 57" in STUDY
    assert f"{part.told} of the {len(shapes)} below have a number" in STUDY
