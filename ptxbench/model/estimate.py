"""The energy of a kernel: instructions, bytes, accesses and time, by the energies of a run.

E = s (sum_op n_op e_op(a) + sum_l b_l e_l(a) + sum_c n_c e_c + P_active t) + b_DRAM e_DRAM(a)
    + n_miss e_miss + P_static t,
with a the activity of the operands and s = (f / f0)^gamma what a lower clock does to what it drives. The
form is that of AccelWattch (Kandiah et al. 2021); the energies are this GPU's own. Where the voltage over the
clock is known, s is (v(f) / v(f0))^2 (`model.clocks.law`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.model.clocks.law import ClockLaw, Demand, PowerLaw, VoltageLaw, unseen
from ptxbench.model.opcode_energies import MEASURED_RULES, OpcodeEnergies, OpcodeEnergy, Rule
from ptxbench.model.opcodes import nearest, opcode_class
from ptxbench.model.roofline.kernels import RooflineWork, roofline_work
from ptxbench.model.tensor import multiply_adds, operand_bits, tensor_kind
from ptxbench.model.terms import ByteEnergy, CountedSpread, TensorEnergy, Terms
from ptxbench.model.work import OFF_CLOCK, Activity, KernelWork, Level
from ptxbench.model.zeros import shipped_ratios
from ptxbench.storage.schema import J_PER_PJ

ACTIVE, STATIC = "active chip", "static"
_WHAT = {False: "the power law", True: "the voltage curve"}
# Kinds on one GPU differ by so much in energy a multiply-add and bit of an operand (H200: 0.08 to 0.32 pJ).
_OTHER_KIND = 0.5
# A temperature that differs by less makes no static power worth a note; chosen.
_SAME_C = 2.0


@dataclass(frozen=True)
class Part:
    """Where some of the joules go.

    Attributes:
        name: Class of SASS opcodes, memory level, kind of access, "active chip" or "static".
        energy_j: How many.
        error_j: Standard error of that by itself: parts that were fitted together are better known together.
            NaN where it is not known.
    """

    name: str
    energy_j: float
    error_j: float = math.nan


@dataclass(frozen=True)
class Fill:
    """An opcode whose energy is not in the table.

    Attributes:
        opcode: Which.
        share: Its share of the executed instructions.
        rule: The rule of its substitute.
        source: Opcodes that the stand-in was taken from.
    """

    opcode: str
    share: float
    rule: Rule
    source: str


@dataclass(frozen=True)
class Coverage:
    """How well a table knows what a kernel executes, in shares of its executed instructions.

    Attributes:
        own_row: Opcodes with a row of their own.
        together: Opcodes that rows or loops of the run tell with others alone.
        lacking: Opcodes without a row of their own and their shares, most executed first.
    """

    own_row: float
    together: float
    lacking: tuple[tuple[str, float], ...]

    @property
    def stand_in(self) -> float:
        """Opcodes that another's energy stands in for."""
        return max(1 - self.own_row - self.together, 0.0)


@dataclass(frozen=True)
class SetErrors:
    """How far a model was from a set of judged kernels, with counts by ncu, measured time and clock.

    Attributes:
        kernels: Which set, such as "library".
        cases: How many cases it has.
        mean_absolute_pct: Mean absolute error, %.
        worst_pct: Largest absolute error, %.
        worse_low_pct: Lower end of the 95% interval of how much larger the mean error is than the table's;
            NaN for the table.
        worse_high_pct: Upper end.
    """

    kernels: str
    cases: int
    mean_absolute_pct: float
    worst_pct: float
    worse_low_pct: float = math.nan
    worse_high_pct: float = math.nan


@dataclass(frozen=True)
class ModelAnswer:
    """What one model says of a kernel.

    Attributes:
        name: The model.
        energy_j: Its energy of one launch.
        errors: How far it was from judged kernels.
    """

    name: str
    energy_j: float
    errors: tuple[SetErrors, ...]


