"""How large ptxbench is, by package: lines, modules, public names and dataclasses, as a table of Markdown.

    python benchmarks/code_size.py
    mkdir before && git archive 0dc9bd62 ptxbench | tar -x -C before
    python benchmarks/code_size.py --before before/ptxbench --write studies/method/size.md

A public name is a function or class of a module whose name begins with no underscore. Lines of code are
those that are not blank, not a comment and not in a docstring.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARKS = "<!-- sizes: written by benchmarks/code_size.py -->", "<!-- end of sizes -->"
COLUMNS = ("lines", "of code", "modules", "public names", "dataclasses")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the package as it was, to stand beside")
    parser.add_argument("--write", type=Path, help="page whose table is replaced (default: print it)")
    arguments = parser.parse_args()
    now = sizes(ROOT / "ptxbench")
    table = shown(sizes(arguments.before) if arguments.before else now, now)
    if arguments.write is None:
        print(table)
        return 0
    head, _, rest = arguments.write.read_text().partition(MARKS[0])
    arguments.write.write_text(f"{head}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")
    return 0


def sizes(package: Path) -> dict[str, Counter[str]]:
    """Return the sizes of each package, "" for modules at the root."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).parts
        found.setdefault(inside[0] if len(inside) > 1 else "", Counter()).update(size_of(path.read_text()))
    return found


def size_of(text: str) -> Counter[str]:
    """Return the sizes of one module."""
    tree, lines = ast.parse(text), text.splitlines()
    documented: set[int] = set()
    dataclasses = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        if isinstance(node, ast.ClassDef):
            dataclasses += any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {
        one.start[0] for one in tokens if one.type == tokenize.COMMENT and one.line.lstrip().startswith("#")
    }
    code = {number for number, line in enumerate(lines, 1) if line.strip()} - comments - documented
    named = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    counts = (
        len(lines),
        len(code),
        1,
        sum(not name.startswith("_") for name in named),
        dataclasses,
    )
    return Counter(dict(zip(COLUMNS, counts, strict=True)))


def shown(before: dict[str, Counter[str]], now: dict[str, Counter[str]]) -> str:
    """Return a table with a row a package, each cell as it was and as it is."""
    rows = [f"| package | {' | '.join(COLUMNS)} |", f"| --- |{' ---: |' * len(COLUMNS)}"]
    for name in (*sorted({*before, *now}), None):
        was, held = (
            sum(one.values(), Counter()) if name is None else one.get(name, Counter())
            for one in (before, now)
        )
        cells = [_cell(was[column], held[column]) for column in COLUMNS]
        rows.append(f"| {'all' if name is None else name or 'at the root'} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(was: int, held: int) -> str:
    return f"{held:,}" if was == held else f"{was:,} → {held:,}"


if __name__ == "__main__":
    raise SystemExit(main())
