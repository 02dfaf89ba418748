"""What each SASS opcode costs, by a run, and the substitute for an opcode that the run did not measure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from statistics import median, quantiles
from types import MappingProxyType

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.wrap import first_of
from ptxbench.model.opcodes import (
    BYTE,
    ONCE_A_WARP,
    ONCE_A_WARP_SHARE,
    OpcodeClass,
    nearest,
    opcode_class,
    operand_words,
    width_bytes,
)
from ptxbench.model.solution import SURE
from ptxbench.model.tensor import multiply_adds, tensor_kind
from ptxbench.model.work import Level
from ptxbench.model.zeros import ActivityRatios, shipped_ratios

RANDOM, ZEROS = "random", "zeros"
# Where a run has too few opcodes to see how far a stand-in is off, it is taken to be off by this.
_UNKNOWN_FILL = 0.5
_MIN_SEEN = 3
# Loads and stores, whose energy in a table holds that of the bytes which the measured loop moved.
_MOVERS = (OpcodeClass.GLOBAL, OpcodeClass.SHARED)


class Rule(StrEnum):
    """How an opcode's energy was found."""

    ROW = "a row of its own"
    TOGETHER = "rows that have it with other opcodes"
    MEASURED = "measured"
    WEAK = "measured only together with other opcodes"
    SCALED = "same kind of another shape, by multiply-adds"
    MODIFIERS = "same opcode with other modifiers"
    CLASS = "median of its class"
    ALL = "median of all opcodes (an eighth for what a warp executes once)"


MEASURED_RULES = frozenset({Rule.ROW, Rule.TOGETHER, Rule.MEASURED})


@dataclass(frozen=True)
class OpcodeEnergy:
    """Energy of one execution by one thread.

    Attributes:
        energy_pj: At the requested activity.
        error_pj: Standard error.
        rule: How it was found.
        source: What opcodes it was taken from; "" where the opcode itself was measured.
    """

    energy_pj: float
    error_pj: float
    rule: Rule
    source: str


@dataclass(frozen=True)
class Known:
    """Energy of one opcode on one operand pattern in a run, pJ a thread.

    Attributes:
        energy_pj: Energy.
        error_pj: Standard error.
    """

    energy_pj: float
    error_pj: float

    @property
    def sure(self) -> bool:
        """Whether the run determines it, so that it may stand in for others."""
        return self.error_pj < SURE * self.energy_pj