@dataclass(frozen=True)
class KernelEstimate:
    """Energy of one launch.

    Attributes:
        kernel: Name.
        energy_j: Best value.
        low_j: Lower end of the 95% interval.
        high_j: Upper end.
        power_w: Mean power.
        time_s: Duration that the energy is for.
        clock_ratio: SM clock over the full clock.
        capped: Whether the power limit holds the clock down.
        parts: Where the joules go, most first.
        uncovered_share: Share of the executed instructions whose energy is not in the table.
        fills: How those were filled, most executed first.
        notes: What the estimate leaves out or assumes, a sentence each.
        answers: What the table's model and models that know less say, where they were requested.
        coverage: How well the table knows what it executes.
        missing: What is not known of its bytes and matters, a phrase each. Then there is no best value and no
            power, but the interval; the parts and the time are those without these bytes.
        lines: Where the joules of instructions and bytes go by source line, where they were requested and the
            code has such lines; most first.
        roofline: Its flops by kind, and bytes by the level that they come from; None of no known work.
    """

    kernel: str
    energy_j: float
    low_j: float
    high_j: float
    power_w: float
    time_s: float
    clock_ratio: float
    capped: bool
    parts: tuple[Part, ...]
    uncovered_share: float
    fills: tuple[Fill, ...]
    notes: tuple[str, ...]
    answers: tuple[ModelAnswer, ...] = ()
    coverage: Coverage = Coverage(math.nan, math.nan, ())
    missing: tuple[str, ...] = ()
    lines: tuple[Part, ...] = ()
    roofline: RooflineWork | None = None

    @property
    def known_j(self) -> float:
        """The sum of the parts: the best value, or a lower bound where something is missing."""
        return sum(part.energy_j for part in self.parts)

    def __repr__(self) -> str:
        interval = f"{self.low_j:.3g} to {self.high_j:.3g}"
        return (
            f"<KernelEstimate {self.kernel}: {self.energy_j:.3g} J (95%: {interval}) in {self.time_s:.3g} s>"
        )


@dataclass(frozen=True)
class Machine:
    """A GPU as the model sees it, from a run.

    Attributes:
        opcode_energies: Energy of its opcodes.
        terms: Fitted terms.
        static: Static power.
        limit_w: Power limit, NaN where there is none.
        set_law: How energy goes with a clock that is set, where it is known: by the voltage, or of kernels of
            this kind; else the power law of the terms stands in.
    """

    opcode_energies: OpcodeEnergies
    terms: Terms
    static: StaticPower
    limit_w: float
    set_law: ClockLaw | None = None

    @property
    def law(self) -> ClockLaw:
        """How the energy of what the SM clock drives goes with it."""
        if self.set_law is not None:
            return self.set_law
        terms = self.terms
        lowest = 1.0 if math.isnan(terms.lowest_clock_ratio) else terms.lowest_clock_ratio
        return PowerLaw(terms.gamma, terms.gamma_error, lowest)


@dataclass(frozen=True)
class Conditions:
    """How the kernel is run.

    Attributes:
        activity: How much its operands toggle.
        activity_range: The least and the most that they may, by what is known of their kind of data; None: as
            `activity` says.
        temperature_c: GPU temperature; NaN: that of the run's sleeping kernels.
        clock_ratio: SM clock over the full clock where it was measured with the time; else NaN: found by the
            power limit.
        steady_time: Whether the work's time was measured in steady state, under the cap if there is one.
        set_ratio: SM clock that is set, over the full clock, for a time at the full clock.
        memory_s: Time that memory takes at least at its clock.
    """

    activity: Activity
    temperature_c: float = math.nan
    clock_ratio: float = math.nan
    steady_time: bool = False
    set_ratio: float = 1.0
    memory_s: float = 0.0
    activity_range: tuple[Activity, Activity] | None = None


@dataclass
class _Sum:
    """Some of the energy with its errors: those of measured opcodes are independent, stand-ins err alike."""

    energy_j: float = 0.0
    variance_j2: float = 0.0
    filled_error_j: float = 0.0
    fitted_error_j: float = 0.0

    @property
    def error_j(self) -> float:
        return math.hypot(math.sqrt(self.variance_j2), self.filled_error_j, self.fitted_error_j)

    def times(self, factor: float) -> _Sum:
        return _Sum(
            factor * self.energy_j,
            factor**2 * self.variance_j2,
            factor * self.filled_error_j,
            factor * self.fitted_error_j,
        )


