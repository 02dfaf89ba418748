"""What studies/model/fit.md says of whole kernels is what the committed file holds."""

import csv
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Row = dict[str, str]


def judged(run: str = "table-6eda") -> list[Row]:
    with (ROOT / f"results/nvidia-h200/{run}/kernel_validation.csv").open() as file:
        return list(csv.DictReader(file))


def off_pct(rows: list[Row], column: str) -> list[float]:
    return [100 * abs(float(r[column]) / float(r["measured_j"]) - 1) for r in rows]


def mean_pct(rows: list[Row], column: str) -> str:
    off = off_pct(rows, column)
    return f"{sum(off) / len(off):.1f}%"


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("all", "gpu", ""),
        ("capped", "capped", "True"),
        ("uncapped", "capped", "False"),
        ("random operands", "operands", "random"),
        ("zeros", "operands", "zeros"),
    ],
)
def test_errors_of_whole_kernels(name: str, column: str, value: str) -> None:
    rows = [r for r in judged() if r.get(column, "") == value]
    inside = sum(float(r["low_j"]) <= float(r["measured_j"]) <= float(r["high_j"]) for r in rows)
    cells = [
        name,
        str(len(rows)),
        mean_pct(rows, "estimated_j"),
        f"{max(off_pct(rows, 'estimated_j')):.1f}%",
        str(inside),
        mean_pct(rows, "estimated_by_limit_j"),
        mean_pct(rows, "full_clock_j"),
    ]
    assert f"| {' | '.join(cells)} |" in (ROOT / "studies/model/fit.md").read_text()


def test_accuracy_says_of_whole_kernels_what_the_model_says() -> None:
    page = (ROOT / "studies/model/fit.md").read_text()
    errors = {}
    for gpu in ("h200", "h100"):
        block = page.split(f"<!-- baselines-{gpu}:begin -->")[1].split("<!--")[0]
        for line in block.splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > 5:
                errors[gpu, cells[1]] = (f"{cells[2]}%", f"{cells[5]}%")
    table, constant, classes = "the table", "every opcode at 12 pJ", "median of each opcode's class"
    (library, suite), (library_one, suite_one) = errors["h200", table], errors["h200", constant]
    (h100_library, h100_suite), (h100_one, _) = errors["h100", table], errors["h100", constant]
    assert (
        f"{library} off on 51 library cases, one constant {library_one}; {suite} on 89 cases bound by"
        f" instructions, one constant {suite_one} (H100: {h100_library}, one constant {h100_one};"
        f" {h100_suite}, medians of classes {errors['h100', classes][1]})"
    ) in (ROOT / "docs/accuracy.md").read_text()
    others = {
        "docs/roofline.md": f"by {library.rstrip('%')} and {suite} on all 51 and 89",
        "studies/roofline/fit.md": f"off by {library} on all 51 library cases, and by {suite} (H200) and"
        f" {h100_suite} (H100)",
        "docs/howto/calibrate.md": f"| its own, of 101 whole kernels | {h100_library} | {h100_suite} |",
    }
    for other, words in others.items():
        assert words in " ".join((ROOT / other).read_text().split()), f"{other}: say {words!r}"


def test_accuracy_says_how_many_rows_of_h100s_two_boards_have() -> None:
    rows = json.loads((ROOT / "ptxbench/tables/nvidia-h100/boards.json").read_text())["rows"]
    several = sum(row["boards"] > 1 for row in rows)
    told = f"{len(rows):,} rows in all, {several:,} on two boards or more"
    assert told in (ROOT / "docs/accuracy.md").read_text()


def cells_of(block: str, row: str) -> list[list[str]]:
    """The cells behind a name in each table of a block of the study, one for each GPU or one for both."""
    page = (ROOT / "studies/model/fit.md").read_text()
    text = page.split(f"<!-- {block}:begin -->")[1].split("<!--")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return [cells[1:] for cells in lines if cells and cells[0] == row]


def said_in(name: str) -> str:
    return " ".join((ROOT / name).read_text().split())


def test_other_pages_say_of_emulation_and_of_the_third_suite_what_the_study_says() -> None:
    h200, h100 = cells_of("emulated", "judged")
    other = [cells[3] for cells in cells_of("emulated-field", "judged")]
    assert (
        f"from {h200[2]} to {h200[3]}% on an H200 and from {h100[2]} to {h100[3]}% on an H100"
    ) in said_in("docs/model.md")
    assert (
        f"from {h200[2]} to {h200[3]}% on an H200 and from {h100[2]} to {h100[3]}% on an H100."
    ) in said_in("studies/model/fit.md")
    assert (
        f"{h200[3]} and {h100[3]}% on the kernels that its factor is for,"
        f" {other[0]} and {other[1]}% on others"
    ) in said_in("CHANGELOG.md")
    first, third = cells_of("uniformity", "H200")
    assert (
        f"of no use: {first[3]}% there on an H200, and {third[3]} in place of {third[2]}% on the third suite"
    ) in said_in("docs/model.md")
    ((h200_field,), (h100_field,)) = (cells_of(f"field-{gpu}", "the table") for gpu in ("h200", "h100"))
    assert (
        f"off by {h100_field[3]}% (H100) and {h200_field[3]}% (H200) where instructions bound the kernel,"
        f" and by {h100_field[6]} and {h200_field[6]}% where memory does"
    ) in said_in("docs/model.md")
    assert (
        f"off by {h100_field[3]}% (H100) and {h200_field[3]}% (H200) where instructions bound a kernel"
        f" and by {h100_field[6]} and {h200_field[6]}% where memory does"
    ) in said_in("studies/model/fit.md")
