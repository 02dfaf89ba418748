"""What kept recordings of programs and of a step come to, in each form that is printed, stays as it was."""

import csv
import json
from pathlib import Path

from fakes.kept_numbers import assert_as_kept

from ptxbench.attribute import report
from ptxbench.attribute.program import energy_of
from ptxbench.attribute.published_methods import method_document, method_energies, method_lines
from ptxbench.attribute.recorded import load
from ptxbench.attribute.replay import shown
from ptxbench.attribute.replay.profile import profile_of
from ptxbench.attribute.replay.replayed import ProfileFolder
from ptxbench.attribute.stack_formats import collapsed, hatchet, speedscope
from ptxbench.attribute.stacks import profile_stacks, program_stacks
from ptxbench.attribute.timeline import events

H100 = Path(__file__).parents[2] / "results" / "nvidia-h100"


def _number(cell):
    """A number in CSV, which has more digits than arithmetic is sure of on another machine."""
    try:
        return float(cell)
    except ValueError:
        return cell


def _lines(stacks):
    lines = [line.rpartition(" ") for line in collapsed(stacks).decode().splitlines()[:8]]
    return [(name, float(count)) for name, _, count in lines]


PROGRAMS = ("fma", "mixed", "events-mixed")


def test_what_is_said_of_kept_programs_stays_as_it_was():
    found = {}
    for name in PROGRAMS:
        recorded = load(H100 / "programs" / name)
        program = energy_of(recorded)
        found[f"{name}: document"] = report.document(program)
        found[f"{name}: lines"] = report.lines(program, width=100)
        found[f"{name}: csv"] = [
            list(map(_number, row)) for row in csv.reader(report.csv_text(program).splitlines())
        ]
        found[f"{name}: stacks"] = _lines(program_stacks(recorded, program))
        found[f"{name}: timeline"] = list(events(recorded, program))[::97][:8]
        methods = method_energies(recorded, program)
        found[f"{name}: methods"] = method_document(methods), method_lines(methods, 100)
    folder = ProfileFolder.open(H100 / "profiles" / "decode")
    with folder.recordings:
        profile = profile_of(folder)
        found["profile: text"] = shown.text(profile, 100).splitlines()
        document = shown.document(profile)
        found["profile: document"] = {key: one for key, one in document.items() if key != "path"}
        stacks = profile_stacks(profile)
        found["profile: stacks"] = _lines(stacks)
        found["profile: speedscope"] = json.loads(speedscope(stacks))["profiles"][0]["endValue"]
        found["profile: hatchet"] = json.loads(hatchet(stacks))[0]["metrics"]
    assert_as_kept(__file__, found)
