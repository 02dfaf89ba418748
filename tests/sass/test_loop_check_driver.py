"""Cubins that the driver's own assembler made (580.159, CUDA 13.0, on an H200), as nvdisasm lists them.

A file is named INSTRUCTION.LEVEL.FORM.sass.gz.
"""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import Form, OptLevel
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop_check import Verdict, check_loops

RECORDED = sorted((Path(__file__).parent / "driver").glob("*.sass.gz"))


def judged(path, change=lambda row: row):
    name, level, form = path.name.removesuffix(".sass.gz").rsplit(".", 2)
    row = change(find_instruction(name))
    return check_loops(
        row, OptLevel(level), parse_listing(gzip.decompress(path.read_bytes()).decode()), "sm_90a", Form(form)
    )


def by_ptxas_alone(row):
    return replace(row, sass=tuple(e for e in row.sass if not e.by_driver))


def test_there_are_recordings():
    assert len(RECORDED) >= 5


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_what_the_driver_makes_is_taken(path):
    loop_check = judged(path)
    assert loop_check.passed, loop_check.reason


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_it_is_refused_where_only_ptxas_is_expected(path):
    loop_check = judged(path, by_ptxas_alone)
    assert loop_check.verdict is Verdict.REFUSED
    assert loop_check.reason.startswith("target kernel: ")


def test_a_call_of_the_drivers_routine_makes_the_verdict():
    calls = {path.name: judged(path).verdict is Verdict.CALLS for path in RECORDED}
    assert {name for name, called in calls.items() if not called} == {"membar.gl.O3.latency.sass.gz"}
