"""What the table of instructions lacks but an estimate needs: bytes, accesses, tensor cores, clock, activity.

Fitted to kernels that are kept apart from those that the model is judged by (runners/model_fit.py), and kept
beside the run as model.json. Without that file an estimate goes on without these terms, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.model.work import Access, Activity, Level
from ptxbench.storage import codec

FILE = "model.json"
BYTE_INCLUDES = "in addition to the instruction that moves it and to the other levels on its way"


@dataclass(frozen=True)
class ByteEnergy:
    """Energy of a byte at one level, on top of the instruction that moves it.

    Attributes:
        level: Which.
        random_pj: On random data.
        zeros_pj: On zeros.
        error: Relative standard error.
    """

    level: Level
    random_pj: float
    zeros_pj: float
    error: float


@dataclass(frozen=True)
class AccessEnergy:
    """Energy of one access, beside its bytes and its instruction; the same whatever the data are.

    Attributes:
        access: Which kind.
        energy_pj: How much.
        error: Relative standard error.
    """

    access: Access
    energy_pj: float
    error: float


@dataclass(frozen=True)
class TensorEnergy:
    """Energy of one multiply-add on the tensor cores.

    Attributes:
        kind: Opcode without its shape, such as "HGMMA.F32.BF16".
        random_pj: On random numbers.
        zeros_pj: On zeros.
        error: Relative standard error.
    """

    kind: str
    random_pj: float
    zeros_pj: float
    error: float


@dataclass(frozen=True)
class KindActivity:
    """How much operands of one kind of data toggle.

    Attributes:
        kind: Such as "image" or "sparse".
        data: Activity of instructions that compute or move data, from 0 (zeros) to 1 (random bits).
        error: Standard error of it.
    """

    kind: str
    data: float
    error: float


@dataclass(frozen=True)
class CodeSpread:
    """How far kernels were from an estimate that did not know the bytes that they move, or their time.

    Attributes:
        modelled_time: Whether their time was modelled, too; else it was measured.
        global_memory: Whether they are kernels that use global memory more than now and then
            (`KernelWork.uses_global_memory`).
        low: Lower end of measured over estimated energy.
        high: Upper end.
        kernels: How many cases the two are by.
        bytes_counted: Whether bytes and accesses were counted, so that the time alone was modelled.
        scattered: Whether their accesses take less than half a line each (`KernelWork.scatters`); in older
            files those of others, too.
    """

    modelled_time: bool
    global_memory: bool
    low: float
    high: float
    kernels: int
    bytes_counted: bool = False
    scattered: bool = False

    @property
    def inputs(self) -> tuple[bool, bool, bool, bool]:
        """What tells it from the others."""
        return self.modelled_time, self.bytes_counted, self.global_memory, self.scattered


# Kernels that wait for most of their time, as on single sectors or on branches, are estimated worse.
MOSTLY_DYNAMIC = 0.6


@dataclass(frozen=True)
class CountedSpread:
    """How far kernels whose instructions and bytes were counted are from their estimate.

    Each was estimated by terms fitted to the other families.

    Attributes:
        low: Lower end of measured over estimated dynamic energy.
        high: Upper end.
        kernels: How many cases the two are by.
        families: How many families these are of.
        global_memory: Whether these use global memory more than now and then; None in older files: all do.
        mostly_dynamic: Whether at least `MOSTLY_DYNAMIC` of each one's estimated energy is dynamic; None in
            older files: of some it is.
    """

    low: float
    high: float
    kernels: int
    families: int
    global_memory: bool | None = None
    mostly_dynamic: bool | None = None


@dataclass(frozen=True)
class LevelRate:
    """The most bytes that any fit kernel moved through a memory level.

    Attributes:
        level: Which.
        bytes_per_s: Of the whole chip, at the full clock.
    """

    level: Level
    bytes_per_s: float


@dataclass(frozen=True)
class TensorRate:
    """The most multiply-adds of one kind that any fit kernel did.

    Attributes:
        kind: Opcode without its shape.
        per_cycle: Multiply-adds a cycle of one SM.
    """

    kind: str
    per_cycle: float


@dataclass(frozen=True)
class TimeTerms:
    """How long kernels take beside what pipes and memory bound them to.

    Attributes:
        bytes: Rates of memory levels.
        tensor: Rates of the tensor cores.
        slack: Median of measured time over the bound of the pipes, of kernels that memory does not bound.
        slack_low: Lower end of its 95% interval.
        slack_high: Upper end.
        kernels: How many cases these three are by.
    """

    bytes: tuple[LevelRate, ...]
    tensor: tuple[TensorRate, ...]
    slack: float
    slack_low: float
    slack_high: float
    kernels: int


@dataclass(frozen=True)
class Terms:
    """Fitted terms.

    Attributes:
        gamma: Exponent of dynamic energy in the clock.
        gamma_error: Standard error of it.
        random: Activity of kernels on random floating-point numbers.
        zeros: Activity of kernels on zeros.
        active_w: Power of a chip that runs any kernel, beyond one whose every warp sleeps.
        bytes_pj: Energy a byte by memory level.
        tensor: Energy a multiply-add by kind.
        error: Relative error of the model on the kernels that it was fitted to (one standard deviation).
        kernels: Names of these kernels.
        accesses_pj: Energy an access by kind; none where the kernels were not counted so, or where these
            terms do not help to predict a kernel from the others.
        left_out_error: Mean relative error of a kernel's whole energy where the terms are fitted to the
            others alone; NaN where it was not worked out.
        lowest_clock_ratio: Lowest SM clock over the full clock among the kernels that gamma was fitted to;
            NaN where it was not noted.
        code_spreads: What an interval needs where no byte was counted, or the time was modelled; none where
            it was not worked out.
        kinds: Activity on other kinds of data than random numbers and zeros.
        opcode_share: Share of its own energy that an opcode keeps, see `OpcodeEnergies.drawn`.
        counted: What an interval needs where all was counted, in older files; else None.
        counted_spreads: The same for kernels that use global memory and for those that hardly do; none where
            too few kernels can be predicted from the others.
        time: What a time is modelled with; None in older files.
        opcode_scale: Factor on the energies of opcodes: this board's over those of the table.
    """

    gamma: float
    gamma_error: float
    random: Activity
    zeros: Activity
    active_w: float
    bytes_pj: tuple[ByteEnergy, ...]
    tensor: tuple[TensorEnergy, ...]
    error: float
    kernels: tuple[str, ...]
    # These are missing in older files.
    accesses_pj: tuple[AccessEnergy, ...] = ()
    left_out_error: float = math.nan
    lowest_clock_ratio: float = math.nan
    code_spreads: tuple[CodeSpread, ...] = ()
    kinds: tuple[KindActivity, ...] = ()
    opcode_share: float = 1.0
    counted: CountedSpread | None = None
    time: TimeTerms | None = None
    counted_spreads: tuple[CountedSpread, ...] = ()
    opcode_scale: float = 1.0

    def counted_spread(self, global_memory: bool, dynamic_share: float) -> CountedSpread | None:
        """Return how far counted kernels were from their estimate, None where it was not worked out.

        Args:
            global_memory: Whether the kernel at hand uses global memory more than now and then.
            dynamic_share: Dynamic part of the energy that is estimated for it.
        """
        own = [one for one in self.counted_spreads if one.global_memory is global_memory]
        mostly = dynamic_share >= MOSTLY_DYNAMIC
        return next((one for one in own if one.mostly_dynamic in (mostly, None)), self.counted)

    @property
    def data_kinds(self) -> tuple[str, ...]:
        """Kinds of data that the terms know."""
        return ("random", "zeros", *(one.kind for one in self.kinds))

    def activity_on(self, kind: str, integer_data: bool = False) -> Activity:
        """Return the activity on a kind of data.

        Args:
            kind: "random", "zeros", or one of `kinds`.
            integer_data: Whether the kernel's integer instructions compute data, not addresses.

        Raises:
            InputError: The terms were not fitted to this kind.
        """
        known = {"random": self.random, "zeros": self.zeros} | {
            one.kind: Activity(one.data, self.random.index, 1.0) for one in self.kinds
        }
        if kind not in known:
            names = ", ".join(self.data_kinds)
            raise ArgumentError(
                "operands", f"must be one that the table's terms know, of {names}; not {kind!r}"
            )
        activity = known[kind]
        if not integer_data or kind == "zeros":
            return activity
        return replace(activity, index=1.0 if kind == "random" else activity.data)

    def activity_range(self, kind: str, integer_data: bool = False) -> tuple[Activity, Activity]:
        """Return the least and the most that operands of a kind may toggle (95%), by its activity's error.

        Random numbers are as they are known. Integers that are zeros may be addresses or data.

        Args:
            kind: As for `activity_on`.
            integer_data: As for `activity_on`.
        """
        best = self.activity_on(kind, integer_data)
        if kind == "zeros" and integer_data:
            return replace(best, index=min(best.data, best.index)), best
        error = next((one.error for one in self.kinds if one.kind == kind), 0.0)

        def moved(by: float) -> Activity:
            change = by * COVERAGE_FACTOR * error
            data, operands = (min(max(x + change, 0.0), 1.0) for x in (best.data, best.operands))
            return Activity(data, data if integer_data and error else best.index, operands)

        return (moved(-1), moved(1)) if error else (best, best)

    def bytes_text(self, levels: Iterable[Level] = Level) -> str:
        """Return the energies of a byte on random data and what they include, "" where none was fitted.

        Args:
            levels: Which memory levels.
        """
        wanted = set(levels)
        known = [f"{one.level} {one.random_pj:.4g}" for one in self.bytes_pj if one.level in wanted]
        return f"{', '.join(known)} pJ a byte on random data, {BYTE_INCLUDES}" if known else ""


# gamma 1: a voltage that falls half as fast as the clock, within what is known of Volta and later.
UNFITTED = Terms(
    gamma=1.0,
    gamma_error=0.5,
    random=Activity(1.0, 1.0, 1.0),
    zeros=Activity(0.0, 0.0, 0.0),
    active_w=0.0,
    bytes_pj=(),
    tensor=(),
    error=0.0,
    kernels=(),
)


def read_terms(folder: Path) -> Terms:
    """Return the terms beside a run, or `UNFITTED` where it has none.

    Raises:
        InputError: model.json does not fit.
    """
    path = folder / FILE
    if not path.exists():
        return UNFITTED
    terms = codec.read_file(Terms, path)
    if not terms.gamma >= 0:
        raise InputError(f"{path}: gamma must not be negative, not {terms.gamma:g}")
    if not 0 <= terms.opcode_share <= 1:
        raise InputError(f"{path}: opcode_share must be between 0 and 1, not {terms.opcode_share:g}")
    return terms
