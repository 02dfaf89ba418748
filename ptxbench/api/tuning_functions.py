"""The values of a function's arguments with which it takes the least energy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ptxbench.api.benching import opened_gpu
from ptxbench.core.bounds import one_of, whole_within, within
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.calling import Call, CallingGpu
from ptxbench.experiment.calls.outputs import first_difference
from ptxbench.experiment.calls.result import Bench
from ptxbench.experiment.calls.rounds import RoundMeasurement, RoundSettings
from ptxbench.experiment.calls.verdict import Judged, judge

_OBJECTIVES = ("energy", "time", "edp")
_MOST = 10_000
# Calls by which a configuration is timed, and those before.
_TIMED_CALLS, _FIRST_CALLS = 10, 2


@dataclass(frozen=True)
class Configured:
    """A function with some values of its arguments.

    Attributes:
        values: The values by name.
        time_s: Time of a call, timed briefly; NaN where it was not.
        reason: Why it does not count; "" where it does.
        bench: What a call of it takes; None where its energy was not measured.
    """

    values: Mapping[str, Any]
    time_s: float = math.nan
    reason: str = ""
    bench: Bench | None = None

    @property
    def energy_j(self) -> float:
        """Energy of a call, J; NaN where it is not known."""
        return math.nan if self.bench is None else self.bench.energy_j

    @property
    def name(self) -> str:
        """Its values in short."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items())

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: {self.reason}"
        if self.bench is None:
            return f"{self.name}: {1e3 * self.time_s:.4g} ms, its energy was not measured"
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
        if self.tried[0].reason or self.tried[0].bench is None:
            raise InputError(f"no configuration counts: {self.tried[0].reason or 'none was measured'}")
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


def tune_function(
    function: Callable[..., Any],
    axes: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    *,
    check: Callable[[], Any] | None = None,
    reset: Callable[[], object] | None = None,
    minimize: str = "energy",
    budget: float = 30.0,
    measure_first: int = 5,
    max_difference: float | None = None,
    seed: int = 0,
    gpu: Any = None,
) -> TunedFunction:
    """Find the values of a function's arguments with which a call takes the least energy.

        found = ptxbench.tune_function(run, {"block": [64, 128, 256], "unroll": [1, 4]}, check=reference)
        print(found.best.values, found.best.energy_j)

    Every combination is called, compared with `check`, and timed. Then the fastest, and the first that was
    given, are called in rounds while power is read, as `ptxbench.compare` does it.

    Args:
        function: Is given a value of each axis by name; it launches its work in the default stream.
        axes: Values of each axis; or the combinations themselves.
        check: Computes what is right; None: results are not compared.
        reset: Called before a combination is compared, such as to clear what it writes into: else one that
            writes nothing leaves what another wrote.
        minimize: "energy", "time" or "edp".
        budget: Seconds that the rounds may take.
        measure_first: How many of the fastest get their energy measured.
        max_difference: As `ptxbench.compare` takes it.
        seed: Of the order.
        gpu: As `ptxbench.bench` takes it.

    Raises:
        ArgumentError: An argument is out of its range.
        GpuError: There is no GPU that can be read.
        InputError: There is no combination, or too many.
    """
    objective = one_of("minimize", minimize, _OBJECTIVES)
    seconds = within("budget", budget, 1, 86400)
    most = whole_within("measure_first", measure_first, 1, 100)
    values = _combinations(axes)
    calls = [partial(function, **one) for one in values]
    with ExitStack() as stack:
        found = []
        for one, call in zip(values, calls, strict=True):
            if reset is not None:
                reset()
            found.append(_checked(one, call, check, max_difference))
        if all(one.reason for one in found):
            return TunedFunction(tuple(found), check is not None, None)
        device = opened_gpu(gpu, stack)
        order = np.random.default_rng(seed).permutation(len(found))
        for number in (int(n) for n in order if not found[n].reason):
            found[number] = _timed(device, found[number], calls[number])
        fastest = sorted((n for n, one in enumerate(found) if not one.reason), key=lambda n: found[n].time_s)
        chosen = list(dict.fromkeys((*fastest[:most], *(n for n in (0,) if not found[n].reason))))
        _measure(device, found, calls, chosen, RoundSettings(budget_s=seconds, seed=seed))
    best = min(chosen, key=lambda number: _cost(found[number], objective))
    before, after = found[0].bench, found[best].bench
    judged = None
    if best and before is not None and after is not None:
        judged = judge(before.windows, after.windows)
    return TunedFunction(
        tuple(sorted(found, key=lambda each: _place(each, objective))), check is not None, judged
    )


def _combinations(axes: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(axes, Mapping):
        count = math.prod(len(values) for values in axes.values())
        if count > _MOST:
            raise InputError(f"the axes have {count} combinations, over {_MOST}; give fewer values")
        found = [dict(zip(axes, one, strict=True)) for one in itertools.product(*axes.values())]
    else:
        found = [dict(one) for one in axes]
    if not found:
        raise InputError("there is no combination to try; give each axis a value")
    return found


def _checked(
    values: Mapping[str, Any], call: Call, check: Call | None, max_difference: float | None
) -> Configured:
    """Call a configuration for the first time, and compare its results."""
    try:
        if check is None:
            call()
            return Configured(values)
        return Configured(values, reason=first_difference(check, call, None, max_difference))
    except PtxbenchError:
        raise
    except Exception as error:
        return Configured(values, reason=f"failed: {type(error).__name__}: {error}".splitlines()[0])


def _timed(gpu: CallingGpu, one: Configured, call: Call) -> Configured:
    for _ in range(_FIRST_CALLS):
        call()
    return Configured(one.values, gpu.time_calls_s(call, _TIMED_CALLS) / _TIMED_CALLS)


def _measure(
    gpu: CallingGpu,
    found: list[Configured],
    calls: Sequence[Call],
    chosen: Sequence[int],
    settings: RoundSettings,
) -> None:
    """Measure the energy of some configurations, and put it into what was found."""
    rounds = RoundMeasurement(gpu, [calls[number] for number in chosen], settings).run()
    for number, windows in zip(chosen, rounds.windows, strict=True):
        one = found[number]
        bench = Bench(
            one.name,
            gpu.info.title,
            gpu.info.kind != "real",
            windows,
            objection=rounds.objection,
            notes=tuple(filter(None, (rounds.scale, rounds.short))),
        )
        found[number] = Configured(one.values, one.time_s, one.reason, bench)


def _cost(one: Configured, objective: str) -> float:
    """Return what is made small; infinite where it is not known."""
    if one.reason or one.bench is None:
        return math.inf
    costs = {"energy": one.energy_j, "time": one.bench.time_s, "edp": one.energy_j * one.bench.time_s}
    return costs[objective] if math.isfinite(costs[objective]) else math.inf


def _place(one: Configured, objective: str) -> tuple[bool, float, float]:
    return bool(one.reason), _cost(one, objective), one.time_s
