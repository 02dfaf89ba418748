"""`ptxbench meter sync`: a load in a code, which an external meter's capture is aligned by."""

from __future__ import annotations

from contextlib import closing

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import GpuOptions
from ptxbench.cli.output import print_json


@command_of(GpuOptions, "sync", short_help="Run a coded load that gives the clock of a meter.")
def sync(options: GpuOptions) -> None:
    """Switch a load on and off in a code, so that an external meter's clock can be found.

    Run it before and after a measurement while the meter logs; each takes about six seconds. Then `ptxbench
    meter validate --run RUN --sync FOLDER --sync FOLDER` finds the meter's clock by the code, which fits in
    one place only. The time between the two gives the drift of the clock.
    """
    from ptxbench.experiment.play_sync_pulse import burst_notes, record_burst

    with closing(open_chosen_gpu(options.spec)) as gpu:
        folder = record_burst(gpu, options.out)
    (recording,) = folder.recordings
    windows = recording.windows
    length_s = (windows[-1].end_ns - windows[0].start_ns) * 1e-9
    notes = burst_notes(folder)
    if options.as_json:
        found = {"windows": len(windows), "length_s": length_s, "notes": list(notes)}
        print_json({"folder": str(folder.path), **found})
    else:
        click.echo(f"{len(windows)} times of load in {length_s:.2f} s\nfolder: {folder.path}")
        for note in notes:
            click.echo(f"note: {note}")
