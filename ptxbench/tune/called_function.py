"""A function of other libraries as what is tuned: its axes, its trials in a folder, the same strategies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ptxbench.core.errors import InputError, LaunchError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.devices.calling import Call
from ptxbench.experiment.calls.outputs import first_difference
from ptxbench.tune.check import Correct
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.space import Space
from ptxbench.tune.tunable_kernel import Prediction

_MISSING = "default"


@dataclass(frozen=True)
class Calling:
    """A configuration, ready to be called."""

    variant: Configuration
    call: Call


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
            raise InputError("two combinations of values are written alike; give each once, objects by names")
        self.variants = tuple(map(Configuration.of, texts))
        self._function, self._check, self._reset = function, check, reset
        self._max_difference = max_difference
        # What came of those that were called before there was a GPU to tune on.
        self._before: dict[str, tuple[Correct, str] | LaunchError] = {}
        name = getattr(function, "__name__", type(function).__name__)
        digest = hashlib.sha256("\n".join([name, *self._values]).encode()).hexdigest()[:16]
        self.problem = KernelProblem(name, axes, digest)

    def space(self, target: str) -> Space:
        """Return the combinations."""
        return Space(self.problem, target, self.variants)

    def build(self, variant: Configuration, target: str) -> Any:  # noqa: ARG002
        """Return the call of a configuration: it is compiled when it is first called."""
        return Calling(variant, partial(self._function, **self._values[variant.name]))

    def source_key(self, variant: Configuration, target: str) -> str:  # noqa: ARG002
        """Return "": nobody knows what a function depends on."""
        return ""

    def predict(self, kernel: Any, info: GpuInfo) -> Prediction:  # noqa: ARG002
        """Return nothing: the code is not known."""
        return Prediction(None)

    def call_until_one_works(self) -> list[str]:
        """Call configurations until one of them does not fail, which makes its GPU known.

        Returns:
            Why each failed, if all did; else nothing.
        """
        for variant in self.variants:
            try:
                self._before[variant.name] = self._compared(self.build(variant, "").call)
            except LaunchError as error:
                self._before[variant.name] = error
            else:
                return []
        return [str(self._before[one.name]) for one in self.variants]

    def check(self, gpu: Any, kernel: Any) -> tuple[Correct, str]:  # noqa: ARG002
        """Call a configuration for the first time, and compare its results.

        Raises:
            LaunchError: The call failed.
        """
        found = self._before.pop(kernel.variant.name, None)
        if isinstance(found, LaunchError):
            raise found
        return found or self._compared(kernel.call)

    def _compared(self, call: Call) -> tuple[Correct, str]:
        if self._reset is not None:
            self._reset()
        try:
            if self._check is None:
                call()
                return Correct.UNCHECKED, ""
            said = first_difference(self._right, call, None, self._max_difference)
        except PtxbenchError:
            raise
        except Exception as error:
            raise LaunchError(f"failed: {type(error).__name__}: {error}".splitlines()[0]) from error
        return (Correct.NO, said) if said else (Correct.YES, "")

    def _right(self) -> Any:
        assert self._check is not None  # noqa: S101
        try:
            return self._check()
        except Exception as error:
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"`check` failed, so that nothing can be compared: {what}") from error

    def launch(self, kernel: Any) -> Any:
        """Return the call."""
        return kernel.call
