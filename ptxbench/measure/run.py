"""The main job: measure a set of instructions and fill a run folder with rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.model import Form, Instruction
from ptxbench.errors import InputError, LaunchError, NotMeasurableError, RefusedModuleError
from ptxbench.gpu.protocol import Cubin, Gpu, OptLevel
from ptxbench.measure.arafa import arafa_row, measure_arafa
from ptxbench.measure.bench import Bench
from ptxbench.measure.dynamic import dynamic_row, measure_dynamic
from ptxbench.measure.static import fit_static
from ptxbench.measure.unit import Unit, empty_row
from ptxbench.power.sensor import SensorDescription
from ptxbench.power.source import SourceName
from ptxbench.ptx.module import Module, build_module
from ptxbench.ptx.operands import Pattern, operand_bytes
from ptxbench.ptx.render import render_sleep
from ptxbench.ptx.target import find_target
from ptxbench.sass.gate import Judgement
from ptxbench.sass.listing import disassemble
from ptxbench.status import Status
from ptxbench.store.manifest import RunArguments
from ptxbench.store.run_folder import RunFolder
from ptxbench.store.schema import Protocol, Role, TableRow, TrialRecord

# Fresh readings that the settled part of a window should hold.
_READINGS = 20
_MIN_WINDOW_S = 0.5


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        done: Units finished.
        total: Units in all.
        unit: The unit in hand.
    """

    done: int
    total: int
    unit: str


def choose_sensor(
    gpu: Gpu, source: SourceName | None, sensors: Sequence[SensorDescription] = ()
) -> SensorDescription:
    """Return the power source to measure with.

    Args:
        gpu: The GPU; its `sensors` are best for steady power first.
        source: The one asked for, or None for the best.
        sensors: What `ptxbench sensor` found about them, best first; none: as the GPU describes them.

    Raises:
        InputError: The GPU does not answer the source asked for.
    """
    known = tuple(sensors) or gpu.sensors
    if source is None:
        return known[0]
    for sensor in known:
        if sensor.source == source:
            return sensor
    names = ", ".join(sensor.source for sensor in known)
    raise InputError(f"{gpu.info.name} does not answer the power source '{source}'; it answers: {names}")


def default_window_s(sensor: SensorDescription) -> float:
    """Return a kernel duration that leaves the sensor time to settle and some readings after it."""
    return max(_MIN_WINDOW_S, sensor.settle_s + _READINGS * max(sensor.refresh_s, 0.001))


def measure_table(
    gpu: Gpu,
    folder: RunFolder,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_trial: Callable[[TrialRecord], None] = lambda _: None,
) -> tuple[TableRow, ...]:
    """Measure what the folder's manifest asks for, and finish the folder.

    Every trial is on the disk before the next begins; a folder that holds trials already is gone on with.

    Args:
        gpu: Where kernels run.
        folder: A run folder that was created or resumed.
        on_progress: Called before every unit, and at the end.
        on_trial: Called after every trial that really ran.

    Returns:
        The table's rows, in the order asked for.

    Raises:
        GpuError: The GPU stopped answering; what was measured is kept.
        InputError: An instruction is unknown, or the folder cannot be written.
        ToolError: ptxas or nvdisasm is missing or was stopped; what was measured is kept.
    """
    if folder.finished:
        return folder.rows()
    bench = Bench(gpu, folder, choose_sensor(gpu, folder.manifest.source, folder.manifest.sensors), on_trial)
    builder = _Builder(bench)
    sleep = builder.sleep()
    tasks = _plan(folder.manifest.arguments)
    results: list[TableRow | Unit] = []
    for done, task in enumerate(tasks):
        on_progress(Progress(done, len(tasks), task.name))
        results.append(_measure_task(bench, task, builder, sleep))
    on_progress(Progress(len(tasks), len(tasks), ""))
    solved = iter(solve_rows([r for r in results if isinstance(r, Unit)], folder))
    table = tuple(r if isinstance(r, TableRow) else next(solved) for r in results)
    folder.finish(table, datetime.now(UTC))
    return table


