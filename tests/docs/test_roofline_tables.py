"""The tables of rooflines, on three pages, are those of the kept runs, and so is what is said of them."""

import re

import pytest
from fakes.script import load_script

MODULE = load_script("runners/refresh_roofline.py")


@pytest.fixture(scope="module")
def kept():
    return MODULE.kept_rooflines()


def test_tables_of_rooflines_are_those_of_the_kept_runs(kept):
    for name, (path, block) in MODULE.PAGES.items():
        page = (MODULE.ROOT / path).read_text(encoding="utf-8")
        there = page.split(f"<!-- {name}:begin -->\n")[1].split(f"<!-- {name}:end -->")[0]
        assert there == block(kept), "run runners/refresh_roofline.py"


def first(cell):
    return float(re.match(r"[-\d.]+", cell)[0])


def ends(values, digits=0):
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def test_pages_say_of_rooflines_what_their_tables_have(kept):
    shown = [one for one in kept if one.has_third]
    rows = [[one.name, first(one.energy("dram")), one.quantity("average_byte_pj")["value"]] for one in shown]
    random = {
        gpu: [r for r in rows if r[0].startswith(gpu) and "zeros" not in r[0]] for gpu in ("H200", "H100")
    }
    more, most = ({gpu: [r[at] for r in of] for gpu, of in random.items()} for at in (1, 2))
    kinds = {r[0].split(", ")[1] for r in random["H100"]} & {r[0].split(", ")[1] for r in random["H200"]}
    dearer = {}
    for at in (1, 2):
        of = {
            (gpu, kind): [r[at] for r in random[gpu] if r[0].endswith(f", {kind}")]
            for gpu in random
            for kind in kinds
        }
        means = {key: sum(values) / len(values) for key, values in of.items()}
        dearer[at] = ends([100 * (means["H100", kind] / means["H200", kind] - 1) for kind in kinds])
    third = list(MODULE.third_rows(kept))
    before, after = zip(*(map(float, row[1].split(" to ")) for row in third), strict=True)
    falls = [1 - now / then for then, now in zip(before, after, strict=True)]
    limited = list(MODULE.limited_rows(kept))
    asleep = [abs(first(r[4]) - float(r[6])) <= float(r[4].split("± ")[1]) for r in third]
    falling, waiting = ([re.findall(r"[\d.]+", row[at]) for row in limited] for at in (5, 3))
    times, powers = zip(*falling, strict=True)
    said = {
        "docs/roofline.md": (
            f"a byte of the H100's DRAM costs {dearer[1]}% more",
            f"{max(more['H200']):.0f} on a fifth, and {ends(more['H100'])} on the H100",
            f"bandwidth costs {ends(most['H200'])} and {ends(most['H100'])} pJ",
            f"from {ends(before, 1)}% down to {ends(after, 1)}%",
            f"time within {min(times, key=float)} to {max(times, key=float)}% and power within"
            f" {min(powers, key=float)} to {max(powers, key=float)}%",
            f"is {ends([float(time) for time, _ in waiting])}% off in time ([{len(limited)} rows]",
        ),
        "docs/published.md": (
            f"{ends(more['H100'])} | {ends(more['H200'])}",
            f"({ends(most['H100'])} and {ends(most['H200'])} pJ)",
        ),
        "studies/roofline/fit.md": (
            f"costs {dearer[1]}% more than one of the H200's, and {dearer[2]}% more",
            f"on {sum(fall >= 0.4 for fall in falls)} of the {len(third)} runs",
            f"on {sum(asleep)} of {len(third)} runs",
        ),
        "CHANGELOG.md": (f"{len(third)} kept runs fell by {ends([100 * fall for fall in falls])}%",),
    }
    for name, sentences in said.items():
        page = " ".join((MODULE.ROOT / name).read_text(encoding="utf-8").split())
        for words in sentences:
            assert words in page, f"{name}: say {words!r}"
