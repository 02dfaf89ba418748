"""Read what a row expects of its SASS: by optimization level, and where they differ by form and target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxbench.catalogue.fields import SASS, SENTENCE, Fields, checked_count, checked_text, checked_whole
from ptxbench.catalogue.model import Expectation
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import TARGETS

# Key of a row: what its SASS is expected for. ptxas makes no use of several chains at O0.
_KEYS = {
    "O0": (OptLevel.O0, None),
    "O3": (OptLevel.O3, None),
    "O3_throughput": (OptLevel.O3, Form.THROUGHPUT),
}
# What a table of some targets, or the driver's, may hold.
_TABLE_KEYS = (*_KEYS, "once", "guarded")
EXPECTATION_KEYS = (*_TABLE_KEYS, "on", "driver")
# Beyond these a row's expectation is a slip; chosen.
_MOST_A_PASS = 256
_MOST_GUARDED = 32


def read_expectations(row: Fields) -> tuple[Expectation, ...]:
    """Return a row's expectations: those of every target first, then those of some, then the driver's.

    Raises:
        ValueError: A value is not legal.
    """
    everywhere = {
        key: row.get(key) for key in EXPECTATION_KEYS if row.has(key) and key not in ("on", "driver")
    }
    found = list(_of_targets(everywhere, (), ""))
    overrides = row.get("on") or {}
    if not isinstance(overrides, dict):
        raise ValueError("on must be a table of targets")  # noqa: TRY004 (one kind of complaint)
    known = {target.name for target in TARGETS}
    own = {name for names in overrides for name in names.split()}
    for names, table in overrides.items():
        targets = tuple(names.split())
        if not targets or not set(targets) <= known:
            raise ValueError(f"on {names!r} is no list of targets")
        targets += tuple(one.name for one in TARGETS if one.like in targets and one.name not in own)
        where = f"on.{names}."
        if not isinstance(table, dict) or not set(table) <= set(_TABLE_KEYS):
            raise ValueError(f"{where} must be a table of {', '.join(_TABLE_KEYS)}")
        found.extend(_of_targets(_merged(everywhere, table, where), targets, where))
    of_driver = row.get("driver") or {}
    if not isinstance(of_driver, dict) or not set(of_driver) <= set(_TABLE_KEYS):
        raise ValueError(f"driver must be a table of {', '.join(_TABLE_KEYS)}")
    if of_driver:
        of_driver = of_driver | {"guarded": _guards(everywhere, of_driver, "driver.")}
        found.extend(replace(e, by_driver=True) for e in _of_targets(of_driver, (), "driver."))
    return tuple(found)


def _merged(everywhere: dict[str, object], table: dict[str, object], where: str) -> dict[str, object]:
    """Return what holds on some targets: what their table leaves out is as everywhere.

    A level whose SASS the table gives is all the table's, its constants a pass and both forms.
    """
    passes = _levels(everywhere.get("once", {}), "once")
    own = _levels(table.get("once", {}), f"{where}once")
    merged = {key: value for key, value in everywhere.items() if not set(table) & _of_level(key)}
    kept = {key: value for key, value in passes.items() if not {*table, *own} & _of_level(key)}
    return merged | table | {"once": kept | own, "guarded": _guards(everywhere, table, where)}


def _guards(everywhere: dict[str, object], table: dict[str, object], where: str) -> dict[str, object]:
    """Return how many instructions a copy guards: as everywhere, or as the table says."""
    general = _levels(everywhere.get("guarded", {}), "guarded")
    return general | _levels(table.get("guarded", {}), f"{where}guarded")


def _of_level(key: str) -> set[str]:
    return {key, key.removesuffix("_throughput")}


def _of_targets(table: dict[str, object], targets: tuple[str, ...], where: str) -> Iterator[Expectation]:
    """Yield the expectations of one table."""
    passes = _levels(table.get("once", {}), f"{where}once")
    guards = _levels(table.get("guarded", {}), f"{where}guarded")
    for key, (level, form) in _KEYS.items():
        counts = table.get(key)
        if counts is None and form and key in passes:
            # The same for each copy in both forms, and another constant a pass.
            counts = table.get(level)
        if counts is None:
            continue
        if isinstance(counts, str):
            reason = checked_text(counts, SENTENCE, where + key)
            yield Expectation(level, (), (), form=form, targets=targets, refused=reason)
            continue
        yield Expectation(
            level,
            _counts(counts, where + key),
            _once(passes.get(key, passes.get(level, {})), f"{where}once.{key}"),
            checked_whole(guards.get(key, guards.get(level, 0)), 0, _MOST_GUARDED, f"{where}guarded.{key}"),
            form,
            targets,
        )


def _once(value: object, where: str) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table of opcodes and their counts")  # noqa: TRY004
    return tuple(
        (
            checked_text(opcodes, SASS, where),
            checked_whole(n, -_MOST_A_PASS, _MOST_A_PASS, f"{where} {opcodes}"),
        )
        for opcodes, n in value.items()
    )


def _levels(value: object, key: str) -> dict[str, object]:
    if not isinstance(value, dict) or not set(value) <= set(_KEYS):
        raise ValueError(f"{key} must be a table of O0 and O3")
    return value


def _counts(counts: object, where: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(counts, dict) or not counts:
        raise ValueError(f"{where} must be a table of opcodes and their counts, or a reason in words")
    return tuple(
        (checked_text(opcodes, SASS, where), checked_count(n, f"{where} {opcodes}"))
        for opcodes, n in counts.items()
    )
