"""A report as sections, for a terminal or as a page for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ptxbench.report.chart import Chart, as_document
from ptxbench.report.web_page import fill_page


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


def sections_page(parts: Sequence[Section], docs: Sequence[str], charts: Sequence[Chart] = ()) -> str:
    """Return one page for a browser.

    Args:
        parts: At least one; the first heading is the title.
        docs: Files of the documentation that say how to read it.
        charts: What is drawn below them.
    """
    document = {
        "sections": [asdict(part) for part in parts],
        "charts": [as_document(chart) for chart in charts],
        "docs": list(docs),
    }
    return fill_page("sections.html", parts[0].heading, document)
