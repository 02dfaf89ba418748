"""`ptxbench run`: the energy of any program, by GPU and by kernel."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import click

from ptxbench.cli.command import command_of, of_flags
from ptxbench.cli.parameters import Fraction
from ptxbench.cli.terminal import as_written
from ptxbench.core.errors import InputError
from ptxbench.core.option import Arg, Opt
from ptxbench.core.printable import printable
from ptxbench.core.shared_options import Json, TableFolder
from ptxbench.core.wrap import width_of
from ptxbench.report.metrics import prometheus_text
from ptxbench.storage.atomic import require_file, write_bytes, write_text
from ptxbench.storage.file_errors import writing

if TYPE_CHECKING:
    from ptxbench.attribute.powers import Expected
    from ptxbench.attribute.program import ProgramEnergy
    from ptxbench.attribute.rank import Rank
    from ptxbench.attribute.recorded import RecordedProgram
    from ptxbench.attribute.replay.profile import Profile

# In the folder of a run, beside what it was worked out from.
_REPORT, _TABLE = "energy.json", "kernels.csv"
_PREFIX = "ptxbench: "


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench run`.

    Attributes:
        spec: The GPU: all, or a list such as 0,1 (default: all visible); simulated[:PROFILE] with --from.
        no_kernels: Do not follow kernels: energy of the whole run only.
        timer: What times kernels: cupti, or events, which are less exact (cupti where it is free).
        max_launch_rate: Look at kernels in turns where a process launches more a second (default: 5000; with
            --trace 1e9, which is at all).
        replay: Launch each kind of kernel again when the program is over, for its energy a launch.
        replay_after: The same after so many launches, while the program waits.
        out: Where to write: a folder, new or empty, for the run and its report.
        kept: Report a run that --out kept; nothing runs.
        trace: Write kernels, power and clock for Perfetto; .gz packs it.
        html: Write the report as a page for a browser.
        flame: Write stacks for flame graphs: .pb.gz (pprof), .speedscope.json, .collapsed, .hatchet.json.
        metrics: Write energies as metrics in the text format of Prometheus, for its textfile collector.
        ncu: CSV of `ncu --csv --page raw` with the executed counts, for --table.
        replayed: An earlier run of --replay, or of ptxbench.profile, to split kernels by that run together.
        baseline: An earlier energy.json, or its folder, to compare with.
        per: How many of a unit the command makes, such as token=4096; ptxbench.count says it from within.
        methods: Say beside it what SMA, PAPI-style and MTSM (Eq. 2 of Arafa et al.) give for the whole run.
        idle: Measure the idle power for so many seconds before the command, and report energy above it.
        limit: Exit with 1 if a number differs by more than this, such as 3%, upward from --baseline, or is
            unknown.
    """

    spec: Annotated[str | None, Opt(metavar="GPU", flag="--gpu")] = None
    no_kernels: bool = False
    timer: Annotated[str, Opt(choices=("cupti", "events"))] = "cupti"
    max_launch_rate: Annotated[float | None, Opt(1, 1e9, metavar="PER_S")] = None
    replay: bool = False
    replay_after: Annotated[int | None, Opt(1, 10**15, metavar="N")] = None
    out: Path | None = None
    kept: Annotated[Path | None, Opt(metavar="RUN", flag="--from")] = None
    trace: Annotated[Path | None, Opt(metavar="FILE")] = None
    html: Annotated[Path | None, Opt(metavar="FILE")] = None
    flame: Annotated[Path | None, Opt(metavar="FILE")] = None
    metrics: Annotated[Path | None, Opt(metavar="FILE")] = None
    table: TableFolder = None
    ncu: Path | None = None
    replayed: Annotated[Path | None, Opt(metavar="RUN")] = None
    baseline: Path | None = None
    limit: Annotated[float | None, Opt(kind=Fraction(), metavar="FRACTION", flag="--fail-over")] = None
    as_json: Json = False
    per: Annotated[Mapping[int | str, float] | None, Opt(metavar="UNIT=N")] = None
    methods: bool = False
    idle: Annotated[float | None, Opt(0.5, 3600, metavar="S")] = None
    words: Annotated[tuple[str, ...], Arg(kind=click.UNPROCESSED)] = ()


