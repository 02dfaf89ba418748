"""Recompute a recorded run without a GPU: validate every trial from its trace, and solve every row.

The trials are those of the recorded run, even where the rules by which a run chooses what to repeat have
changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ptxbench.analysis.run_cost import run_cost
from ptxbench.analysis.subject import Subject
from ptxbench.core.status import Status
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.build import Builder
from ptxbench.experiment.plan import plan_batches, plan_subjects
from ptxbench.experiment.protocols import find_protocol
from ptxbench.experiment.results import Results
from ptxbench.experiment.trial import Runner
from ptxbench.experiment.trial_record import validated
from ptxbench.model.solve_run import store_solved
from ptxbench.storage.schema import TableRow, TrialRecord


def reanalyse(gpu: ReplayGpu, runner: Runner) -> tuple[TableRow, ...]:
    """Fill a run folder from the recorded one, and finish it.

    Args:
        gpu: The recorded run.
        runner: The new folder, and the power source.

    Returns:
        The rows that the new folder's manifest lists, in that order.

    Raises:
        ReplayError: The recorded run does not hold the kernels that its manifest lists.
        InputError: The folder cannot be written.
    """
    folder = runner.folder
    subjects = plan_subjects(folder.manifest.part.arguments)
    recorded = {row.subject: row for row in gpu.rows}
    measured = {record.subject for record in gpu.records if record.repeat >= 0}
    # The run may lack the kernels of these. (A killed process leaves no row for what it measured last.)
    without_kernel = {
        name: row
        for name, row in recorded.items()
        if row.status is Status.NOT_SUPPORTED or (row.status is Status.NOT_REACHED and name not in measured)
    }
    begun = [subject for subject in subjects if subject.name not in without_kernel]
    results = Results(folder.manifest.part.known_difference, folder.manifest.part.arguments.precision)
    with Builder(gpu, folder) as builder:
        builder.begin_sleep().result()
        for batch in plan_batches(begun, folder.manifest.part.order_seed):
            results.take(builder.begin(batch).result())
    records = gpu.records
    wanted = results.subjects.keys() | _shared(results.subjects.values(), records)
    for record in records:
        if record.subject not in wanted or folder.record(record.trial_id) is not None:
            continue
        run = gpu.recorded(record)
        recomputed = replace(record, order=len(folder))
        # Of the short trials that find the loop count no readings are kept.
        if record.status is not Status.LAUNCH_FAILED and record.repeat >= 0:
            recomputed = validated(recomputed, run, runner.sensor, gpu.info, folder.manifest.sensors)
        folder.append(recomputed, run.trace)
    solved = results.rows(
        subjects,
        folder.records(),
        folder.manifest.gpu,
        {name: row.reason for name, row in recorded.items() if row.status is Status.LAUNCH_FAILED},
        "the recorded run did not reach it",
    )
    rows = tuple(
        row if row.status.has_number else _as_recorded(row, recorded.get(subject.name))
        for subject, row in zip(subjects, solved, strict=True)
    )
    cost = run_cost(folder.records())
    folder.finish(rows, datetime.now(UTC), cost, results.level_error, results.source)
    store_solved(folder, results.common)
    return rows


def _as_recorded(row: TableRow, recorded: TableRow | None) -> TableRow:
    """Return the recorded row where the run refused or did not reach the subject, else the row."""
    if recorded is None:
        return row
    # A replay cannot compare what a kernel computes: where the run did, there are no trials.
    computed_wrong = recorded.status is Status.GATE_FAILED and row.status is Status.NOT_REACHED
    if computed_wrong or recorded.status in (Status.NOT_SUPPORTED, Status.NOT_REACHED):
        return recorded
    return row


def _shared(subjects: Iterable[Subject], records: Sequence[TrialRecord]) -> set[str]:
    """Return under which names kernels that subjects share were measured."""
    launches: dict[str, set[tuple[int, int]]] = {}
    for record in records:
        launches.setdefault(record.subject, set()).add((record.grid, record.block))
    names: set[str] = set()
    for subject in subjects:
        protocol = find_protocol(subject.condition.protocol)
        names |= protocol.shared_kernels(subject, tuple(launches.get(subject.name, ())))
    return names
