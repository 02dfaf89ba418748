"""What every picture shares: matplotlib where it is installed, the GPU in the title, the file."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.printable import printable_lines
from ptxbench.storage.atomic import require_file, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 130
_OWN_FORMULA = r"\mathdefault"
PICTURES = (".png", ".svg", ".pdf")
# An extra of ptxbench could not be named: from a checkout, pip would look for another ptxbench on PyPI.
MATPLOTLIB_CURE = f"run '{sys.executable} -m pip install matplotlib'"


def new_figure(width_in: float, height_in: float) -> Figure:
    """Return an empty figure.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(f"plots need matplotlib; {MATPLOTLIB_CURE}") from error
    return Figure(figsize=(width_in, height_in), layout="constrained")


def require_picture(path: Path) -> None:
    """Make sure that a picture can be written by this name, before anything is measured for it.

    Raises:
        InputError: matplotlib is not installed, or the format is not known.
    """
    new_figure(1, 1)
    require_file(path)
    if path.suffix.lower() not in PICTURES:
        raise InputError(f"{path} cannot be written as a picture: name it .png, .svg or .pdf")


def title(info: GpuInfo) -> str:
    """Return what a picture's numbers are of."""
    origin = info.name if info.kind is GpuKind.REAL else f"{info.name}: {info.kind.upper()}, no measurement"
    return f"{origin}, driver {info.driver}" if info.driver else origin


def save_pages(figures: Sequence[Figure], path: Path) -> tuple[Path, ...]:
    """Write pages: into one PDF, or else `name.png`, `name-2.png` and so on.

    Returns:
        The files.

    Raises:
        InputError: A file cannot be written, or the format is not known.
    """
    if path.suffix.lower() != ".pdf" or len(figures) == 1:
        paths = [path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, len(figures) + 1))]
        for figure, one in zip(figures, paths, strict=True):
            save(figure, one)
        return tuple(paths)
    from matplotlib.backends.backend_pdf import PdfPages

    require_picture(path)
    document = io.BytesIO()
    with PdfPages(document) as pages:
        for figure in figures:
            show_as_text(figure)
            pages.savefig(figure)
    write_bytes(path, document.getvalue())
    return (path,)


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the ending of `path` chooses the format.

    Raises:
        InputError: The file cannot be written, or the format is not known.
    """
    require_picture(path)
    write_bytes(path, picture_bytes(figure, path.suffix.lower().removeprefix(".")))


def picture_bytes(figure: Figure, form: str, dots_per_inch: int = _DOTS_PER_INCH) -> bytes:
    """Return a figure as a file of a format: png, svg or pdf."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    show_as_text(figure)
    picture = io.BytesIO()
    if form == "png":
        # A figure is laid out as it is drawn; `savefig` would draw it once more for that.
        figure.set_dpi(dots_per_inch)
        FigureCanvasAgg(figure).print_png(picture)  # type: ignore[no-untyped-call]
    else:
        figure.savefig(picture, format=form, dpi=dots_per_inch)
    return picture.getvalue()


def show_as_text(figure: Figure) -> None:
    """Show names as they are: `$` begins no formula, and what cannot be printed is no part of a file."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)  # noqa: S101
        # Labels of an axis are made when it is drawn, and may be formulas of matplotlib's own.
        if text.get_text() and _OWN_FORMULA not in text.get_text():
            text.set_text(printable_lines(text.get_text()))
            text.set_parse_math(False)
