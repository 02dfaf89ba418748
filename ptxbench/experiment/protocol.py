"""What a measuring protocol is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from ptxbench.analysis.solved_rows import SolvedRows
from ptxbench.analysis.subject import Subject
from ptxbench.catalogue.model import Instruction
from ptxbench.core.condition import Condition, Form, OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.run_state import RunState
from ptxbench.sass.program import SassKernel
from ptxbench.storage.schema import Role, TrialRecord

# Returns the module of the sleeping kernel, which draws the static power, once it is assembled.
SleepCubin = Callable[[], Cubin]


class Measurement(ABC):
    """One protocol at work in one run."""

    @abstractmethod
    def measure(self, batch: Sequence[BuiltKernels], *, more_follow: bool, is_last: bool) -> None:
        """Measure one batch, or as much of it as the run's time allows.

        Args:
            batch: Subjects of one optimization level.
            more_follow: Whether other batches of this protocol and optimization level follow.
            is_last: Whether none follows that the GPU draws alike in: what throttled is measured now.

        Raises:
            GpuError: The GPU stopped answering.
            InputError: A trial cannot be written.
        """


class Protocol(ABC):
    """How instructions are measured, from the form of their kernels to the row of the table."""

    @abstractmethod
    def form(self, instruction: Instruction, opt_level: OptLevel) -> Form:
        """Return the form of the kernels that this protocol runs."""

    def refusal(self, instruction: Instruction, condition: Condition) -> str:
        """Return why this protocol cannot measure an instruction under a condition, or ""."""
        del instruction, condition
        return ""

    def overhead_loops(self, instruction: Instruction, kernels: Mapping[str, SassKernel]) -> dict[Role, str]:
        """Return the loops of overhead kernels that several subjects share (`analysis.overhead`), by role.

        Args:
            instruction: Catalogue row.
            kernels: Those of its module, by entry name.
        """
        del instruction, kernels
        return {}

    def shared_kernels(self, subject: Subject, launches: Sequence[tuple[int, int]]) -> set[str]:
        """Return the names under which kernels that a subject shares with others were measured.

        Args:
            subject: What was measured.
            launches: Grid and block of each of its launches.
        """
        del subject, launches
        return set()

    @abstractmethod
    def begin(self, state: RunState, sleep: SleepCubin) -> Measurement:
        """Begin to measure.

        Args:
            state: The run.
            sleep: Returns the module of the sleeping kernel.
        """

    @abstractmethod
    def solve(self, subjects: Sequence[Subject], records: Sequence[TrialRecord], gpu: GpuInfo) -> SolvedRows:
        """Return the rows of subjects that this protocol measured: pure arithmetic.

        Args:
            subjects: What was measured.
            records: All trials of the run.
            gpu: The GPU that they ran on.
        """
