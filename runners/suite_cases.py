"""The cases of the instruction suite: every kernel of suite_split.toml on every kind of its data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import cuda_kernels
import cupy
from kernel_cases import Case
from kernel_operands import ZEROS, Call
from suite_data import input_words
from suite_split import SuiteKernel, read_split, source_of

from ptxbench.model.validation_file import Purpose


def all_cases() -> tuple[Case, ...]:
    """Return every case in the order of their numbers, the judged families first: time may run out."""
    cases = [
        Case(one.case, kind, one.purpose, _prepare(one), one.data_decides)
        for one in read_split()
        for kind in one.data
    ]
    return (*cases, Case("sleep", ZEROS, Purpose.STATIC, cuda_kernels.sleep))


@cache
def _module(family: str) -> Any:
    return cupy.RawModule(code=source_of(family), options=("--std=c++17",))


@cache
def _input(kind: str, data_type: str) -> Any:
    return cupy.asarray(input_words(kind, data_type))


def _prepare(one: SuiteKernel) -> Callable[[str], Call]:
    def prepare(kind: str) -> Call:
        kernel, words = _module(one.family).get_function(one.name), _input(kind, one.data_type)
        blocks = one.blocks_per_sm * int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        out = cupy.empty(blocks * one.threads, cupy.uint32)
        return lambda: kernel((blocks,), (one.threads,), (words, out, cupy.int32(one.rounds)))

    return prepare