@dataclass(frozen=True)
class _DynamicEnergy:
    """Dynamic energy at one clock."""

    parts: Mapping[str, _Sum]
    fills: tuple[Fill, ...]

    def at(self, scale: float) -> _DynamicEnergy:
        """Return that of the full clock at another one: DRAM stays as it is, the rest is scaled."""
        scaled = {name: part if name in OFF_CLOCK else part.times(scale) for name, part in self.parts.items()}
        return _DynamicEnergy(scaled, self.fills)

    @property
    def total_j(self) -> float:
        return sum(part.energy_j for part in self.parts.values())

    @property
    def known_variance_j2(self) -> float:
        """What opcodes and stand-ins leave open; what fitted terms do is in the model's own error."""
        return sum(part.variance_j2 for part in self.parts.values()) + self.filled_variance_j2

    @property
    def filled_variance_j2(self) -> float:
        """What stand-ins leave open, which all err the same way."""
        return sum(part.filled_error_j for part in self.parts.values()) ** 2


def estimate(work: KernelWork, machine: Machine, conditions: Conditions) -> KernelEstimate:
    """Estimate one launch.

    The interval holds the errors of the opcodes' energies (independent of each other), of stand-ins (all off
    the same way), and of static power. It holds that of the clock term where the clock is below the full
    one, and that of the activity of its kind of data. And it holds the model's own error, which is that of
    bytes and accesses, too: how far kernels were from an estimate by terms that were fitted to the others.

    Raises:
        InputError: The work's time is not known, or the run has no static power.
    """
    at_full = _known_dynamic(work, machine, conditions)
    temperature_c = _temperature_c(machine, conditions)
    demand = _demand(at_full, work, machine, conditions)
    known_clock, static_w = math.isfinite(conditions.clock_ratio), demand.static_w
    settled = conditions.clock_ratio if known_clock else demand.ratio_under(machine.limit_w)
    # A lower clock draws less, so that one under the limit is held.
    ratio = settled if known_clock else min(settled, conditions.set_ratio)
    law = machine.law
    scale, time_s = law.scale(ratio), demand.time_at(ratio)
    dynamic = at_full.at(scale)
    static_j = static_w * time_s
    energy_j = demand.energy_at(ratio)
    capped = not known_clock and ratio < conditions.set_ratio
    static_error_j = machine.static.error_at(temperature_c) * time_s
    dynamic_j = dynamic.total_j
    spread = machine.terms.counted_spread(work.uses_global_memory, dynamic_j / (dynamic_j + static_j))
    half_j = math.hypot(
        # Measured kernels say how far an estimate is off: their opcodes err as its do.
        _half_width_j(
            dynamic, law.error(ratio) * demand.clocked_j, static_error_j, counted=spread is not None
        ),
        unseen(law, ratio) * demand.clocked_j,
    )
    below_j, above_j = _model_reach_j(machine.terms, spread, dynamic_j)
    less_j, more_j = _activity_reach_j(work, machine, conditions, dynamic_j, scale)
    parts = [Part(name, part.energy_j, part.error_j) for name, part in dynamic.parts.items()]
    return KernelEstimate(
        kernel=work.name,
        energy_j=energy_j,
        low_j=max(energy_j - math.hypot(half_j, below_j, less_j), 0.0),
        high_j=energy_j + math.hypot(half_j, above_j, more_j),
        power_w=energy_j / time_s,
        time_s=time_s,
        clock_ratio=ratio,
        capped=capped,
        parts=tuple(
            sorted([*parts, Part(STATIC, static_j, static_error_j)], key=lambda part: -part.energy_j)
        ),
        uncovered_share=sum(fill.share for fill in dynamic.fills),
        fills=dynamic.fills,
        notes=(*_notes(work, machine, capped, conditions), *_clock_notes(law, ratio)),
        coverage=coverage_of(work, machine.opcode_energies, dynamic.fills),
        roofline=roofline_work(work),
    )


def demand_of(work: KernelWork, machine: Machine, conditions: Conditions) -> Demand:
    """Return what a kernel draws at the full clock, and how that and its time go with the clock.

    Raises:
        InputError: The work's time is not known, or the run has no static power.
    """
    return _demand(_known_dynamic(work, machine, conditions), work, machine, conditions)


