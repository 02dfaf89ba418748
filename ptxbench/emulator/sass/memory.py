"""Memory of a launch, and the instructions that read and write it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError
from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.access import Space
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Read, Step
from ptxbench.emulator.sass.warp import among
from ptxbench.sass.operand import Kind
from ptxbench.sass.program import SassInstruction

_U8, _U32, _U64 = np.uint8, np.uint32, np.uint64
# Where arrays begin; windows of the generic address space that stand for shared and local memory lie below.
BASE = 0x7F00_0000_0000
_ALIGNED = 512
_PARTS = re.compile(r"\[([^\]]*)\]$")
_PART = re.compile(r"(?P<sign>-?)(?:(?P<name>U?R(?:\d+|Z))(?P<how>(?:\.\w+)*)|(?P<number>0x[0-9a-f]+))$")
_SCALES = {"X4": 2, "X8": 3, "X16": 4}
_NARROW: Mapping[str, Any] = {"U8": np.uint8, "S8": np.int8, "U16": np.uint16, "S16": np.int16}
# What a load or store says beside its width: where it is cached, and who sees it when.
_HINTS = {
    *("E", "CONSTANT", "STRONG", "WEAK", "GPU", "SM", "SYS", "CTA", "PRIVATE", "32", "64", "128"),
    *("EF", "EL", "LU", "EU", "NA", "LTC128B", "LTC64B", "LTC256B", "SCOPE", "U", "BYPASS", "ZFILL"),
}


class Memory:
    """Global memory as one array, and shared and local memory of the sample.

    Attributes:
        arena: Global memory from `BASE` on, bytes.
        shared: Shared memory of all blocks of the sample, one behind the other.
        local: Local memory of all lanes, one behind the other.
        shared_bytes: Of a block.
        local_bytes: Of a lane.
    """

    def __init__(
        self, global_bytes: int, blocks: int, shared_bytes: int, lanes: int, local_bytes: int
    ) -> None:
        def whole(size: int) -> npt.NDArray[np.uint8]:
            return np.zeros(-(-max(size, 16) // 16) * 16, _U8)

        self.arena = whole(global_bytes)
        self.shared_bytes = -(-shared_bytes // 16) * 16
        self.local_bytes = -(-local_bytes // 16) * 16
        self.shared = whole(blocks * self.shared_bytes)
        self.local = whole(lanes * self.local_bytes)
        self._next = 0

    @staticmethod
    def room(sizes: list[int]) -> int:
        """Return how many bytes arrays of these sizes take together."""
        return sum(-(-max(size, 1) // _ALIGNED) * _ALIGNED for size in sizes)

    def put(self, array: npt.NDArray[Any]) -> int:
        """Copy an array to global memory; return its address."""
        data = np.ascontiguousarray(array).reshape(-1).view(_U8)
        at = self._next
        self.arena[at : at + len(data)] = data
        self._next += self.room([len(data)])
        return BASE + at

    def get(self, address: int, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what an array holds now."""
        at = address - BASE
        found = self.arena[at : at + like.nbytes].view(like.dtype).reshape(like.shape)
        return found.copy()


@dataclass(frozen=True)
class Spaces:
    """Memory as a kernel's instructions see it.

    Attributes:
        memory: Of the launch.
        shared_base: Where a lane's block has its shared memory, shape (warps, 32), bytes.
        local_base: Where a lane has its local memory, the same.
        touched: Told of each access: which instruction, byte addresses from the begin of its space, bytes of
            a lane, lanes that take part, and the space.
    """

    memory: Memory
    shared_base: npt.NDArray[np.int64]
    local_base: npt.NDArray[np.int64]
    touched: Callable[[SassInstruction, Array, int, Array, Space], None] = field(default=lambda *_: None)


