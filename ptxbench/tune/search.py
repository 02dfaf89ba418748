"""The search: which variants are tried, in which order, until the budget is spent."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ptxbench.tune.bench import Bench
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.kernel import Refused
from ptxbench.tune.objective import Goal, Pruning, ranked
from ptxbench.tune.space import Space
from ptxbench.tune.subject import Built as BuiltKernel
from ptxbench.tune.subject import Point, Subject
from ptxbench.tune.trial import Trial

# Kernels that are built before the first of them runs.
_GROUP = 64

Show = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Built:
    """A kernel, and the host time that it took."""

    kernel: BuiltKernel | Refused
    wall_s: float


class Evaluator:
    """Tries variants; one that the folder holds is not tried again.

    Attributes:
        bench: Where they are tried.
        folder: Where trials are kept.
        budget: How many trials the folder may come to hold.
        jobs: Assemblers at once.

    Args:
        show: Called with how many are done, the budget, and which variant is in hand.
        pruning: Whose power is not measured; None: everybody's is.
    """

    def __init__(
        self,
        bench: Bench,
        folder: TuningFolder,
        budget: int,
        jobs: int = 0,
        show: Show = lambda *_: None,
        pruning: Pruning | None = None,
    ) -> None:
        self.bench = bench
        self.folder = folder
        self.budget = budget
        self.jobs = jobs or os.cpu_count() or 1
        self._show = show
        self._pruning = pruning

    @property
    def spent(self) -> bool:
        """Whether the budget is spent."""
        return len(self.folder.trials) >= self.budget

    def trials(self, variants: Sequence[Point], *, sampled: bool = False) -> Iterator[Trial]:
        """Try variants in turn until the budget is spent, building ahead.

        Args:
            variants: Those to try.
            sampled: Whether they were drawn at random beside an estimator's choice.

        Raises:
            GpuError: The GPU stopped answering.
            ToolError: ptxas or nvdisasm is missing.
        """
        held = self.folder.trials
        wanted = [v for v in variants if v.name not in held][: max(0, self.budget - len(held))]
        chosen = {v.name for v in wanted}
        builds = build_ahead(self.bench.subject, wanted, self.bench.gpu.info.target, self.jobs)
        for variant in variants:
            if variant.name in chosen:
                built = next(builds)
                self.folder.begin(variant)
                trial = self.bench.measure(built.kernel, built.wall_s, self._objection)
                self.folder.add(replace(trial, sampled=sampled))
                self._show(len(held), self.budget, variant.name)
                chosen.discard(variant.name)
            if variant.name in held:
                yield held[variant.name]

    def _objection(self, trial: Trial) -> str:
        return self._pruning.objection(trial, self.folder.trials.values()) if self._pruning else ""


def build_ahead(subject: Subject, variants: Sequence[Point], target: str, jobs: int) -> Iterator[Built]:
    """Yield kernels in the order of the variants, built in groups of many at a time.

    A group is built before its first kernel is handed out: threads that go on building would hold up the
    launches that are timed.

    Raises:
        ToolError: ptxas or nvdisasm is missing.
    """
    with ThreadPoolExecutor(jobs) as pool:
        for first in range(0, len(variants), _GROUP):
            group = variants[first : first + _GROUP]
            yield from list(pool.map(lambda variant: _built(subject, variant, target), group))


def search_random(space: Space, evaluator: Evaluator, seed: int) -> None:
    """Try variants in random order."""
    for _ in evaluator.trials(random.Random(seed).sample(space.variants, len(space.variants))):  # noqa: S311
        pass


def search_by_estimate(
    space: Space,
    evaluator: Evaluator,
    goal: Goal,
    seed: int,
    candidates: int,
    show: Show = lambda *_: None,
    sample: int = 0,
) -> None:
    """Predict many variants without running them, and try those that look best, and some at random.

    Args:
        space: The search space.
        evaluator: Tries them; its bench has a model.
        goal: What is made small.
        seed: Of the choice of candidates.
        candidates: How many variants are built and predicted, drawn at random.
        show: Called with how many are predicted, how many there are, and which is in hand.
        sample: How many of the budget are drawn at random from the others: they tell how well it ranks.
    """
    generator = random.Random(seed)  # noqa: S311
    drawn = generator.sample(space.variants, min(candidates, len(space.variants)))
    predicted = []
    for built in build_ahead(evaluator.bench.subject, drawn, evaluator.bench.gpu.info.target, evaluator.jobs):
        trial = evaluator.bench.predict(built.kernel, built.wall_s)
        predicted.append(trial)
        show(len(predicted), len(drawn), trial.variant.name)
    best_first = [trial.variant for trial in ranked(predicted, goal)]
    # Those of whose energy the code tells nothing come last.
    placed = {variant.name for variant in best_first}
    best_first += [trial.variant for trial in predicted if trial.variant.name not in placed]
    first = max(0, evaluator.budget - sample) if sample else len(best_first)
    for _ in evaluator.trials(best_first[:first]):
        pass
    rest = best_first[first:]
    for _ in evaluator.trials(generator.sample(rest, len(rest)), sampled=True):
        pass


def _built(subject: Subject, variant: Point, target: str) -> Built:
    began_s = time.perf_counter()
    kernel = subject.build(variant, target)
    return Built(kernel, time.perf_counter() - began_s)
