"""A folder of tuning: every variant that was tried, as it was tried, so that a stopped search goes on.

manifest.json   tool, GPU, host, problem and settings
trials.jsonl    one line a trial, on the disk before the next begins
variants.csv    the same as a table, written at the end
beside.jsonl    one line a measurement of a library's product, where it was measured beside
clock_power.csv the power of a load at several clocks, where clocks near the best of them are searched
in_progress.json the variant that is being tried, by which a process that watches knows it
pareto.svg      the front of time and energy, where matplotlib is installed
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.core.printable import render_csv
from ptxbench.devices.base import Gpu
from ptxbench.energy.settled import SourceCheck, judge_compared
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import SETTLE, BoardLimits
from ptxbench.storage import codec, journal
from ptxbench.storage.atomic import write_text
from ptxbench.storage.file_errors import writing
from ptxbench.storage.folder_kind import MANIFEST, Kind
from ptxbench.storage.journal import Journal, Lines
from ptxbench.storage.manifest import Manifest, begin_run, new_manifest, read_manifest, require_unchanged
from ptxbench.tune.candidate import DEFAULT_SETTINGS, Candidate, name_of
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.library import LibraryTrial
from ptxbench.tune.outcome import Settled
from ptxbench.tune.trial import Trial
from ptxbench.tune.variant import Problem, Variant
from ptxbench.tune.variant_runner import TrialOptions

_TRIALS, VARIANTS = "trials.jsonl", "variants.csv"
IN_PROGRESS = "in_progress.json"
_BESIDE = "beside.jsonl"
POWER_SAMPLES = "clock_power.csv"
_FIGURES = (
    *("correct", "registers", "occupancy", "modelled_s", "time_s", "steady_s", "power_w", "power_error_w"),
    *("energy_j", "estimated_j", "estimated_low_j", "estimated_high_j", "estimated_s"),
    *("clock_mhz", "temperature_c", "capped"),
    *("build_wall_s", "check_wall_s", "timing_wall_s", "power_wall_s", "status", "reason"),
)
# Behind all others, where who reads columns by their place does not miss them.
_LATER = ("settled", "note")


@dataclass(frozen=True, kw_only=True)
class TuningPart:
    """What only a folder of tuning has.

    Attributes:
        problem: What the variants compute.
        options: How they are tried.
        model: What estimates their energy, in a few words; "" for nothing.
        assembler: What makes their machine code.
    """

    problem: Problem | KernelProblem
    options: TrialOptions
    model: str
    assembler: str = ""


TuningManifest = Manifest[TuningPart]


def tuning_manifest(
    gpu: Gpu, problem: Problem | KernelProblem, options: TrialOptions, model: str, assembler: str = ""
) -> TuningManifest:
    """Return the manifest of tuning that begins now, on this host; a function needs no assembler ("")."""
    part = TuningPart(problem=problem, options=options, model=model, assembler=assembler)
    return new_manifest(Kind.TUNING, part, (gpu.info,), gpu.sensors)


@dataclass(frozen=True)
class InProgress:
    """The variant that is being tried.

    Attributes:
        number: Trials before it.
        variant: Which.
        settings: What is set for it.
        before: How often it was measured before.
    """

    number: int
    variant: Variant | Configuration
    settings: GpuSettings = DEFAULT_SETTINGS
    before: int = 0

    @property
    def name(self) -> str:
        """Name of the variant, with its settings where there are any."""
        return name_of(self.variant, self.settings)


class TuningFolder:
    """The trials of one search, written one by one; made by `create`, `resume` or `read`.

    Attributes:
        path: The folder.
        manifest: What it is.
    """

    def __init__(self, path: Path, manifest: TuningManifest) -> None:
        self.path = path
        self.manifest = manifest
        self._lines = Lines(path / _TRIALS, Trial, lambda trial: trial.name)
        self._beside = journal.read_all(path / _BESIDE, LibraryTrial)

    @classmethod
    def create(cls, path: Path, manifest: TuningManifest) -> Self:
        """Make a new folder, or use an empty one.

        Raises:
            InputError: The folder holds something, cannot be written, or is not for this kind of GPU.
        """
        begin_run(path, manifest)
        folder = cls(path, manifest)
        folder._lines.open()
        return folder

    @classmethod
    def resume(cls, path: Path, manifest: TuningManifest) -> Self:
        """Resume a folder.

        Args:
            path: The folder.
            manifest: What would be done now; it must be the same problem, board and way.

        Raises:
            InputError: The folder cannot be read or written, or is of something else.
        """
        folder = cls.read(path)
        require_unchanged(path, folder.manifest, manifest, "problem", "options", "model", "assembler")
        folder._lines.open()
        return folder

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Read a folder and take trials for it, as they come from another process that has ended.

        Raises:
            InputError: The folder cannot be read or written.
        """
        folder = cls.read(path)
        folder._lines.open()
        return folder

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a folder.

        Raises:
            InputError: It is none, or a file of it does not fit.
        """
        folder = cls(path, read_manifest(path / MANIFEST, TuningManifest, Kind.TUNING))
        held = folder._lines.by_name
        held.update({name: _over_limit(trial, folder.manifest.gpu) for name, trial in held.items()})
        return folder

    @property
    def trials(self) -> Mapping[str, Trial]:
        """Every trial by its name, in the order in which they were made."""
        return MappingProxyType(self._lines.by_name)

    def begin(self, candidate: Candidate, before: int = 0) -> None:
        """Say what is tried next, and how often it was measured before.

        Raises:
            InputError: The file cannot be written.
        """
        held = InProgress(len(self.trials), candidate.variant, candidate.settings, before)
        write_text(self.path / IN_PROGRESS, codec.to_text(held))

    def add(self, trial: Trial) -> None:
        """Keep one trial; it is on the disk when this returns.

        Raises:
            InputError: The disk is full.
        """
        self._lines.add(trial)
        self._nothing_in_progress()

    def require(self, source: SourceCheck) -> None:
        """Take the power of all trials out where the power source may not be believed.

        Raises:
            InputError: The disk is full.
        """
        objection = source.objection
        for trial in [t for t in self.trials.values() if objection and math.isfinite(t.energy_j)]:
            self.add(trial.without_power(objection))

    def believed(self) -> tuple[tuple[Trial, ...], str]:
        """Return the trials, without power where the energy counter contradicts all of it, and what it says.

        A search that was stopped has not taken such powers out itself. Of tunings from before they were
        compared nothing is said.
        """
        trials = tuple(self.trials.values())
        judged = [t.compared for t in trials if t.settled is not Settled.UNTESTED]
        if not judged:
            return trials, ""
        verdict = judge_compared(judged, board_sensor(self.manifest.sensors))
        if verdict.objection:
            measured = (
                t.without_power(verdict.objection) if math.isfinite(t.energy_j) else t for t in trials
            )
            return tuple(measured), verdict.objection
        scale = verdict.scale_uncertainty
        return trials, verdict.note or (
            f"all energies share a scale uncertainty of {scale:.1%}" if scale else ""
        )

    @property
    def beside(self) -> tuple[LibraryTrial, ...]:
        """What a library took for the same product, as often as it was measured."""
        return tuple(self._beside)

    def add_beside(self, trial: LibraryTrial) -> None:
        """Keep a measurement of a library; it is on the disk when this returns.

        Raises:
            InputError: The disk is full.
        """
        with closing(Journal(self.path / _BESIDE, create=True)) as writer:
            writer.append(trial)
        self._beside.append(trial)

    def close(self) -> None:
        """Write variants.csv, and give the right to write back.

        Raises:
            InputError: The file cannot be written.
        """
        if self._lines.is_open:
            self._lines.close()
            self._nothing_in_progress()
            write_text(
                self.path / VARIANTS, variants_csv(tuple(self.trials.values()), self.manifest.part.problem)
            )

    def _nothing_in_progress(self) -> None:
        with writing(self.path):
            (self.path / IN_PROGRESS).unlink(missing_ok=True)


def _over_limit(trial: Trial, gpu: GpuInfo) -> Trial:
    """Return a trial as capped where its power was over the limit and nobody tested whether it would stay so.

    Of a window of 0.4 s the driver does not always say that it met the limit.
    """
    most_w = (1 + SETTLE.over_limit) * BoardLimits.of(gpu, trial.settings).set_w
    untested = trial.settled is Settled.UNTESTED and trial.power_w > most_w
    return replace(trial, capped=True) if untested else trial


def variants_csv(trials: Sequence[Trial], problem: Problem | KernelProblem) -> str:
    """Return trials as CSV, one row each; a number that is not known is an empty cell.

    Settings have columns where any were set.
    """
    axes = tuple(dict.fromkeys(axis for trial in trials for axis in trial.settings.by_axis))
    own = tuple(dict.fromkeys(name for trial in trials for name, _ in trial.figures))
    of_gemm = ("dtype",) if isinstance(problem, Problem) else ()
    rows: list[Sequence[object]] = [
        ("variant", *of_gemm, *problem.parameters, *axes, *_FIGURES, "gflops", *_LATER, *own),
    ]
    for trial in trials:
        v = trial.variant
        dtype = (v.dtype,) if isinstance(v, Variant) else ()
        figures, later = ([_rounded(getattr(trial, name)) for name in names] for names in (_FIGURES, _LATER))
        gflops = _rounded(trial.gflops(trial.flops_of(problem)))
        settings = [trial.settings.by_axis.get(axis) for axis in axes]
        of_user = [_rounded(dict(trial.figures).get(name)) for name in own]
        rows.append((trial.name, *dtype, *v.values, *settings, *figures, gflops, *later, *of_user))
    return render_csv(rows)


def _rounded(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) and not math.isnan(value) else value
