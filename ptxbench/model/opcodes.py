"""Functional classes of SASS opcodes, and how alike two opcodes are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from itertools import takewhile


class OpcodeClass(StrEnum):
    """What part of an SM mainly works when an opcode is executed."""

    FP32 = "fp32"
    FP64 = "fp64"
    HALF = "half"
    TENSOR = "tensor"
    SPECIAL = "special"
    MULTIPLY = "integer multiply"
    INTEGER = "integer"
    MOVE = "move"
    CONVERT = "convert"
    UNIFORM = "uniform"
    CONTROL = "control"
    WARP = "warp"
    SHARED = "shared memory"
    CONSTANT = "constant memory"
    GLOBAL = "global memory"
    ATOMIC = "atomic"
    SHARED_ATOMIC = "atomic in shared memory"
    COPY = "asynchronous copy"
    BYTES = "bytes"
    OTHER = "other"


_BASES = {
    OpcodeClass.FP32: "FFMA FADD FMUL FSETP FSEL FMNMX FCHK FSWZADD FSET FFMA2 FADD2 FMUL2 FMNMX3",
    OpcodeClass.FP64: "DFMA DADD DMUL DSETP DMNMX DSET",
    OpcodeClass.HALF: "HFMA2 HADD2 HMUL2 HSETP2 HMNMX2 HSET2 HFMA2_MMA VHMNMX",
    OpcodeClass.TENSOR: "HMMA IMMA DMMA QMMA BMMA HGMMA IGMMA QGMMA BGMMA OMMA UTCHMMA UTCQMMA UTCIMMA",
    OpcodeClass.SPECIAL: "MUFU POPC FLO BREV",
    OpcodeClass.MULTIPLY: "IMAD IDP IMUL IDP4A XMAD",
    OpcodeClass.INTEGER: (
        "IADD3 IADD LOP3 ISETP IMNMX VIMNMX VIADD VIADDMNMX LEA SHF SHL SHR PLOP3 BMSK SGXT IABS LOP VIMNMX3"
        " SCADD ISCADD BFE BFI VABSDIFF VABSDIFF4 VIADD2 VIMNMX2"
    ),
    OpcodeClass.MOVE: "MOV SEL PRMT P2R R2P CS2R S2R S2UR R2UR MOVM LEPC SETLMEMBASE GETLMEMBASE MOV32I",
    OpcodeClass.CONVERT: "I2F F2I F2F FRND I2I F2FP I2FP F2IP I2IP",
    OpcodeClass.CONTROL: (
        "BRA BRX JMP JMX CALL RET EXIT BSSY BSYNC BREAK BMOV WARPSYNC YIELD NOP DEPBAR NANOSLEEP KILL BPT"
        " BAR WARPGROUP LDGDEPBAR CCTL ERRBAR MEMBAR FENCE ELECT SETMAXREG USETMAXREG ACQBULK RELBULK PREEXIT"
        " CGAERRBAR ENDCOLLECTIVE WARPGROUPSET CCTLL CCTLT"
    ),
    OpcodeClass.WARP: "SHFL VOTE MATCH REDUX VOTEU",
    OpcodeClass.SHARED: "LDS STS LDSM STSM",
    OpcodeClass.CONSTANT: "LDC",
    OpcodeClass.GLOBAL: "LDG STG LD ST LDL STL TEX TLD TLD4 TXD TXQ SULD SUST",
    # L2 executes these, the SM those in shared memory.
    OpcodeClass.ATOMIC: "ATOM ATOMG RED REDG SUATOM SURED",
    OpcodeClass.SHARED_ATOMIC: "ATOMS REDAS",
    OpcodeClass.COPY: (
        "LDGSTS UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAPF UTMAREDG UTMACCTL UTMACMDFLUSH SYNCS ARRIVES"
    ),
}
# A byte from L2 or DRAM stands beside the opcodes of a kernel as if it were one of them.
BYTE = "BYTE"
_BASES[OpcodeClass.BYTES] = BYTE
_CLASS_OF = {base: kind for kind, bases in _BASES.items() for base in bases.split()}


# What a warp executes once, whatever its threads do, and what part of another opcode's energy a thread is
# charged for it where none was measured: on an H200 the four of an overhead loop (UIADD3, BAR, ISETP, BRA)
# have about 7 pJ between them, where other opcodes have a median of 14.
ONCE_A_WARP = frozenset({OpcodeClass.CONTROL, OpcodeClass.UNIFORM})
ONCE_A_WARP_SHARE = 0.125


_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@cache
def opcode_class(opcode: str) -> OpcodeClass:
    """Return the class of an opcode with modifiers, such as "IMAD.WIDE.U32"."""
    base, _, modifiers = opcode.partition(".")
    if base in _CLASS_OF:
        # A multiply-add that only moves, adds or shifts is written IMAD.MOV, IMAD.IADD and IMAD.SHL.
        if base == "IMAD" and modifiers.partition(".")[0] == "MOV":
            return OpcodeClass.MOVE
        return _CLASS_OF[base]
    return OpcodeClass.UNIFORM if base.startswith("U") else OpcodeClass.OTHER


def nearest(opcode: str, others: Iterable[str]) -> list[str]:
    """Return those of the others that are most like an opcode; none where no mnemonic is the same.

    First counts how many leading words they share (2 for IMAD.WIDE.U32 and IMAD.WIDE), then how few other
    words either has: FFMA is nearer to FFMA.FTZ than FFMA.RM is.
    """
    words = opcode.split(".")
    same = [other for other in others if other.partition(".")[0] == words[0]]
    keys = {other: _likeness(words, other.split(".")) for other in same}
    best = max(keys.values(), default=(0, 0))
    return [other for other, key in keys.items() if key == best]


def _likeness(words: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Return how many leading words two opcodes share, and less than zero by how many words they differ."""
    leading = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(words, others, strict=False))))
    return leading, -len(set(words) ^ set(others))


def operand_words(opcode: str) -> int:
    """Return how many registers of 32 bits an operand of an opcode takes: 2 for FP64, else 1."""
    return 2 if opcode_class(opcode) is OpcodeClass.FP64 else 1


def width_bytes(opcode: str) -> int:
    """Return how many bytes a load or a store moves for a thread: 16 for LDS.128, 4 where nothing is said."""
    return next((_WIDTHS[word] for word in opcode.split(".") if word in _WIDTHS), 4)
