"""Energies per byte and per floating-point operation."""

import json
import math
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.cli.main import run
from ptxbench.core.condition import ARAFA
from ptxbench.core.status import Status
from ptxbench.model.rates import rates
from ptxbench.storage.run_folder import RunFolder


def row(instruction, energy_pj, **change):
    return replace(fake.row(instruction), dynamic_pj=energy_pj, **change)


def test_a_load_of_16_bytes_is_charged_per_byte_and_bit():
    (rate,) = rates([row("ld.global.v4.b32:hbm", 1600.0)])
    assert (rate.pj_per_byte, rate.pj_per_bit) == (100.0, 12.5)
    assert math.isnan(rate.pj_per_flop)


@pytest.mark.parametrize(
    ("instruction", "flops"),
    [("fma.rn.f32", 2), ("fma.rn.f16x2", 4), ("mma.m16n8k16.f32.f16.f16.f32", 4096)],
)
def test_arithmetic_is_charged_per_operation_of_one_execution(instruction, flops):
    (rate,) = rates([row(instruction, 100.0)])
    assert rate.pj_per_flop == pytest.approx(100.0 / flops)
    assert math.isnan(rate.pj_per_byte)


@pytest.mark.parametrize(
    "change",
    [
        {"instruction": "an.instruction.of.long.ago"},
        {"instruction": "add.u32"},
        {"status": Status.THROTTLED, "dynamic_pj": math.nan},
        {"protocol": ARAFA},
    ],
)
def test_nothing_is_said_of_what_is_not_known(change):
    (rate,) = rates([replace(row("fma.rn.f32", 10.0), **change)])
    assert not rate.known


@pytest.fixture
def folder(tmp_path):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as made:
        made.finish(
            [row("ld.global.cg.v4.b32:l2", 640.0), row("fma.rn.f32", 12.0), row("add.u32", 7.0)], fake.END
        )
    return str(tmp_path / "run")


def test_the_report_prints_them_below_the_table(folder, capsys):
    assert run(["report", folder]) == 0
    text = capsys.readouterr().out.partition("per byte")[2]
    (load,) = (line for line in text.splitlines() if "ld.global" in line)
    assert load.split()[3:] == ["640", "40", "5", "-"]
    assert "add.u32" not in text


def test_json_holds_them_beside_the_rows(folder, capsys):
    assert run(["report", folder, "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [(one["instruction"], one["pj_per_byte"], one["pj_per_flop"]) for one in document["rates"]] == [
        ("ld.global.cg.v4.b32:l2", 40.0, None),
        ("fma.rn.f32", None, 6.0),
    ]
    assert len(document["rows"]) == 3
