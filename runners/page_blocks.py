"""Parts of pages that runners write: what stands between the comments `NAME:begin` and `NAME:end`."""

from __future__ import annotations

from ptxbench.core.errors import InputError


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