class OpcodeEnergies:
    """The energies of SASS opcodes, from a run.

    Args:
        random: Energies on random operands, by opcode.
        zeros: Energies on zeros; what it lacks is taken at the ratio to random operands of opcodes like it,
            by this run where it has such, else by those that come with ptxbench (`shipped_ratios`).
        measured: The run as it was measured, where these energies are derived from it: it says which opcodes
            it determines, and how far stand-ins are off.
        rules: How opcodes were found that rows tell; the others are by loops of the run.
        warp_shares: The part of a whole warp's energy that opcodes have whatever its lanes do; that of others
            is the median of their class, or of all.
        own_rows: Opcodes that a row measures, loads and stores among them, whose rows have their bytes.

    Raises:
        InputError: `random` is empty.
    """

    def __init__(
        self,
        random: Mapping[str, Known],
        zeros: Mapping[str, Known],
        measured: OpcodeEnergies | None = None,
        rules: Mapping[str, Rule] = MappingProxyType({}),
        warp_shares: Mapping[str, float] = MappingProxyType({}),
        own_rows: frozenset[str] = frozenset(),
    ) -> None:
        if not random:
            raise InputError(
                "the run has no valid dynamic trial on random operands, so no opcode has an energy"
            )
        self.random = dict(random)
        self.zeros = dict(zeros)
        self.rules: Mapping[str, Rule] = measured.rules if measured else rules
        self.warp_shares: Mapping[str, float] = measured.warp_shares if measured else warp_shares
        self.own_rows: frozenset[str] = measured.own_rows if measured else own_rows
        self._measured = measured or self
        self._zeros_ratios: dict[str, float] = {}
        self._energies: dict[tuple[str, float], OpcodeEnergy] = {}
        told = [op for op, known in random.items() if known.energy_pj > 0]
        sure = [op for op in told if random[op].sure or rules.get(op) is Rule.ROW]
        self._sure: list[str] = measured._sure if measured else sure or list(random)

    def energy(self, opcode: str, activity: float) -> OpcodeEnergy:
        """Return an opcode's energy at an activity between 0 (zeros) and 1 (random)."""
        asked = opcode, activity
        if asked not in self._energies:
            self._energies[asked] = self._energy(opcode, activity)
        return self._energies[asked]

    def _energy(self, opcode: str, activity: float) -> OpcodeEnergy:
        rule, sources = self._stand_ins(opcode)
        energy_pj = self._predicted(opcode, rule, sources, activity)
        if rule in (Rule.ROW, Rule.TOGETHER, Rule.MEASURED, Rule.WEAK):
            return OpcodeEnergy(energy_pj, self._error_pj(opcode, activity), rule, "")
        return OpcodeEnergy(energy_pj, self.fill_errors[rule] * energy_pj, rule, first_of(sources, 3))

    @cached_property
    def fill_errors(self) -> Mapping[Rule, float]:
        """How far each rule is off, relative: two thirds of the measured opcodes are predicted better.

        Each measured opcode is predicted as if it alone were missing.
        """
        if self._measured is not self:
            return self._measured.fill_errors
        off: dict[Rule, list[float]] = {rule: [] for rule in Rule}
        for opcode in self._sure:
            others = [other for other in self._sure if other != opcode]
            for rule, sources in _candidates(opcode, others):
                if sources:
                    predicted_pj = self._predicted(opcode, rule, sources, 1.0)
                    off[rule].append(abs(predicted_pj / self.random[opcode].energy_pj - 1))
        return {
            rule: _two_thirds(seen) if len(seen) >= _MIN_SEEN else _UNKNOWN_FILL for rule, seen in off.items()
        }

    def warp_share(self, opcode: str) -> float:
        """Return the part of a whole warp's energy that an opcode has whatever its lanes do; 0 if unknown."""
        if opcode not in self.warp_shares:
            kind = opcode_class(opcode)
            alike = [s for op, s in self.warp_shares.items() if opcode_class(op) is kind]
            return median(alike or list(self.warp_shares.values()) or [0.0])
        return self.warp_shares[opcode]

    def beside(self, levels: Collection[Level]) -> OpcodeEnergies:
        """Return the opcode energies without that of the bytes of some memory levels.

        Where these are those of L1 and of shared memory, too, a load or a store costs what is left of a load
        of its class at no byte at all, by a line through its widths. What one that reaches L2 or DRAM takes
        more is its bytes, too, and a store to global memory always reaches L2.
        """
        return self._without_bytes if {Level.L1, Level.SHARED} <= set(levels) else self

    @cached_property
    def _without_bytes(self) -> OpcodeEnergies:
        random, zeros = dict(self.random), dict(self.zeros)
        for known in (random, zeros):
            for kind in _MOVERS:
                alike = {o: one for o, one in known.items() if opcode_class(o) is kind}
                told = {
                    o: one
                    for o, one in alike.items()
                    if o.startswith("LD") and 0 < one.error_pj < one.energy_pj
                }
                left = _at_no_byte(told)
                if left is not None:
                    known.update(dict.fromkeys(alike, left))
        return OpcodeEnergies(random, zeros, self._measured)

    def drawn(self, share: float) -> OpcodeEnergies:
        """Return the same opcodes, drawn to their median: each keeps a share of its own energy.

        Rows are measured in chains of one instruction; in a mixture less of what tells opcodes apart is left.
        Tensor cores, whose opcodes stand for many multiply-adds, and bytes by memory level stay as they are.

        Args:
            share: From 0 (all opcodes cost the same) to 1 (as measured).
        """
        alike = [op for op in self.random if not op.startswith(f"{BYTE}.") and multiply_adds(op) is None]
        sure = [k.energy_pj / operand_words(op) for op, k in self.random.items() if op in alike and k.sure]
        if share == 1 or not sure:
            return self
        middle_pj = median(sure)
        ratio = median([self._zeros_pj(op) / k.energy_pj for op, k in self.random.items() if k.sure])

        def toward(own_pj: float, common_pj: float, error_pj: float) -> Known:
            return Known(share * own_pj + (1 - share) * common_pj, share * error_pj)

        random, zeros = dict(self.random), dict(self.zeros)
        for op in alike:
            error_pj = zeros[op].error_pj if op in zeros else 0.0
            common_pj = middle_pj * operand_words(op)
            zeros[op] = toward(self._zeros_pj(op), ratio * common_pj, error_pj)
            random[op] = toward(random[op].energy_pj, common_pj, random[op].error_pj)
        return self.with_energies(random, zeros)

    def scaled(self, factor: float) -> OpcodeEnergies:
        """Return the same opcodes, each at so many times its energy."""
        if factor == 1:
            return self
        random, zeros = (
            {op: Known(factor * known.energy_pj, factor * known.error_pj) for op, known in energies.items()}
            for energies in (self.random, self.zeros)
        )
        return self.with_energies(random, zeros)

    def with_energies(self, random: Mapping[str, Known], zeros: Mapping[str, Known]) -> OpcodeEnergies:
        """Return the same opcodes, found in the same way, with other energies."""
        return OpcodeEnergies(random, zeros, None, self.rules, self.warp_shares, self.own_rows)

    def _stand_ins(self, opcode: str) -> tuple[Rule, Sequence[str]]:
        if opcode in self.rules:
            weak = self.rules[opcode] is Rule.TOGETHER and opcode not in self._sure
            return Rule.WEAK if weak else self.rules[opcode], [opcode]
        if opcode in self.random:
            return (Rule.MEASURED if opcode in self._sure else Rule.WEAK), [opcode]
        return _stand_ins_among(opcode, tuple(self._sure))

    def _predicted(self, opcode: str, rule: Rule, sources: Sequence[str], activity: float) -> float:
        """Return what stand-ins say of an opcode."""
        energies_pj = [self._at(source, activity) for source in sources]
        if rule is Rule.SCALED:
            wanted = multiply_adds(opcode) or 1.0
            energies_pj = [
                e * wanted / (multiply_adds(source) or 1.0)
                for e, source in zip(energies_pj, sources, strict=True)
            ]
        share = ONCE_A_WARP_SHARE if rule is Rule.ALL and opcode_class(opcode) in ONCE_A_WARP else 1.0
        return share * median(energies_pj)

    def _at(self, opcode: str, activity: float) -> float:
        random_pj = self.random[opcode].energy_pj
        if activity == 1:
            return random_pj
        zeros_pj = self._zeros_pj(opcode)
        return zeros_pj + activity * (random_pj - zeros_pj)

    def _zeros_pj(self, opcode: str) -> float:
        if opcode in self.zeros:
            return self.zeros[opcode].energy_pj
        if opcode not in self._zeros_ratios:
            self._zeros_ratios[opcode] = self._zeros_ratio(opcode)
        return self.random[opcode].energy_pj * self._zeros_ratios[opcode]

    def _zeros_ratio(self, opcode: str) -> float:
        """Return energy on zeros over energy on random operands: by this run, else by the shipped rows."""
        for ratios in (self._own_ratios, shipped_ratios()):
            ratio = ratios.of_kin(opcode)
            if ratio is not None:
                return ratio
        return shipped_ratios().of_any()

    @cached_property
    def _own_ratios(self) -> ActivityRatios:
        return ActivityRatios(
            "",
            {
                opcode: min(self.zeros[opcode].energy_pj / known.energy_pj, 1.0)
                for opcode, known in self.random.items()
                if opcode in self.zeros and known.sure
            },
        )

    def _error_pj(self, opcode: str, activity: float) -> float:
        random_pj = self.random[opcode].error_pj
        if activity == 1:
            return random_pj
        zeros = self.zeros.get(opcode)
        zeros_pj = zeros.error_pj if zeros else self.fill_errors[Rule.CLASS] * self._zeros_pj(opcode)
        return math.hypot(activity * random_pj, (1 - activity) * zeros_pj)


