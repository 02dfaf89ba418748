"""How a kind is launched: how often in a graph, how often the graph, and with how much idle time between.

A kind that alone would meet the power limit, or run at another clock than in the step, gets idle time: one
thread that sleeps, between its launches. The share of time asleep is chosen so that the mean power is that of
the step, which is what the limit and the temperature depend on, and then by the clock that it gave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.devices.step import SLEEP, SLEEP_NS, UNDO


@dataclass(frozen=True)
class ReplaySettings:
    """How a step is replayed."""

    window_s: float = 0.6
    """Window of a kind; longer where the sensor takes longer to settle."""
    step_s: float = 1.5
    """Window of the step itself, before and after."""
    warm_s: float = 0.25
    """How long the step runs before each kind, so that the board is as warm as in the step."""
    readings: float = 15
    """Refreshes of the sensor behind its settling that a window holds at least."""
    graph_s: float = 2e-3
    """A graph lasts so long at least, so that launching it costs nothing beside."""
    most_nodes: int = 1024
    """Launches in a graph at most, but for a step that has more of a kind."""
    clock_tolerance: float = 0.01
    """Difference from the clock of the step from which on a kind gets idle time, or more or less of it."""
    tries: int = 4
    """How often a share of idle time is tried at most."""
    most_idle: float = 0.9
    """Share of idle time at most: little is left of a kind beside it."""
    closure: float = 0.05
    """Difference of the sum of the rows from the step, a fraction, beyond which they are estimates."""


SETTINGS = ReplaySettings()


@dataclass(frozen=True)
class Plan:
    """Launches of a kind in one graph.

    Attributes:
        order: Numbers of nodes, and `SLEEP`.
        launches: Launches of the kind in it.
        sleeps: Times that it sleeps.
    """

    order: tuple[int, ...]
    launches: int
    sleeps: int


def plan_kind(
    launches: Sequence[Sequence[int]],
    launch_s: float,
    idle_share: float = 0.0,
    settings: ReplaySettings = SETTINGS,
    *,
    undo_every: int = 0,
) -> Plan:
    """Return a graph of all launches of a kind, in the order of the step, again and again.

    Args:
        launches: The numbers of each, behind those of the fills that it needs.
        launch_s: About how long one takes, with its fills.
        idle_share: Share of the time that is spent asleep.
        settings: How long a graph is.
        undo_every: After how many launches what they changed is written back; 0: never.
    """
    if undo_every:
        undo = ((UNDO,) if n % undo_every == 0 else () for n in range(len(launches)))
        launches = [(*before, *launch) for before, launch in zip(undo, launches, strict=True)]
    round_s, nodes = len(launches) * launch_s, sum(map(len, launches))
    copies = max(1, min(math.ceil(settings.graph_s / round_s), settings.most_nodes // nodes))
    every = list(launches) * copies
    sleeps = round(copies * round_s * idle_share / (1 - idle_share) / (SLEEP_NS * 1e-9))
    if idle_share > 0:
        sleeps = max(sleeps, 1)
    return Plan(spread(every, sleeps), len(every), sleeps)


def spread(launches: Sequence[Sequence[int]], sleeps: int) -> tuple[int, ...]:
    """Return launches with times asleep evenly among them, the last behind the last launch."""
    order: list[int] = []
    for number, launch in enumerate(launches):
        before, behind = (sleeps * n // len(launches) for n in (number, number + 1))
        order += [*launch, *[SLEEP] * (behind - before)]
    return tuple(order)


@dataclass(frozen=True)
class Attempt:
    """How a kind ran with some idle time.

    Attributes:
        idle_share: Share of the time asleep.
        power_w: Mean power; NaN where it is not known.
        clock_mhz: Mean SM clock; NaN where it is not known.
        is_limited: Whether the power limit or heat held the clock down.
    """

    idle_share: float
    power_w: float
    clock_mhz: float
    is_limited: bool


@dataclass(frozen=True)
class Wanted:
    """What a kind runs like in the step.

    Attributes:
        power_w: Mean power of the step.
        clock_mhz: Its SM clock; NaN where it is not known.
        is_limited: Whether the power limit held its clock down.
        idle_w: Power while one thread sleeps.
    """

    power_w: float
    clock_mhz: float
    is_limited: bool
    idle_w: float

    def too_slow(self, attempt: Attempt, settings: ReplaySettings = SETTINGS) -> bool:
        """Return whether an attempt met the limit as the step does not, or ran at a lower clock."""
        if attempt.is_limited and not self.is_limited:
            return True
        return attempt.clock_mhz < (1 - settings.clock_tolerance) * self.clock_mhz

    def too_fast(self, attempt: Attempt, settings: ReplaySettings = SETTINGS) -> bool:
        """Return whether an attempt ran at a higher clock."""
        return attempt.clock_mhz > (1 + settings.clock_tolerance) * self.clock_mhz


def next_idle_share(
    attempts: Sequence[Attempt], wanted: Wanted, settings: ReplaySettings = SETTINGS
) -> float | None:
    """Return what share of idle time to try next, None where the last attempt will do, or nothing better is.

    Args:
        attempts: What was tried, at least one, the first without idle time.
        wanted: What the kind runs like in the step.
        settings: Limits.
    """
    last = attempts[-1]
    slow = [one.idle_share for one in attempts if wanted.too_slow(one, settings)]
    fast = [one.idle_share for one in attempts if wanted.too_fast(one, settings)]
    is_first_fast = last.idle_share == 0 and wanted.too_fast(last, settings)
    is_right = not wanted.too_slow(last, settings) and not wanted.too_fast(last, settings)
    if is_right or is_first_fast or len(attempts) > settings.tries:
        return None
    if not fast:
        # The idle time that gives the mean power of the step, if the kind alone draws what was seen.
        alone_w = (last.power_w - last.idle_share * wanted.idle_w) / (1 - last.idle_share)
        share = 1 - (wanted.power_w - wanted.idle_w) / (alone_w - wanted.idle_w)
        least = last.idle_share + 0.15 * (1 - last.idle_share)
        share = min(max(share, least) if math.isfinite(share) else least, settings.most_idle)
        return share if share > last.idle_share else None
    return (max(slow, default=0.0) + min(fast)) / 2


def difference_from_step(attempt: Attempt, wanted: Wanted, settings: ReplaySettings = SETTINGS) -> str:
    """Return what must be said of a kind that could not be brought to the clock of the step, else ""."""
    if wanted.too_slow(attempt, settings) or wanted.too_fast(attempt, settings):
        limited = ", held down by the power limit" if attempt.is_limited else ""
        return f"ran at {attempt.clock_mhz:.0f} MHz{limited}; the step at {wanted.clock_mhz:.0f} MHz"
    return ""