def _known_dynamic(work: KernelWork, machine: Machine, conditions: Conditions) -> _DynamicEnergy:
    if not 0 < work.time_s < math.inf:
        raise InputError(
            f"{work.name}: its time is not known; give it with `time_s`, or profile gpu__time_duration.sum"
        )
    if math.isnan(machine.static.at(_temperature_c(machine, conditions))):
        raise InputError(
            "the run has no valid sleeping kernel, so its static power is not known; measure again"
        )
    return _dynamic_energy(work, machine, conditions.activity)


def _temperature_c(machine: Machine, conditions: Conditions) -> float:
    given = conditions.temperature_c
    return machine.static.temperature_c if math.isnan(given) else given


def _demand(dynamic: _DynamicEnergy, work: KernelWork, machine: Machine, conditions: Conditions) -> Demand:
    dram_j = sum(part.energy_j for name, part in dynamic.parts.items() if name in OFF_CLOCK)
    return Demand(
        clocked_j=dynamic.total_j - dram_j,
        dram_j=dram_j,
        static_w=machine.static.at(_temperature_c(machine, conditions)),
        time_s=work.time_s,
        follows_clock=not (conditions.steady_time or math.isfinite(conditions.clock_ratio)),
        law=machine.law,
        memory_s=conditions.memory_s,
    )


def coverage_of(work: KernelWork, opcode_energies: OpcodeEnergies, fills: Sequence[Fill]) -> Coverage:
    """Return how well a table knows what a kernel executes.

    Args:
        work: What it executes.
        opcode_energies: The table's.
        fills: Opcodes that have a stand-in.
    """
    shares = {opcode: count / work.executions for opcode, count in work.opcodes if count}
    lacking = {opcode: share for opcode, share in shares.items() if opcode not in opcode_energies.own_rows}
    filled = sum(fill.share for fill in fills if fill.opcode in lacking and fill.rule is not Rule.WEAK)
    most_first = sorted(lacking.items(), key=lambda one: -one[1])
    without = sum(lacking.values())
    return Coverage(1 - without, without - filled, tuple(most_first))


def dynamic_parts(
    work: KernelWork, opcode_energies: OpcodeEnergies, terms: Terms, activity: Activity
) -> Mapping[str, float]:
    """Return the dynamic energy of one launch at the full clock by class and level, J."""
    machine = Machine(
        opcode_energies, terms, StaticPower(math.nan, math.nan, math.nan, math.nan, math.nan), math.nan
    )
    return {name: part.energy_j for name, part in _dynamic_energy(work, machine, activity).parts.items()}


def _dynamic_energy(work: KernelWork, machine: Machine, activity: Activity) -> _DynamicEnergy:
    parts: dict[str, _Sum] = defaultdict(_Sum)
    fills = []
    for opcode, lanes, energy, joules, error_j in _of_opcodes(work, machine, activity):
        part = parts[opcode_class(opcode)]
        part.energy_j += joules
        if energy.rule in MEASURED_RULES:
            part.variance_j2 += error_j**2
        else:
            part.filled_error_j += error_j
            fills.append(Fill(opcode, lanes / work.executions, energy.rule, energy.source))
    errors = {one.level: one.error for one in machine.terms.bytes_pj}
    for level, count in work.bytes_moved:
        byte = _byte_energy(level, machine, activity)
        if byte is not None and count:
            parts[level].energy_j += count * byte.energy_pj * J_PER_PJ
            parts[level].variance_j2 += (count * byte.error_pj * J_PER_PJ) ** 2
            parts[level].fitted_error_j += errors.get(level, 0.0) * count * byte.energy_pj * J_PER_PJ
    for one in machine.terms.accesses_pj:
        joules = work.count(one.access) * one.energy_pj * J_PER_PJ
        if joules:
            parts[one.access].energy_j += joules
            parts[one.access].fitted_error_j += one.error * joules
    if machine.terms.active_w:
        parts[ACTIVE] = _Sum(machine.terms.active_w * work.time_s, fitted_error_j=math.nan)
    fills.sort(key=lambda fill: -fill.share)
    return _DynamicEnergy(parts, tuple(fills))


