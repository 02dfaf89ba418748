"""What a call of any function takes, and which of several functions takes less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from ptxbench.api.call_options import LEAST_S, MOST_S, Budget, CallSeed, MaxDifference
from ptxbench.api.gpu import Gpu
from ptxbench.core.bounds import listed, require_callable, within
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.option import Opt, checked, takes
from ptxbench.core.shared_options import L2, WARM
from ptxbench.devices.calling import Call, CallingGpu
from ptxbench.experiment.calls.outputs import NOTHING, Inputs, first_difference, fresh_inputs
from ptxbench.experiment.calls.result import Against, Bench, Comparison, notes_of
from ptxbench.experiment.calls.rounds import RoundMeasurement, Rounds, RoundSettings
from ptxbench.experiment.calls.verdict import UNKNOWN_RATIO, Judged, Verdict, judge

Function = Callable[..., Any]


@dataclass(frozen=True)
class _Calling:
    """How functions are called.

    Attributes:
        inputs: Makes the arguments of the functions: a tuple, or one. It gets a seed if it takes an argument;
            else the random numbers of PyTorch, CuPy and numpy are seeded before. None: there are none.
        grad_to_none: Tensors whose gradient is set to None before each call, as Triton's do_bench does.
        rep: Milliseconds of the measured calls together, as Triton's do_bench has it, in place of `budget`.
        gpu: An open GPU that runs functions of other libraries. None: the one of this thread's CUDA context.
    """

    _: KW_ONLY
    budget: Budget = 5.0
    inputs: Any = None
    l2: L2 = WARM
    grad_to_none: Any = None
    rep: float | None = None
    seed: CallSeed = 0
    gpu: Any = None


@dataclass(frozen=True)
class BenchOptions(_Calling):
    """What is called.

    Attributes:
        function: What is called; it launches its work in the default stream, and waits for nothing.
        quantiles: Quantiles of the energy over the windows, 0 to 1.
        most_rounds: Windows after which it ends, though the budget is not spent.
    """

    function: Any
    _: KW_ONLY
    quantiles: Any = ()
    most_rounds: Annotated[int, Opt(1, 1000)] = 1000


def _name(function: Function) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


@takes(BenchOptions)
def bench(options: BenchOptions) -> Bench:
    """Measure the energy, power, time and clock of a call: what Triton's `do_bench` is for time.

        found = ptxbench.bench(lambda: torch.softmax(x, dim=-1))
        print(found.energy_j, found.interval_j, found.time_s, found.clock_mhz, found.at_limit)

    The function is called back to back in windows of about half a second, while power is read. The first
    calls, until it is compiled and the board is warm, do not count. At the power limit windows last for
    seconds, until clock and power have settled. A window that has not settled does not count.

    Raises:
        ArgumentError: An argument is out of its range.
        GpuError: There is no GPU that can be read, or a launch failed.
        InputError: The function cannot be called.
    """
    shares = tuple(
        within("quantiles", one, 0, 1) for one in listed("quantiles", options.quantiles, "numbers")
    )
    with _measured([options.function], options) as (gpu, rounds):
        (windows,) = rounds.windows
        return _bench_of(_name(options.function), gpu, windows, rounds, options.l2, shares)


@checked
def compare(  # noqa: D417  (`checked` adds the others)
    first: Function,
    *others: Function,
    budget: Budget = 10.0,
    inputs: Inputs | None = None,
    check: bool | None = None,
    max_difference: MaxDifference = None,
    names: Sequence[str] = (),
    l2: L2 = WARM,
    grad_to_none: Iterable[Any] | None = None,
    rep: float | None = None,
    seed: CallSeed = 0,
    gpu: Any = None,
) -> Comparison:
    """Say whether functions take less energy than the first one: yes, no, or undecided at 95%.

        found = ptxbench.compare(torch_softmax, my_softmax, inputs=lambda seed: (make(seed),))
        print(found)
        assert found.less_energy != "no"

    All are called in rounds, in random order, so that what changes slowly is the same for all. Results are
    compared first, on fresh inputs: a function whose results are wrong is not measured. There is no verdict
    where the SM clock moved. A verdict of one function with itself is given about once in a hundred times.

    Args:
        first: What the others are compared with.
        others: One or several.
        inputs: As `bench` takes it. Without it results are compared for one call without arguments.
        check: Whether results are compared; None: where the first returns any, or writes into its inputs.
        names: What they are called; none: by their own names.
        grad_to_none: As `bench` takes it; so are `rep` and `gpu`.
        rep: Milliseconds of the measured calls together, in place of `budget`.
        gpu: An open GPU.

    Raises:
        ArgumentError: An argument is out of its range.
        GpuError: There is no GPU that can be read, or a launch failed.
        InputError: There is nothing to compare with, or a function cannot be called.
    """
    if not others:
        raise InputError("compare needs at least two functions")
    functions = [first, *others]
    names = listed("names", names, "texts")
    if names and len(names) != len(functions):
        raise ArgumentError("names", f"must name {len(functions)} functions, not {len(names)}")
    called = names or [_name(one) for one in functions]
    options = BenchOptions(
        first, budget=budget, inputs=inputs, l2=l2, grad_to_none=grad_to_none, rep=rep, seed=seed, gpu=gpu
    )
    require_callable("inputs", inputs)
    wrong = [""] * len(functions)
    if check is not False:
        for one in functions:
            _require_callable(one)
        wrong[1:] = [first_difference(first, other, inputs, max_difference) for other in others]
    checked = check is True or (check is None and NOTHING not in wrong)
    if not checked:
        wrong = [""] * len(functions)
    right = [number for number, said in enumerate(wrong) if not said]
    with _measured([functions[number] for number in right], options) as (gpu, rounds):
        found = {
            number: _bench_of(called[number], gpu, windows, rounds, options.l2)
            for number, windows in zip(right, rounds.windows, strict=True)
        }
        against = [
            _against(
                found.get(number) or _unmeasured(called[number], gpu), found[0], wrong[number], len(right)
            )
            for number in range(1, len(functions))
        ]
    said = "results were not compared"
    if checked:
        said = "" if inputs else "results were compared for one call, not on fresh inputs: give `inputs`"
    notes = notes_of(list(found.values()), said)
    return Comparison(found[0], tuple(against), checked, notes)


def _against(bench: Bench, first: Bench, wrong: str, functions: int) -> Against:
    if wrong:
        return Against(bench, Judged(Verdict.REFUSED, UNKNOWN_RATIO, UNKNOWN_RATIO, 0, wrong), wrong)
    if bench.objection:
        said = Judged(Verdict.REFUSED, UNKNOWN_RATIO, UNKNOWN_RATIO, 0, bench.objection)
        return Against(bench, said)
    return Against(bench, judge(first.windows, bench.windows, functions - 1))


def _unmeasured(name: str, gpu: CallingGpu) -> Bench:
    return Bench(name, gpu.info.title, gpu.info.kind != "real", ())


def _bench_of(
    name: str,
    gpu: CallingGpu,
    windows: Sequence[Any],
    rounds: Rounds,
    l2: str,
    shares: tuple[float, ...] = (),
) -> Bench:
    own = [one.note for one in windows if one.note and "slowed down" not in one.note]
    notes = tuple(dict.fromkeys(filter(None, (rounds.scale, rounds.short, *own))))
    simulated = gpu.info.kind != "real"
    return Bench(name, gpu.info.title, simulated, tuple(windows), l2, rounds.objection, notes, shares)


@contextmanager
def _measured(functions: Sequence[Function], options: BenchOptions) -> Iterator[tuple[CallingGpu, Rounds]]:
    """Call functions, each with inputs of its own, on the GPU that they run on."""
    for function in functions:
        _require_callable(function)
    require_callable("inputs", options.inputs)
    calls = [_call_of(function, options) for function in functions]
    with ExitStack() as stack:
        # The first call makes the CUDA context, by which the GPU is found.
        for call in calls:
            call()
        gpu = opened_gpu(options.gpu, stack)
        yield gpu, rounds_of(gpu, calls, _settings(options), options.l2)


def rounds_of(gpu: CallingGpu, calls: Sequence[Call], settings: RoundSettings, l2: str) -> Rounds:
    """Call functions in rounds; with `FLUSHED` L2 is emptied before each call, and that is taken off.

    Raises:
        ArgumentError: L2 cannot be emptied there.
        LaunchError: A launch failed.
        GpuError: The GPU stopped answering.
    """
    if l2 == WARM:
        return RoundMeasurement(gpu, calls, settings).run()
    with ExitStack() as stack:
        flush = _flusher(gpu, stack)
        both = [flush, *(_both(flush, call) for call in calls)]
        return _without_flush(RoundMeasurement(gpu, both, settings).run())


def _settings(options: BenchOptions) -> RoundSettings:
    budget_s = options.budget
    if options.rep is not None:
        budget_s = max(within("rep", options.rep, 1, 1000 * MOST_S) * 1e-3, LEAST_S)
    return RoundSettings(budget_s=budget_s, most_rounds=options.most_rounds, seed=options.seed)


def _require_callable(function: Any) -> None:
    if not callable(function):
        raise InputError(f"a function must be callable, not {function!r}")


def _call_of(function: Function, options: BenchOptions) -> Call:
    given = fresh_inputs(options.inputs, options.seed)
    given_tensors = () if options.grad_to_none is None else options.grad_to_none
    tensors = listed("grad_to_none", given_tensors, "tensors")
    if not tensors:
        return lambda: function(*given)

    def call() -> object:
        for tensor in tensors:
            tensor.grad = None
        return function(*given)

    return call


def _both(flush: Call, call: Call) -> Call:
    def both() -> None:
        flush()
        call()

    return both


def _without_flush(rounds: Rounds) -> Rounds:
    flush, *others = rounds.windows
    left = tuple(tuple(a.without(b) for a, b in zip(one, flush, strict=True)) for one in others)
    return Rounds(left, rounds.objection, rounds.scale, rounds.short)


def _flusher(gpu: CallingGpu, stack: ExitStack) -> Call:
    """Return what empties L2: it writes other memory than any function uses."""
    make = getattr(gpu, "l2_flush", None)
    if make is None:
        raise ArgumentError("l2", f"cannot be emptied on {gpu.info.name}; leave it at warm")
    flush = make()
    stack.callback(flush.close)
    return flush  # type: ignore[no-any-return]


def opened_gpu(gpu: Any, stack: ExitStack) -> CallingGpu:
    """Return the GPU that functions are called on.

    Args:
        gpu: An open one; None: that of this thread's CUDA context, which `stack` closes again.
        stack: What closes it.

    Raises:
        ArgumentError: It runs no function of another library.
        GpuError: There is none that can be read.
    """
    if gpu is None:
        from ptxbench.devices.cuda import CudaGpu, current_gpu

        opened = CudaGpu(current_gpu())
        stack.callback(opened.close)
        return opened
    device = gpu._device if isinstance(gpu, Gpu) else gpu
    if not isinstance(device, CallingGpu):
        named = gpu.info.name if isinstance(gpu, Gpu) else repr(gpu)
        raise ArgumentError("gpu", f"must be an open real GPU: {named} runs no function of another library")
    return device
