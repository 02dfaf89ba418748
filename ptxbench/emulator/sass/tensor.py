"""Products on tensor cores, of a warp's fragments (PTX manual, "Matrix fragments for mma").

Sums are taken in f64 and rounded to f32: the hardware cuts digits off in an order that nobody has published,
so the last bits may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.halves import narrowed, widened
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Step
from ptxbench.sass.operand import Kind, Operand

_U32 = np.uint32
_GROUP, _MEMBER = np.arange(WARP) // 4, np.arange(WARP) % 4
# Depth of a product of 16 rows by 8 columns, by its name in SASS.
_DEPTHS = {"16816": 16, "1688": 8, "1684": 4, "16832": 32}
_BYTES = {"S8": np.int8, "U8": np.uint8}


def _registers(i: Bound, operand: Operand, count: int) -> list[Array]:
    shape = (i.registers.warps, WARP)
    if operand.kind not in (Kind.REGISTER, Kind.ZERO) or operand.negative:
        raise i.unknown()
    return [np.broadcast_to(i.held(operand, n), shape) for n in range(count)]


def _elements(words: Array, width: int) -> Array:
    """Return the elements of words, shape (warps, 32, elements), the lowest first."""
    parts = np.ascontiguousarray(words).view({1: np.uint8, 2: np.uint16, 4: np.uint32}[width])
    return parts.reshape(*words.shape, 4 // width)


def _matrices(
    first: Sequence[Array], second: Sequence[Array], depth: int, width: int, read: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Return a (warps, 16, depth) and b (warps, depth, 8) of the fragments of all lanes."""
    each = 4 // width
    warps = first[0].shape[0]
    a = np.empty((warps, 16, depth), np.float64)
    b = np.empty((warps, depth, 8), np.float64)
    columns = _MEMBER[:, None] * each + np.arange(each)
    for number, words in enumerate(first):
        rows, block = _GROUP + 8 * (number % 2), number // 2
        a[:, rows[:, None], columns + 4 * each * block] = read(_elements(words, width))
    for number, words in enumerate(second):
        b[:, columns + 4 * each * number, _GROUP[:, None]] = read(_elements(words, width))
    return a, b


def _sum_places(number: int) -> tuple[Array, Array]:
    """Return row and column of a lane's nth element of the sum."""
    return _GROUP + 8 * (number // 2), 2 * _MEMBER + number % 2


def _half_product(i: Bound) -> Step:
    """HMMA."""
    words = i.words
    depth = _DEPTHS.get(words[0]) if words else None
    if depth is None or set(words[1:]) - {"F32", "F16", "BF16", "TF32"} or len(i.operands) != 4:
        raise i.unknown()
    wide, to_half = "TF32" in words, words[1:] == ["F16"]
    width = 4 if wide else 2
    count = depth * width // 16
    a, b = _registers(i, i.operands[1], 2 * count), _registers(i, i.operands[2], count)
    c = _registers(i, i.operands[3], 2 if to_half else 4)
    writes = [i.writer_behind(i.operands[0], n) for n in range(len(c))]
    brain = "BF16" in words

    def read(parts: Array) -> Array:
        if wide:
            return (parts & _U32(0xFFFFE000)).view(np.float32).astype(np.float64)
        return widened(parts, brain)

    def step(active: Mask) -> None:
        left, right = _matrices(a, b, depth, width, read)
        total = left @ right
        if to_half:
            for number, (write, old) in enumerate(zip(writes, c, strict=True)):
                rows, columns = _GROUP + 8 * number, 2 * _MEMBER
                old_values = widened(_elements(old, 2), False)
                new = np.stack([total[:, rows, columns], total[:, rows, columns + 1]], axis=-1) + old_values
                bits = narrowed(new, False)
                write(bits[..., 0] | bits[..., 1] << _U32(16), active)
            return
        for number, (write, old) in enumerate(zip(writes, c, strict=True)):
            rows, columns = _sum_places(number)
            new = total[:, rows, columns] + old.view(np.float32)
            write(new.astype(np.float32).view(_U32), active)

    return step


def _byte_product(i: Bound) -> Step:
    """IMMA of bytes."""
    words = i.words
    depth = _DEPTHS.get(words[0]) if words else None
    kinds = [one for one in words[1:] if one in _BYTES]
    if depth not in (16, 32) or len(kinds) != 2 or len(words) != 3:
        raise i.unknown()
    operands = [Operand(one.text, one.kind, one.name, one.negative) for one in i.operands[1:4]]
    count = depth // 16
    a, b, c = (_registers(i, one, n) for one, n in zip(operands, (2 * count, count, 4), strict=True))
    writes = [i.writer_behind(i.operands[0], n) for n in range(4)]

    def typed(kind: str) -> Callable[[Array], Array]:
        return lambda parts: parts.view(_BYTES[kind])

    def step(active: Mask) -> None:
        left, _ = _matrices(a, b, depth, 1, typed(kinds[0]))
        _, right = _matrices(a, b, depth, 1, typed(kinds[1]))
        total = (left @ right).astype(np.int64)
        for number, (write, old) in enumerate(zip(writes, c, strict=True)):
            rows, columns = _sum_places(number)
            new = total[:, rows, columns] + old.view(np.int32)
            write((new & 0xFFFFFFFF).astype(_U32), active)

    return step


def _double_product(i: Bound) -> Step:
    """DMMA of 8 x 8 x 4."""
    if i.words != ["884"] and i.words != ["8x8x4"]:
        raise i.unknown()
    a, b = i.double(i.operands[1]), i.double(i.operands[2])
    c = [i.double(i.operands[3])]
    second = Operand(i.operands[3].text, i.operands[3].kind, f"R{int(i.operands[3].name[1:]) + 2}")
    c.append(i.double(second))
    outs = [i.operands[0], Operand("", Kind.REGISTER, f"R{int(i.operands[0].name[1:]) + 2}")]
    writes = [i.pair_writer(one) for one in outs]
    warps = i.registers.warps

    def step(active: Mask) -> None:
        left, right = np.empty((warps, 8, 4)), np.empty((warps, 4, 8))
        left[:, _GROUP, _MEMBER], right[:, _MEMBER, _GROUP] = a(), b()
        total = left @ right
        results = [total[:, _GROUP, 2 * _MEMBER + n] + read() for n, read in enumerate(c)]
        for write, result in zip(writes, results, strict=True):
            write(result.view(np.uint64), active)

    return step


STEPS: Mapping[str, Callable[[Bound], Step]] = {
    "HMMA": _half_product,
    "IMMA": _byte_product,
    "DMMA": _double_product,
}
