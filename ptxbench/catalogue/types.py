"""PTX value types as the catalogue names them, and the registers that hold them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PtxType:
    """One value type.

    Attributes:
        name: Such as "f16x2".
        register: PTX register type: pred, b16, b32, b64, f32 or f64.
        bits: Width of the value.
        scalar: Floating-point format of one lane (f16, bf16, tf32, f32, f64), or "" for integers and bits.
        lanes: Values in one register.
        signed: Whether integers are two's complement.
    """

    name: str
    register: str
    bits: int
    scalar: str = ""
    lanes: int = 1
    signed: bool = False


_TYPES = (
    PtxType("pred", "pred", 1),
    *(
        PtxType(f"{kind}{bits}", f"b{bits}", bits, signed=kind == "s")
        for bits in (16, 32, 64)
        for kind in "bus"
    ),
    PtxType("u16x2", "b32", 32, lanes=2),
    PtxType("s16x2", "b32", 32, lanes=2, signed=True),
    PtxType("f16", "b16", 16, "f16"),
    PtxType("bf16", "b16", 16, "bf16"),
    PtxType("f16x2", "b32", 32, "f16", lanes=2),
    PtxType("bf16x2", "b32", 32, "bf16", lanes=2),
    PtxType("tf32", "b32", 32, "tf32"),
    PtxType("f32", "f32", 32, "f32"),
    PtxType("f64", "f64", 64, "f64"),
    # 8-bit formats come in pairs; their bits are drawn as integers.
    PtxType("e4m3x2", "b16", 16, lanes=2),
    PtxType("e5m2x2", "b16", 16, lanes=2),
)
TYPES = {ptx_type.name: ptx_type for ptx_type in _TYPES}


@dataclass(frozen=True)
class Companion:
    """An instruction that makes the next chain value of a result.

    Attributes:
        opcode: What is printed.
        type: Type of all its operands.
        addend: Whether it has a third operand: op(value, m, n), else op(value, m).
    """

    opcode: str
    type: str
    addend: bool


_COMPANIONS = (
    *(Companion(f"mad.lo.{t}", t, addend=True) for t in ("u16", "u32", "u64")),
    *(Companion(f"fma.rn.{t}", t, addend=True) for t in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")),
    *(
        Companion(f"{op}.b{bits}", f"b{bits}", addend=False)
        for op in ("xor", "and", "or")
        for bits in (16, 32, 64)
    ),
    *(Companion(f"add.{t}", t, addend=False) for t in ("u16", "u32", "u64", "f16", "f16x2", "f32", "f64")),
    *(Companion(f"mul.{t}", t, addend=False) for t in ("f16", "f16x2", "f32", "f64")),
    Companion("shf.l.wrap.b32", "b32", addend=True),
    *(Companion(f"mul.lo.{t}", t, addend=False) for t in ("u16", "u32", "u64")),
)
COMPANIONS = {companion.opcode: companion for companion in _COMPANIONS}


def default_companion(type_name: str) -> str:
    """Return the multiply-add that mixes values of a type."""
    ptx_type = TYPES[type_name]
    if ptx_type.scalar == "tf32":
        return "fma.rn.f32"
    if ptx_type.scalar:
        return f"fma.rn.{type_name}"
    return f"mad.lo.u{max(ptx_type.bits, 16)}"
