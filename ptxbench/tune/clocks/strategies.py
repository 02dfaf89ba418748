"""Ways to tune a kernel and its clock together: those of Schoonhoven et al. (2022), section V.

Figure 3 compares five. `race-to-idle` is the least time over all variants and clocks.
`energy-to-solution-maxclock` is the least energy at the highest clock. Two tune in two steps, first the
variant and then only the clock: `race-to-idle+clocks` for time at the highest clock and
`energy-to-solution+clocks` for energy at the base clock. `global-energy-to-solution` is the least energy over
all variants and clocks. Two more are of its sections V-C and V-D: `power-capped` tries power limits in place
of clocks, `model-steered` only clocks within 10% of the best one of the fitted power curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.tune.candidate import DEFAULT_SETTINGS, Candidate
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import Point

RACE, MAXCLOCK = "race-to-idle", "energy-to-solution-maxclock"
RACE_CLOCKS, ENERGY_CLOCKS = "race-to-idle+clocks", "energy-to-solution+clocks"
GLOBAL, CAPPED, STEERED = "global-energy-to-solution", "power-capped", "model-steered"
FIGURE_3 = (RACE, MAXCLOCK, RACE_CLOCKS, ENERGY_CLOCKS, GLOBAL)
CLOCK_STRATEGIES = (*FIGURE_3, CAPPED, STEERED)

# NVML does not tell the base clock. That of the A100, the paper's most common GPU, is 54% of its highest.
_BASE = 0.54

Ask = Callable[[Sequence[Candidate]], Sequence[Trial]]


@dataclass(frozen=True)
class ClockSpace:
    """What there is to choose from.

    Attributes:
        variants: The kernel's variants.
        clocks: Settings that differ in the SM clock, the highest first.
        caps: Settings that differ in the power limit, the highest first.
        base: Of the clocks, the base clock; unset without clocks.
        steered: Of the clocks, those near the best one of the power curve; () where none was fitted.
    """

    variants: tuple[Point, ...]
    clocks: tuple[GpuSettings, ...]
    caps: tuple[GpuSettings, ...]
    base: GpuSettings
    steered: tuple[GpuSettings, ...] = ()

    @classmethod
    def of(
        cls,
        variants: Iterable[Point],
        settings: Iterable[GpuSettings],
        base_mhz: float = math.nan,
        search_mhz: tuple[float, float] | None = None,
    ) -> ClockSpace:
        """Sort settings into clocks and power limits; what is None counts as the highest.

        Args:
            variants: The kernel's variants.
            settings: Every setting that was or can be tried.
            base_mhz: The base clock; NaN: 54% of the highest, as on an A100.
            search_mhz: Clocks that the power curve says are worth trying.

        """
        every = set(settings)
        memory_mhz = max(map(_memory, every))
        limit_mw, top_mhz = max(map(_limit, every)), max(map(_clock, every))
        at_memory = [s for s in every if _memory(s) == memory_mhz]
        clocks = sorted(
            (s for s in at_memory if _limit(s) == limit_mw and s.sm_clock_mhz is not None),
            key=_clock,
            reverse=True,
        )
        caps = sorted(
            (s for s in at_memory if s.power_limit_mw is not None and _is_top(s, clocks, top_mhz)),
            key=_limit,
            reverse=True,
        )
        if clocks and math.isnan(base_mhz):
            base_mhz = _BASE * _clock(clocks[0])
        low_mhz, high_mhz = search_mhz or (math.inf, -math.inf)
        return cls(
            variants=tuple({v.name: v for v in variants}.values()),
            clocks=tuple(clocks),
            caps=tuple(caps),
            base=min(clocks, key=lambda s: abs(_clock(s) - base_mhz), default=DEFAULT_SETTINGS),
            steered=tuple(s for s in clocks if low_mhz <= _clock(s) <= high_mhz),
        )


def _clock(settings: GpuSettings) -> float:
    return math.inf if settings.sm_clock_mhz is None else settings.sm_clock_mhz


def _memory(settings: GpuSettings) -> float:
    return math.inf if settings.memory_clock_mhz is None else settings.memory_clock_mhz


def _limit(settings: GpuSettings) -> float:
    return math.inf if settings.power_limit_mw is None else settings.power_limit_mw


def _is_top(settings: GpuSettings, clocks: Sequence[GpuSettings], top_mhz: float) -> bool:
    """Tell whether nothing but the power limit slows a setting."""
    highest = _clock(clocks[0]) if clocks else top_mhz
    return _clock(settings) >= highest


@dataclass(frozen=True)
class Chosen:
    """What one strategy found.

    Attributes:
        strategy: Its name.
        trial: Its choice.
        runs: Candidates that it tried.
    """

    strategy: str
    trial: Trial
    runs: int


@dataclass
class _Asked:
    """Asks for trials and counts the candidates."""

    ask: Ask
    names: set[str] = field(default_factory=set)

    def best(
        self,
        variants: Sequence[Point],
        settings: Sequence[GpuSettings],
        cost: Callable[[Trial], float],
    ) -> Trial:
        """Return the best of every variant under every setting.

        Raises:
            InputError: None counts.
        """
        if not settings:
            raise InputError("no SM clock was set; tune with `clocks`")
        wanted = [Candidate(variant, s) for variant in variants for s in settings]
        self.names |= {candidate.name for candidate in wanted}
        counted = [t for t in self.ask(wanted) if t.ok and math.isfinite(cost(t))]
        if not counted:
            raise InputError("no variant counts at these settings, so that there is none to choose")
        return min(counted, key=cost)


def _time(trial: Trial) -> float:
    return trial.best_time_s


def _energy(trial: Trial) -> float:
    return trial.best_energy_j


def choose(strategy: str, space: ClockSpace, ask: Ask) -> Chosen:
    """Tune by one strategy.

    Args:
        strategy: One of `CLOCK_STRATEGIES`.
        space: What there is to choose from.
        ask: Tries candidates, or looks them up, and returns the trials that there are of them.

    Raises:
        InputError: There is nothing to choose from, such as no power limit for `power-capped`.
    """
    asked = _Asked(ask)
    return Chosen(strategy, _WAYS[strategy](space, asked), len(asked.names))


def _two_steps(space: ClockSpace, asked: _Asked, first: GpuSettings, cost: Callable[[Trial], float]) -> Trial:
    variant = asked.best(space.variants, (first,), cost).variant
    return asked.best((variant,), space.clocks, _energy)


def _capped(space: ClockSpace, asked: _Asked) -> Trial:
    if not space.caps:
        raise InputError("power-capped needs power limits; give `power_limits`")
    return asked.best(space.variants, space.caps, _energy)


def _steered(space: ClockSpace, asked: _Asked) -> Trial:
    if not space.steered:
        raise InputError("model-steered needs clocks within the range that `ptxbench clocks ridge` names")
    return asked.best(space.variants, space.steered, _energy)


_WAYS: Mapping[str, Callable[[ClockSpace, _Asked], Trial]] = {
    RACE: lambda space, asked: asked.best(space.variants, space.clocks, _time),
    MAXCLOCK: lambda space, asked: asked.best(space.variants, space.clocks[:1], _energy),
    RACE_CLOCKS: lambda space, asked: _two_steps(space, asked, space.clocks[0], _time),
    ENERGY_CLOCKS: lambda space, asked: _two_steps(space, asked, space.base, _energy),
    GLOBAL: lambda space, asked: asked.best(space.variants, space.clocks, _energy),
    CAPPED: _capped,
    STEERED: _steered,
}


@dataclass(frozen=True)
class Comparison:
    """The strategies on one full sweep.

    Attributes:
        chosen: What each found, in the order of `CLOCK_STRATEGIES`; those without settings left out.
        least: The least energy of all trials: the exhaustive optimum.
        missing: Of each strategy that is left out, why.
    """

    chosen: tuple[Chosen, ...]
    least: Trial
    missing: tuple[tuple[str, str], ...]

    def over_least(self, one: Chosen) -> float:
        """Return how much more energy than the exhaustive optimum a choice takes, relative."""
        return one.trial.best_energy_j / self.least.best_energy_j - 1

    def saved(self, one: Chosen) -> float:
        """Return the share of the energy of race-to-idle that a choice saves."""
        return 1 - one.trial.best_energy_j / self.chosen[0].trial.best_energy_j


def compare(
    trials: Sequence[Trial], base_mhz: float = math.nan, search_mhz: tuple[float, float] | None = None
) -> Comparison:
    """Let every strategy choose among trials that were made.

    Args:
        trials: Of a sweep over clocks, and perhaps over power limits.
        base_mhz: The base clock; NaN: 54% of the highest.
        search_mhz: Clocks that `ptxbench clocks ridge` says are worth trying, for `model-steered`.

    Raises:
        InputError: No clock was set, or no trial counts.
    """
    if not trials:
        raise InputError("there is no trial; tune with `clocks`")
    space = ClockSpace.of((t.variant for t in trials), (t.settings for t in trials), base_mhz, search_mhz)
    held = {t.name: t for t in trials}

    def look_up(candidates: Sequence[Candidate]) -> list[Trial]:
        return [held[c.name] for c in candidates if c.name in held]

    chosen, missing = [], []
    for strategy in CLOCK_STRATEGIES:
        try:
            chosen.append(choose(strategy, space, look_up))
        except InputError as error:
            if strategy in FIGURE_3:
                raise
            missing.append((strategy, str(error)))
    counted = [t for t in trials if t.ok and math.isfinite(_energy(t))]
    return Comparison(tuple(chosen), min(counted, key=_energy), tuple(missing))
