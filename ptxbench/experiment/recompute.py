"""A recorded run once more: every trial judged from its trace, and every row worked out, without a GPU.

Nothing is decided anew: the trials are those that the run held, also where the rules by which a run
chooses what to repeat have changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ptxbench.analysis.operating_point import STATIC_UNIT
from ptxbench.analysis.overhead import OVERHEAD_ROLES
from ptxbench.analysis.run_cost import run_cost
from ptxbench.analysis.subject import Subject, unit_name
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.status import Status
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.ledger import Ledger
from ptxbench.experiment.plan import plan_batches, plan_tasks
from ptxbench.experiment.prepare import Preparer
from ptxbench.experiment.trial import Bench
from ptxbench.experiment.trial_record import judged
from ptxbench.model.solve_run import store_solved
from ptxbench.storage.schema import TableRow, TrialRecord
from ptxbench.storage.table import row_key


def measure_again(gpu: ReplayGpu, bench: Bench) -> tuple[TableRow, ...]:
    """Fill a run folder from the recorded one, and finish it.

    Args:
        gpu: The recorded run.
        bench: The new folder, and the power source.

    Returns:
        The rows that the new folder's manifest asks for, in that order.

    Raises:
        ReplayError: The recorded run does not hold the kernels of what is asked for.
        InputError: The folder cannot be written.
    """
    folder = bench.folder
    tasks = plan_tasks(folder.manifest.arguments)
    recorded = {unit_name(*row_key(row)): row for row in gpu.rows}
    measured = {record.unit for record in gpu.records if record.repeat >= 0}
    # Of these the run need not hold a kernel. A process that was killed left rows that have trials unwritten.
    without_kernel = {
        unit: row
        for unit, row in recorded.items()
        if row.status is Status.NOT_SUPPORTED or (row.status is Status.NOT_REACHED and unit not in measured)
    }
    begun = [task for task in tasks if task.unit not in without_kernel]
    ledger = Ledger()
    with Preparer(gpu, folder) as preparer:
        preparer.begin_sleep().result()
        for batch in plan_batches(begun, folder.manifest.order_seed):
            ledger.take(preparer.begin(batch).result())
    records = gpu.records
    wanted = ledger.units.keys() | _shared(ledger.units.values(), records)
    for record in records:
        if record.unit not in wanted or folder.record(record.trial_id) is not None:
            continue
        run = gpu.recorded(record)
        again = replace(record, order=len(folder))
        # Of the short trials that find the loop count no readings are kept.
        if record.status is not Status.LAUNCH_FAILED and record.repeat >= 0:
            again = judged(again, run, bench.sensor, gpu.info.sm_count)
        folder.append(again, run.trace)
    solved = ledger.rows(
        tasks,
        folder.records(),
        folder.manifest.gpu.sm_count,
        {unit: row.reason for unit, row in recorded.items() if row.status is Status.LAUNCH_FAILED},
        "the recorded run did not reach it",
    )
    rows = tuple(
        row if row.status is Status.OK else _as_recorded(row, recorded.get(task.unit))
        for task, row in zip(tasks, solved, strict=True)
    )
    folder.finish(rows, datetime.now(UTC), run_cost(folder.records()), ledger.level_error)
    store_solved(folder, ledger.common)
    return rows


def _as_recorded(row: TableRow, recorded: TableRow | None) -> TableRow:
    """Return what the run itself said of a row without a number that it refused or did not reach."""
    if recorded is not None and recorded.status in (Status.NOT_SUPPORTED, Status.NOT_REACHED):
        return recorded
    return row


def _shared(units: Iterable[Subject], records: Sequence[TrialRecord]) -> set[str]:
    """Return under which names the units' overhead loops and the sleeping kernel were measured."""
    shapes: dict[str, set[tuple[int, int]]] = {}
    for record in records:
        shapes.setdefault(record.unit, set()).add((record.grid, record.block))
    names = set()
    for unit in units:
        if unit.protocol == DYNAMIC:
            names.add(STATIC_UNIT)
            for grid, block in shapes.get(unit.name, ()):
                names |= {name for role in OVERHEAD_ROLES for name in unit.overhead_names(role, grid, block)}
    return names