@command_of(
    _Options,
    "run",
    short_help="Measure the energy of any program, by kernel.",
    context_settings={"allow_interspersed_args": False},
)
def command(options: _Options) -> int:
    """Run the command WORDS and report what its GPUs drew, by kernel name.

    The command keeps its input, output and exit code (128 + n where signal n ended it). The report follows on
    standard error (of --from on standard output); --json makes it JSON. The energy is that of the whole
    board, idle power included. No GPU is set. Kernels need CUPTI, and without a wheel of this machine a C
    compiler; else the whole run is measured.

    Started by torchrun, mpirun or srun, each rank measures its own GPU, and writes a folder of its own into
    that of --out; `ptxbench report` sums and compares them.
    """
    from ptxbench.attribute.child import CommandNotRunError
    from ptxbench.attribute.program import energy_of
    from ptxbench.attribute.rank import rank_of
    from ptxbench.attribute.replay.of_program import program_profiles
    from ptxbench.attribute.unfinished import forget_unfinished

    _check_usage(options)
    rank = rank_of(os.environ) if options.kept is None else None
    if rank is not None:
        options = _of_rank(options, rank)
    _check_table(options.table, options.ncu)
    _check_files(options.trace, options.html, options.flame, options.metrics)
    replays = _replays(options.replayed)
    out = options.out
    if out is not None:
        _make_folder(out)
    try:
        recorded = _kept(options.kept, options.spec) if options.kept is not None else _record(options, rank)
    except CommandNotRunError as error:
        if out is not None:
            forget_unfinished(out)
        _say([str(error)])
        return error.exit_code
    failed = None
    if out is not None:
        place = _free_place(out)
        failed = _keep_recorded(recorded, place)
        if failed is None:
            forget_unfinished(out)
            out = place
    expected, refused = _expected(recorded, options.table, options.ncu, replays)
    units = {str(unit): n for unit, n in (options.per or {}).items()}
    program = energy_of(recorded, expected, units)
    profiles = program_profiles(recorded, program)
    # What was measured is shown, whatever cannot be written.
    _show(recorded, program, profiles, options)
    if failed is not None:
        raise failed
    if out is not None:
        _keep(program, profiles, out)
    if refused is not None:
        raise refused
    _write(recorded, program, profiles, expected, options)
    exit_code = program.exit_code if options.kept is None else 0
    return exit_code or _compare(program, options.baseline, options.limit)


def _show(
    recorded: RecordedProgram, program: ProgramEnergy, profiles: Sequence[Profile], options: _Options
) -> None:
    """Print the report, and what published methods give for the run.

    Standard output is the command's; that of --from, which runs none, has the report.
    """
    from ptxbench.attribute.published_methods import method_document, method_energies, method_lines
    from ptxbench.attribute.report import document, lines

    energies = method_energies(recorded, program) if options.methods else ()
    stream, begin, show = (
        (sys.stderr, _PREFIX, _print) if options.kept is None else (sys.stdout, "", click.echo)
    )
    if options.as_json:
        methods = {"methods": method_document(energies)} if options.methods else {}
        show(json.dumps(document(program, profiles) | methods, indent=1), as_written(stream))
        return
    width = width_of(stream)
    inner = None if width is None else width - len(begin)
    rank = recorded.facts.rank
    before = "" if rank is None else f"rank {rank.number}: "
    said = [*lines(program, profiles, width=inner), *method_lines(energies, inner)]
    show("\n".join(f"{begin}{before}{printable(line)}" for line in said), stream)


def _kept(folder: Path, spec: str | None) -> RecordedProgram:
    """Return a kept run, or what the simulated GPU draws for its kernels."""
    from ptxbench.attribute.recorded import RUN, load
    from ptxbench.attribute.unfinished import BEGUN, load_unfinished

    is_unfinished = (folder / BEGUN).exists() and not (folder / RUN).exists()
    recorded = load_unfinished(folder) if is_unfinished else load(folder)
    if spec is None:
        return recorded
    from ptxbench.attribute.simulated import replay
    from ptxbench.devices.simulated import SimulatedGpu, find_board

    _, _, board = spec.partition(":")
    return replay(recorded, SimulatedGpu(*find_board(board or "h200")))


