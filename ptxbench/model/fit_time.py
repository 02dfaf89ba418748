"""Fits what a time is modelled with: rates of memory and tensor cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptxbench.model.tensor import multiply_adds, tensor_kind
from ptxbench.model.terms import LevelRate, TensorRate
from ptxbench.model.work import KernelWork, Level


@dataclass(frozen=True)
class TimedKernel:
    """One kernel that was measured and counted.

    Attributes:
        work: What it executes; its time is the measured one.
        clock_ratio: SM clock over the full clock.
        sms: How many SMs its launches fill.
    """

    work: KernelWork
    clock_ratio: float
    sms: int


def level_rates(kernels: Sequence[TimedKernel]) -> tuple[LevelRate, ...]:
    """Return the most bytes a second that a kernel moved through each level, at the full clock."""
    best: dict[Level, float] = {}
    for one in kernels:
        for level, count in one.work.bytes_moved:
            # DRAM has a clock of its own.
            ratio = 1.0 if level is Level.DRAM else one.clock_ratio
            best[level] = max(best.get(level, 0.0), count / (one.work.time_s * ratio))
    return tuple(LevelRate(level, best[level]) for level in Level if best.get(level))


def tensor_rates(kernels: Sequence[TimedKernel], clock_mhz: float) -> tuple[TensorRate, ...]:
    """Return the most multiply-adds of each kind that a kernel did in a cycle of an SM."""
    best: dict[str, float] = {}
    for one in kernels:
        cycles = one.work.time_s * one.clock_ratio * clock_mhz * 1e6 * one.sms
        for kind, count in _multiply_adds(one.work).items():
            best[kind] = max(best.get(kind, 0.0), count / cycles)
    return tuple(TensorRate(kind, rate) for kind, rate in sorted(best.items()))


def _multiply_adds(work: KernelWork) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for opcode, count in work.opcodes:
        macs = multiply_adds(opcode)
        if macs:
            kind = tensor_kind(opcode)
            found[kind] = found.get(kind, 0.0) + count * macs
    return found
