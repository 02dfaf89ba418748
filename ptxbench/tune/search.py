"""The search: which variants are tried, in which order, until the budget is spent."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.tune.candidate import Candidate
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.kernel import Refused
from ptxbench.tune.objective import Goal, Objective, Pruning, ranked
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.repeats import FIRST, repeat_first, repeat_measurement
from ptxbench.tune.space import Space
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import Built, Point, TunableKernel
from ptxbench.tune.variant_runner import VariantRunner

# Kernels that are built before the first of them runs.
_GROUP = 64

Show = Callable[[int, int, str], None]


@dataclass(frozen=True)
class TimedBuild:
    """A kernel, and the host time that it took."""

    kernel: Built | Refused
    wall_s: float


class Evaluator:
    """Tries variants; one that the folder holds is not tried again.

    Attributes:
        runner: Where they are tried.
        folder: Where trials are kept.
        budget: How many trials the folder may come to hold.
        jobs: Assemblers at once.

    Args:
        show: Called with how many are done, the budget, and which variant is in progress.
        pruning: Whose power is not measured; None: everybody's is.
        apply: Sets the GPU as a candidate wants it.
    """

    def __init__(
        self,
        runner: VariantRunner,
        folder: TuningFolder,
        budget: int,
        jobs: int = 0,
        show: Show = lambda *_: None,
        pruning: Pruning | None = None,
        apply: Callable[[GpuSettings], None] = lambda _: None,
    ) -> None:
        self.runner = runner
        self.folder = folder
        self.budget = budget
        self.jobs = jobs or os.cpu_count() or 1
        self._show = show
        self._pruning = pruning
        self._apply = apply

    @property
    def spent(self) -> bool:
        """Whether the budget is spent."""
        return len(self.folder.trials) >= self.budget

    def trials(
        self, candidates: Sequence[Candidate], *, sampled: bool = False, timed_only: bool = False
    ) -> Iterator[Trial]:
        """Try candidates in turn until the budget is spent, building ahead.

        Args:
            candidates: Those to try.
            sampled: Whether they were drawn at random beside an estimator's choice.
            timed_only: Whether their power is left to `measure_first`.

        Raises:
            GpuError: The GPU stopped answering.
            ToolError: ptxas or nvdisasm is missing.
        """
        held = self.folder.trials
        wanted = [c for c in candidates if c.name not in held][: max(0, self.budget - len(held))]
        chosen = {c.name for c in wanted}
        tunable, target = self.runner.tunable, self.runner.gpu.info.target
        builds = build_candidates(tunable, wanted, target, self.jobs)
        objection = _only_timed if timed_only else self._objection
        for candidate in candidates:
            if candidate.name in chosen:
                built = next(builds)
                self.folder.begin(candidate)
                self._apply(candidate.settings)
                trial = self.runner.measure(
                    built.kernel, built.wall_s, objection, settings=candidate.settings
                )
                key = tunable.source_key(candidate.variant, target)
                self.folder.add(replace(trial, sampled=sampled, source_key=key))
                self._show(len(held), self.budget, candidate.name)
                chosen.discard(candidate.name)
            if candidate.name in held:
                yield held[candidate.name]

    def measure_first(self, goal: Goal) -> None:
        """Measure the power of the first by their estimates, until `FIRST` of them have one.

        Where no energy is estimated, their times say which these are.

        Raises:
            GpuError: The GPU stopped answering.
            ToolError: ptxas or nvdisasm is missing.
        """
        held = self.folder.trials
        timed = [t.as_timed for t in held.values() if t.ok or t.status is TrialStatus.PRUNED]
        by_time = replace(goal, objective=Objective.TIME)
        measured = 0
        for one in ranked(timed, goal) or ranked(timed, by_time):
            if measured == FIRST:
                return
            if not held[one.name].ok:
                # It was timed before: what hangs now is blamed.
                self.folder.add(self._measured(one.name)(1))
                self._show(len(held), self.budget, one.name)
            measured += held[one.name].ok

    def repeat_first(self, goal: Goal) -> None:
        """Measure the first of the ranking again, so that none stands there by a lucky reading.

        Raises:
            GpuError: The GPU stopped answering.
            ToolError: ptxas or nvdisasm is missing.
        """
        trials = self.folder.trials

        def first() -> list[str]:
            return [t.name for t in ranked(trials.values(), goal)[:FIRST] if math.isfinite(t.energy_j)]

        repeat_first(first, lambda name: max(1, len(trials[name].energies_j)), self._again)

    def _again(self, name: str) -> None:
        """Measure a variant that has one energy again, and keep its measurements as one."""
        found = repeat_measurement(self.folder.trials[name], self._measured(name))
        self.folder.add(self.runner.with_metrics(found) if found.ok else found)
        self._show(len(self.folder.trials), self.budget, name)

    def _measured(self, name: str) -> Callable[[int], Trial]:
        """Return what measures a variant that was tried, given how often that was."""
        tunable, held = self.runner.tunable, self.folder.trials[name]
        built = _built(tunable, held.variant, self.runner.gpu.info.target)
        self._apply(held.settings)

        def measure(before: int) -> Trial:
            self.folder.begin(held.candidate, before)
            trial = self.runner.measure(built.kernel, built.wall_s, settings=held.settings)
            return replace(trial, sampled=held.sampled, source_key=held.source_key)

        return measure

    def _objection(self, trial: Trial) -> str:
        return self._pruning.objection(trial, self.folder.trials.values()) if self._pruning else ""


def _only_timed(trial: Trial) -> str:  # noqa: ARG001
    return f"its estimate is not among the first {FIRST}, whose power is measured"


def build_ahead(
    tunable: TunableKernel, variants: Sequence[Point], target: str, jobs: int
) -> Iterator[TimedBuild]:
    """Yield kernels in the order of the variants, built in groups of many at a time.

    A group is built before its first kernel is handed out: threads that go on building would hold up the
    launches that are timed.

    Raises:
        ToolError: ptxas or nvdisasm is missing.
    """
    with ThreadPoolExecutor(jobs) as pool:
        for first in range(0, len(variants), _GROUP):
            group = variants[first : first + _GROUP]
            yield from list(pool.map(lambda variant: _built(tunable, variant, target), group))


def build_candidates(
    tunable: TunableKernel, candidates: Sequence[Candidate], target: str, jobs: int
) -> Iterator[TimedBuild]:
    """Yield the kernels of candidates in their order; candidates of one variant in a group share a build.

    Raises:
        ToolError: ptxas or nvdisasm is missing.
    """
    for first in range(0, len(candidates), _GROUP):
        group = [candidate.variant for candidate in candidates[first : first + _GROUP]]
        distinct = {variant.name: variant for variant in group}
        builds = build_ahead(tunable, tuple(distinct.values()), target, jobs)
        built = dict(zip(distinct, builds, strict=True))
        yield from (built[variant.name] for variant in group)


def search_random(space: Space, evaluator: Evaluator, seed: int) -> None:
    """Try variants in random order."""
    for _ in evaluator.trials(random.Random(seed).sample(space.candidates, len(space.candidates))):  # noqa: S311
        pass


def search_by_estimate(
    space: Space,
    evaluator: Evaluator,
    goal: Goal,
    seed: int,
    candidates: int,
    show: Show = lambda *_: None,
    sample: int = 0,
    *,
    timed: bool = False,
) -> None:
    """Predict many variants without running them, and try those that look best, and some at random.

    Args:
        space: The search space.
        evaluator: Tries them; its runner has a model.
        goal: What is made small.
        seed: Of the choice of candidates.
        candidates: How many variants are built and predicted, drawn at random.
        show: Called with how many are predicted, how many there are, and which is in progress.
        sample: How many of the budget are drawn at random from the others: they tell how well it ranks.
        timed: Whether those that look best are timed alone; then the power of the first by that is measured.
    """
    generator = random.Random(seed)  # noqa: S311
    drawn = generator.sample(space.candidates, min(candidates, len(space.candidates)))
    predicted = predict_candidates(drawn, evaluator.runner, evaluator.jobs, show)
    best_first = [trial.candidate for trial in ranked(predicted, goal)]
    # Those of whose energy the code tells nothing come last.
    placed = {candidate.name for candidate in best_first}
    best_first += [trial.candidate for trial in predicted if trial.name not in placed]
    first = max(0, evaluator.budget - sample) if sample else len(best_first)
    for _ in evaluator.trials(best_first[:first], timed_only=timed):
        pass
    rest = best_first[first:]
    for _ in evaluator.trials(generator.sample(rest, len(rest)), sampled=True):
        pass
    if timed:
        evaluator.measure_first(goal)


def predict_candidates(
    candidates: Sequence[Candidate], runner: VariantRunner, jobs: int, show: Show = lambda *_: None
) -> list[Trial]:
    """Build candidates and predict each one's time and energy; nothing runs.

    Args:
        candidates: Those to predict.
        runner: Where they would be tried; it has a model.
        jobs: Assemblers at once; 0 for as many as there are processors.
        show: Called with how many are predicted, how many there are, and which is in progress.
    """
    predicted: list[Trial] = []
    jobs = jobs or os.cpu_count() or 1
    builds = build_candidates(runner.tunable, candidates, runner.gpu.info.target, jobs)
    for candidate, built in zip(candidates, builds, strict=True):
        predicted.append(runner.predict(built.kernel, built.wall_s, candidate.settings))
        show(len(predicted), len(candidates), candidate.name)
    return predicted


def _built(tunable: TunableKernel, variant: Point, target: str) -> TimedBuild:
    began_s = time.perf_counter()
    kernel = tunable.build(variant, target)
    return TimedBuild(kernel, time.perf_counter() - began_s)
