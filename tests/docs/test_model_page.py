"""What docs/model.md says of whole kernels is what the committed file holds."""

import csv
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
    assert f"| {' | '.join(cells)} |" in (ROOT / "docs/model.md").read_text()
