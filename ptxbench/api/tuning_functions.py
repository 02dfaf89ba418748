"""The values of a function's arguments with which it takes the least energy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from ptxbench.api.benching import opened_gpu, rounds_of
from ptxbench.api.call_options import CallSeed, MaxDifference
from ptxbench.core.bounds import listed, require_callable, whole_within
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.option import Opt, checked
from ptxbench.core.printable import printable
from ptxbench.core.shared_options import L2, WARM
from ptxbench.devices.calling import Call, CallingGpu
from ptxbench.experiment.calls.result import Bench
from ptxbench.experiment.calls.rounds import RoundSettings
from ptxbench.experiment.calls.verdict import Judged, judge
from ptxbench.tune.called_function import CalledFunction
from ptxbench.tune.clocks.axes import SettingAxes, Values
from ptxbench.tune.objective import Goal, Objective, plain_cost
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import AT_RANDOM, Tuning, require_sense, tune
from ptxbench.tune.variant_runner import TrialOptions

_OBJECTIVES = ("energy", "time", "edp")
# Trials of a search, at most and as a rule; chosen.
_MOST, _TRIALS = 10_000, 50
_WHOLE = "whole numbers"
_NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Configured:
    """A function with some values of its arguments.

    Attributes:
        values: The values by name.
        time_s: Time of a call, timed briefly; NaN where it was not.
        reason: Why it does not count; "" where it does.
        bench: What a call of it takes, measured in rounds with others; None where it was not.
        searched_j: Energy of a call as the search read it, J; NaN where it did not.
    """

    values: Mapping[str, Any]
    time_s: float = math.nan
    reason: str = ""
    bench: Bench | None = None
    searched_j: float = math.nan

    @property
    def energy_j(self) -> float:
        """Energy of a call, J; NaN where it is not known."""
        return self.searched_j if self.bench is None else self.bench.energy_j

    @property
    def name(self) -> str:
        """Its values in short."""
        return printable(", ".join(f"{name}={value}" for name, value in self.values.items()))

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: {self.reason}"
        if self.bench is None:
            energy = "its energy was not measured" if math.isnan(self.energy_j) else f"{self.energy_j:.4g} J"
            return f"{self.name}: {1e3 * self.time_s:.4g} ms, {energy}"
        return str(self.bench)


@dataclass(frozen=True)
class TunedFunction:
    """What was found.

    Attributes:
        tried: Every configuration: those whose energy is known, the best first; then those that were timed,
            the fastest first; then those that do not count.
        checked: Whether results were compared with a reference.
        judged: Whether the best takes less energy than the first configuration that was given; None where
            it is that one, or one of both is not known.
    """

    tried: tuple[Configured, ...]
    checked: bool
    judged: Judged | None

    @property
    def best(self) -> Configured:
        """The best configuration.

        Raises:
            InputError: None counts; the message has the reason of the first.
        """
        if self.tried[0].reason:
            raise InputError(f"no configuration counts: {self.tried[0].reason}")
        return self.tried[0]

    def __iter__(self) -> Iterator[Configured]:
        return iter(self.tried)

    def __len__(self) -> int:
        return len(self.tried)

    def __str__(self) -> str:
        lines = [str(one) for one in self.tried]
        if not self.checked:
            lines.append("results were not compared: give `check`")
        if self.judged is not None:
            less = f"less energy than the first that was given: {self.judged.verdict}"
            lines.append(f"{less}, {self.judged.energy.change}")
        return "\n".join(lines)


@checked
def tune_function(  # noqa: D417  (`checked` adds the others)
    function: Callable[..., Any],
    axes: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    *,
    check: Callable[[], Any] | None = None,
    reset: Callable[[], object] | None = None,
    minimize: Annotated[
        str, Opt(choices=_OBJECTIVES, help="What is made small: energy, time or edp.")
    ] = "energy",
    budget: Annotated[float, Opt(1, 86400, help="Seconds that the rounds may take.")] = 30.0,
    measure_first: Annotated[int, Opt(1, 100, help="How many of the best are called in rounds.")] = 5,
    max_difference: MaxDifference = None,
    strategy: str | None = None,
    trials: Annotated[int, Opt(1, _MOST, help="How many are tried by a strategy.")] = _TRIALS,
    out: str | Path | None = None,
    resume: bool = False,
    l2: L2 = WARM,
    clocks: Sequence[int] | None = None,
    power_limits: Sequence[int] | None = None,
    allow_settings: bool = False,
    seed: CallSeed = 0,
    gpu: Any = None,
) -> TunedFunction:
    """Find the values of a function's arguments with which a call takes the least energy.

        found = ptxbench.tune_function(run, {"block": [64, 128, 256], "unroll": [1, 4]}, check=reference)
        print(found.best.values, found.best.energy_j)

    Every combination is called, compared with `check`, and timed. Then the fastest, and the first that was
    given, are called in rounds while power is read, as `ptxbench.compare` does it. With `strategy`, `out` or
    `clocks` some are tried instead, each with its power, as `ptxbench tune kernel` does it; then the best in
    rounds, but where clocks or limits are set: there each has what the search read.

    Args:
        function: Is given a value of each axis by name; it launches its work in the default stream.
        axes: Values of each axis; or the combinations themselves.
        check: Computes what is right; None: results are not compared.
        reset: Called before a combination is compared, such as to clear what it writes into: else one that
            writes nothing leaves what another wrote.
        strategy: How those that are tried are chosen, as of `ptxbench tune kernel`: "random", "timed" (all
            are timed, then power is read of the fastest five), a strategy of Kernel Tuner such as
            "genetic_algorithm", or with `clocks` one such as "race-to-idle+clocks"; None: all, or "random".
        out: Folder that keeps each trial before the next begins; `ptxbench tune report` reads it.
        resume: Whether the folder is there, and the search goes on.
        clocks: SM clocks that each is tried at, MHz.
        power_limits: Power limits that each is tried under, W.
        allow_settings: Whether the GPU may be set to them; it is restored at the end.
        gpu: As `ptxbench.bench` takes it.

    Raises:
        ArgumentError: An argument is out of its range.
        GpuError: There is no GPU that can be read.
        InputError: There is no combination, or too many; or the folder does not fit.
    """
    if resume and out is None:
        raise ArgumentError("resume", "needs `out`, the folder of the search to continue")
    if not callable(function):
        raise ArgumentError("function", f"must be one, not {function!r}")
    require_callable("check", check)
    require_callable("reset", reset)
    values = _combinations(axes)
    axes_set = SettingAxes(
        sm_clocks=_to_set("clocks", clocks), power_limits=_to_set("power_limits", power_limits)
    )
    tunable = CalledFunction(function, values, check, reset, max_difference)
    by_power = strategy is not None or out is not None or axes_set.given
    if trials != _TRIALS and not by_power:
        raise ArgumentError("trials", "are those of a `strategy`, such as random: without one all are tried")
    tuning = Tuning(
        problem=tunable,
        goal=Goal(Objective(minimize if by_power else Objective.TIME)),
        options=TrialOptions(power=by_power and minimize != "time", seed=seed, l2=l2),
        strategy=strategy or AT_RANDOM,
        budget=trials if by_power else len(values),
        candidates=_MOST,
        axes=axes_set,
        allow_settings=allow_settings,
    )
    require_sense(tuning, tuning.strategy)
    # The GPU that the function runs on is known by a call of it.
    if gpu is None and (reasons := tunable.call_until_one_works()):
        failed = [Configured(one, reason=why) for one, why in zip(values, reasons, strict=True)]
        return _ordered(failed, minimize, check is not None, None)
    with ExitStack() as stack:
        device: Any = opened_gpu(gpu, stack)
        path = Path(out) if out is not None else Path(stack.enter_context(TemporaryDirectory())) / "search"
        tuned = tune(device, tuning, path, path if resume else None)
        at = {variant.name: n for n, variant in enumerate(tunable.variants)}
        if axes_set.given:
            found = [_searched(values[at[one.variant.name]], one) for one in tuned.trials]
            return _ordered(found, minimize, check is not None, None)
        found = [Configured(one, reason=_NOT_TRIED) for one in values]
        for trial in tuned.trials:
            found[at[trial.variant.name]] = _searched(values[at[trial.variant.name]], trial)
        first = [at[trial.variant.name] for trial in tuned.best]
        if not first:
            return _ordered(found, minimize, check is not None, None)
        beside = [] if found[0].reason else [0]
        chosen = list(dict.fromkeys([*first[:measure_first], *beside]))
        calls = [partial(function, **one) for one in values]
        _measure(device, found, calls, chosen, RoundSettings(budget_s=budget, seed=seed), l2)
    best = min(chosen, key=lambda number: _cost(found[number], minimize))
    before, after = found[0].bench, found[best].bench
    judged = None
    if best and before is not None and after is not None:
        judged = judge(before.windows, after.windows)
    return _ordered(found, minimize, check is not None, judged)


def _to_set(name: str, given: Sequence[int] | None) -> Values | None:
    """Return the values of a setting, MHz or W, None where it is left as it is.

    Raises:
        ArgumentError: It is no list of whole numbers, or an empty one.
    """
    if given is None:
        return None
    numbers = listed(name, given, _WHOLE)
    if not numbers:
        raise ArgumentError(name, f"must be a list of {_WHOLE}, not an empty one")
    return Values(named=tuple(whole_within(name, one, 1, _MOST) for one in numbers))


def _ordered(
    found: Sequence[Configured], objective: str, checked: bool, judged: Judged | None
) -> TunedFunction:
    tried = [one for one in found if one.reason != _NOT_TRIED]
    return TunedFunction(tuple(sorted(tried, key=lambda each: _place(each, objective))), checked, judged)


def _searched(values: Mapping[str, Any], trial: Trial) -> Configured:
    """Return a trial of a search; one that was only timed has no energy, and counts."""
    counts = trial.ok or trial.status is TrialStatus.PRUNED
    reason = "" if counts else trial.reason or str(trial.status)
    named = {**values, **trial.settings.by_axis}
    return Configured(named, trial.best_time_s, reason, searched_j=trial.energy_j)


def _combinations(axes: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(axes, Mapping):
        by_name = {name: listed(f"axis {name}", values, "values") for name, values in axes.items()}
        count = math.prod(map(len, by_name.values()))
        if count > _MOST:
            raise InputError(f"the axes have {count} combinations, over {_MOST}; give fewer values")
        found = [dict(zip(by_name, one, strict=True)) for one in itertools.product(*by_name.values())]
    else:
        found = listed("axes", axes, "combinations, or a dict of lists")
        if wrong := [one for one in found if not isinstance(one, Mapping)]:
            raise ArgumentError("axes", f"must be dicts of values by name, not {wrong[0]!r}")
    if not any(found):
        raise InputError("there is no combination to try; give each axis a value")
    return found


def _measure(
    gpu: CallingGpu,
    found: list[Configured],
    calls: Sequence[Call],
    chosen: Sequence[int],
    settings: RoundSettings,
    l2: str,
) -> None:
    """Measure the energy of some configurations, and put it into what was found."""
    rounds = rounds_of(gpu, [calls[number] for number in chosen], settings, l2)
    for number, windows in zip(chosen, rounds.windows, strict=True):
        one = found[number]
        bench = Bench(
            one.name,
            gpu.info.title,
            gpu.info.kind != "real",
            windows,
            l2,
            objection=rounds.objection,
            notes=tuple(filter(None, (rounds.scale, rounds.short))),
        )
        found[number] = Configured(one.values, one.time_s, one.reason, bench, one.searched_j)


def _cost(one: Configured, objective: str) -> float:
    """Return what is made small; infinite where it is not known."""
    time_s = one.time_s if one.bench is None else one.bench.time_s
    if one.reason:
        return math.inf
    cost = plain_cost(objective, time_s, one.energy_j)
    return cost if math.isfinite(cost) else math.inf


def _place(one: Configured, objective: str) -> tuple[bool, bool, float, float]:
    # What was measured in rounds with the others comes before what was read once.
    return bool(one.reason), one.bench is None, _cost(one, objective), one.time_s
