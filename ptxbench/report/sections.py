"""A report as sections, for a terminal or as a page for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from ptxbench.report.svg_figure import Picture
from ptxbench.report.web_page import render_page


@dataclass(frozen=True)
class Section:
    """A heading, sentences, and a table.

    Attributes:
        heading: The heading.
        lines: Sentences below it.
        columns: Headings of the table; the first is text, the others are numbers.
        rows: Its cells.
    """

    heading: str
    lines: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def sections_page(parts: Sequence[Section], docs: Sequence[str], pictures: Sequence[Picture] = ()) -> str:
    """Return one page for a browser.

    Args:
        parts: At least one; the first heading is the title.
        docs: Files of the documentation that say how to read it.
        pictures: What is shown below them.
    """
    text = files("ptxbench.report").joinpath("sections.html").read_text(encoding="utf-8")
    return render_page(text, parts[0].heading, sections=parts, docs=docs, pictures=pictures)
