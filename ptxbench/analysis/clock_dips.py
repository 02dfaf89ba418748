"""What a dip of the SM clock within a trial says of its power: on some boards nothing.

While the supply voltage of an H200 changes the clock dips, so that the mean clock of a trial in which it did
lies a thousandth below that of the same kernel's other trials. On some boards seven of ten such trials draw
a power between two levels; on others the clock dips behind every second launch, before power is read, and
they draw what their kernel draws (studies/h200/power.md). Which it is a run tells: how many of the trials
with a dip are off is learnt from it, for each optimization level, with the drift levels (`supply`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.hmm import WRONG_SHARE
from ptxbench.core.arrays import Bools, Floats, Indices
from ptxbench.core.condition import OptLevel
from ptxbench.storage.schema import TrialRecord

# Before a run has told: so many of the trials with a dip are off, and this is worth so many trials.
_BEFORE = 0.4
_WORTH = 4.0
_LEVELS = tuple(OptLevel)


@dataclass(frozen=True)
class Dips:
    """In which trials the clock dipped, and how many of these are off.

    Attributes:
        group: 0 for a trial without a dip, else one more than its level's place in `OptLevel`, shape (n,).
        off: Share of each group whose power is of no one level, shape (groups,).
    """

    group: Indices
    off: Floats

    @classmethod
    def of(cls, trials: Sequence[TrialRecord], dipped: Collection[str]) -> Dips:
        """Return the dips of a run before it has told anything.

        Args:
            trials: Shape (n,).
            dipped: Ids of trials within which the clock dipped.
        """
        group = [1 + _LEVELS.index(r.opt_level) if r.trial_id in dipped else 0 for r in trials]
        return cls(np.array(group, dtype=np.intp), np.array([WRONG_SHARE] + [_BEFORE] * len(_LEVELS)))

    @property
    def expected(self) -> Floats:
        """How probable it is that each trial is off, before its power is looked at, shape (n,)."""
        return np.asarray(self.off[self.group])

    def learnt(self, wrong: Floats, counts: Bools) -> Dips:
        """Return the dips with the shares that trials tell.

        Args:
            wrong: Probability that each trial is off, shape (n,).
            counts: Which trials tell, shape (n,).
        """
        groups = len(self.off)
        off = np.bincount(self.group[counts], wrong[counts], groups) + _WORTH * _BEFORE
        told = off / (np.bincount(self.group[counts], minlength=groups) + _WORTH)
        # That of trials without a dip is what keeps the fit robust, and is not learnt.
        return Dips(self.group, np.concatenate(([WRONG_SHARE], told[1:])))

    @property
    def excess(self) -> Mapping[OptLevel, float]:
        """How many more of the trials with a dip are off than of others, a share, by optimization level."""
        more = np.maximum(self.off[1:] - WRONG_SHARE, 0.0) / (1 - WRONG_SHARE)
        return dict(zip(_LEVELS, more.tolist(), strict=True))