def opcode_joules(work: KernelWork, machine: Machine, activity: Activity) -> dict[str, tuple[float, float]]:
    """Return the energy of each opcode of one launch at the full clock and its standard error, J."""
    found = _of_opcodes(work, machine, activity)
    return {opcode: (joules, error_j) for opcode, _, _, joules, error_j in found}


def _of_opcodes(
    work: KernelWork, machine: Machine, activity: Activity
) -> Iterator[tuple[str, float, OpcodeEnergy, float, float]]:
    """Yield opcode, executions, energy of one, energy of all and its standard error, J."""
    fitted = {one.kind: one for one in machine.terms.tensor}
    opcode_energies = machine.opcode_energies.beside([byte.level for byte in machine.terms.bytes_pj])
    idle = dict(work.idle)
    for opcode, lanes in work.opcodes:
        energy = _energy_of(opcode, fitted, opcode_energies, activity)
        # A warp's lanes that take no part cost what a warp costs whatever its lanes do.
        count = lanes + (opcode_energies.warp_share(opcode) * idle[opcode] if opcode in idle else 0.0)
        yield opcode, lanes, energy, count * energy.energy_pj * J_PER_PJ, count * energy.error_pj * J_PER_PJ


def _energy_of(
    opcode: str, fitted: Mapping[str, TensorEnergy], opcode_energies: OpcodeEnergies, activity: Activity
) -> OpcodeEnergy:
    macs = multiply_adds(opcode)
    if macs is None or not fitted:
        return opcode_energies.energy(opcode, activity.of(opcode))
    kind = tensor_kind(opcode)
    if kind not in fitted and opcode_energies.rules.get(opcode) is Rule.ROW:
        return opcode_energies.energy(opcode, activity.of(opcode))
    if kind in fitted:
        one = fitted[kind]
        energy_pj = macs * _at(one, activity)
        return OpcodeEnergy(energy_pj, one.error * energy_pj, Rule.MEASURED, "")
    alike = nearest(kind, fitted) or list(fitted)
    energies_pj = [macs * _at(fitted[k], activity) * operand_bits(opcode) / operand_bits(k) for k in alike]
    energy_pj = median(energies_pj)
    shown = ", ".join(alike[:3])
    return OpcodeEnergy(energy_pj, _OTHER_KIND * energy_pj, Rule.SCALED, shown)


def _at(one: ByteEnergy | TensorEnergy, activity: Activity) -> float:
    return one.zeros_pj + activity.operands * (one.random_pj - one.zeros_pj)


def _byte_energy(level: Level, machine: Machine, activity: Activity) -> OpcodeEnergy | None:
    """Return the energy of a byte: as fitted, else by the table's rows of that level, else None."""
    for one in machine.terms.bytes_pj:
        if one.level is level:
            # What fitted terms leave open they leave open together: it is in the model's own error.
            return OpcodeEnergy(_at(one, activity), 0.0, Rule.MEASURED, "")
    known = level.opcode in machine.opcode_energies.random
    return machine.opcode_energies.energy(level.opcode, activity.operands) if known else None


def _half_width_j(dynamic: _DynamicEnergy, clock_j: float, static_error_j: float, *, counted: bool) -> float:
    """Return half of the 95% interval; kernels that were counted tell what measured opcodes are off by."""
    known_j2 = dynamic.filled_variance_j2 if counted else dynamic.known_variance_j2
    static_j = static_error_j if math.isfinite(static_error_j) else 0.0
    return COVERAGE_FACTOR * math.sqrt(known_j2 + clock_j**2 + static_j**2)


def _model_reach_j(terms: Terms, counted: CountedSpread | None, dynamic_j: float) -> tuple[float, float]:
    """Return how far the model's own error reaches below and above some dynamic energy (95%)."""
    if counted is None:
        half_j = COVERAGE_FACTOR * terms.error * dynamic_j
        return half_j, half_j
    return max(1 - counted.low, 0.0) * dynamic_j, max(counted.high - 1, 0.0) * dynamic_j


