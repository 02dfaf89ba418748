"""Cases that ask what moves the energy of an instruction beside its opcode; move_kernels.cu has the code.

Each kernel executes the same instruction again and again. Its cases differ in the words that it works on, in
which threads take part, or in how many warps there are. `EXECUTED` of them are executed in a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from validation_file import Purpose

if TYPE_CHECKING:
    from kernel_cases import Case

SOURCE = Path(__file__).with_name("move_kernels.cu")
COMMON = Path(__file__).with_name("suite") / "common.cuh"
EXECUTED = 64 * 30_000
STRIDE = 1 << 16
_SEED = 26
_DOUBLE = "dfma"
# Bits that a distance may flip, of a word: of floats those of the fraction.
_FLIPPED = {"ffma": 0x007FFFFF, "fadd": 0x007FFFFF, "hfma2": 0x03FF03FF}
# Operands whose bits can be set: what IMAD adds to differs by pass, and what LOP3 keeps is soon full.
_POSITIONS = {"ffma": "abc", "fadd": "ac", "imad": "ab", "lop3": "ab", "hfma2": "abc", "dfma": "abc"}
# What floats are multiplied, and what they are added to: so much more that it stays.
_SCALES = {"hfma2": (0.2, 2048.0), "dfma": (1.0, 1e25)}
_FLOAT_SCALES = (1.0, 1e9)
_TAKING_PART = {"on": 1, "half": 2, "quarter": 4, "off": 0}

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class MoveCase:
    """One kernel under one condition.

    Attributes:
        kernel: Its function; the first of a kernel's cases is what the others are compared with.
        condition: What is special: "still", the toggled operand and its distance, threads, or warps.
        body: Instructions in a pass of its loop.
        threads: Threads of a block; there is one block an SM.
    """

    kernel: str
    condition: str
    body: int = 64
    threads: int = 128

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"move/{self.kernel}"


def move_cases() -> tuple[MoveCase, ...]:
    """Return every case, the toggled operands first."""
    cases = []
    for kernel, positions in _POSITIONS.items():
        conditions = ["still", "a4", "a8", *(f"{one}16" for one in positions)]
        conditions += [*(f"{one}-random" for one in positions), "random"]
        cases += [MoveCase(kernel, one) for one in conditions]
    cases += [MoveCase("two_registers", "still")]
    cases += [MoveCase(kernel, one) for kernel in ("predicated", "divergent") for one in _TAKING_PART]
    cases += [MoveCase("chain", f"warps-{n}", threads=32 * n) for n in (4, 8, 16, 32)]
    cases += [MoveCase(f"body{n}", "still", body=n) for n in (1024, 4096, 10240)]
    return tuple(cases)


def input_words(case: MoveCase) -> Words:
    """Return the words of each thread: three operands, each alternating between two, and who takes part."""
    random = np.random.default_rng(_SEED)
    words = np.zeros((16, STRIDE), np.uint32)
    for at, position in enumerate("abc"):
        first, drawn = (_operand(case.kernel, position, random) for _ in range(2))
        other = first.copy()
        if case.condition in (f"{position}-random", "random"):
            other = drawn
        elif case.condition[:1] == position and case.condition[1:].isdigit():
            other[-1] ^= _flips(case.kernel, int(case.condition[1:]))
        pair = np.concatenate([first, other])
        words[at * len(pair) : (at + 1) * len(pair)] = pair
    if case.kernel != _DOUBLE:
        every = _TAKING_PART.get(case.condition, 1)
        words[6] = np.arange(STRIDE) % every == 0 if every else 0
    return words.reshape(-1)


def _operand(kernel: str, position: str, random: np.random.Generator) -> Words:
    """Return one operand of each thread, as its one or two words."""
    if kernel in ("imad", "lop3"):
        return random.integers(0, 1 << 32, (1, STRIDE), np.uint32)
    factor, summand = _SCALES.get(kernel, _FLOAT_SCALES)
    drawn = random.standard_normal(2 * STRIDE)
    values = summand * (1 + random.random(2 * STRIDE)) if position == "c" else factor * drawn
    if kernel == _DOUBLE:
        low_and_high = values[:STRIDE].view(np.uint32).reshape(-1, 2)
        return low_and_high.T[::-1].copy()
    if kernel == "hfma2":
        return np.clip(values, -4094, 4094).astype(np.float16).view(np.uint32)[None].copy()
    return values[:STRIDE].astype(np.float32).view(np.uint32)[None].copy()


def _flips(kernel: str, distance: int) -> np.uint32:
    """Return a word of so many bits, among those that may be flipped."""
    bits = [bit for bit in range(32) if _FLIPPED.get(kernel, 0xFFFFFFFF) >> bit & 1]
    chosen = np.random.default_rng(distance).choice(bits, distance, replace=False)
    return np.uint32(sum(1 << int(bit) for bit in chosen))


def all_cases() -> tuple[Case, ...]:
    """Return the cases as validate_kernels.py takes them, and the sleeping kernel."""
    import cuda_kernels
    from kernel_cases import Case
    from kernel_operands import ZEROS

    cases = [Case(one.name, one.condition, Purpose.FIT, _prepare(one)) for one in move_cases()]
    return (*cases, Case("sleep", ZEROS, Purpose.STATIC, cuda_kernels.sleep))


@cache
def _module() -> Any:
    import cupy

    return cupy.RawModule(code=COMMON.read_text() + SOURCE.read_text(), options=("--std=c++17",))


def _prepare(one: MoveCase) -> Callable[[str], Callable[[], object]]:
    def prepare(_: str) -> Callable[[], object]:
        import cupy

        kernel = _module().get_function(one.kernel)
        blocks = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        words, out = cupy.asarray(input_words(one)), cupy.empty(blocks * one.threads, cupy.uint32)
        rounds = cupy.int32(EXECUTED // one.body)
        return lambda: kernel((blocks,), (one.threads,), (words, out, rounds))

    return prepare
