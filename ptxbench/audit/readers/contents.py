"""What a file of somebody else's holds: logs of readings, or numbers that were made of readings."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.audit.claim import Claim
from ptxbench.sensors.trace import Series


@dataclass(frozen=True)
class Log:
    """Readings of one board over a while.

    Attributes:
        label: The board, as the file names it; "" where it names none.
        gpu: Name of the GPU; "" where the file does not say it.
        series: Readings, one entry a source.
        is_external: Whether they are an external meter's.
        quantum_w: Step of the numbers where the file rounds them; 0 where it does not.
    """

    label: str
    gpu: str
    series: tuple[Series, ...]
    is_external: bool = False
    quantum_w: float = 0.0


@dataclass(frozen=True)
class Contents:
    """What was read of one file.

    Attributes:
        form: What kind of file it is.
        logs: Its logs.
        claims: Its numbers.
        notes: What was assumed or left out, a sentence each.
    """

    form: str
    logs: tuple[Log, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
