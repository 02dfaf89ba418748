"""Which faults of a board and its sensors each consumer of readings holds or says, and which come out silent.

    python tests/fault_matrix.py --out matrix.csv [--consumer table] [--kind late] [--list silent]

Each case is one fault, in one strength, on one set of sources of a simulated H200. It is *held* where every
energy is within its 95% interval of the truth, or within 3%; *said* where one is not, or is missing, and a
sentence or a status says what is wrong; *unchecked* where the only word is that no second source checks it;
and *silent* where one is off without a word. A case that the file has is not tried again. The table of all
cases in the file is printed as Markdown, a cell being held / said / unchecked / silent.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fakes.consumers import CONSUMERS
from fakes.fault_cases import BOARDS, VERDICTS, Case, kinds, verdict

Row = tuple[str, ...]


def main() -> int:
    """Try what the file lacks, print the table, and return whether a case was silent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="CSV of cases, continued if it is there")
    parser.add_argument("--consumer", action="append", choices=CONSUMERS)
    parser.add_argument("--kind", action="append", choices=kinds(0.0))
    parser.add_argument("--list", action="append", choices=VERDICTS, default=[], help="cases to list")
    chosen = parser.parse_args()
    rows = _read(chosen.out)
    with chosen.out.open("a", newline="") as file:
        known, writer = {row[:4] for row in rows}, csv.writer(file)
        for consumer in chosen.consumer or CONSUMERS:
            for kind, strength, board in _cases(consumer, chosen.kind):
                if (consumer, kind, strength, board) not in known:
                    rows.append(_tried(consumer, kind, strength, board))
                    writer.writerow(rows[-1])
                    file.flush()
    print(_markdown(rows))
    for row in rows:
        if row[4] in chosen.list:
            print(": ".join(row))
    return int(any(row[4] == "silent" for row in rows))


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [tuple(row) for row in csv.reader(file)]


def _cases(consumer: str, wanted: list[str] | None) -> list[tuple[str, str, str]]:
    return [
        (kind, trouble.strength, board)
        for kind, troubles in kinds(CONSUMERS[consumer].mid_s).items()
        for trouble in troubles
        for board in trouble.boards or BOARDS
        if kind in (wanted or [kind])
    ]


def _tried(consumer: str, kind: str, strength: str, board: str) -> Row:
    """Try a fault that is made anew: it has a memory."""
    troubles = kinds(CONSUMERS[consumer].mid_s)[kind]
    (trouble,) = (one for one in troubles if one.strength == strength)
    found = CONSUMERS[consumer].cases(BOARDS[board], trouble)
    return consumer, kind, strength, board, verdict(found), "; ".join(map(_text, found))


def _text(one: Case) -> str:
    off = f"{100 * (one.energy_j / one.truth_j - 1):+.1f}%"
    half = f"{50 * (one.interval_j[1] - one.interval_j[0]) / one.truth_j:.1f}%"
    return f"{one.name} {off} ± {half} {'WRONG ' if one.is_off else ''}{' | '.join(one.said)[:200]}"


def _markdown(rows: list[Row]) -> str:
    table = Counter((row[1], row[0], row[4]) for row in rows)
    consumers = [one for one in CONSUMERS if any(row[0] == one for row in rows)]
    found = [kind for kind in kinds(0.0) if any(row[1] == kind for row in rows)]

    def cell(consumer: str, of: list[str]) -> str:
        counts = (sum(table[kind, consumer, one] for kind in of) for one in VERDICTS)
        return " / ".join(map(str, counts))

    lines = [["Kind of fault", *consumers], ["---"] + ["---:"] * len(consumers)]
    lines += [[kind, *(cell(one, [kind]) for one in consumers)] for kind in found]
    lines.append(["all", *(cell(one, found) for one in consumers)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