def _of_rank(options: _Options, rank: Rank) -> _Options:
    """Return the options of a rank: a folder of its own, and no files that every rank would write."""
    if any(path is not None for path in (options.trace, options.html, options.flame, options.metrics)):
        raise click.UsageError(
            f"Each of the {rank.size} ranks of {rank.launcher} would write --trace, --html, --flame and"
            " --metrics: leave them out, and take them of a kept rank by `ptxbench run --from FOLDER/rank-0`."
        )
    return options if options.out is None else replace(options, out=options.out / rank.folder)


def _record(options: _Options, rank: Rank | None) -> RecordedProgram:
    from ptxbench.api.board import open_boards
    from ptxbench.attribute.program import ALL_LAUNCHES, MAX_LAUNCH_RATE_PER_S, record_program
    from ptxbench.devices.select import named_gpus

    # The numbers of `ptxbench gpus`, as everywhere in the command line; not those of CUDA.
    specs = _own_gpus(rank) if options.spec is None else [gpu.spec for gpu in named_gpus(options.spec)]
    return record_program(
        open_boards(specs),
        options.words,
        kernels=not options.no_kernels,
        timer=options.timer,
        max_launch_rate_per_s=options.max_launch_rate
        or (ALL_LAUNCHES if options.trace else MAX_LAUNCH_RATE_PER_S),
        replay=options.replay,
        replay_after=options.replay_after,
        out=options.out,
        idle_s=options.idle or 0.0,
        rank=rank,
    )


def _own_gpus(rank: Rank | None) -> list[str] | None:
    """Return the GPUs of a rank of a job; None for all that are visible."""
    if rank is None:
        return None
    from ptxbench.attribute.rank import own_gpus
    from ptxbench.devices.visible import Machine

    return own_gpus(rank, [board.uuid for board in Machine().usable()])


def _check_usage(options: _Options) -> None:
    """Refuse options that do not go together, and an earlier report that is none, before anything runs."""
    from ptxbench.attribute.baseline import read_report
    from ptxbench.attribute.stack_formats import format_of

    if options.flame is not None:
        format_of(options.flame)

    spec, kept, baseline = options.spec, options.kept, options.baseline
    if (baseline is None) != (options.limit is None):
        raise click.UsageError("--baseline and --fail-over need each other.")
    if bool(options.words) == (kept is not None):
        raise click.UsageError("Give a command to run, or --from RUN.")
    replay = options.replay or options.replay_after is not None
    if replay and (options.no_kernels or options.timer != "cupti" or kept is not None):
        raise click.UsageError(
            "--replay needs the kernels of a command that runs, one by one by CUPTI: leave out --no-kernels,"
            " --timer and --from."
        )
    if kept is not None and options.idle is not None:
        raise click.UsageError("--idle measures before a command; a kept run has what was measured then.")
    following = (options.no_kernels, options.timer, options.max_launch_rate)
    if kept is not None and following != (_Options.no_kernels, _Options.timer, _Options.max_launch_rate):
        raise click.UsageError(
            "--no-kernels, --timer and --max-launch-rate say how a command is followed; --from runs none."
        )
    if kept is None and spec is not None and "simulated" in spec:
        raise click.UsageError(
            "A simulated GPU runs no program; with --from RUN it replays the kernels of a kept run."
        )
    if kept is not None and spec is not None and not spec.startswith("simulated"):
        raise click.UsageError("--from reads a kept run: --gpu can only be simulated[:PROFILE].")
    if baseline is not None:
        read_report(baseline)


def _expected(
    recorded: RecordedProgram, table: Path | None, ncu: Path | None, replays: Sequence[Profile]
) -> tuple[dict[str, Expected], InputError | None]:
    """Return what a table and an earlier replay expect of the kernels, and why they cannot tell."""
    from ptxbench.attribute.expected import expected_powers, replayed_powers

    try:
        replayed = replayed_powers(recorded, replays)
        if table is None or ncu is None:
            return replayed, None
        return {**replayed, **expected_powers(recorded, table, ncu)}, None
    except InputError as error:
        return {}, error


