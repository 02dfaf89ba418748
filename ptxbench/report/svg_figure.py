"""A picture of matplotlib as a part of a page: in its colours, light and dark, and as wide as other plots."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxbench.report.figure import show_as_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What pictures are drawn in, and what the pages' style sheet calls it.
_COLOURS = {
    "#000000": "--soft",
    "#222222": "--ink",
    "#b0b0b0": "--line",
    "#cccccc": "--line",
    "#ffffff": "--paper",
    "#2f6fb0": "--run4",
    "#c46a1b": "--run1",
    "#b02f5f": "--run3",
    "#1c7c3c": "--run0",
    "#3c9a5f": "--run0",
}
_COLOUR = re.compile("|".join(_COLOURS))
_NAMED = re.compile(r'(\bid="|url\(#|href="#)')
# As wide as the plots that pages draw themselves, in units of 1/72 inch, and their size of text.
_WIDTH, _TEXT = 440, 11


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes:
        caption: What it shows.
        svg: Its markup, in which every text is escaped.
        is_wide: Whether it is as wide as two others.
    """

    caption: str
    svg: str
    is_wide: bool


def page_picture(figure: Figure, name: str) -> Picture:
    """Return a figure as a part of a page; its title becomes the caption, and its size and text change.

    Args:
        figure: The figure.
        name: Of the picture, a word that no other of the page has.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.text import Text

    width_in, height_in = figure.get_size_inches()
    columns = 2 if width_in > 8 else 1
    figure.set_size_inches(columns * _WIDTH / 72, max(height_in / width_in * columns * _WIDTH / 72, 4.2))
    # The first line of a title is what it shows, and the second the GPU, which the page says.
    titles = [figure.get_suptitle(), *(axes.get_title(loc="left") for axes in figure.axes)]
    caption = next(filter(None, titles), name).splitlines()[0]
    figure.suptitle("")
    figure.patch.set_alpha(0)
    for axes in figure.axes:
        axes.set_title("", loc="left")
        axes.patch.set_alpha(0)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)  # noqa: S101
        text.set_fontsize(_TEXT)
    show_as_text(figure)
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        # Figures are laid out as they are drawn; `savefig` would draw them once more for it.
        FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
            out, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text_of = out.getvalue()
    svg = text_of[text_of.index("<svg ") :]
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    svg = _NAMED.sub(rf"\g<1>{name}-", svg)
    return Picture(caption, _COLOUR.sub(lambda found: f"var({_COLOURS[found.group()]})", svg), columns > 1)
