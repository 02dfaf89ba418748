"""Runs trials on one GPU into one run folder; a trial that is there already is not run again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import ceil, inf

from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.devices.base import Gpu, Launch
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.kernel import MAX_ITERATIONS, Kernel
from ptxbench.experiment.numeric_check import ExpectedModule
from ptxbench.experiment.trial_record import make_failure, validated
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TrialRecord

# A first guess that takes a fraction of a second at most on any GPU, also where an SM runs many blocks; what
# later ones aim at, and what one to rely on takes at least: a launch of an H200 takes 0.1 ms beside its loop.
# The first is never relied on: the driver may load the kernel's code within it, for up to 0.1 s.
FIRST_ITERATIONS = 40
GUESS_S = 0.005
_LEAST_GUESS_S = 0.003
_MAX_GUESSES = 6
# Number of the launches that are compared with the reference: none of a calibration's, which are below 0 too.
_CHECK = -1_000_000
_DIED = "the process ended while this kernel ran"


class Runner:
    """One GPU, one run folder, one power source.

    Args:
        gpu: Where kernels run.
        folder: Where trials are kept.
        sensor: The source that energies and powers are taken from.
        on_trial: Called after every trial, with its record.

    Attributes:
        measured: Trials that really ran, calibration left out.
    """

    def __init__(
        self,
        gpu: Gpu,
        folder: RunFolder,
        sensor: SensorDescription,
        on_trial: Callable[[TrialRecord], None] = lambda _: None,
    ) -> None:
        self.gpu = gpu
        self.folder = folder
        self.sensor = sensor
        self.measured = 0
        self._on_trial = on_trial
        self._warm: str | None = None
        self._checked: dict[str, TrialRecord | None] = {}

    def trial(self, kernel: Kernel, repeat: int, warm_for: str = "") -> TrialRecord:
        """Return one trial's record: the run's own where it holds it, else run it and keep it.

        A kernel that could not run gives a record with status launch_failed.

        Args:
            kernel: What to run.
            repeat: Number of the repeat.
            warm_for: What the GPU is warmed up once for; "": the kernel's subject.

        Raises:
            GpuError: The GPU stopped answering.
            InputError: The trial cannot be written.
        """
        held = self.folder.record(kernel.trial_id(repeat))
        if held is not None:
            return held
        launch = kernel.launch(repeat)
        failure = self._failure(kernel, repeat, _DIED)
        self.folder.note_in_progress(failure)
        if repeat >= 0:
            self._warm_up(launch, warm_for or kernel.subject)
        try:
            run = self.gpu.run(launch)
        except LaunchError as error:
            record, trace = self._failure(kernel, repeat, str(error)), None
        else:
            known = self.folder.manifest.sensors
            record, trace = validated(failure, run, self.sensor, self.gpu.info, known), run.trace
        self.folder.append(record, trace)
        self.measured += repeat >= 0
        self._on_trial(record)
        return record

    def check(self, prepared: BuiltKernels) -> TrialRecord | None:
        """Compare what a module computes with what it must; each is launched small, once, before its trials.

        Returns:
            The record of a module that computes something else or could not run, or None.

        Raises:
            GpuError: The GPU stopped answering.
            InputError: The record cannot be written.
        """
        code, expected = prepared.cubin.sha256, prepared.expected
        if expected is not None and code not in self._checked:
            launch = expected.launch
            kernel = prepared.kernel(Role.TARGET, launch.grid, launch.block)
            self._checked[code] = self._check(replace(kernel, iterations=launch.iterations), expected)
        return self._checked.get(code)

    def _check(self, kernel: Kernel, expected: ExpectedModule) -> TrialRecord | None:
        held = self.folder.record(kernel.trial_id(_CHECK))
        if held is not None:
            return held
        self.folder.note_in_progress(self._failure(kernel, _CHECK, _DIED))
        try:
            computed = expected.computed(self.gpu)
        except LaunchError as error:
            status, reason = Status.LAUNCH_FAILED, str(error)
        else:
            if not computed.is_wrong:
                return None
            status, reason = (
                Status.GATE_FAILED,
                f"it does not do what the instruction does: {computed.detail}",
            )
        record = replace(self._failure(kernel, _CHECK, reason), status=status)
        self.folder.append(record)
        return record

    def _failure(self, kernel: Kernel, repeat: int, reason: str) -> TrialRecord:
        board, at_ns = self.gpu.info.uuid_hash, self.gpu.clock.now_ns()
        return make_failure(kernel, repeat, len(self.folder), board, at_ns, reason)

    def calibrated(self, kernel: Kernel, window_s: float, first: int = 0) -> Kernel:
        """Return the kernel with the loop count that fills `window_s`.

        Short trials find the time of one pass of the loop; they are numbered downwards from
        `-first - 1`, where `first` is the number of the repeat to come. The quickest counts: a busy host
        only adds time.

        Raises:
            LaunchError: The kernel did not run.
        """
        kernel = replace(kernel, iterations=kernel.iterations or FIRST_ITERATIONS)
        turns = ceil(kernel.grid / self.gpu.info.sm_count)
        per_pass_s = inf
        for guess in range(1, _MAX_GUESSES + 1):
            record = self.trial(kernel, -first - guess)
            if record.elapsed_s != record.elapsed_s or record.elapsed_s <= 0:
                raise LaunchError(record.reason or "the kernel took no time")
            busy_s = _busy_s(record, turns)
            per_pass_s = min(per_pass_s, busy_s / record.iterations)
            if guess > 1 and busy_s >= _LEAST_GUESS_S:
                break
            kernel = replace(kernel, iterations=min(int(GUESS_S / per_pass_s) + 1, MAX_ITERATIONS))
        return kernel.lasting(window_s, per_pass_s)

    def _warm_up(self, launch: Launch, warm_for: str) -> None:
        """Run a kernel unrecorded before the first trial of its subject or round that really runs.

        A resumed run warms up again.
        """
        if self._warm == warm_for:
            return
        self._warm = warm_for
        # A kernel that cannot run says so in its own trial.
        with suppress(LaunchError):
            self.gpu.run(replace(launch, trial_id=f"{warm_for}/warm-up"))


def _busy_s(record: TrialRecord, turns: int) -> float:
    """Return how long a launch took, without what a busy host or driver adds between its events.

    It is no longer than the SM that ran `turns` blocks one after another, each as long as the block that
    read the GPU's timer. Where the timer did not move, only the events are left.
    """
    in_turn_s = turns * record.globaltimer_ns * 1e-9
    return min(record.elapsed_s, in_turn_s) if in_turn_s > 0 else record.elapsed_s
