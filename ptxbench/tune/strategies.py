"""Kernel Tuner's search strategies on ptxbench's own runner.

Kernel Tuner (B. van Werkhoven, "Kernel Tuner: A search-optimizing GPU code auto-tuner", 2019) chooses what to
try; kernels are built, checked and measured here. Its strategies see no device: a runner answers them, as in
its simulation mode.
"""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Iterable
from typing import Any

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.tune.candidate import Candidate
from ptxbench.tune.clocks.strategies import CLOCK_STRATEGIES
from ptxbench.tune.expression import Value
from ptxbench.tune.objective import Goal, first_valid
from ptxbench.tune.search import Evaluator
from ptxbench.tune.space import Space

# Those for discrete spaces: the others (basinhopping, dual_annealing, minimize) walk through a continuous
# one, of which nearly every point breaks a constraint, and end long before the budget.
STRATEGIES = (
    "diff_evo",
    "firefly_algorithm",
    "genetic_algorithm",
    "greedy_ils",
    "greedy_mls",
    "mls",
    "ordered_greedy_mls",
    "pso",
    "random_sample",
    "simulated_annealing",
)
_COST = "cost"


class _Runner:
    """Answers a strategy's questions by trials; what Kernel Tuner asks of a runner, and nothing more."""

    def __init__(self, space: Space, evaluator: Evaluator, goal: Goal, invalid: Any) -> None:
        self._candidates: dict[tuple[Value, ...], Candidate] = {c.values: c for c in space.candidates}
        self._names = space.parameters
        self._evaluator = evaluator
        self._goal = goal
        self._invalid = invalid
        self._asked: set[str] = set()

    def add_strategy_time(self, seconds: float) -> None:
        """Take note of the strategy's own time, which is not kept."""

    def run(
        self, parameter_space: Iterable[Iterable[Value]], tuning_options: Any
    ) -> list[dict[str, Any] | None]:
        """Try configurations; None for those that the budget does not reach."""
        configurations = [tuple(map(_plain, one)) for one in parameter_space]
        known = [self._candidates[one] for one in configurations if one in self._candidates]
        for _ in self._evaluator.trials(known):
            pass
        answers = []
        for one in configurations:
            answer = self._answer(one)
            if answer is not None and self._is_new(one):
                tuning_options.budget.add_evaluations(1)
            answers.append(answer)
        return answers

    def _is_new(self, configuration: tuple[Value, ...]) -> bool:
        candidate = self._candidates.get(configuration)
        if candidate is None or candidate.name in self._asked:
            return False
        self._asked.add(candidate.name)
        return True

    def _answer(self, configuration: tuple[Value, ...]) -> dict[str, Any] | None:
        plain = dict(zip(self._names, configuration, strict=True))
        candidate = self._candidates.get(configuration)
        if candidate is None:
            return plain | {"__error__": self._invalid()}
        trials = self._evaluator.folder.trials
        trial, reference = trials.get(candidate.name), first_valid(trials.values())
        if trial is None:
            return None
        cost = self._goal.cost(trial, reference) if reference else math.inf
        return plain | ({_COST: cost} if math.isfinite(cost) else {"__error__": self._invalid()})


def require_strategy(name: str) -> None:
    """Check that a strategy can be used.

    Raises:
        InputError: Kernel Tuner is not installed, or has no such strategy.
    """
    if name not in STRATEGIES:
        known = ", ".join(("timed", "estimate", "random", "guerreiro", *CLOCK_STRATEGIES, *STRATEGIES))
        raise InputError(f"no strategy is called {name!r}; there are {known}")
    _imported()


def search_by_strategy(name: str, space: Space, evaluator: Evaluator, goal: Goal, seed: int) -> None:
    """Let a strategy of Kernel Tuner choose what is tried, until the budget is spent.

    Args:
        name: One of `STRATEGIES`.
        space: The search space.
        evaluator: Tries variants.
        goal: What is made small.
        seed: Of Kernel Tuner's random choices.

    Raises:
        InputError: Kernel Tuner is not installed.
        GpuError: The GPU stopped answering.
    """
    interface, util, searchspace = _imported()
    strategy = importlib.import_module(f"kernel_tuner.strategies.{name}")
    # Kernel Tuner draws from the global generators.
    random.seed(seed)
    np.random.seed(seed)
    searched = _searchspace(space, searchspace)
    budget = util.TuningBudget(max_fevals=max(1, min(evaluator.budget, len(space.candidates))))
    options = interface.Options(
        tune_params=searched.tune_params,
        restrictions=None,
        objective=[_COST],
        objective_higher_is_better=[False],
        strategy_options=interface.Options(max_fevals=budget.max_fevals),
        max_fevals=budget.max_fevals,
        budget=budget,
        verbose=False,
    )
    strategy.tune(searched, _Runner(space, evaluator, goal, util.InvalidConfig), options)


def _searchspace(space: Space, module: Any) -> Any:
    """Return the candidates as Kernel Tuner's search space: a list, as it has passed our filters already."""
    names, candidates = space.parameters, space.candidates
    columns = zip(*(c.values for c in candidates), strict=True)
    values = {name: sorted(set(column), key=_in_order) for name, column in zip(names, columns, strict=True)}
    listed = {c.name: dict(zip(names, c.values, strict=True)) for c in candidates}
    return module.Searchspace(None, None, None, from_cache={"tune_params": values, "cache": listed})


def _in_order(value: Value) -> tuple[bool, float, str]:
    """Return a key that puts numbers in order and text behind them."""
    is_text = isinstance(value, str)
    return is_text, 0.0 if isinstance(value, str) else value, str(value)


def _plain(value: Any) -> Value:
    """Return a value as a variant has it: strategies hand out numpy's numbers."""
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[no-any-return]


def _imported() -> tuple[Any, Any, Any]:
    try:
        names = ("interface", "util", "searchspace")
        interface, util, searchspace = (importlib.import_module(f"kernel_tuner.{name}") for name in names)
    except ImportError as error:
        raise InputError(
            "this strategy needs Kernel Tuner; run 'pip install kernel-tuner', or take `strategy` random"
        ) from error
    return interface, util, searchspace