def solve_rows(units: Sequence[Unit], folder: RunFolder) -> tuple[TableRow, ...]:
    """Return the rows of units from the trials that the folder holds: pure arithmetic.

    Args:
        units: What was measured.
        folder: The run.
    """
    records = folder.records()
    static = fit_static(records)
    of_unit: dict[str, list[TrialRecord]] = {unit.name: [] for unit in units}
    for record in records:
        name = record.trial_id.rsplit("/", 2)[0]
        if name in of_unit and record.role is not Role.STATIC:
            of_unit[name].append(record)
    sm_count = folder.manifest.gpu.sm_count
    return tuple(
        dynamic_row(unit, of_unit[unit.name], static, sm_count)
        if unit.protocol is Protocol.DYNAMIC
        else arafa_row(unit, of_unit[unit.name])
        for unit in units
    )


@dataclass(frozen=True)
class _Task:
    """One row to fill."""

    instruction: Instruction
    opt_level: OptLevel
    protocol: Protocol
    pattern: Pattern

    @property
    def form(self) -> Form:
        """One chain where latency counts, several where the whole chip is at work."""
        return Form.LATENCY if self.protocol is Protocol.ARAFA else self.instruction.forms(self.opt_level)[-1]

    @property
    def name(self) -> str:
        return f"{self.instruction.name} -{self.opt_level} {self.protocol} {self.pattern}"


def _plan(arguments: RunArguments) -> list[_Task]:
    """Return the rows asked for, level by level and protocol by protocol."""
    return [
        _Task(find_instruction(name), level, protocol, Pattern(pattern))
        for name in arguments.instructions
        for level in arguments.opt_levels
        for protocol in arguments.protocols
        for pattern in arguments.patterns
    ]


class _Builder:
    """Builds each module once: a row of each protocol and pattern uses the same."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._target = find_target(bench.gpu.info.target)
        self._key: tuple[str, OptLevel, Form] | None = None
        self._module: Module | None = None

    def build(self, instruction: Instruction, opt_level: OptLevel, form: Form) -> Module:
        """Return the module, kept in the run folder."""
        key = (instruction.name, opt_level, form)
        if self._module is None or self._key != key:
            module = build_module(instruction, self._target, opt_level, form, self._bench.gpu.assemble)
            self._bench.folder.add_kernel(
                f"{instruction.name}/{form}", module.ptx, module.listing, module.cubin
            )
            self._key, self._module = key, module
        return self._module

    def sleep(self) -> Cubin:
        """Return the module of the sleeping kernel, kept in the run folder."""
        ptx = render_sleep(self._target)
        cubin = self._bench.gpu.assemble(ptx, OptLevel.O3)
        self._bench.folder.add_kernel("static", ptx, disassemble(cubin.image), cubin)
        return cubin


def _measure_task(bench: Bench, task: _Task, builder: _Builder, sleep: Cubin) -> TableRow | Unit:
    """Measure one row; return its unit, or its row where it got no further."""
    arguments = bench.folder.manifest.arguments
    judgement: Judgement | None = None

    def row(status: Status, reason: str) -> TableRow:
        return empty_row(
            task.instruction, task.opt_level, task.protocol, task.pattern, status, reason, judgement
        )

    try:
        module = builder.build(task.instruction, task.opt_level, task.form)
        judgement = module.judgement
        if not judgement.passed:
            return row(Status.GATE_FAILED, judgement.reason)
        operands = operand_bytes(task.instruction, task.pattern, bench.folder.manifest.order_seed)
        unit = Unit(module, task.protocol, task.pattern, operands)
        if task.protocol is Protocol.DYNAMIC:
            measure_dynamic(bench, unit, sleep, arguments)
        else:
            measure_arafa(bench, unit, arguments)
    except LaunchError as error:
        return row(Status.LAUNCH_FAILED, str(error))
    except (NotMeasurableError, RefusedModuleError) as error:
        return row(Status.NOT_SUPPORTED, str(error))
    return unit
