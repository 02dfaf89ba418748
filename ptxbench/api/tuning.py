"""Tune a kernel from Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ptxbench.api.gpu import Gpu, closed, open_gpu
from ptxbench.core.errors import InputError
from ptxbench.core.option import Opt, takes
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.element import DTYPES, ELEMENTS
from ptxbench.tune.isolate import tune_isolated
from ptxbench.tune.observer import Observer
from ptxbench.tune.search_options import VARIANT_TIMEOUT_S, TuningOptions, VariantTimeout
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.spec_file import read_spec
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import Tuned, tune

if TYPE_CHECKING:
    import pandas as pd

_PLACE = "tune_kernel()"
_FILE_OF = {True: "kernel.ptx", False: "kernel.cu"}


@dataclass(frozen=True)
class TunedVariant:
    """One variant of a kernel that was tried; NaN where nothing was measured.

    Attributes:
        parameters: Value of each axis.
        time_s: Time of one launch.
        energy_j: Energy of one launch, measured, or else estimated.
        power_w: Power of launches back to back.
        correct: "yes", "no" or "unchecked", as on the simulated GPU, which computes nothing.
        status: "ok", or how it failed.
        reason: Why it failed.
        capped: Whether the power limit or heat held the clock down while power was read.
        settled: Whether clock and power had settled; "untested" where no power was read.
        figures: What observers saw, and the metrics that were given, by name.
    """

    parameters: Mapping[str, object]
    time_s: float
    energy_j: float
    power_w: float
    correct: str
    status: str
    reason: str
    capped: bool = False
    settled: str = "untested"
    figures: Mapping[str, float] = field(default_factory=dict)


class TunedKernel(Sequence[TunedVariant]):
    """The variants that `tune_kernel` tried: those that count, the best first, then those that failed.

    Attributes:
        searched: Variants in the search space.
        front: Those that no other beats in both time and energy, the fastest first.
    """

    def __init__(self, tuned: Tuned) -> None:
        counted = {id(trial) for trial in tuned.best}
        failed = [trial for trial in tuned.trials if id(trial) not in counted]
        self._variants = [_variant(trial) for trial in (*tuned.best, *failed)]
        self._best = len(tuned.best)
        self.searched = tuned.searched
        self.front = tuple(_variant(trial) for trial in tuned.front)

    @property
    def best(self) -> TunedVariant:
        """The best variant.

        Raises:
            InputError: None counts; the message has the reason of the first.
        """
        if not self._best:
            reason = self._variants[0].reason if self._variants else "none was tried"
            raise InputError(f"no variant counts: {reason}")
        return self._variants[0]

    def __repr__(self) -> str:
        return f"<TunedKernel {len(self)} of {self.searched} variants, {self._best} count>"

    def __len__(self) -> int:
        return len(self._variants)

    def __getitem__(self, index: Any) -> Any:
        return self._variants[index]

    def __iter__(self) -> Iterator[TunedVariant]:
        return iter(self._variants)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for each variant: its axes, then the figures."""
        import pandas as pd

        names = tuple(f.name for f in fields(TunedVariant) if f.name not in ("parameters", "figures"))
        return pd.DataFrame(
            [{**v.parameters, **{name: getattr(v, name) for name in names}, **v.figures} for v in self]
        )


