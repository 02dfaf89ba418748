"""Text of files, programs and devices of others, made fit for a terminal, a table or a document.

Nothing of it commands a terminal, turns what stands beside it around, is a formula of a spreadsheet, or is
taken for markup.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

# Room for the longest message of a compiler.
_LONGEST = 4000
_LAST = 1000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# What a spreadsheet takes for a formula, unless there is an apostrophe before it.
_FORMULA = re.compile(r"['\s]*[=+\-@]")
_QUOTED = re.compile(r'[,"\r\n]')
_MARKDOWN = re.compile(r"[\\`*\[\]|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "~": "&#126;"})
_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "\ufffd": "?",
    }
)


def quotable(text: str) -> str:
    """Return `text` as `printable_lines` does, without the middle of it where it is very long."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - _LAST]} ... {text[-_LAST:]}"
    return printable_lines(text)


def printable_lines(text: str) -> str:
    """Return `text` line by line as `printable` does; only a line feed ends a line."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return `text` with white space as blanks, and a replacement sign for what is not printable.

    Escape sequences of a terminal and marks that turn the direction of writing are among what is replaced.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def render_csv(rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV, one line a row, also the last.

    None and NaN are empty cells. A text that a spreadsheet would take for a formula has an apostrophe before
    it, which `text_of_cell` takes away.
    """
    return "".join(",".join(map(_csv_cell, row)) + "\n" for row in rows)


def text_of_cell(cell: str) -> str:
    """Return the text that a cell of `render_csv` was made from."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def markdown_text(text: str) -> str:
    """Return one line of Markdown that reads as `text`, also in a cell of a table."""
    line = " ".join(printable(text).split())
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", line).translate(_HTML)


def markdown_code(text: str) -> str:
    """Return `text` as code in Markdown, also in a cell of a table."""
    line = " ".join(printable(text).split()).replace("`", "'").replace("|", r"\|")
    return f"`{line}`"


def latex_text(text: str) -> str:
    """Return one line of LaTeX that reads as `text`."""
    return " ".join(printable(text).split()).translate(_LATEX)


def _csv_cell(value: object) -> str:
    if value is None or value != value:
        return ""
    cell = printable_lines(str(value))
    if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        cell = f"'{cell}"
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell


def number(value: float, form: str, unknown: str = "-") -> str:
    """Return a number in a format such as ".4g", and `unknown` for one that is not finite."""
    return format(value, form) if math.isfinite(value) else unknown
