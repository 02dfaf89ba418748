"""The cases of a suite of own kernels: every kernel of its file on every kind of its data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cuda_kernels
import cupy
from kernel_cases import Case
from kernel_operands import ZEROS, Call
from suite_data import input_words
from suite_split import INSTRUCTION, WORDS, SuiteKernel, read_split, source_of
from validation_file import Purpose


def all_cases(suite: str = INSTRUCTION) -> tuple[Case, ...]:
    """Return every case in the order of their numbers, the judged families first: time may run out."""
    cases = [
        Case(one.case, kind, one.purpose, _prepare(one), one.data_decides)
        for one in read_split(suite)
        for kind in one.data
    ]
    return (*cases, Case("sleep", ZEROS, Purpose.STATIC, cuda_kernels.sleep))


@cache
def _module(code: Path) -> Any:
    return cupy.RawModule(code=source_of(code), options=("--std=c++17",))


@cache
def _input(kind: str, data_type: str, words: int) -> Any:
    """Return an input; one of more than 2^20 words has the same ones again and again."""
    made = cupy.asarray(input_words(kind, data_type))
    return made if words == WORDS else cupy.tile(made, words // WORDS)


def _prepare(one: SuiteKernel) -> Callable[[str], Call]:
    def prepare(kind: str) -> Call:
        kernel, words = _module(one.code).get_function(one.name), _input(kind, one.data_type, one.words)
        blocks = one.blocks_per_sm * int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        large = one.words if one.words > WORDS else 0
        out = cupy.empty(max(blocks * one.threads, large), cupy.uint32)
        return lambda: kernel((blocks,), (one.threads,), (words, out, cupy.int32(one.rounds)))

    return prepare