def _address(i: Bound, text: str, wide: bool) -> Callable[[], Array]:
    """Return how to compute a byte address as int64 of shape (warps, 32)."""
    inner = _PARTS.search(text)
    terms: list[Read] = []
    fixed = 0
    for part in (inner[1].split("+") if inner else [""]) if text else []:
        match = _PART.match(part.strip())
        if match is None:
            raise i.unknown()
        if match["number"]:
            fixed += int(match["sign"] + match["number"], 16)
            continue
        terms.append(_term(i, match["name"], match["how"].split(".")[1:], match["sign"], wide))
    shape, modulus = (i.registers.warps, WARP), np.int64(0xFFFFFFFF)

    def compute() -> Array:
        total = np.full((1, 1), fixed, np.int64)
        for term in terms:
            total = total + term()
        return np.broadcast_to(total if wide else total & modulus, shape)

    return compute


def _term(i: Bound, name: str, how: list[str], sign: str, wide: bool) -> Read:
    scale = next((_SCALES[one] for one in how if one in _SCALES), 0)
    if set(how) - {"64", "U32", "S32", "reuse"} - _SCALES.keys() or sign:
        raise i.unknown()
    low = i.register(name)
    if wide and "U32" not in how and "S32" not in how and name not in ("RZ", "URZ"):
        high = i.register(name, 1)
        return lambda: (low.astype(_U64) | high.astype(_U64) << _U64(32)).view(np.int64)
    if "S32" in how or not wide:
        return lambda: low.view(np.int32).astype(np.int64) << np.int64(scale)
    return lambda: low.astype(np.int64) << np.int64(scale)


