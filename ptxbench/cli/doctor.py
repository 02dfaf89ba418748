"""`ptxbench doctor`: what can be measured on this machine, in one minute."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli import doctor_methods
from ptxbench.cli.command import group_of
from ptxbench.cli.doctor_sensor import sensor
from ptxbench.cli.options import GpuOptions
from ptxbench.cli.output import encoded, print_encoded
from ptxbench.cli.progress import progress_bar
from ptxbench.core.errors import GpuError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxbench.devices.base import Gpu
    from ptxbench.storage.doctor_file import DoctorFile, Verdict
    from ptxbench.storage.methods_file import MethodsFile

_MISSING_CODE, _BAD_CODE = 3, 1
_METHODS = "methods"


@dataclass(frozen=True, kw_only=True)
class _Options(GpuOptions):
    """Options of `ptxbench doctor`.

    Attributes:
        deep: Also compare the ways of reading power on kernels of many lengths (six minutes more).
    """

    deep: bool = False


@group_of(_Options, "doctor")
def command(options: _Options) -> None:
    """Find out what can be measured on this machine, and how, in some 80 s.

    One line each: driver, packages, permissions and tools; every power source with what it averages over and
    by which method it is how far off; the energy counter against the integrated power, idle and under load;
    what to use, and what not. Without a driver it says what is missing, and checks the rest. `ptxbench table
    --sensor FOLDER/sensor` uses what was measured.
    """
    import scipy  # noqa: F401, before anything is measured: it describes the sensors in the end

    from ptxbench.devices.machine_checks import machine_verdicts, tool_verdicts
    from ptxbench.storage.doctor_file import DoctorFile, State, Verdict

    if options.spec is not None and options.spec.startswith("replay:"):
        raise InputError("doctor measures: name a GPU, not a recorded run")
    is_simulated = options.spec is not None and options.spec.startswith("simulated")
    verdicts = tool_verdicts() if is_simulated else machine_verdicts()
    if not is_simulated:
        verdicts = (*verdicts, *_faults())
    folder: Path | None = None
    methods: MethodsFile | None = None
    if any(verdict.state is State.MISSING for verdict in verdicts):
        document = DoctorFile(None, verdicts)
    else:
        try:
            gpu = _open(options.spec)
        except GpuError as error:
            document = DoctorFile(None, (*verdicts, Verdict("GPU", State.MISSING, str(error))))
        else:
            document, folder, methods = _examine(gpu, verdicts, options)
    if options.as_json:
        beside = {"folder": None if folder is None else str(folder)}
        print_encoded(document, beside | ({"methods": encoded(methods)} if methods else {}))
    else:
        _print(document, folder)
        if methods and folder:
            click.echo()
            doctor_methods.print_methods(methods, folder / _METHODS)
    if State.MISSING in document.states:
        sys.exit(_MISSING_CODE)
    if State.BAD in document.states:
        sys.exit(_BAD_CODE)


def _faults() -> tuple[Verdict, ...]:
    """Return a line for each board that cannot be measured."""
    from ptxbench.devices.machine_checks import fault_verdicts

    try:
        from ptxbench.sensors.nvml import list_devices

        return tuple(fault_verdicts(list_devices()))
    except GpuError:
        return ()  # the driver or the package has its line


def _open(spec: str | None) -> Gpu:
    from ptxbench.devices.select import open_first, open_gpu

    return open_first() if spec is None else open_gpu(spec)


def _examine(
    gpu: Gpu, verdicts: Iterable[Verdict], options: _Options
) -> tuple[DoctorFile, Path, MethodsFile | None]:
    """Return what was found, its folder, and with --deep the comparison of methods."""
    from ptxbench.devices.machine_checks import board_verdicts
    from ptxbench.experiment.doctor import examine
    from ptxbench.experiment.sensor_choice import sensors_for
    from ptxbench.storage.doctor_file import State
    from ptxbench.storage.sensor_file import DOCTOR_SENSOR

    try:
        with progress_bar() as show:
            document, folder = examine(gpu, (*verdicts, *board_verdicts(gpu)), options.out, show)
        if not options.deep or State.MISSING in document.states:
            return document, folder, None
        sensors = sensors_for(folder / DOCTOR_SENSOR, gpu)
        methods, _ = doctor_methods.measure(gpu, folder / _METHODS, sensors, options.spec)
        return document, folder, methods
    finally:
        gpu.close()


def _print(document: DoctorFile, folder: Path | None) -> None:
    states = max(len(verdict.state) for verdict in document.verdicts)
    subjects = max(len(verdict.subject) for verdict in document.verdicts)
    for verdict in document.verdicts:
        click.echo(f"{verdict.state:<{states}}  {verdict.subject:<{subjects}}  {verdict.text}")
    if folder is not None:
        click.echo(f"\nfolder: {folder}")


command.add_command(sensor)
command.add_command(doctor_methods.methods)
