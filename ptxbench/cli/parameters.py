"""Types of parameters: what a command line may hold, checked before anything is computed."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from ptxbench.core.condition import ARRAY_PATTERNS, Pattern
from ptxbench.core.shared_options import BY_DIMENSION, OF_ARRAYS, PATTERNS
from ptxbench.storage.atomic import require_file

if TYPE_CHECKING:
    from ptxbench.tune.clocks.axes import Values

_Context = click.Context | None
_Parameter = click.Parameter | None


if TYPE_CHECKING:
    _ParamType = click.ParamType
else:

    class _ParamType(click.ParamType):
        """Takes the type of its values, as click's own does from 8.4 on."""

        def __class_getitem__(cls, values: object) -> type:
            return cls


class Number(click.FloatRange):
    """A finite number within bounds; click's own range lets NaN pass.

    Args:
        low: Least value.
        high: Greatest value.
        above: Whether the value must be greater than `low`.
    """

    name = "number"

    def __init__(self, low: float, high: float, *, above: bool = False) -> None:
        super().__init__(low, high, min_open=above)

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> float:
        """Return the number."""
        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return float(super().convert(number, param, ctx))


class Whole(click.IntRange):
    """A whole number within bounds; of another text click says that it is no "integer range"."""

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> int:
        """Return the number."""
        try:
            return int(super().convert(int(str(value)), param, ctx))
        except ValueError:
            return self.fail(f"{value!r} is not a whole number.", param, ctx)