class MemorySteps:
    """Makes the steps of loads, stores and atomics on the memory of a launch."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces

    def steps(self) -> Mapping[str, Callable[[Bound], Step]]:
        """Return them by the first word of the opcode."""
        return {
            **dict.fromkeys(("LDG", "LDS", "LDL", "LD"), self._load),
            **dict.fromkeys(("STG", "STS", "STL", "ST"), self._store),
            **dict.fromkeys(("ATOMS", "ATOMG", "ATOM", "RED", "REDG"), self._atomic),
            "LDC": self._load_constant,
            "LDSM": self._load_matrix,
            "LDGSTS": self._copy,
        }

    def _space(self, base: str) -> tuple[Space, npt.NDArray[np.uint8], Array | None, int, str]:
        """Return a space, its bytes, where each lane's begin, how many it has, and its name."""
        spaces, memory = self._spaces, self._spaces.memory
        if base in ("LDS", "STS", "ATOMS", "LDSM"):
            return Space.SHARED, memory.shared, spaces.shared_base, memory.shared_bytes, "shared memory"
        if base in ("LDL", "STL"):
            return Space.LOCAL, memory.local, spaces.local_base, memory.local_bytes, "local memory"
        return Space.GLOBAL, memory.arena, None, len(memory.arena), "its arrays"

    def _located(self, i: Bound, base: str, text: str, width: int) -> Callable[[Mask], tuple[Array, Array]]:
        """Return how to find the place of each lane's access in its space, in words of a width."""
        space, _, begins, size, name = self._space(base)
        wide = begins is None
        address, instruction = _address(i, text, wide), i.instruction
        touched, origin, warps = self._spaces.touched, np.int64(BASE if wide else 0), i.registers.warps

        def find(active: Mask) -> tuple[Array, Array]:
            lanes = among(active, warps)
            at = address()
            offset = at - origin
            wrong = lanes & ((offset < 0) | (offset > size - width) | (offset & (width - 1) != 0))
            if wrong.any():
                bad = int(at[wrong][0])
                raise InputError(
                    f"the kernel reaches beyond {name}, or between words: {instruction} at"
                    f" {instruction.address:#x} takes address {bad:#x}; give the launch's arrays and sizes"
                )
            offset = np.where(lanes, offset, 0)
            touched(instruction, offset, width, lanes, space)
            if begins is not None:
                offset = offset + begins
            return offset, lanes

        return find

    def _load(self, i: Bound) -> Step:
        width, narrow = _width(i)
        base, operands = i.instruction.base, i.operands
        address = next((one for one in operands if one.kind is Kind.ADDRESS), None)
        if address is None or operands[0].kind not in (Kind.REGISTER, Kind.ZERO):
            raise i.unknown()
        data = self._space(base)[1]
        find = self._located(i, base, address.text, width)
        if narrow is not None:
            words, write = data.view(narrow), i.writer(operands[0])
            small = width.bit_length() - 1

            def step_narrow(active: Mask) -> None:
                offset, _ = find(active)
                write(words[offset >> small].astype(np.int64).astype(_U32), active)

            return step_narrow
        count, plain = width // 4, data.view(_U32)
        writes = [i.writer_behind(operands[0], n) for n in range(count)]

        def step(active: Mask) -> None:
            offset, _ = find(active)
            place = offset >> 2
            values = [plain[place + n] if n else plain[place] for n in range(count)]
            for write, value in zip(writes, values, strict=True):
                write(value, active)

        return step

    def _store(self, i: Bound) -> Step:
        width, narrow = _width(i)
        base = i.instruction.base
        data = self._space(base)[1]
        find = self._located(i, base, i.operands[0].text, width)
        operand, shape = i.operands[1], (i.registers.warps, WARP)
        kind: Any = narrow or _U32
        words = data.view(kind)
        size = np.dtype(kind).itemsize
        sources = [i.held(operand, n) for n in range(max(width // 4, 1))]

        def step(active: Mask) -> None:
            offset, lanes = find(active)
            place = offset[lanes] // size
            for n, source in enumerate(sources):
                value = np.broadcast_to(source, shape)[lanes]
                words[place + n] = value if narrow is None else value.astype(kind)

        return step

    def _atomic(self, i: Bound) -> Step:
        """ATOM, RED and their kin, lane by lane where the old value is wanted."""
        given = [one for one in i.words if one in _ATOMICS or one in _KINDS]
        how = next((one for one in given if one in _ATOMICS), "")
        if not how or set(i.words) - _HINTS - {*given, "FTZ", "RN", "POPC"}:
            raise i.unknown()
        kind = _KINDS[next((one for one in given if one in _KINDS), "64" if "64" in i.words else "U32")]
        if "64" in i.words and np.dtype(kind).itemsize == 4:
            raise i.unknown()
        space = "ATOMS" if i.instruction.base == "ATOMS" else "LDG"
        width = np.dtype(kind).itemsize
        data = self._space(space)[1].view(kind)
        at = next(n for n, one in enumerate(i.operands) if one.kind is Kind.ADDRESS)
        find = self._located(i, space, i.operands[at].text, width)
        wanted = [one for one in i.operands[:at] if one.kind is Kind.REGISTER]
        reads: list[Read] = [
            i.pair(one) if width == 8 else i.word(one)
            for one in i.operands[at + 1 :]
            if how != "CAS" or not one.lost
        ]
        if how == "INC" and "POPC" in i.words:
            ones, how = np.ones((1, 1), _U32), "ADD"
            reads = [lambda: ones]
        shape, combine, fold = (i.registers.warps, WARP), _ATOMICS[how], _FOLDS.get(how)
        write = (i.pair_writer if width == 8 else i.writer)(wanted[0]) if wanted else None

        def step(active: Mask) -> None:
            offset, lanes = find(active)
            place = offset[lanes] // width
            values = [np.broadcast_to(read().view(kind), shape)[lanes] for read in reads]
            if fold is not None and write is None:
                fold.at(data, place, values[0])
                return
            old = np.zeros(len(place), kind)
            for n, where in enumerate(place):
                old[n] = data[where]
                data[where] = combine(data[where], *(one[n] for one in values))
            if write is not None:
                found = np.zeros(shape, kind)
                found[lanes] = old
                write(found.view(_U64 if width == 8 else _U32), active)

        return step

    def _load_constant(self, i: Bound) -> Step:
        if set(i.words) - {"64", "U8", "S8", "U16", "S16"}:
            raise i.unknown()
        bank, index, offset = i.indexed(i.operands[1].text)
        narrow = next((_NARROW[one] for one in i.words if one in _NARROW), None)
        count = 2 if "64" in i.words else 1
        writes = [i.writer_behind(i.operands[0], n) for n in range(count)]
        kind: Any = narrow or _U32
        words = bank[: len(bank) // 4 * 4].view(kind)
        size = np.dtype(kind).itemsize
        if index is None and narrow is None:
            fixed = [words[offset // 4 + n].reshape(1, 1) for n in range(count)]

            def step_fixed(active: Mask) -> None:
                for write, value in zip(writes, fixed, strict=True):
                    write(value, active)

            return step_fixed
        own = index if index is not None else np.zeros((1, 1), _U32)

        def step(active: Mask) -> None:
            place = np.minimum((own.view(np.int32).astype(np.int64) + offset) // size, len(words) - count)
            for n, write in enumerate(writes):
                write(words[np.maximum(place, 0) + n].astype(np.int64).astype(_U32), active)

        return step

    def _load_matrix(self, i: Bound) -> Step:
        """LDSM: each lane names a row of eight halves, and gets two of one row."""
        words = i.words
        count = {"1": 1, "2": 2, "4": 4}.get(words[-1] if words else "", 1)
        turned = "MT88" in words
        if set(words) - {"16", "M88", "MT88", "1", "2", "4"}:
            raise i.unknown()
        find = self._located(i, "LDSM", i.operands[1].text, 16)
        halves = self._spaces.memory.shared.view(np.uint16)
        writes = [i.writer_behind(i.operands[0], n) for n in range(count)]
        rows, columns = np.arange(WARP) // 4, 2 * (np.arange(WARP) % 4)

        def step(active: Mask) -> None:
            offset, _ = find(active)
            for n, write in enumerate(writes):
                begins = (offset[:, 8 * n : 8 * n + 8] >> 1)[:, :, None] + np.arange(8)
                matrix = halves[begins]
                if turned:
                    matrix = matrix.transpose(0, 2, 1)
                low, high = matrix[:, rows, columns], matrix[:, rows, columns + 1]
                write(low.astype(_U32) | high.astype(_U32) << _U32(16), active)

        return step

    def _copy(self, i: Bound) -> Step:
        """LDGSTS: from global to shared memory; it arrives at once."""
        width = 16 if "128" in i.words else 8 if "64" in i.words else 4
        if set(i.words) - _HINTS or len(i.operands) > 3:
            raise i.unknown()
        to = self._located(i, "STS", i.operands[0].text, width)
        source = self._located(i, "LDG", i.operands[1].text, width)
        out, data = self._spaces.memory.shared.view(_U32), self._spaces.memory.arena.view(_U32)

        def step(active: Mask) -> None:
            (target, lanes), (offset, _) = to(active), source(active)
            for n in range(width // 4):
                out[(target[lanes] >> 2) + n] = data[(offset[lanes] >> 2) + n]

        return step


def _width(i: Bound) -> tuple[int, Any]:
    """Return the bytes of a lane's access, and its type where it has fewer than four."""
    narrow = next((_NARROW[one] for one in i.words if one in _NARROW), None)
    if set(i.words) - _HINTS - _NARROW.keys():
        raise i.unknown()
    if narrow is not None:
        return np.dtype(narrow).itemsize, narrow
    return (16 if "128" in i.words else 8 if "64" in i.words else 4), None


_KINDS: Mapping[str, Any] = {
    "U32": np.uint32,
    "S32": np.int32,
    "F32": np.float32,
    "U64": np.uint64,
    "S64": np.int64,
    "F64": np.float64,
    "64": np.uint64,
}
_FOLDS: Mapping[str, np.ufunc] = {
    "ADD": np.add,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
}
_ATOMICS: Mapping[str, Callable[..., Any]] = {
    **{name: lambda old, new, fold=fold: fold(old, new) for name, fold in _FOLDS.items()},
    "EXCH": lambda _, new: new,
    "INC": lambda old, most: 0 if old >= most else old + 1,
    "DEC": lambda old, most: most if old == 0 or old > most else old - 1,
    "CAS": lambda old, compared, new: new if old == compared else old,
}
