"""`ptxbench meter correct`: energies by the readings of a slow sensor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.output import print_json, print_table
from ptxbench.core.option import Opt
from ptxbench.core.printable import number
from ptxbench.core.shared_options import Json


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench meter correct`.

    Attributes:
        nvml: CSV of the GPU's readings.
        windows: CSV of the kernels' windows (start_us,end_us).
        nvml_gpu: GPU of the NVML log: its index, UUID or PCI bus, in a log of several.
        capacitance: C of Eq. 6, s; 0.833 for a K20c, half of the averaging of another sensor (default: what
            makes the longest kernel even).
    """

    nvml: Path
    windows: Path
    nvml_gpu: str | None = None
    capacitance: Annotated[float | None, Opt(0, 10, above=True)] = None
    as_json: Json = False


@command_of(_Options, "correct", short_help="Correct the readings of a slow sensor (Guerreiro's Eq. 6).")
def correct(options: _Options) -> None:
    """Print the energy of kernels by readings that lag behind, as they are and by Eq. 6 of Guerreiro et al.

    P(t) = P_m(t) + C dP_m/dt, with P_m the readings. It undoes a sensor that averages over about 2 C. The log
    is that of `nvidia-smi --query-gpu=timestamp,power.draw --format=csv -lms 20`, or another one.
    """
    from ptxbench.meter.host import log_from_csv
    from ptxbench.meter.slow_sensor import corrected_kernels

    log = log_from_csv(options.nvml, options.windows, board=options.nvml_gpu)
    found = corrected_kernels(log, options.capacitance)
    if options.as_json:
        print_json(
            {
                "kernels": [
                    {
                        "label": one.label,
                        "source": one.source,
                        "time_s": one.time_s,
                        "capacitance_s": one.capacitance.value,
                        "capacitance_ci95_s": one.capacitance.uncertainty,
                        "uncorrected_j": one.uncorrected.energy_j,
                        "corrected_j": one.corrected.energy_j,
                        "reason": one.corrected.reason,
                    }
                    for one in found
                ],
                "notes": log.notes,
            }
        )
        return
    rows = [
        (
            one.label,
            one.source,
            number(one.time_s, ".4g"),
            number(one.uncorrected.energy_j, ".5g"),
            number(one.corrected.energy_j, ".5g"),
            one.capacitance.text(".3f", ".3f"),
            one.corrected.reason,
        )
        for one in found
    ]
    names = ("kernel", "source", "time s", "energy as read J", "by Eq. 6 J", "C s", "")
    print_table(names, rows, names[2:5])
    for note in log.notes:
        click.echo(f"note: {note}")