def _activity_reach_j(
    work: KernelWork, machine: Machine, conditions: Conditions, best_j: float, scale: float
) -> tuple[float, float]:
    """Return by how much less and more it may be, as the kind of data does not tell how much it toggles."""
    if conditions.activity_range is None:
        return 0.0, 0.0
    least_j, most_j = (
        _dynamic_energy(work, machine, one).at(scale).total_j for one in conditions.activity_range
    )
    return max(best_j - least_j, 0.0), max(most_j - best_j, 0.0)


def _clock_notes(law: ClockLaw, ratio: float) -> tuple[str, ...]:
    lowest = law.lowest_ratio
    if ratio >= lowest:
        return ()
    seen = f"below {100 * lowest:.0f}% of it" if lowest < 1 else "below it"
    return (
        f"the SM clock is taken at {100 * ratio:.0f}% of its maximum, and no kernel was measured {seen}:"
        f" {_WHAT[isinstance(law, VoltageLaw)]} is extrapolated, and the interval reaches to a voltage that"
        " stays",
    )


def _includes(work: KernelWork, terms: Terms) -> list[str]:
    """Return what the energies are that were added up, where a table of instructions has others."""
    found = []
    moved = terms.bytes_text([level for level, count in work.bytes_moved if count])
    if moved:
        found.append(f"{moved}; a load of the table has all of these")
    kinds = {tensor_kind(op) for op, _ in work.opcodes if multiply_adds(op) is not None}
    tensor = [one for one in terms.tensor if one.kind in kinds]
    if tensor:
        flops = ", ".join(f"{one.kind} {one.random_pj / 2:.4g}" for one in tensor)
        found.append(
            f"{flops} pJ a flop on random data, fitted to whole kernels, where a row is one instruction alone"
        )
    if terms.opcode_share < 1:
        found.append(
            f"an opcode counts {terms.opcode_share:.0%} of its own energy, by its rows and loops, the rest"
            " is the median of all: in a mixture less tells opcodes apart than in the table"
        )
    return found


def _notes(work: KernelWork, machine: Machine, capped: bool, conditions: Conditions) -> tuple[str, ...]:
    notes = []
    terms = machine.terms
    if capped:
        how = "as measured" if conditions.steady_time else "stretched as the clock falls"
        notes.append(
            f"at the full clock it would pass the power limit of {machine.limit_w:.0f} W: the estimate is for"
            f" the clock at which it meets the limit, its time {how}"
        )
    if math.isnan(machine.static.error_w):
        notes.append(
            "one sleeping kernel tells the static power: its error is not known, and not in the interval"
        )
    static = machine.static
    if not static.slope_w_per_c and abs(conditions.temperature_c - static.temperature_c) > _SAME_C:
        notes.append(
            "the run does not tell how static power goes with the temperature: at"
            f" {conditions.temperature_c:g} C it is taken as at {static.temperature_c:.0f} C"
        )
    # The rest is in the energy of the instructions.
    beyond = [level for level, _ in work.bytes_moved if level in (Level.CROSSBAR, Level.DRAM)]
    unknown = [level for level in beyond if _byte_energy(level, machine, Activity()) is None]
    if unknown:
        notes.append(f"the table has no energy of a byte from {' and '.join(unknown)}: they are left out")
    if not terms.kernels:
        notes.append(
            "the run has no model.json: what an active chip draws beside is left out, and the clock term is"
            " the table's own or, where no row throttled, an assumption"
            f" (gamma {terms.gamma:.2g} ± {COVERAGE_FACTOR * terms.gamma_error:.2g})"
        )
    notes += _includes(work, terms)
    if not work.bytes_moved:
        notes.append("bytes beyond L1 are not in the estimate; count them with `ncu`")
    guessed = [one.access for one in terms.accesses_pj if one.access not in dict(work.accesses)]
    if work.bytes_moved and guessed:
        notes.append(
            f"{' and '.join(guessed)} were not counted: each is taken to move a whole line of 128 bytes"
        )
    if not work.modifiers:
        notes.append(
            "the profile has opcodes without modifiers, so that different instructions get the same energy"
        )
    if not machine.opcode_energies.zeros and conditions.activity.data < 1:
        notes.append(
            "the run has no trial on zeros: on them an opcode is taken at the part of its energy on random"
            f" operands that opcodes like it had in {shipped_ratios().source}"
        )
    return tuple(notes)
