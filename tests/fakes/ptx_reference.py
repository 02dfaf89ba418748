"""What a rendered kernel must compute, worked out in numpy from its own PTX text.

It knows the few instructions that the tests on a real GPU compare, and fails on any other that
touches a result.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ptxbench.ptx.operands import RECORD_BYTES, RECORDS

Words = npt.NDArray[np.uint32]

_LINE = re.compile(r" {4}(?P<opcode>[a-z][\w.:]*) +(?P<operands>.*);")
_BOOKKEEPING = ("%i", "%anchor", "%more", "%timer", "%cycle", "%thread", "%index", "%record", "%result")


def _float(words: Words) -> npt.NDArray[np.float64]:
    return words.view(np.float32).astype(np.float64)


def _words(values: npt.NDArray[np.float64]) -> Words:
    return values.astype(np.float32).view(np.uint32)


# The product of two floats of 24 bits is exact in double precision.
_OPERATIONS: dict[str, Callable[..., Words]] = {
    "add.u32": lambda a, b: a + b,
    "xor.b32": lambda a, b: a ^ b,
    "mad.lo.u32": lambda a, b, c: a * b + c,
    "add.f32": lambda a, b: _words(_float(a) + _float(b)),
    "fma.rn.f32": lambda a, b, c: _words(_float(a) * _float(b) + _float(c)),
}


def expected_output(
    ptx: str, entry: str, operands: npt.NDArray[np.uint8], threads: int, iterations: int
) -> Words:
    """Return the low four bytes of every thread's result, shape (threads,)."""
    body = _body(ptx, entry)
    prologue, _, rest = body.partition("again:\n")
    loop, _, epilogue = rest.partition("bra ")
    record = np.arange(threads) % RECORDS
    slots = operands.reshape(RECORDS, RECORD_BYTES)
    registers: dict[str, Words] = {}
    for opcode, (register, *address) in _instructions(prologue):
        if opcode.startswith("ld.global"):
            offset = int(address[0].removeprefix("[%record+").removesuffix("]"))
            registers[register] = slots[record, offset : offset + 4].copy().view(np.uint32)[:, 0]
    for _ in range(iterations):
        _execute(loop, registers)
    _execute(epilogue, registers)
    return registers["result"]


def _body(ptx: str, entry: str) -> str:
    begin = ptx.index(f".visible .entry {entry}(")
    return ptx[ptx.index("{\n", begin) : ptx.index("\n}\n", begin)]


def _instructions(text: str) -> list[tuple[str, list[str]]]:
    """Return opcode and operands of every line without a guard: guarded ones never happen here."""
    found = (_LINE.match(line) for line in text.splitlines())
    return [(m["opcode"], m["operands"].split(", ")) for m in found if m]


def _execute(text: str, registers: dict[str, Words]) -> None:
    for opcode, operands in _instructions(text):
        result, *sources = operands
        if opcode in _OPERATIONS and not result.startswith(_BOOKKEEPING):
            registers[result] = _OPERATIONS[opcode](*(registers[source] for source in sources))
        elif opcode.startswith("st.global") and result == "[%result]":
            registers["result"] = registers[sources[0]]
        elif not (
            result.startswith(_BOOKKEEPING) or result.startswith(("[%stamps", "%first")) or result == "0"
        ):
            raise AssertionError(f"no reference for {opcode} {', '.join(operands)}")