@dataclass(frozen=True)
class TuneKernelOptions(TuningOptions):
    """The kernel that is tuned, what is compared, and how variants are searched.

    Attributes:
        gpu: An open GPU, or what `open_gpu` takes.
        source: Path of a .cu, .ptx or .cubin file or of a template (.cu.j2, .ptx.j2); or CUDA or PTX text.
        kernel: Name of the kernel in the source; in CUDA also an expression, such as `ns::softmax<float, N>`.
        axes: Values of each axis: a list, `{"from": 1, "to": "1024 // BLOCK", "factor": 2}`, or a function of
            the values before it (not with `isolate`).
        arguments: The kernel's parameters by name, in order: numpy arrays, numpy numbers, or a pair of a type
            and an expression, such as `("i32", "N // BLOCK")`.
        answer: What the arrays that the kernel writes must hold afterwards, by name.
        grid: Blocks: a number, an expression of sizes, axes and derived values, or a list of up to three.
        block: Threads of a block, likewise.
        options: What nvcc is told, such as `["--use_fast_math", "-maxrregcount={REGS}"]`; `{REGS}` is the
            value of that axis.
        include: Folders of headers; that of the source is one where it includes "...".
        std: Standard of C++, such as "c++20".
        defines: Macros by name, beside sizes, axes and derived values.
        sizes: Constants by name.
        derived: Values that follow from sizes and axes, by name.
        filters: Expressions that a variant must meet.
        shared_bytes: Dynamic shared memory of a block.
        flops: Floating-point operations of a launch, a number or an expression.
        dram_bytes: Bytes between memory and L2 in a launch, for the estimate of energy.
        metrics: Figures of your own by name, such as `{"gflops_per_w": "flops / energy_j * 1e-9"}`, of
            sizes, axes, derived values, time_s, energy_j, power_w, flops and clock_mhz.
        observers: Objects with `before()`, and `after()` which returns numbers by name: called around the
            launches whose power is measured (not with `isolate`).
        rtol: How far a result may be off, relative to it; None: by its type.
        atol: How far off besides; None: `rtol` of the results' root mean square.
        out: Folder to keep every trial in; None: no folder is left behind.
        isolate: Search in a separate process, which is ended if a variant hangs, and continue without it.
            `gpu` is then none that is open.
    """

    gpu: Gpu | int | str
    source: str | Path
    kernel: str
    _: KW_ONLY
    axes: Mapping[str, object]
    arguments: Mapping[str, object]
    answer: Mapping[str, Any]
    grid: object
    block: object
    options: Sequence[str] = ()
    include: Sequence[str] = ()
    std: str | None = None
    defines: Mapping[str, object] | None = None
    sizes: Mapping[str, float] | None = None
    derived: Mapping[str, str] | None = None
    filters: Sequence[str] = ()
    shared_bytes: object = 0
    flops: object = None
    dram_bytes: object = None
    metrics: Mapping[str, str] | None = None
    observers: Sequence[Observer] = ()
    rtol: float | None = None
    atol: float | None = None
    sample: Annotated[int, Opt(0, 100_000)] = 5
    out: str | Path | None = None
    isolate: bool = False
    limit_s: VariantTimeout = VARIANT_TIMEOUT_S


