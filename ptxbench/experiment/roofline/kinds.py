"""Kinds of flop, and memory levels: what a kernel of a set intensity computes with, and loads from."""

from __future__ import annotations

from dataclasses import dataclass

# Above and below 1, their product under 1: no chain settles, none grows.
_FACTORS = (1.3714159, -0.6127183, 1.1318281, -0.7345904)
# 1/8 to 512 flop/byte in steps of the square root of two; tensor cores need eight times as much.
_INTENSITIES = tuple(2 ** (n / 2) for n in range(-6, 19))
_TENSOR_INTENSITIES = tuple(2 ** (n / 2) for n in range(-6, 25))


@dataclass(frozen=True)
class MatrixShape:
    """The registers of a lane in one product of a warp's matrices, D = A B + D.

    Attributes:
        a: Elements of A.
        b: Elements of B.
        d: Registers of D.
        register: PTX type of D's registers.
    """

    a: int
    b: int
    d: int
    register: str


@dataclass(frozen=True)
class FlopKind:
    """One kind of multiply-add.

    Attributes:
        name: Such as "f32".
        opcode: PTX.
        register: PTX type of a register that is loaded.
        element_bytes: Bytes of one register.
        flops: Flops of one multiply-add and thread.
        sass: Mnemonic of the machine instruction.
        random: Bits that are random and bits that are set, of even and of odd 32-bit words: signed values
            from 1 to 2.
        matrix: Of a product on tensor cores; None: each thread computes by itself.
        min_target: Lowest compute capability times ten that has it.
    """

    name: str
    opcode: str
    register: str
    element_bytes: int
    flops: int
    sass: str
    random: tuple[int, int, int, int]
    matrix: MatrixShape | None = None
    min_target: int = 75

    @property
    def threads(self) -> int:
        """Threads of a block: products of matrices need more registers each."""
        return 512 if self.matrix else 1024

    @property
    def intensities(self) -> tuple[float, ...]:
        """Intensities that are measured unless others are named, flop/byte."""
        return _TENSOR_INTENSITIES if self.matrix else _INTENSITIES

    def factors(self, pattern: str) -> tuple[int, ...]:
        """Return the multipliers as 32-bit words, lower before upper, shape (8,)."""
        if pattern == "zeros":
            return (0,) * 8
        import numpy as np

        if self.element_bytes == 8:
            words = np.array(_FACTORS, np.float64).view(np.uint32)
        elif self.name == "f32":
            words = np.repeat(np.array(_FACTORS, np.float32).view(np.uint32), 2)
        else:
            halves = np.array(_FACTORS, np.float16).view(np.uint16).astype(np.uint32)
            words = np.repeat(halves | halves << 16, 2)
        return tuple(int(word) for word in words)

    def fill(self, pattern: str) -> tuple[int, int, int, int]:
        """Return mask and base of even, then of odd words of the array."""
        return (0, 0, 0, 0) if pattern == "zeros" else self.random


_F32 = (0x807FFFFF, 0x3F800000)
_F16 = (0x83FF83FF, 0x3C003C00)
_BF16 = (0x807F807F, 0x3F803F80)
_F64 = (0xFFFFFFFF, 0, 0x800FFFFF, 0x3FF00000)
_FOUR_TWO_FOUR = MatrixShape(4, 2, 4, "f32")
KINDS = {
    kind.name: kind
    for kind in (
        FlopKind("f32", "fma.rn.f32", "f32", 4, 2, "FFMA", _F32 * 2),
        FlopKind("f64", "fma.rn.f64", "f64", 8, 2, "DFMA", _F64),
        FlopKind("f16x2", "fma.rn.f16x2", "b32", 4, 4, "HFMA2", _F16 * 2),
        FlopKind(
            "mma-f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            "b32", 4, 128, "HMMA", _F16 * 2, _FOUR_TWO_FOUR, 80,
        ),
        FlopKind(
            "mma-bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
            "b32", 4, 128, "HMMA", _BF16 * 2, _FOUR_TWO_FOUR, 80,
        ),
        FlopKind(
            "mma-tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
            "b32", 4, 64, "HMMA", _F32 * 2, _FOUR_TWO_FOUR, 80,
        ),
        FlopKind(
            "mma-f64", "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
            "f64", 8, 32, "DMMA", _F64, MatrixShape(2, 1, 4, "f64"), 90,
        ),
    )
}  # fmt: skip
# No flop: each load gives the address of the next (Choi and Vuduc 2012, section 4.3).
CHASE = FlopKind("chase", "", "b64", 8, 0, "", (0,) * 4)


@dataclass(frozen=True)
class MemoryLevel:
    """Where a kernel loads from.

    Attributes:
        name: Such as "dram".
        load: PTX of a load, without its width and type.
        sass: Mnemonic of the machine instruction.
        passes_by_l1: Whether the machine instruction must be one that no L1 serves.
        in_sm: Whether the bytes are in the SM: a warp's range is then as large as what it loads in a trip.
    """

    name: str
    load: str
    sass: str
    passes_by_l1: bool = False
    in_sm: bool = False

    @property
    def code(self) -> str:
        """What is part of a kernel's name: levels with the same machine code have the same."""
        return f"-{self.name}" if self.in_sm else ""


LEVELS = {
    level.name: level
    for level in (
        MemoryLevel("dram", "ld.global.cg", "LDG", passes_by_l1=True),
        MemoryLevel("l2", "ld.global.cg", "LDG", passes_by_l1=True),
        MemoryLevel("l1", "ld.global.ca", "LDG", in_sm=True),
        MemoryLevel("shared", "ld.shared", "LDS", in_sm=True),
    )
}
