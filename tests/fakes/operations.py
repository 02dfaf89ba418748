"""Rows of a made-up table of operations."""

from dataclasses import replace

from ptxbench.storage.operations_file import OperationRow


def operation_energy_j(operation):
    """A board that takes 0.6 pJ a flop, 60 pJ a byte and 2 mJ a call."""
    return 0.6e-12 * operation.flops + 60e-12 * operation.bytes_moved + 2e-3


def _time_s(operation):
    return max(operation.flops / 600e12, operation.bytes_moved / 3e12) + 5e-6


def operation_row(operation, device="NVIDIA H100", noise=0.0, **changes):
    value = operation_energy_j(operation) * (1 + noise)
    made = OperationRow(
        framework="torch", version="2.9", device=device, board="ab", driver="580", op_name=operation.op,
        gemm_dtype=operation.dtype, shape=operation.shape_text, latency_ms=1e3 * _time_s(operation),
        power_w=value / _time_s(operation), power_limit_w=700.0, energy_j=value, ci_low_j=0.99 * value,
        ci_high_j=1.01 * value, clock_mhz=1800.0, capped=False, window_s=0.4, windows=3, launched="call",
        sensor="samples", valid=True, reason="",
    )  # fmt: skip
    return replace(made, **changes)
