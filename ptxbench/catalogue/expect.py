"""Read what a row expects of its SASS: by level, and where they differ by form and target."""

from __future__ import annotations

from collections.abc import Iterator

from ptxbench.catalogue.fields import SASS, SENTENCE, Fields, checked_count, checked_text, checked_whole
from ptxbench.catalogue.model import Expectation, Form
from ptxbench.gpu.protocol import OptLevel
from ptxbench.ptx.target import TARGETS

# Key of a row: what its SASS is expected for. ptxas makes no use of several chains at O0.
_KEYS = {
    "O0": (OptLevel.O0, None),
    "O3": (OptLevel.O3, None),
    "O3_throughput": (OptLevel.O3, Form.THROUGHPUT),
}
_BESIDES = ("loop_moves", "tolerance")
EXPECTATION_KEYS = (*_KEYS, *_BESIDES, "on")
_MOST_MOVES = 256


def read_expectations(row: Fields) -> tuple[Expectation, ...]:
    """Return a row's expectations: those of every target first, then those of some.

    Raises:
        ValueError: A value is not legal.
    """
    everywhere = {key: row.get(key) for key in EXPECTATION_KEYS if row.has(key) and key != "on"}
    found = list(_of_targets(everywhere, {}, (), ""))
    overrides = row.get("on") or {}
    if not isinstance(overrides, dict):
        raise ValueError("on must be a table of targets")  # noqa: TRY004 (one kind of complaint)
    known = {target.name for target in TARGETS}
    for names, table in overrides.items():
        targets = tuple(names.split())
        if not targets or not set(targets) <= known:
            raise ValueError(f"on {names!r} is no list of targets")
        where = f"on.{names}."
        if not isinstance(table, dict) or not set(table) <= {*_KEYS, *_BESIDES}:
            raise ValueError(f"{where} must be a table of {', '.join((*_KEYS, *_BESIDES))}")
        found.extend(_of_targets(table, everywhere, targets, where))
    return tuple(found)


def _of_targets(
    table: dict[str, object], inherited: dict[str, object], targets: tuple[str, ...], where: str
) -> Iterator[Expectation]:
    """Yield the expectations of one table; moves and tolerances that it lacks are inherited."""
    moves, tolerances = (_levels(table.get(key, inherited.get(key, {})), key) for key in _BESIDES)
    for key, (level, form) in _KEYS.items():
        if key not in table:
            continue
        counts = table[key]
        if isinstance(counts, str):
            reason = checked_text(counts, SENTENCE, where + key)
            yield Expectation(level, (), 0, (), form, targets, reason)
            continue
        own = tolerances.get(key)
        if own is None or (targets and "tolerance" not in table):
            # What is inherited holds for the opcodes that are still expected.
            general = tolerances.get(key, tolerances.get(level, {}))
            own = _shared(general, counts)
        spare = moves.get(key, moves.get(level, 0))
        yield Expectation(
            level,
            _counts(counts, where + key),
            checked_whole(spare, -_MOST_MOVES, _MOST_MOVES, f"{where}loop_moves.{key}"),
            _tolerances(own, counts, where, key),
            form,
            targets,
        )


def _levels(value: object, key: str) -> dict[str, object]:
    if not isinstance(value, dict) or not set(value) <= set(_KEYS):
        raise ValueError(f"{key} must be a table of O0 and O3")
    return value


def _shared(tolerances: object, counts: object) -> object:
    if isinstance(tolerances, dict) and isinstance(counts, dict):
        return {opcodes: value for opcodes, value in tolerances.items() if opcodes in counts}
    return tolerances


def _counts(counts: object, where: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(counts, dict) or not counts:
        raise ValueError(f"{where} must be a table of opcodes and their counts, or a reason in words")
    return tuple(
        (checked_text(opcodes, SASS, where), checked_count(n, f"{where} {opcodes}"))
        for opcodes, n in counts.items()
    )


def _tolerances(own: object, counts: object, where: str, key: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(own, dict) or not isinstance(counts, dict) or not set(own) <= set(counts):
        raise ValueError(f"{where}tolerance.{key} must be a table of opcodes that stand in {where}{key}")
    return tuple(
        (opcodes, checked_count(n, f"{where}tolerance.{key} {opcodes}")) for opcodes, n in own.items()
    )
