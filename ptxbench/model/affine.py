"""What registers hold, as far as code tells: a sum of parameters times numbers, for each thread of a sample.

A value is c + sum_k a_k s_k, with s_k parameters of the kernel, and c and a_k a whole number for each thread.
Words are not cut at 32 bits: the low word of an address stands for all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ptxbench.core.arrays import Ints


@dataclass(frozen=True, eq=False)
class Affine:
    """One register of every thread of a sample.

    Attributes:
        constant: What is known of it, shape (threads,).
        terms: Its multiples of parameters, each of shape (threads,).
    """

    constant: Ints
    terms: Mapping[str, Ints] = field(default_factory=dict)

    @property
    def known(self) -> Ints | None:
        """The value itself, None where it depends on a parameter."""
        return None if self.terms else self.constant

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms[name] + factor if name in terms else factor
        return Affine(self.constant + other.constant, {n: f for n, f in terms.items() if f.any()})

    def times(self, factor: Ints) -> Affine:
        """Return it times a number for each thread."""
        terms = {name: own * factor for name, own in self.terms.items()}
        return Affine(self.constant * factor, {n: f for n, f in terms.items() if f.any()})

    def minus(self, other: Affine) -> Affine:
        """Return the difference of two values."""
        return self + other.times(np.full_like(other.constant, -1))

    def same(self, other: Affine) -> bool:
        """Return whether two values are equal for every thread."""
        return (
            self.terms.keys() == other.terms.keys()
            and np.array_equal(self.constant, other.constant)
            and all(np.array_equal(self.terms[name], other.terms[name]) for name in self.terms)
        )

    def at(self, parameter: int) -> Ints:
        """Return the numbers that come of one value for each parameter, times its place among them."""
        total = self.constant.copy()
        for place, name in enumerate(sorted(self.terms), 1):
            total += self.terms[name] * parameter * place
        return total


def product(a: Affine, b: Affine) -> Affine | None:
    """Return the product of two values, None where both depend on parameters."""
    if a.known is not None:
        return b.times(a.known)
    return a.times(b.known) if b.known is not None else None
