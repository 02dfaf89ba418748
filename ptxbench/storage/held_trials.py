"""The trials that a run holds, and what it can hold beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.sensors.trace import Trace
from ptxbench.storage.schema import TrialRecord


class HeldTrials:
    """Trials by their ids, in the order in which they were kept.

    Args:
        run: The run's folder, which errors name.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._records: dict[str, TrialRecord] = {}
        self._cubin_of: dict[tuple[str, ...], str] = {}

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all."""
        return frozenset(self._records)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._records)

    def records(self) -> list[TrialRecord]:
        """Return all in their order."""
        return list(self._records.values())

    def record(self, trial_id: str) -> TrialRecord | None:
        """Return one, or None where it is not held."""
        return self._records.get(trial_id)

    def load(self, records: Iterable[TrialRecord], boards: Collection[str]) -> None:
        """Take what was read from the disk.

        Args:
            records: The trials.
            boards: Hashes of the boards that the manifest lists.

        Raises:
            InputError: A trial is there twice, or is of another board.
        """
        for record in records:
            if record.gpu not in boards:
                raise InputError(
                    f"{self._run}: trial {record.trial_id} ran on board {record.gpu}, "
                    "which the manifest does not list; copy the run again"
                )
            if record.trial_id in self._records:
                raise InputError(f"{self._run} holds trial {record.trial_id} twice; copy the run again")
            self.add(record)

    def add(self, record: TrialRecord) -> None:
        """Take a trial that fits."""
        self._records[record.trial_id] = record
        self._cubin_of.setdefault(_kernel_key(record), record.cubin_sha256)

    def require_fit(self, record: TrialRecord, trace: Trace, boards: Collection[str]) -> None:
        """Refuse a trial that the run cannot hold.

        Args:
            record: The trial.
            trace: Its readings.
            boards: Hashes of the boards that the run may be measured on.

        Raises:
            InputError: The trial ran other machine code than the trials beside it.
            ValueError: The trial is held already, or its board or recording is not the run's.
        """
        if record.trial_id in self._records:
            raise ValueError(f"trial {record.trial_id} is held already")
        if record.gpu not in boards:
            raise ValueError(
                f"trial {record.trial_id} ran on board {record.gpu}, which the manifest does not list"
            )
        if (trace.begin_ns, trace.end_ns) != (record.record_begin_ns, record.record_end_ns):
            raise ValueError(f"trial {record.trial_id} and its trace are of two recordings")
        known = self._cubin_of.get(_kernel_key(record), record.cubin_sha256)
        if known != record.cubin_sha256:
            raise InputError(
                f"{self._run}: trial {record.trial_id} ran machine code {record.cubin_sha256[:16]}, "
                f"the trials before it {known[:16]}; start a new run"
            )


def _kernel_key(record: TrialRecord) -> tuple[str, ...]:
    """Return what all repeats share that must have run the same machine code."""
    return record.instruction, record.opt_level, record.protocol, record.pattern, record.role