class NamedPath(click.Path):
    """A path; an empty text, which would be the folder that one is in, is none."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: _Parameter, ctx: _Context) -> Any:
        """Return the path."""
        return (
            super().convert(value, param, ctx) if str(value) else self.fail("the name is empty.", param, ctx)
        )


class Fraction(Number):
    """A fraction between 0 and 1, such as 0.02 or 2%."""

    name = "fraction"

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> float:
        """Return the fraction."""
        text = str(value)
        try:
            found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            return self.fail(f"{value!r} is not a number.", param, ctx)
        if not 0 <= found <= 1:
            return self.fail(f"{value!r} is neither from 0% to 100% nor a fraction from 0 to 1.", param, ctx)
        return found


class Duration(Number):
    """A time in seconds, such as 10, 10s or 2m."""

    name = "time"
    _units: ClassVar[dict[str, float]] = {"s": 1.0, "m": 60.0}

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> float:
        """Return the time, s."""
        text = str(value)
        unit = self._units.get(text[-1:])
        if unit is None:
            return super().convert(value, param, ctx)
        try:
            number = float(text[:-1])
        except ValueError:
            return self.fail(f"{value!r} is not a time such as 10s or 2m.", param, ctx)
        return super().convert(number * unit, param, ctx)


class NamedNumber(_ParamType[tuple[str, float]]):
    """A name and a number, NAME=N.

    Args:
        name: What stands for it in the help, such as "NAME=N".
        example: One of them.
        low: Least number.
        high: Greatest.
        above: Whether the number must be greater than `low`.
        is_count: Whether a whole number is an int.
        is_place: Whether the name is a place in code, whose capitals do not count.
    """

    def __init__(
        self,
        name: str,
        example: str,
        low: float,
        high: float,
        *,
        above: bool = False,
        is_count: bool = False,
        is_place: bool = False,
    ) -> None:
        self.name, self._example = name, example
        self._is_count, self._is_place = is_count, is_place
        self._number = Number(low, high, above=above)

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> tuple[str, float]:
        """Return the name and the number."""
        if isinstance(value, tuple):
            return value
        name, sign, text = str(value).partition("=")
        if not sign or not name.strip():
            self.fail(f"{value!r} must be {self.name}, such as {self._example}.", param, ctx)
        try:
            number = self._number.convert(text, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{value!r}: {error.message}", param, ctx)
        name = name.strip().lower() if self._is_place else name.strip()
        return name, int(number) if self._is_count and number == int(number) else number


class OperandKind(_ParamType["str | float"]):
    """What operands hold: a kind of data, such as zeros, or a number, which says how much they toggle.

    Args:
        kinds: Kinds that are known; none: any, and numbers, whose bounds the option has.
    """

    name = "operands"

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> str | float:
        """Return the number, or else the word."""
        if self._kinds and value not in self._kinds:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, self._kinds))}.", param, ctx)
        with suppress(ValueError):
            return float(str(value))
        return str(value)


PAIRS: dict[str | None, click.ParamType[Any]] = {
    kind.name: kind
    for kind in (
        NamedNumber("LOOP=N", "0=128 or 0x1a0=128", 0, 1e18, is_place=True),
        NamedNumber("ADDRESS=P", "0x1b0=0.25", 0, 1, is_place=True),
        NamedNumber("NAME=N", "N=8192", -1e18, 1e18, is_count=True),
        NamedNumber("UNIT=N", "token=4096", 0, 1e18, above=True),
    )
}
_DIMENSIONS = 3


class Dims(_ParamType[int | tuple[int, ...]]):
    """The size of a grid or a block: along x, or along x, y and z with commas between them."""

    name = BY_DIMENSION

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> int | tuple[int, ...]:
        """Return the one size, or those by dimension."""
        if isinstance(value, int | tuple):
            return value
        words = str(value).split(",")
        try:
            sizes = tuple(map(int, words))
        except ValueError:
            sizes = ()
        if not 0 < len(sizes) <= _DIMENSIONS or min(sizes) < 1:
            self.fail(f"{value!r} is no size such as 1056 or 33,32.", param, ctx)
        return sizes if len(sizes) > 1 else sizes[0]


# Types that an option of a lower package names by its metavar.
BY_METAVAR = {
    **PAIRS,
    BY_DIMENSION: Dims(),
    "KIND|0..1": OperandKind(),
    PATTERNS: OperandKind(*(one.value for one in Pattern)),
    OF_ARRAYS: OperandKind(*(one.value for one in ARRAY_PATTERNS)),
}


class SizeList(_ParamType[tuple[int, ...]]):
    """Sizes with commas between them, such as 512,1024, each of them once.

    Args:
        low: Least size.
        high: Greatest size.
    """

    name = "N,N,..."

    def __init__(self, low: int, high: int) -> None:
        self._size = Whole(low, high)

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> tuple[int, ...]:
        """Return the sizes, in the order in which they are given."""
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        found = [self._size.convert(word.strip(), param, ctx) for word in words]
        if len(set(found)) < len(found):
            self.fail(f"{value!r} has a size twice.", param, ctx)
        return tuple(found)

    @staticmethod
    def word(sizes: tuple[int, ...]) -> str:
        """Return the word of sizes."""
        return ",".join(map(str, sizes))


def one_of_each(
    context: click.Context, option: click.Parameter, values: tuple[tuple[str, float], ...]
) -> dict[int | str, float] | None:
    """Return the values by name; None where there are none.

    Raises:
        click.BadParameter: A name is given twice.
    """
    found: dict[int | str, float] = {}
    for name, value in values:
        if name in found:
            raise click.BadParameter(f"{name}= is given twice; give it once.", context, option)
        found[name] = value
    return found or None


class AxisValues(_ParamType["Values"]):
    """Values of a setting: a list such as 1980,1500,1005, or even:7 for so many over the whole range.

    Args:
        model: Whether the word "model" is taken, too: no values, ranked by the estimator.
    """

    _most = 1000

    def __init__(self, *, model: bool = False) -> None:
        self._model = model
        self.name = "LIST|even:N|model" if model else "LIST|even:N"

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> Values:
        """Return the values."""
        from ptxbench.tune.clocks.axes import Values

        if isinstance(value, Values):
            return value
        if self._model and value == "model":
            return Values()
        words, sign, count = str(value).partition(":")
        if sign:
            if words != "even" or not count.isdecimal() or not 2 <= int(count) <= self._most:
                self.fail(f"{value!r} must be even:N with N from 2 to {self._most}, or a list.", param, ctx)
            return Values(even=int(count))
        named = [word.strip() for word in words.split(",")]
        if not all(word.isdecimal() and 0 < int(word) <= 100_000 for word in named):
            self.fail(f"{value!r} must be whole numbers with commas between, or even:N.", param, ctx)
        return Values(tuple(map(int, named)))

    @staticmethod
    def word(values: Values) -> str:
        """Return the word of values."""
        if values.by_model:
            return "model"
        return f"even:{values.even}" if values.even else ",".join(map(str, values.named))


class FormatName(_ParamType[str]):
    """One of the formats of a report; they are looked for only when one is named or the help is printed."""

    name = "format"

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> str:
        """Return the name."""
        from ptxbench.report.formats import format_names

        names = format_names()
        if value not in names:
            self.fail(f"{value!r} is not one of {', '.join(names)}.", param, ctx)
        return str(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        """Return the names for the help."""
        from ptxbench.report.formats import format_names

        return f"[{'|'.join(format_names())}]"


def require_report(path: Path, *endings: str) -> None:
    """Refuse a file whose ending does not say what is written, or that cannot be, before anything is done.

    Args:
        path: The file of --out.
        endings: Known ones; a name without one is text.

    Raises:
        UsageError: It has another ending.
        InputError: It cannot be written.
    """
    if path.suffix.lower() not in ("", *endings):
        raise click.UsageError(f"--out {path}: the ending {path.suffix} is none of {', '.join(endings)}.")
    require_file(path)


class PictureFolder(_ParamType[Path]):
    """A folder that pictures can be written to, new or not; refused before anything is worked out for it."""

    name = "folder"

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> Path:
        """Return the path."""
        from ptxbench.report.figure import new_figure

        path = Path(str(value))
        if path.exists() and not path.is_dir():
            self.fail(f"{path} is not a folder; name a folder for the pictures.", param, ctx)
        new_figure(1, 1)
        return path


class PictureFile(_ParamType[Path]):
    """A file that a picture can be written to; refused before anything is measured for it."""

    name = "file"

    def convert(self, value: object, param: _Parameter, ctx: _Context) -> Path:  # noqa: ARG002
        """Return the path."""
        from ptxbench.report.figure import require_picture

        path = Path(str(value))
        require_picture(path)
        return path