@takes(TuneKernelOptions)
def tune_kernel(options: TuneKernelOptions) -> TunedKernel:
    """Search the variants of a kernel for the one that takes the least energy or time.

        found = ptxbench.tune_kernel(
            gpu, "saxpy.cu", "saxpy", axes={"BLOCK": [64, 128, 256]}, sizes={"N": n},
            arguments={"y": y, "x": x, "a": np.float32(2)}, answer={"y": y + 2 * x},
            grid="ceil_div(N, BLOCK)", block="BLOCK")
        print(found.best.parameters, found.best.energy_j)

    Each result is compared with `answer` before the variant is timed. A variant that does not end hangs the
    search, except with `isolate`.

    Raises:
        InputError: An argument does not fit, or no variant is left.
        GpuError: There is no such GPU, or it stopped answering.
        ToolError: nvcc, ptxas or nvdisasm is missing.
    """
    for name in ("axes", "arguments", "answer"):
        if not isinstance(given := getattr(options, name), Mapping):
            raise InputError(f"{_PLACE}: `{name}` must be a dict by name, not {type(given).__name__}")
    launch = {"grid": options.grid, "block": options.block, "shared_bytes": options.shared_bytes}
    told = {"options": options.options or None, "include": options.include or None}
    document = {
        "kernel": {
            **_source(options.source, options.kernel),
            **_given(std=options.std, defines=options.defines, **told),
        },
        "sizes": dict(options.sizes or {}),
        "axes": dict(options.axes),
        "derived": dict(options.derived or {}),
        "filters": list(options.filters),
        "launch": launch,
        "arguments": [_argument(name, value, options.answer) for name, value in options.arguments.items()],
        "reference": _given(results=dict(options.answer), rtol=options.rtol, atol=options.atol),
        "work": _given(flops=options.flops, dram_bytes=options.dram_bytes),
        **({"metrics": dict(options.metrics)} if options.metrics else {}),
    }
    tuning = options.tuning(_checked(read_spec(document, Path(), _PLACE)))
    tuning = replace(tuning, observers=tuple(options.observers))
    with ExitStack() as stack:
        out = options.out
        folder = Path(stack.enter_context(TemporaryDirectory()) if out is None else out)
        if options.isolate:
            _require_no_functions(options.axes)
            if options.observers:
                raise InputError(f"{_PLACE}: `observers` see no other process; leave out `isolate`")
            gpu = closed(options.gpu)
            return TunedKernel(tune_isolated(gpu, document, _PLACE, options, folder, options.limit_s))
        opened = options.gpu if isinstance(options.gpu, Gpu) else stack.enter_context(open_gpu(options.gpu))
        return TunedKernel(tune(opened._device, tuning, folder))


def _require_no_functions(axes: Mapping[str, Any]) -> None:
    for name, values in axes.items():
        if callable(values):
            raise InputError(
                f"{_PLACE}: axis {name} is a function, which another process cannot get; list its values"
            )


def _source(source: str | Path, kernel: str) -> dict[str, object]:
    if isinstance(source, str) and "\n" in source:
        return {"name": kernel, "source": _FILE_OF[".entry" in source], "code": source}
    return {"name": kernel, "source": str(source)}


def _argument(name: str, value: object, answer: Mapping[str, Any]) -> dict[str, object]:
    if isinstance(value, np.ndarray):
        role = "inout" if name in answer else "input"
        shape = list(value.shape) or [1]
        return {"name": name, "dtype": _dtype(value), "shape": shape, "role": role, "data": value}
    if isinstance(value, np.generic):
        return {"name": name, "dtype": _dtype(value), "value": value.item()}
    if isinstance(value, tuple) and len(value) == 2:
        return {"name": name, "dtype": value[0], "value": value[1]}
    raise InputError(
        f"{_PLACE}: argument {name} must be a numpy array, a numpy number such as np.int32(8), or a pair of "
        f"a type and an expression, not {type(value).__name__}"
    )


def _dtype(value: np.ndarray[Any, Any] | np.generic) -> str:
    for name, element in ELEMENTS.items():
        if value.dtype.name == (element.foreign or element.stored.name):
            return name
    raise InputError(f"{_PLACE}: arrays of {value.dtype} are not supported; take {', '.join(DTYPES)}")


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _checked(spec: KernelSpec) -> KernelSpec:
    """Refuse answers that do not fit, before anything runs."""
    from ptxbench.tune.arrays import stored
    from ptxbench.tune.spec import StoredReference

    assert isinstance(spec.reference, StoredReference)  # noqa: S101
    for array in spec.arrays:
        if array.role != "input":
            stored(spec.reference, array)
    return spec


def _variant(trial: Trial) -> TunedVariant:
    assert isinstance(trial.variant, Configuration)  # noqa: S101
    power_w = trial.best_power_w if math.isfinite(trial.best_time_s) else math.nan
    return TunedVariant(
        trial.variant.by_axis,
        trial.best_time_s,
        trial.best_energy_j,
        power_w,
        str(trial.correct),
        str(trial.status),
        trial.reason,
        trial.capped,
        str(trial.settled),
        dict(trial.figures),
    )
