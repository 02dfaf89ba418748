"""What is true of one generation of GPUs, with the source of each figure: `architectures/*.toml`."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ptxbench.core.errors import InputError

_TARGET = re.compile(r"sm_(\d+)[af]?")
_FOLDER = files("ptxbench.catalogue").joinpath("architectures")
_SUFFIX = ".toml"


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
class SmFacts:
    """What one SM of a compute capability holds, and what it does in a cycle.

    Attributes:
        max_blocks: Resident blocks.
        max_warps: Resident warps.
        l1_bytes: L1 of an SM with its shared memory.
        shared_bytes: Shared memory of an SM.
        shared_block_bytes: Shared memory that one block may have.
        shared_reserved_bytes: What the system takes of it for each block.
        shared_unit_bytes: Unit in which shared memory is handed out.
        fp32_cycles: Cycles in which a sub-partition takes one warp's FFMA.
        fp64_cycles: The same of a DFMA.
        integer_cycles: The same of a LOP3 or an IMAD.
        special_cycles: The same of a MUFU or a POPC.
        tensor_cycles: The same of an HMMA.16816.
        tensor64_cycles: The same of a DMMA.8x8x4; one of more products takes as many times as long.
        wgmma_f16_per_cycle: Multiply-adds of f16 in a cycle of a sub-partition by wgmma; 0: it has none.
        l2_bytes_per_cycle: What L2 gives each SM when all ask.
    """

    max_blocks: int
    max_warps: int
    l1_bytes: int
    shared_bytes: int
    shared_block_bytes: int
    shared_reserved_bytes: int
    shared_unit_bytes: int
    fp32_cycles: float
    fp64_cycles: float
    integer_cycles: float
    special_cycles: float
    tensor_cycles: float
    tensor64_cycles: float
    wgmma_f16_per_cycle: float
    l2_bytes_per_cycle: float


@dataclass(frozen=True)
class Architecture:
    """One generation of GPUs.

    Attributes:
        name: Such as "hopper".
        capabilities: Compute capabilities times ten.
        drift_step: By how much a step of the SMs' supply voltage changes the power that it feeds, a fraction.
        level_jump: Probability that the drift level jumps from one trial to the next.
        level_spread: Standard deviation of the level behind a jump, a fraction of the power.
        level_creep: Probability that it moves up by 0.1% from one trial to the next, and as much down.
        uneven_power: Change of the power within a kernel, a fraction, up to which its work was even.
        unfed_share: Part of the static power that the supply of the SMs does not feed.
        static_growth_per_k: By how much of itself static power grows a degree.
        minority_error: Standard error of a kernel's power where no more of its trials agree than were left
            out, a fraction.
        other_values_error: Standard error of an overhead loop's energy on the values of another kind of row,
            a fraction.
        regulation_s: For how long after a launch the GPU's own regulation moves the power, s.
        clock_exponent: gamma of E(f) = E(f0) (f / f0)^gamma, the dynamic energy of a kernel at another clock.
        limited_exponent: The same exponent of kernels whose clock the power limit sets.
        limited_ratio: Lowest clock of these kernels over the full clock.
        stream_l2_bytes: Bytes touched in L2 for each that a stream of whole lines reads from DRAM.
        stream_l2_requests: Requests of L2, and misses, for each line of such a stream.
        counting_pj: A thread's instruction of a loop's counting, addresses and branches, pJ.
        mixing_pj: A thread's instruction of integer arithmetic and logic, pJ, by the operands.
        excursion: Rise of the power within a kernel, a fraction, from which on it is an excursion that steady
            power is read behind, by name of the power source; no other source shows any.
        sms: What an SM is like, by compute capability times ten.
    """

    name: str
    capabilities: tuple[int, ...]
    drift_step: Figure
    level_jump: Figure
    level_spread: Figure
    level_creep: Figure
    uneven_power: Figure
    unfed_share: Figure
    static_growth_per_k: Figure
    minority_error: Figure
    other_values_error: Figure
    regulation_s: Figure
    clock_exponent: Figure
    limited_exponent: Figure
    limited_ratio: Figure
    stream_l2_bytes: Figure
    stream_l2_requests: Figure
    counting_pj: Figure
    mixing_pj: Mapping[str, Figure]
    excursion: Mapping[str, Figure]
    sms: Mapping[int, SmFacts]

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
def sm_facts(target: str) -> SmFacts:
    """Return what one SM of a target is like.

    Raises:
        InputError: `target` is not of the form "sm_90" or "sm_90a", or its SMs are not known.
    """
    capability, architecture = capability_of(target), architecture_of(target)
    if capability not in architecture.sms:
        raise InputError(
            f"the SMs of {target} are not known: add [sm.{capability}] to"
            f" {_FOLDER.joinpath(architecture.name)}{_SUFFIX}"
        )
    return architecture.sms[capability]


@cache
def load_architectures() -> tuple[Architecture, ...]:
    """Return every generation that ptxbench knows, oldest first.

    Raises:
        InputError: A file is not legal; the text names it.
    """
    entries = sorted((e for e in _FOLDER.iterdir() if e.name.endswith(_SUFFIX)), key=lambda e: e.name)
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
    table = _table(text, name)
    figures = _assumed(table.pop("assumed_from", None), name)
    _require_keys(table, {"name", "capabilities", "sm"} | set(_FIGURES), {"excursion", *figures}, name)
    capabilities = table["capabilities"]
    if (
        not isinstance(capabilities, list)
        or not capabilities
        or not all(type(c) is int for c in capabilities)
    ):
        raise InputError(f"{name}: capabilities {capabilities!r} is no list of integers")
    for key in _FIGURES & table.keys():
        several = key in _SEVERAL
        figures[key] = (_figures if several else _figure)(table[key], f"{name}: {key}")
    return Architecture(
        name=str(table["name"]),
        capabilities=tuple(capabilities),
        excursion=_figures(table.get("excursion", {}), f"{name}: excursion"),
        sms={int(key): _sm(one, f"{name}: sm.{key}") for key, one in table["sm"].items()},
        **figures,
    )


# Figures that another generation's may stand in for; of the latter there is one for each kind of operands.
_SEVERAL = {"mixing_pj"}
_FIGURES = {f.name for f in fields(Architecture) if f.type == "Figure"} | _SEVERAL


def _table(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: is not TOML ({error})") from error


def _assumed(base: str | None, name: str) -> dict[str, Any]:
    """Return the figures of another generation, which say that they are assumed."""
    if base is None:
        return {}
    entry = _FOLDER.joinpath(f"{base}{_SUFFIX}")
    if not entry.is_file():
        raise InputError(f"{name}: assumed_from {base!r} is no generation that has a file")
    known = parse_architecture(entry.read_text(encoding="utf-8"), entry.name)
    origin = f"not measured on this generation: the figure of {base.capitalize()} is assumed"
    figures: dict[str, Any] = {key: getattr(known, key) for key in _FIGURES}
    return {
        key: {k: replace(f, origin=origin) for k, f in figure.items()}
        if key in _SEVERAL
        else replace(figure, origin=origin)
        for key, figure in figures.items()
    }


def _require_keys(table: Mapping[str, object], known: set[str], optional: set[str], place: str) -> None:
    """Refuse a table that lacks a key or has an unknown one."""
    unknown, lacking = table.keys() - known - optional, known - optional - table.keys()
    if unknown:
        named = ", ".join(sorted(known | optional))
        raise InputError(f"{place}: {', '.join(sorted(unknown))}: no such key; there are {named}")
    if lacking:
        raise InputError(
            f"{place}: lacks {', '.join(sorted(lacking))}: give it, or for a figure name the generation it"
            ' is assumed from: assumed_from = "hopper"'
        )


def _sm(table: object, place: str) -> SmFacts:
    if not isinstance(table, dict):
        raise InputError(f"{place}: is no table")
    named = [f.name for f in fields(SmFacts)]
    _require_keys(table, {*named, "origin"}, set(), place)
    for key in named:
        _require_number(table[key], f"{place}: {key}")
    return SmFacts(**{key: table[key] for key in named})


def _figures(table: object, place: str) -> dict[str, Figure]:
    if not isinstance(table, dict):
        raise InputError(f"{place}: is no table")
    return {key: _figure(one, f"{place}.{key}") for key, one in table.items()}


def _figure(table: object, place: str) -> Figure:
    if not isinstance(table, dict) or table.keys() - {"error"} != {"value", "origin"}:
        raise InputError(f"{place}: give a value and an origin, not {table!r}")
    value, origin, error = table["value"], table["origin"], table.get("error", 0.0)
    _require_number(value, f"{place}: value")
    _require_number(error, f"{place}: error")
    if not isinstance(origin, str) or not origin:
        raise InputError(f"{place}: origin {origin!r} does not say where the figure comes from")
    return Figure(float(value), origin, float(error))


def _require_number(number: Any, place: str) -> None:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not 0 <= number < math.inf:
        raise InputError(f"{place} {number!r} is no number from 0 on")
