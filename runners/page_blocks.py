"""Parts of pages that runners write: what stands between the comments `NAME:begin` and `NAME:end`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage.atomic import write_text


def with_block(page: str, name: str, block: str) -> str:
    """Return a page with a block between its two marks.

    Args:
        page: Markdown.
        name: Name of the block.
        block: What shall stand there, whole lines.

    Raises:
        InputError: The page has no such marks.
    """
    before, begin, rest = page.partition(f"<!-- {name}:begin -->\n")
    _, end, after = rest.partition(f"<!-- {name}:end -->")
    if not end:
        raise InputError(
            f"the page has no marks of {name!r}: no comments {name}:begin and {name}:end; "
            "put them round the table"
        )
    return before + begin + block + end + after


def write_blocks(path: Path, blocks: Mapping[str, str]) -> None:
    """Write blocks into a page, each between its two marks, in one go.

    Args:
        path: Its file.
        blocks: What shall stand there, whole lines, by the names of the marks.

    Raises:
        InputError: The page has no such marks, or cannot be written.
    """
    page = path.read_text(encoding="utf-8")
    for name, block in blocks.items():
        page = with_block(page, name, block)
    write_text(path, page)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; its first columns are words, the others numbers."""
    marks = ["---"] * left + ["---:"] * (len(head) - left)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, marks, *rows))
