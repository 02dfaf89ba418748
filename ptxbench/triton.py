"""For Triton: its autotuner by energy, and kernels with configurations compared.

    import triton, ptxbench.triton

    @triton.autotune(configs, key=["n"], do_bench=ptxbench.triton.do_bench(minimize="energy"))
    @triton.jit
    def kernel(...): ...

Nothing here imports Triton.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptxbench.core.bounds import one_of, within
from ptxbench.core.errors import ArgumentError

if TYPE_CHECKING:
    from ptxbench.api.tuning_functions import TunedFunction

_OBJECTIVES = ("energy", "time", "edp")
# Fields of a configuration of Triton that are arguments of a launch.
_LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def do_bench(
    minimize: str = "energy", *, budget: float = 1.0, gpu: Any = None
) -> Callable[..., float | list[float]]:
    """Return what `triton.autotune` calls in the place of Triton's own `do_bench`.

    Each configuration is called for `budget` seconds, once it is compiled. Where its power had not settled by
    then, as at the power limit, its unsettled power counts: a larger budget is better there.

    Args:
        minimize: "energy" (J a call), "time" (ms) or "edp" (J s).
        budget: Seconds of each configuration.
        gpu: As `ptxbench.bench` takes it.

    Raises:
        ArgumentError: An argument is none of these, or out of its range.
    """
    objective = one_of("minimize", minimize, _OBJECTIVES)
    seconds = within("budget", budget, 0.5, 3600)

    def bench_call(
        call: Callable[[], object], quantiles: Sequence[float] | None = None, **_: Any
    ) -> float | list[float]:
        from ptxbench.api.benching import bench
        from ptxbench.experiment.calls.window import quantile

        windows = bench(call, budget=seconds, gpu=gpu).settled_first
        costs = [_cost(objective, one.energy_j, one.time_s) for one in windows]
        if quantiles is None:
            return quantile(costs, 0.5) if costs else math.inf
        return [quantile(costs, share) if costs else math.inf for share in quantiles]

    return bench_call


def _cost(objective: str, energy_j: float, time_s: float) -> float:
    return {"energy": energy_j, "time": 1e3 * time_s, "edp": energy_j * time_s}[objective]


def tune(
    kernel: Any,
    configs: Sequence[Any],
    grid: Any,
    args: Sequence[Any],
    *,
    check: Callable[..., Any] | None = None,
    **tuning: Any,
) -> TunedFunction:
    """Find the configuration of a kernel that takes the least energy.

        found = ptxbench.triton.tune(softmax_kernel, configs, grid, (y, x, n), check=reference)
        print(found)

    Args:
        kernel: A function of `triton.jit`.
        configs: `triton.Config` objects, or mappings of names to values.
        grid: As between the brackets of a launch: a tuple, or a function of the launch's values.
        args: Arguments of each launch; before each configuration is compared, arrays get back what they hold
            now.
        check: Computes what is right from the same arguments: it returns them, or writes into them, as the
            kernel does.
        tuning: What `ptxbench.tune_function` takes besides: `minimize`, `budget`, `measure_first`,
            `strategy`, `trials`, `out`, `resume`, `l2`, `seed`, `gpu`.

    Raises:
        InputError: There is no configuration.
        GpuError: There is no GPU that can be read.
    """
    from ptxbench.api.tuning_functions import tune_function

    def launch(**values: Any) -> Any:
        kernel[grid](*args, **values)
        return args

    right = None if check is None else (lambda: _given_or(check(*args), args))
    reset = _restoring(args)
    return tune_function(launch, [_values(one) for one in configs], check=right, reset=reset, **tuning)


def _restoring(args: Sequence[Any]) -> Callable[[], None]:
    """Return what gives arrays among arguments the contents back that they have now."""
    tensors = [(one, one.clone()) for one in args if hasattr(one, "clone")]
    arrays = [(one, one.copy()) for one in args if hasattr(one, "shape") and not hasattr(one, "clone")]

    def restore() -> None:
        for tensor, held in tensors:
            tensor.copy_(held)
        for array, held in arrays:
            array[...] = held

    return restore


def _given_or(returned: Any, args: Sequence[Any]) -> Any:
    return args if returned is None else returned


def _values(config: Any) -> dict[str, Any]:
    """Return the values of a configuration, those of its launch with them."""
    if isinstance(config, Mapping):
        return dict(config)
    if not isinstance(getattr(config, "kwargs", None), Mapping):
        raise ArgumentError("configs", f"must be triton.Config objects or dicts, not {config!r}")
    launch = {name: value for name in _LAUNCH if (value := getattr(config, name, None)) is not None}
    return {**config.kwargs, **launch}
