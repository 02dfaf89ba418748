"""The runs of `ptxbench doctor methods`: their loads, and the names that their recordings go by."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.core.errors import InputError
from ptxbench.devices.base import Launch
from ptxbench.experiment.load import Load
from ptxbench.storage.methods_file import LoadKind

_REFERENCE = "reference"
# Shares of the SMs that a run puts to work, one launch after the other.
SHARES = {LoadKind.CONSTANT: (1.0,), LoadKind.RAMPED: (0.25, 0.5, 0.75, 1.0), LoadKind.BURSTY: (1.0,) * 5}
ALL_SHARES = tuple(sorted({share for shares in SHARES.values() for share in shares}))


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        kind: Load.
        duration_s: Requested time from the first begin to the last end.
        repeat: Which of its repeats.
    """

    kind: LoadKind
    duration_s: float
    repeat: int

    @property
    def name(self) -> str:
        """Name of its recording."""
        return f"{self.kind}/{self.duration_s:g}/{self.repeat}"

    def launches(self, load: Load) -> tuple[list[Launch], list[float]]:
        """Return its launches, and the gaps between them in s.

        A ramp is four launches in a row on ever more SMs; bursts are five, with as long a gap after
        each but the last.
        """
        shares = SHARES[self.kind]
        gaps = len(shares) - 1
        is_bursty = self.kind is LoadKind.BURSTY
        part_s = self.duration_s / (len(shares) + (gaps if is_bursty else 0))
        return [load.launch(self.name, part_s, s) for s in shares], [part_s if is_bursty else 0.0] * gaps


@dataclass(frozen=True)
class Reference:
    """One long window on a share of the SMs.

    Attributes:
        share: The share.
        repeat: Which of its repeats.
    """

    share: float
    repeat: int

    @property
    def name(self) -> str:
        """Name of its recording."""
        return f"{_REFERENCE}/{self.share:g}/{self.repeat}"


def parse_name(name: str) -> Case | Reference:
    """Return what a recording is of.

    Raises:
        InputError: It is of neither.
    """
    try:
        kind, number, repeat = name.split("/")
        if kind == _REFERENCE:
            return Reference(float(number), int(repeat))
        return Case(LoadKind(kind), float(number), int(repeat))
    except ValueError:
        raise InputError(f"recording {name!r} is none of `ptxbench doctor methods`") from None