def _two_thirds(values: Sequence[float]) -> float:
    """Return what two thirds of some values are below, between two of them by a line."""
    return quantiles(values, n=3, method="inclusive")[1]


def _at_no_byte(loads: Mapping[str, Known]) -> Known | None:
    """Return what a load costs beside its bytes, None where none is known: by least squares over widths.

    It lies between nothing and the cheapest load, and is known no worse than if any value there were as
    likely (JCGM 100:2008, F.2.3.3).
    """
    if not loads:
        return None
    cheapest = min(loads.values(), key=lambda one: one.energy_pj)
    widths = np.array([width_bytes(opcode) for opcode in loads])
    if len(set(widths)) < 2:
        return cheapest
    weights = 1 / np.array([one.error_pj for one in loads.values()])
    inverse = np.linalg.pinv(np.vstack([weights, weights * widths]).T)
    base_pj = float(inverse[0] @ (weights * [one.energy_pj for one in loads.values()]))
    error_pj = min(float(np.linalg.norm(inverse[0])), cheapest.energy_pj / math.sqrt(12))
    return Known(min(max(base_pj, 0.0), cheapest.energy_pj), error_pj)


@lru_cache(maxsize=65536)
def _stand_ins_among(opcode: str, others: tuple[str, ...]) -> tuple[Rule, tuple[str, ...]]:
    """Return the stand-ins of the best rule that has any. Every estimate by one run asks the same."""
    return next((rule, tuple(found)) for rule, found in _candidates(opcode, others) if found)


def _candidates(opcode: str, others: Sequence[str]) -> Iterable[tuple[Rule, list[str]]]:
    """Return each rule's stand-ins for an opcode, the best rule first."""
    if multiply_adds(opcode):
        kind = tensor_kind(opcode)
        yield Rule.SCALED, [o for o in others if tensor_kind(o) == kind and multiply_adds(o)]
    yield Rule.MODIFIERS, nearest(opcode, others)
    kin = opcode_class(opcode)
    alike = [other for other in others if opcode_class(other) is kin]
    # One barrier is no evidence on branches.
    yield Rule.CLASS, alike if kin not in ONCE_A_WARP or len(alike) >= _MIN_SEEN else []
    yield Rule.ALL, list(others)
