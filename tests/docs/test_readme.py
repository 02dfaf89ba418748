"""What the README shows is what was measured."""

import csv
import json
import re
import shlex
from pathlib import Path
from statistics import median

import click
import pytest
from fakes.script import load_script

from ptxbench.cli.main import group, run
from ptxbench.core.gpu_info import GpuKind
from ptxbench.energy.gate.readings import LIMITS

ROOT = Path(__file__).parents[2]


def test_the_pages_show_what_the_shipped_tables_have():
    module = load_script("runners/refresh_readme.py")
    rows, gpu = module.readme_rows(ROOT / "results" / "nvidia-h200")
    assert gpu.kind is GpuKind.REAL
    for (name, part), text in module.pages(rows).items():
        page = (ROOT / name).read_text()
        block = f"<!-- {part}:begin -->\n{text}<!-- {part}:end -->"
        assert block in page, "run runners/refresh_readme.py --write"


def test_the_findings_are_what_the_kept_runs_say_and_other_pages_say_the_same():
    page = (ROOT / "docs" / "findings.md").read_text()
    blocks = load_script("runners/refresh_findings.py").blocks()
    for name, text in blocks.items():
        assert f"<!-- {name}:begin -->\n{text}<!-- {name}:end -->" in page, "run runners/refresh_findings.py"
    apart = max(re.findall(r"(?<=\| )\d+%(?= \|)", blocks["boards"]), key=lambda one: int(one[:-1]))
    others, tensor = re.findall(r"[0-9.]+ times", blocks["operands"])
    boards_pages = (
        "README.md",
        "docs/index.md",
        "docs/jobs.md",
        "docs/accuracy.md",
        "docs/howto/many_gpus.md",
    )
    zeros_pages = ("README.md", "docs/index.md", "docs/accuracy.md", "docs/llms.txt")
    said = {
        f"up to {apart}": boards_pages,
        f"up to {others} as much as zeros, on tensor cores {tensor}": zeros_pages,
    }
    for words, pages in said.items():
        for other in pages:
            assert words in " ".join((ROOT / other).read_text().split()), f"{other}: say {words!r}"


@pytest.mark.parametrize("page", ["docs/method.md", "docs/reference/api.md", "docs/reference/files.md"])
def test_a_power_that_cannot_be_is_the_same_on_each_page(page):
    text = " ".join((ROOT / page).read_text().split())
    assert re.findall(r"([\d.]+) times the (?:board's )?highest limit", text) == [
        f"{LIMITS.power_over_limit:g}"
    ]


def test_the_method_says_how_sources_and_counters_of_the_kept_runs_agree():
    manifests = [json.loads(path.read_text()) for path in ROOT.glob("results/*/**/manifest.json")]
    checks = [(one.get("part") or one).get("source_check") for one in manifests]
    ratios = [(one["ratio"], one["error"]) for one in checks if one]
    mean = sum(ratio / error**2 for ratio, error in ratios) / sum(error**-2 for _, error in ratios)
    apart = max(abs(ratio - mean) / error for ratio, error in ratios)
    assert (
        f"In the {len(ratios)} kept runs of H100s and H200s whose manifest has the ratio (`source_check`)"
        f" it is {min(ratios)[0]:.3f} to {max(ratios)[0]:.3f}, each within {apart:.1f} standard errors"
        f" of their mean, {mean:.4f}."
    ) in " ".join((ROOT / "docs/method.md").read_text().split())


def test_every_file_that_the_documents_link_to_is_there():
    pages = ["README.md", "CONTRIBUTING.md", "results/nvidia-h200/README.md"]
    for document in [
        *(ROOT / page for page in pages),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("studies/*/*.md"),
    ]:
        prose = [line for line in document.read_text().splitlines() if not line.startswith("    ")]
        for part in "\n".join(prose).split("](")[1:]:
            target = part.partition(")")[0].partition("#")[0]
            if target and "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def commands_of(page):
    """Return what follows `ptxbench` in each command that a page shows."""
    lines = page.read_text().replace("\\\n", " ").splitlines()
    shown = [line.strip() for line in lines if line.startswith("    ")]
    # In the README's table of jobs the command is the second cell.
    jobs = [line for line in lines if " | `ptxbench " in line] if page.name == "README.md" else []
    shown += [line.split("`")[1] for line in jobs]
    return [shlex.split(line, comments=True)[1:] for line in shown if line.startswith("ptxbench ")]


def command_of(name, arguments, context):
    """Return the command that words name; of the words, its arguments stay."""
    command = group.get_command(context, name)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        command = command.get_command(context, arguments.pop(0))
    return command


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_command_of_the_pages_takes_these_options(page):
    context = click.Context(group)
    for name, *arguments in commands_of(page):
        if "..." in arguments:
            continue
        command_of(name, arguments, context).make_context(name, list(arguments))


def test_every_command_of_the_readme_is_one_and_reads_what_is_there_or_what_one_before_it_made():
    commands = commands_of(ROOT / "README.md")
    made, context = set(), click.Context(group)
    for name, *arguments in commands:
        parsed = command_of(name, arguments, context).make_context(name, list(arguments)).params
        made |= {str(parsed[key]) for key in ("out", "plot") if parsed.get(key)}
        words = [word.removeprefix("replay:") for word in arguments]
        for path in (word for word in words if "/" in word):
            assert path in made or (ROOT / path).exists(), f"ptxbench {name}: {path}"
    assert {name for name, *_ in commands} >= set(group.list_commands(context))


