"""Rows that are known to be wrong (withdrawn.toml): they keep their place in a table, without a number."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from importlib.resources import files

from ptxbench.core.condition import DYNAMIC
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.schema import TableRow

_ALL = "*"


@dataclass(frozen=True)
class Withdrawal:
    """Rows that one mistake made wrong.

    Attributes:
        reason: What was wrong.
        before: Runs that were created earlier have it.
        commits: Begins of commits whose later runs have it, too.
        opt_levels: Optimization levels.
        instructions: Catalogue names, or "*" for all.
    """

    reason: str
    before: datetime
    commits: tuple[str, ...]
    opt_levels: frozenset[str]
    instructions: frozenset[str]

    def concerns(self, manifest: TableManifest) -> bool:
        """Return whether a run was measured with the mistake."""
        early = manifest.created is None or manifest.created < self.before
        return early or (manifest.commit or "").startswith(self.commits)

    def has(self, row: TableRow) -> bool:
        """Return whether a row of such a run is wrong."""
        named = _ALL in self.instructions or row.instruction in self.instructions
        return named and row.protocol == DYNAMIC and row.opt_level in self.opt_levels


def without_withdrawn(rows: Sequence[TableRow], manifest: TableManifest) -> tuple[TableRow, ...]:
    """Return the rows of a run; valid ones that are known to be wrong have no energy, and say why.

    Args:
        rows: Rows as they were measured.
        manifest: What the run was.
    """
    if manifest.gpu.kind is not GpuKind.REAL:
        return tuple(rows)
    concerned = [one for one in _withdrawals() if one.concerns(manifest)]
    return tuple(_judged(row, concerned) for row in rows)


def _judged(row: TableRow, withdrawals: Sequence[Withdrawal]) -> TableRow:
    found = next((one for one in withdrawals if one.has(row)), None)
    if found is None or row.status is not Status.OK:
        return row
    return replace(
        row, dynamic_pj=math.nan, dynamic_ci95_pj=math.nan, status=Status.WITHDRAWN, reason=found.reason
    )


@lru_cache(maxsize=1)
def _withdrawals() -> tuple[Withdrawal, ...]:
    text = files("ptxbench.storage").joinpath("withdrawn.toml").read_text(encoding="utf-8")
    return tuple(
        Withdrawal(
            one["reason"],
            one["before"],
            tuple(one["commits"]),
            frozenset(one["opt_levels"]),
            frozenset(one["instructions"]),
        )
        for one in tomllib.loads(text)["withdrawn"]
    )