def _replays(folder: Path | None) -> tuple[Profile, ...]:
    """Return what an earlier run launched again; refuse one that did not, before anything runs."""
    if folder is None:
        return ()
    from ptxbench.attribute.expected import load_replays

    return load_replays(folder)


def _compare(program: ProgramEnergy, baseline: Path | None, limit: float | None) -> int:
    """Print how a run compares with an earlier report, and return 1 where it must not pass."""
    if baseline is None or limit is None:
        return 0
    from ptxbench.attribute.baseline import compare

    judgement = compare(program, baseline, limit)
    _say([of_flags(line) for line in judgement.lines])
    return 0 if judgement.is_passed else 1


def _check_table(table: Path | None, ncu: Path | None) -> None:
    """Refuse a table or counts that cannot be read, before anything runs."""
    if (table is None) != (ncu is None):
        raise click.UsageError("--table and --ncu need each other.")
    if table is None or ncu is None:
        return
    from ptxbench.api.table import load_table
    from ptxbench.model.ncu import read_launches

    load_table(table)
    read_launches(ncu)


def _check_files(*paths: Path | None) -> None:
    """Refuse files that cannot be written, or are there already, before anything runs."""
    for path in paths:
        if path is None:
            continue
        require_file(path)
        if path.exists():
            raise click.UsageError(f"{path} exists already; name a new file.")


def _write(
    recorded: RecordedProgram,
    program: ProgramEnergy,
    profiles: Sequence[Profile],
    expected: Mapping[str, Expected],
    options: _Options,
) -> None:
    trace, html, flame = options.trace, options.html, options.flame
    for path in (trace, html, flame, options.metrics):
        # Before the command ran there was no such file.
        if path is not None and path.exists():
            raise InputError(
                f"{path} was made meanwhile, by the command perhaps, and stays; name another file"
            )
    if trace is not None:
        from ptxbench.attribute.timeline import write_timeline

        write_timeline(recorded, program, trace)
    if html is not None:
        from ptxbench.attribute.page import program_page

        write_text(html, program_page(recorded, program, profiles, expected))
    if options.metrics is not None:
        from ptxbench.attribute.metrics import program_samples

        write_text(options.metrics, prometheus_text(program_samples(program)))
    if flame is not None:
        from ptxbench.attribute.stack_formats import FORMATS, format_of
        from ptxbench.attribute.stacks import program_stacks

        stacks = program_stacks(recorded, program, profiles, expected)
        write_bytes(flame, FORMATS[format_of(flame)](stacks))


def _keep_recorded(recorded: RecordedProgram, out: Path) -> InputError | None:
    """Keep a run, and return why it could not be kept."""
    from ptxbench.attribute.recorded import keep

    try:
        keep(recorded, out)
    except InputError as error:
        return error
    return None


def _make_folder(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise click.UsageError(f"--out {out} exists and is no empty folder.")
    out.mkdir(parents=True, exist_ok=True)


def _free_place(out: Path) -> Path:
    """Return the folder, or a new one beside it where the command made a file there that a run has."""
    from ptxbench.attribute.recorded import FILES

    taken = next((out / name for name in (*FILES, _REPORT, _TABLE) if (out / name).exists()), None)
    if taken is None:
        return out
    whole = out.resolve()
    for number in count(2):
        beside = whole.with_name(f"{whole.name}-{number}")
        with writing(beside), suppress(FileExistsError):
            beside.mkdir()
            break
    _say([f"{taken} was made meanwhile, by the command perhaps, and stays: the run is in {beside}"])
    return beside


def _keep(program: ProgramEnergy, profiles: Sequence[Profile], out: Path) -> None:
    from ptxbench.attribute.report import csv_text, document

    write_text(out / _REPORT, json.dumps(document(program, profiles), indent=1) + "\n")
    write_text(out / _TABLE, csv_text(program))


def _say(lines: Sequence[str]) -> None:
    """Print lines, whose names of kernels may hold anything."""
    _print("\n".join(f"{_PREFIX}{printable(line)}" for line in lines), sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    """Print to a stream; where that is full or gone, files and the exit code still have to come."""
    with suppress(OSError):
        if text:
            click.echo(text, file=stream)
