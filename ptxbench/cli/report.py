"""`ptxbench report`: the tables of runs in one of several formats, or as a picture."""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import AllRows, plot_of
from ptxbench.cli.output import say
from ptxbench.cli.parameters import FormatName
from ptxbench.cli.terminal import as_written
from ptxbench.core.errors import InputError
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json
from ptxbench.report.text_table import output_width
from ptxbench.storage.atomic import require_file, write_bytes, write_text
from ptxbench.storage.shipped import SHIPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxbench.report.formats import RunReport

_OBJECTS_BETWEEN_COLLECTIONS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench report`.

    Attributes:
        form: Print this format (default: by the ending of --out, or text).
        out: Where to write: a file (default: standard output).
        opcodes: Print the energy of each SASS opcode instead, solved jointly from every kernel of the run.
        store: With --opcodes: solve the run's trials again, and keep the result in its folder.
        boards: Compare the boards of all runs below the folder instead.
        flame: Write stacks for flame graphs: .pb.gz (pprof), .speedscope.json, .collapsed, .hatchet.json.
    """

    runs: Annotated[tuple[Path, ...], Arg(metavar="RUN...")]
    form: Annotated[str | None, Opt(kind=FormatName(), flag="--format")] = None
    plot: Annotated[Path | None, plot_of("the dynamic energies")] = None
    out: Path | None = None
    all_rows: AllRows = False
    opcodes: bool = False
    store: bool = False
    boards: bool = False
    flame: Annotated[Path | None, Opt(metavar="FILE")] = None
    as_json: Json = False


@command_of(_Options, "report")
def command(options: _Options) -> None:
    """Print the tables of run folders, or of a table that comes with ptxbench (h100, h200), or draw one.

    Formats for people (text, markdown, latex, html) leave out rows that a run did not reach
    (--budget-minutes), and say how many. Formats for programs (json, csv) have every row. Both latex and html
    show several runs side by side. The html format is one page for a browser that needs no network. It has
    search, filters, plots and exports. --json is short for --format json. With --plot alone, no table is
    printed; a picture of many rows has columns and pages (NAME-2.png, or pages of one PDF).

    Folders of `ptxbench roofline run` have a page of their own with --format html: interactive figures, with
    the runs side by side. `ptxbench roofline show` prints them. A folder that `ptxbench.profile` wrote is
    printed as the kernels of its step, as text, json or html; where they do not add up, the exit code is 1.
    One of `ptxbench calibrate` is printed as text or json, and so is one that the ranks of a job wrote by
    `ptxbench run`: summed up, and compared.

    --opcodes says of each opcode whether the kernels determine its energy, with its standard error, and lists
    rows whose direct difference disagrees with it. It reads a solution that the run keeps; --store takes a
    minute for a whole table. --boards prints factor, scatter beside it, temperature and outliers of each
    board.
    """
    if options.opcodes or options.boards or options.store:
        _print_instead(options)
        return
    from ptxbench.report.formats import format_by_ending, other_format, render_report

    if options.as_json and options.form not in (None, "json"):
        raise click.UsageError(f"--json and --format {options.form} exclude each other.")
    if options.plot is not None and len(options.runs) > 1:
        raise click.UsageError("--plot draws one run; name one.")
    if options.out is not None:
        require_file(options.out)
    name = "json" if options.as_json else options.form or format_by_ending(options.out)
    if options.out is not None and (other := other_format(options.out, name)):
        raise click.UsageError(f"--out {options.out} ends as {other} does, and {name} is asked for.")
    if _report_no_table(options, name):
        return
    # Rows have no cycles: to look for some as often as Python does takes a tenth of a page's time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    reports = [_report_of(run, options, name) for run in options.runs]
    if options.plot is not None:
        from ptxbench.report.plot import plot_energies

        for path in plot_energies(reports[0].rows, reports[0].gpu, options.plot):
            say(f"wrote {path}")
    if options.as_json or options.form or options.out is not None or options.plot is None:
        _give(
            render_report(name, reports, output_width() if options.out is None else None), name, options.out
        )


def _report_of(run: Path, options: _Options, form: str) -> RunReport:
    """Return what a run has for a format; only a page shows its readings, where they are kept."""
    from ptxbench.model.atlas import open_atlas
    from ptxbench.report.formats import RunReport
    from ptxbench.storage.kernels import KernelStore
    from ptxbench.storage.location import require_outside

    atlas = open_atlas(run)
    require_outside(atlas.path, options.out, options.plot)
    if form != "html" or atlas.path in SHIPPED.values():
        return RunReport.of(atlas, options.all_rows, KernelStore(atlas.path))
    from ptxbench.report.row_trials import row_trials
    from ptxbench.storage.run_folder import RunFolder

    with RunFolder.open(atlas.path) as folder:
        return RunReport.of(atlas, options.all_rows, folder.kernels, row_trials(folder))


def _print_instead(options: _Options) -> None:
    """Print what --opcodes or --boards asks for."""
    run, *others = options.runs
    given = {name: getattr(options, name) for name in ("form", "plot", "out", "flame")}
    unfit = any(value is not None for value in given.values())
    if others or unfit or options.opcodes == options.boards or (options.store and not options.opcodes):
        raise click.UsageError(
            "give --opcodes (with --store) or --boards, and one folder; it prints text or --json."
        )
    if options.opcodes:
        from ptxbench.cli.report_opcodes import print_opcodes

        print_opcodes(run, store=options.store, as_json=options.as_json)
        return
    from ptxbench.cli.table_cluster import print_boards
    from ptxbench.experiment.fleet_runs import compare_runs

    print_boards(compare_runs(run), run, options.as_json)


def _report_no_table(options: _Options, form: str) -> bool:
    """Report runs that are no tables, and return whether any is."""
    from ptxbench.storage.folder_kind import Kind, kind_of

    kinds = [kind_of(run)[0] for run in options.runs]
    if options.flame is not None and Kind.PROFILE not in kinds:
        raise click.UsageError("--flame is for a profile of a step; `ptxbench run` has one of its own.")
    if kinds == [None] and _report_job(options, form):
        return True
    if Kind.CALIBRATION in kinds:
        _report_calibration(options, form)
    elif Kind.PROFILE in kinds:
        _report_profile(options, form)
    elif Kind.ROOFLINE in kinds:
        rooflines = [run for run, kind in zip(options.runs, kinds, strict=True) if kind is Kind.ROOFLINE]
        others = [run for run in options.runs if run not in rooflines]
        _report_rooflines(rooflines, others, form, options)
    else:
        return False
    return True


def _alone(options: _Options, form: str, what: str, *forms: str, writes: bool = True) -> Path:
    """Return the run, of a kind that is reported one at a time, in some formats and without a picture.

    Raises:
        InputError: Another format, a picture, several runs, or what is not written into a file is wanted.
    """
    from ptxbench.storage.location import require_outside

    run, *others = options.runs
    if others or form not in forms or options.plot is not None or (options.out is not None and not writes):
        names = {"text": "text", "json": "--json", "html": "--format html"}
        said = " or ".join(names[one] for one in forms)
        raise InputError(f"{run} is {what}: report one at a time, as {said}")
    require_outside(run, options.out, options.flame)
    return run


def _report_job(options: _Options, form: str) -> bool:
    """Print what the ranks of a job took, and return whether the folder is one of a job."""
    from ptxbench.attribute.rank import rank_folders

    (run,) = options.runs
    if not rank_folders(run):
        return False
    # These load scipy, which no table needs.
    from ptxbench.attribute.job import document, lines, load_job

    job = load_job(run)
    if job is None:
        return False
    _alone(options, form, "a job of several ranks", "text", "json")
    width = output_width() if options.out is None else None
    whole = json.dumps(document(job), indent=1) if form == "json" else "\n".join(lines(job, width=width))
    _give(whole, form, options.out)
    return True


def _report_calibration(options: _Options, form: str) -> None:
    """Print a calibration as text or JSON."""
    from ptxbench.cli.calibrate import print_calibration
    from ptxbench.model.atlas import open_atlas

    run = _alone(options, form, "a calibration", "text", "json", writes=False)
    found = open_atlas(run).calibration
    assert found is not None  # noqa: S101
    print_calibration(found, run, as_json=form == "json")


def _report_rooflines(runs: Sequence[Path], others: Sequence[Path], form: str, options: _Options) -> None:
    """Write the page of rooflines; exit code 1 where one of them has no line."""
    from ptxbench.report.roofline_page import missing_fits, read_roofline, render_rooflines
    from ptxbench.storage.location import require_outside

    for run in runs:
        require_outside(run, options.out)
    if others:
        raise InputError(f"{runs[0]} is a roofline and {others[0]} is none: make a page of each kind")
    if form != "html" or options.plot is not None:
        raise InputError(
            f"{runs[0]} is a roofline: --format html makes its page, `ptxbench roofline show` the rest"
        )
    reports = [read_roofline(run) for run in runs]
    _give(render_rooflines(reports), form, options.out)
    missing = missing_fits(reports)
    for line in missing:
        say(line)
    if missing:
        sys.exit(1)


def _report_profile(options: _Options, form: str) -> None:
    """Print a profile of a step; exit code 1 where its rows are no measurements."""
    from ptxbench.attribute.page import step_page
    from ptxbench.attribute.replay.profile import profile_of
    from ptxbench.attribute.replay.replayed import ProfileFolder
    from ptxbench.attribute.replay.shown import document, text
    from ptxbench.attribute.stack_formats import FORMATS, format_of
    from ptxbench.attribute.stacks import profile_stacks

    run = _alone(options, form, "a profile of a step", "text", "json", "html")
    if options.flame is not None:
        format_of(options.flame)
    folder = ProfileFolder.open(run)
    with folder.recordings:
        found = profile_of(folder)
        whole = step_page(folder, found) if form == "html" else ""
    if options.flame is not None:
        write_bytes(options.flame, FORMATS[format_of(options.flame)](profile_stacks(found)))
        say(f"wrote {options.flame}")
    width = output_width() if options.out is None else None
    if form != "html":
        whole = json.dumps(document(found), indent=1) if form == "json" else text(found, width)
    _give(whole, form, options.out)
    if not found.is_closed:
        sys.exit(1)


def _give(text: str, form: str, out: Path | None) -> None:
    """Print a report, or write it into a file."""
    if out is None:
        click.echo(text, file=None if form == "text" else as_written())
        return

    write_text(out, text + "\n")
    say(f"wrote {out}")