def test_pages_count_the_rows_that_other_boards_alone_have_as_the_tables_do():
    page = (ROOT / "docs" / "accuracy.md").read_text()
    rows = int(re.search(r"\| `h200` \| ([\d,]+) \|", page)[1].replace(",", ""))
    (own,) = re.findall(
        r'"run": "table-6eda".*"rows": (\d+)', (ROOT / "ptxbench/tables/nvidia-h200/boards.json").read_text()
    )
    assert f"in {rows:,} rows ({own} of the largest table)" in page
    with (ROOT / "results/nvidia-h200/table-6eda/table.csv").open() as file:
        reached = sum(row["status"] == "ok" for row in csv.DictReader(file))
    assert f"{reached - int(own)} of its {reached}, whose [operands stood still]" in page
    for name in ("docs/accuracy.md", "docs/howto/look_up.md", "studies/boards/accuracy.md"):
        assert f"{rows - int(own):,}" in (ROOT / name).read_text(), name
    known = re.search(
        r"on `h100` \((\d+) boards\).* on `h200` \((\d+) boards\)", (ROOT / "README.md").read_text()
    )
    changes = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    for gpu, boards in zip(("h100", "h200"), known.groups(), strict=True):
        (counted,) = re.findall(rf"\| `{gpu}` \| ([\d,]+) \|", page)
        assert f"`results/nvidia-{gpu}`: {counted} rows of {boards} boards" in changes
    shared = re.search(r"Over the ([\d,]+) rows of both tables", (ROOT / "docs/accuracy.md").read_text())
    assert f"`diff h100 h200` compares what all boards tell ({shared[1]} rows," in changes


def test_accuracy_says_how_the_two_tables_differ_as_diff_does(capsys):
    assert run(["diff", "h100", "h200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (all_rows,) = found["agreements"]
    products = [
        (one["a"] / one["b"], one["a_clock_mhz"])
        for one in found["rows"]
        if one["a"]
        and one["b"]
        and one["instruction"].startswith(("mma.", "wgmma."))
        and (one["opt_level"], one["operands"]) == ("O0", "random")
    ]
    high = [one for one in products if one[0] >= 1.195]
    clocks = [clock for _, clock in high]
    said = (
        f"Over the {all_rows['rows']:,} rows of both tables an H200 takes {1 - all_rows['factor']:.1%} less,"
        f" by one factor; apart from it rows differ by {all_rows['median_left']:.1%} at the median and"
        f" {all_rows['p95_left']:.1%} at the 95th percentile",
        f"take {median(ratio for ratio, _ in products) - 1:.0%} more than on the H200 at the median of"
        f" {len(products)}, and {len(high)} of them 20 to {max(high)[0] - 1:.0%} more, at"
        f" {min(clocks):,.0f} to {max(clocks):,.0f} MHz",
    )
    page = " ".join((ROOT / "docs" / "accuracy.md").read_text().split())
    assert [words for words in said if words not in page] == []


def cells_of(name, block):
    """The rows of a table that a script writes, without its head."""
    text = (ROOT / name).read_text().split(f"<!-- {block}:begin -->")[1].split("<!--")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.strip().splitlines()[2:]]


def ends(cells, digits=1):
    """The least and the largest of percentages such as **0.15%**."""
    values = [abs(float(cell.strip("*%+"))) for cell in cells]
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}%"


def test_pages_say_of_boards_and_repeats_what_their_tables_have():
    runs = "studies/h200/runs.md"
    repeats = cells_of(runs, "repeats")
    again, tail = (ends((row[at] for row in repeats), 2) for at in (3, 4))
    boards = cells_of(runs, "boards")
    large = [row for row in boards if int(row[1]) >= 70]
    small = [row for row in boards if int(row[1]) < 70]
    median = f"to {ends(row[3] for row in large)} at the median"
    other = cells_of("docs/accuracy.md", "spread")
    held = [100 - float(row[7].strip("%")) for row in other]
    table = {row[0]: row for row in cells_of("docs/findings.md", "operands") if len(row) > 1}
    fma, dfma = table["`fma.rn.f32`"], table["`fma.rn.f64`"]
    said = {
        "README.md": (
            f"it is {again} and {tail}",
            f"by {ends(row[3] for row in large)} at the median of 70 common rows or more",
        ),
        "docs/accuracy.md": (
            f"within {again}, 19 of 20 within {tail} | {len(repeats)} repeats",
            f"within {ends(row[3] for row in large)} where two boards have 70 rows or more in common"
            f" ({ends(row[3] for row in small)} where fewer)",
            f"agree {median} and {ends(row[4] for row in large)} at the 95th percentile",
            f"{min(held):.0f} to {max(held):.0f}% of the rows of two runs or two boards agree",
            f"FFMA takes {fma[1]} pJ on zeros and {fma[4]} pJ on random bits; DFMA {dfma[1]} and {dfma[4]}",
        ),
        "studies/boards/accuracy.md": (
            f"agree {median} and {ends(row[4] for row in large)} at the 95th percentile",
        ),
    }
    for name, sentences in said.items():
        page = " ".join((ROOT / name).read_text().split())
        for words in sentences:
            assert words in page, f"{name}: say {words!r}"
