"""What is true of one generation of GPUs, with the source of each figure: `architectures/*.toml`."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ptxbench.core.errors import InputError

_TARGET = re.compile(r"sm_(\d+)[af]?")


@dataclass(frozen=True)
class Figure:
    """One figure of a generation.

    Attributes:
        value: Not negative; its unit stands with the attribute that holds it.
        origin: Where it comes from: a measurement, a document, or what was assumed.
        error: Its standard error, 0 where it is taken as exact.
    """

    value: float
    origin: str
    error: float = 0.0


@dataclass(frozen=True)
class Architecture:
    """One generation of GPUs.

    Attributes:
        name: Such as "hopper".
        capabilities: Compute capabilities times ten.
        drift_step: By how much a step of the SMs' supply voltage changes the power that it feeds, a fraction.
        regulation_s: For how long after a launch the GPU's own regulation moves the power, s.
        excursion: Rise of the power within a kernel, a fraction, from which on it is an excursion that steady
            power is read behind, by name of the power source; no other source shows any.
        clock_exponent: gamma of E(f) = E(f0) (f / f0)^gamma, the dynamic energy of a kernel at another clock.
    """

    name: str
    capabilities: tuple[int, ...]
    drift_step: Figure
    regulation_s: Figure
    excursion: Mapping[str, Figure]
    clock_exponent: Figure

    def excursion_rise(self, source: str) -> float:
        """Return the rise that is an excursion in what a source reads; 0: none is looked for."""
        figure = self.excursion.get(source)
        return figure.value if figure else 0.0


def capability_of(target: str) -> int:
    """Return the compute capability times ten of a target.

    Raises:
        InputError: `target` is not of the form "sm_90" or "sm_90a".
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise InputError(f"target {target!r} is not known: give it as sm_90 or sm_90a")
    return int(match.group(1))


def architecture_of(target: str) -> Architecture:
    """Return the generation of a target; an unknown one has the figures of the nearest older generation.

    Raises:
        InputError: `target` is not of the form "sm_90" or "sm_90a".
    """
    capability = capability_of(target)
    known = [a for a in load_architectures() if min(a.capabilities) <= capability]
    exact = [a for a in known if capability in a.capabilities]
    return (exact or known or load_architectures()[:1])[-1]


@cache
def load_architectures() -> tuple[Architecture, ...]:
    """Return every generation that ptxbench knows, oldest first.

    Raises:
        InputError: A file is not legal; the text names it.
    """
    folder = files("ptxbench.catalogue").joinpath("architectures")
    entries = sorted((e for e in folder.iterdir() if e.name.endswith(".toml")), key=lambda e: e.name)
    found = [parse_architecture(entry.read_text(encoding="utf-8"), entry.name) for entry in entries]
    return tuple(sorted(found, key=lambda one: min(one.capabilities)))


def parse_architecture(text: str, name: str) -> Architecture:
    """Return the generation that one file describes.

    Args:
        text: Of the file.
        name: Of the file, for errors.

    Raises:
        InputError: It is not TOML, a key is missing or unknown, or a figure is out of range.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: is not TOML ({error})") from error
    excursion = table.pop("excursion", {})
    wanted = {"name", "capabilities", "drift_step", "regulation_s", "clock_exponent"}
    if wanted != table.keys():
        raise InputError(f"{name}: has the keys {sorted(table)}, not {sorted(wanted)}")
    capabilities = table["capabilities"]
    if (
        not isinstance(capabilities, list)
        or not capabilities
        or not all(type(c) is int for c in capabilities)
    ):
        raise InputError(f"{name}: capabilities {capabilities!r} is no list of integers")
    return Architecture(
        name=str(table["name"]),
        capabilities=tuple(capabilities),
        drift_step=_figure(table["drift_step"], f"{name}: drift_step"),
        regulation_s=_figure(table["regulation_s"], f"{name}: regulation_s"),
        excursion={source: _figure(one, f"{name}: excursion.{source}") for source, one in excursion.items()},
        clock_exponent=_figure(table["clock_exponent"], f"{name}: clock_exponent"),
    )


def _figure(table: object, place: str) -> Figure:
    if not isinstance(table, dict) or table.keys() - {"error"} != {"value", "origin"}:
        raise InputError(f"{place}: give a value and an origin, not {table!r}")
    value, origin, error = table["value"], table["origin"], table.get("error", 0.0)
    for name, number in (("value", value), ("error", error)):
        if not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
            raise InputError(f"{place}: {name} {number!r} is no number from 0 on")
    if not isinstance(origin, str) or not origin:
        raise InputError(f"{place}: origin {origin!r} does not say where the figure comes from")
    return Figure(float(value), origin, float(error))
