"""Opcodes and their counts as text."""

from __future__ import annotations

from collections.abc import Iterable


def counts_text(counts: Iterable[tuple[str, float]]) -> str:
    """Return opcodes and their counts for one copy, such as "FFMA" or "HFMA2*0.5 HFMA2.MMA*0.5"."""
    return " ".join(opcode if count == 1 else f"{opcode}*{count:.4g}" for opcode, count in counts)
