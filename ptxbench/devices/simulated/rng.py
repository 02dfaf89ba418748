"""Numbers that look random but are the same on every machine and in every process."""

from __future__ import annotations

import hashlib
from statistics import NormalDist

_MASK = (1 << 64) - 1
_STANDARD_NORMAL = NormalDist()


def hashed_integer(*words: str) -> int:
    """Return 64 bits that depend on nothing but `words`."""
    digest = hashlib.sha256("/".join(words).encode()).digest()
    return int.from_bytes(digest[:8], "big")


def hashed_unit(*words: str) -> float:
    """Return a number in [0, 1) that depends on nothing but `words`."""
    return (hashed_integer(*words) >> 11) / (1 << 53)


def hashed_normal(*words: str) -> float:
    """Return a standard normal value that depends on nothing but `words`."""
    # Half a step above the grid of 2^-53 keeps both ends of (0, 1) open.
    return _STANDARD_NORMAL.inv_cdf((hashed_unit(*words) * (1 << 53) + 0.5) / (1 << 53))


def tick_normal(seed: int, tick: int) -> float:
    """Return a standard normal value for one tick, in any order of asking (splitmix64)."""
    state = (seed + tick * 0x9E3779B97F4A7C15) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    state ^= state >> 31
    # Half a step above the grid of 2^-53 keeps both ends of (0, 1) open.
    return _STANDARD_NORMAL.inv_cdf(((state >> 12) + 0.5) / (1 << 52))
