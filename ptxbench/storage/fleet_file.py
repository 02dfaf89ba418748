"""Many boards beside each other, as `table` on several GPUs and `fleet` leave them (fleet.json)."""

from __future__ import annotations

from dataclasses import dataclass

FLEET_FILE = "fleet.json"


@dataclass(frozen=True)
class BoardLine:
    """One board.

    Attributes:
        board: Hash of its UUID.
        run: Name of its run's folder.
        driver: Driver version.
        rows: Valid rows under protocol dynamic.
        common: Those that the reference board has, too.
        factor: Median of its energies over those of the reference, divided by the median board's.
        scatter: What is left of a row apart from the factor: standard deviation of the logarithm, by the
            median absolute deviation.
        temperature_c: Mean temperature of its rows.
        static_w: Mean static power of its rows.
        outlier: Why it is unlike the others, "" where it is not.
    """

    board: str
    run: str
    driver: str
    rows: int
    common: int
    factor: float
    scatter: float
    temperature_c: float
    static_w: float
    outlier: str


@dataclass(frozen=True)
class ModelSpread:
    """The boards of one GPU model.

    Attributes:
        gpu: Its name; says so where numbers are no measurements.
        boards: Every board, in order of their factor.
        rows: Rows that two boards or more have.
        row_scatter: Median over these rows of the standard deviation between boards apart from their factors.
    """

    gpu: str
    boards: tuple[BoardLine, ...]
    rows: int
    row_scatter: float


@dataclass(frozen=True)
class LeftOut:
    """A run that is in no comparison.

    Attributes:
        run: Name of its folder.
        reason: Why.
    """

    run: str
    reason: str


@dataclass(frozen=True)
class FleetFile:
    """All boards.

    Attributes:
        models: A comparison for each GPU model.
        left_out: Runs that are in none.
    """

    models: tuple[ModelSpread, ...]
    left_out: tuple[LeftOut, ...]
