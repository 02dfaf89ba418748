"""A function of other libraries as what is tuned: its axes, its trials in a folder, the same strategies."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ptxbench.core.errors import ArgumentError, InputError, LaunchError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.calling import Call, CallingGpu
from ptxbench.experiment.calls.outputs import first_difference
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.tune.candidate import DEFAULT_SETTINGS
from ptxbench.tune.check import Correct
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.folder import TuningFolder, tuning_manifest
from ptxbench.tune.objective import Goal, pareto_front, ranked
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.problem import KernelProblem
from ptxbench.tune.search import Evaluator, search_random
from ptxbench.tune.space import Space
from ptxbench.tune.strategies import STRATEGIES, require_strategy, search_by_strategy
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import Prediction
from ptxbench.tune.tuning import AT_RANDOM, Tuned
from ptxbench.tune.variant_runner import Repeated, TrialOptions, VariantRunner, require_window

_MISSING = "default"


@dataclass(frozen=True)
class Calling:
    """A configuration, ready to be called."""

    variant: Configuration
    call: Call


@dataclass(frozen=True)
class Called:
    """Calls back to back.

    Attributes:
        gpu: Where they run.
        call: What is called.
    """

    gpu: CallingGpu
    call: Call

    def time_s(self, times: int) -> float:
        """Call so often, and return how long that took, s."""
        return self.gpu.time_calls_s(self.call, times)

    def run(self, times: int, pause_s: float) -> KernelRun:
        """Idle for a while, then call so often while power is recorded."""
        self.gpu.clock.sleep_s(pause_s)
        return self.gpu.run_calls(self.call, times)


class CalledFunction:
    """A function with values of its arguments, as the search takes any kernel.

    Attributes:
        problem: What it is called, and its axes.

    Args:
        function: Is given a value of each axis by name.
        values: The combinations.
        check: Computes what is right; None: results are not compared.
        reset: Called before a combination is compared.
        max_difference: As `ptxbench.compare` takes it.

    Raises:
        InputError: Two combinations look the same when they are written.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        values: Sequence[Mapping[str, Any]],
        check: Call | None = None,
        reset: Call | None = None,
        max_difference: float | None = None,
    ) -> None:
        axes = tuple(dict.fromkeys(name for one in values for name in one))
        texts = [{axis: " ".join(str(one.get(axis, _MISSING)).split()) for axis in axes} for one in values]
        self._values = {Configuration.of(text).name: one for text, one in zip(texts, values, strict=True)}
        if len(self._values) < len(values):
            raise InputError("two combinations of values are written alike; give their objects names")
        self.variants = tuple(map(Configuration.of, texts))
        self._function, self._check, self._reset = function, check, reset
        self._max_difference = max_difference
        name = getattr(function, "__name__", type(function).__name__)
        digest = hashlib.sha256("\n".join([name, *self._values]).encode()).hexdigest()[:16]
        self.problem = KernelProblem(name, axes, digest)

    def values_of(self, variant: Configuration) -> Mapping[str, Any]:
        """Return the values that a configuration stands for."""
        return self._values[variant.name]

    def build(self, variant: Configuration, target: str) -> Any:  # noqa: ARG002
        """Return the call of a configuration: it is compiled when it is first called."""
        return Calling(variant, partial(self._function, **self._values[variant.name]))

    def source_key(self, variant: Configuration, target: str) -> str:  # noqa: ARG002
        """Return "": nobody knows what a function depends on."""
        return ""

    def predict(self, kernel: Any, info: GpuInfo) -> Prediction:  # noqa: ARG002
        """Return nothing: the code is not known."""
        return Prediction(None)

    def check(self, gpu: Any, kernel: Any) -> tuple[Correct, str]:  # noqa: ARG002
        """Call a configuration for the first time, and compare its results.

        Raises:
            LaunchError: The call failed.
        """
        if self._reset is not None:
            self._reset()
        try:
            if self._check is None:
                kernel.call()
                return Correct.UNCHECKED, ""
            said = first_difference(self._check, kernel.call, None, self._max_difference)
        except PtxbenchError:
            raise
        except Exception as error:
            raise LaunchError(f"failed: {type(error).__name__}: {error}".splitlines()[0]) from error
        return (Correct.NO, said) if said else (Correct.YES, "")

    def launch(self, kernel: Any) -> Any:
        """Return the call."""
        return kernel.call


class FunctionRunner(VariantRunner):
    """Tries configurations of a function."""

    def predict(
        self, built: Any, build_wall_s: float = math.nan, settings: GpuSettings = DEFAULT_SETTINGS
    ) -> Trial:
        """Return what is known of a configuration that has not run: nothing."""
        return Trial(
            variant=built.variant,
            status=TrialStatus.OK,
            correct=Correct.UNCHECKED,
            build_wall_s=build_wall_s,
            settings=settings,
        )

    def _work(self, kernel: Any) -> Repeated:
        assert isinstance(self.gpu, CallingGpu)  # noqa: S101 - `search_function` wants one
        return Called(self.gpu, kernel.call)


def require_function_strategy(strategy: str) -> None:
    """Check that functions can be searched by a strategy.

    Raises:
        ArgumentError: There is no such strategy, or it needs a kernel's code.
        InputError: It is one of Kernel Tuner, which is not installed.
    """
    if strategy == AT_RANDOM:
        return
    if strategy not in STRATEGIES:
        known = ", ".join((AT_RANDOM, *STRATEGIES))
        raise ArgumentError("strategy", f"{strategy!r} is none for functions; there are {known}")
    require_strategy(strategy)


def search_function(
    gpu: Any,
    subject: CalledFunction,
    goal: Goal,
    options: TrialOptions,
    strategy: str,
    budget: int,
    path: Path,
    *,
    resume: bool,
) -> Tuned:
    """Search the configurations of a function, each trial kept before the next begins.

    Args:
        gpu: Where they run; it calls functions.
        subject: The function.
        goal: What is made small.
        options: How configurations are tried.
        strategy: "random", or one of Kernel Tuner.
        budget: Trials that the folder may come to hold.
        path: The folder.
        resume: Whether it is there, and the search goes on.

    Raises:
        InputError: The folder is of something else, or cannot be written.
        GpuError: The GPU stopped answering; the folder holds what was tried.
    """
    if options.power:
        require_window(gpu, options.window_s)
    manifest = tuning_manifest(gpu, subject.problem, options, "")
    space = Space(subject.problem, gpu.info.target, subject.variants, ())
    folder = TuningFolder.resume(path, manifest) if resume else TuningFolder.create(path, manifest)
    runner = FunctionRunner(gpu, subject, options, None, before=folder.trials.values())
    evaluator = Evaluator(runner, folder, budget, jobs=1)
    try:
        if strategy == AT_RANDOM:
            search_random(space, evaluator, options.seed)
        else:
            search_by_strategy(strategy, space, evaluator, goal, options.seed)
    finally:
        folder.require(runner.source)
        folder.close()
    trials, scale = folder.believed()
    best, front = ranked(trials, goal), pareto_front(trials)
    return Tuned(path, folder.manifest, trials, best, front, len(space.candidates), scale=scale)
