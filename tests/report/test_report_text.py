import json
import math
from dataclasses import replace

import pytest
from click.testing import CliRunner
from fakes import run as fake

from ptxbench.cli.report import command
from ptxbench.core.condition import ARAFA, DYNAMIC
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.report.text import markdown_table, number, print_tables, rows_as_json
from ptxbench.storage.run_folder import RunFolder


def printed(capsys, rows, info=fake.GPU):
    print_tables(rows, info)
    return capsys.readouterr().out


def arafa():
    return replace(fake.row(), protocol=ARAFA, mtsm_nj=251.25, papi_nj=250.0, dynamic_pj=math.nan)


def test_one_table_a_protocol_and_none_for_a_protocol_that_was_not_run(capsys):
    both = printed(capsys, [fake.row(), arafa()])
    assert both.count("fma.rn.f32") == 2
    assert both.index("251.2") < both.index("12.4")
    assert "Eq. 1" not in printed(capsys, [fake.row()])


def test_numbers_of_a_real_gpu_bear_no_remark(capsys):
    text = printed(capsys, [fake.row()])
    assert "SIMULATED" not in text
    assert "REPLAYED" not in text


def test_what_is_no_measurement_says_so_above_every_table(capsys):
    rows = [fake.row(), arafa()]
    assert printed(capsys, rows, fake.simulated()).count("(SIMULATED)") == 2
    replayed = replace(fake.GPU, kind=GpuKind.REPLAYED, name="NVIDIA H200 (simulated)")
    text = " ".join(printed(capsys, rows, replayed).split())  # a title is as wide as its table
    assert text.count("(REPLAYED from NVIDIA H200 (simulated))") == 2


@pytest.mark.parametrize("reason", ["see [/red] and [bold]", "a" * 300, "names\nof two lines"])
def test_a_reason_is_printed_whole_and_as_it_is(capsys, reason):
    row = replace(fake.row(), status=Status.GATE_FAILED, reason=reason, dynamic_pj=math.nan)
    text = printed(capsys, [row])
    for line in reason.splitlines():
        assert line in text


def test_a_valid_row_with_a_remark_shows_it(capsys):
    row = replace(fake.row(), reason="2N copies give 13.1 pJ, +5.6%")
    assert "ok: 2N copies give 13.1 pJ, +5.6%" in printed(capsys, [row])


def test_json_has_null_for_nan():
    document = json.loads(rows_as_json([fake.row(), arafa()], fake.simulated()), parse_constant=pytest.fail)
    assert (document["kind"], document["gpu"]) == ("simulated", "Simulated H200")
    dynamic, other = document["rows"]
    assert (dynamic["dynamic_pj"], dynamic["mtsm_nj"]) == (12.4, None)
    assert (other["dynamic_pj"], other["mtsm_nj"], other["status"]) == (None, 251.25, "ok")


def test_markdown_has_the_same_number_of_cells_in_every_line():
    odd = replace(fake.row(), status=Status.GATE_FAILED, reason="A|B is none of\nthese")
    lines = markdown_table([fake.row(), arafa(), odd], DYNAMIC).splitlines()
    assert len(lines) == 4
    assert {line.replace(r"\|", "").count("|") for line in lines} == {10}
    assert "12.4" in lines[2]


def test_number():
    assert (number(12.3456), number(12.3456, 2), number(math.nan)) == ("12.35", "12", "-")


@pytest.fixture
def half_run(tmp_path):
    """A run with one measured row, one refused, and two that it did not reach."""
    refused = replace(fake.row("div.u32"), status=Status.GATE_FAILED, reason="odd", dynamic_pj=math.nan)
    late = [
        replace(fake.row(name), status=Status.NOT_REACHED, dynamic_pj=math.nan)
        for name in ("add.f32", "sub.f32")
    ]
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        folder.finish([fake.row(), refused, *late], fake.END)
    return tmp_path / "run"


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_rows_that_a_run_did_not_reach_are_one_line(half_run, form):
    text = CliRunner().invoke(command, [str(half_run), *form]).output
    assert "fma.rn.f32" in text
    assert "gate_failed: odd" in text
    assert "add.f32" not in text
    assert "2 rows not reached" in text.splitlines()[-1]
    whole = CliRunner().invoke(command, [str(half_run), *form, "--all-rows"]).output
    assert "add.f32" in whole
    assert "rows not reached" not in whole


def test_json_has_the_rows_that_a_run_did_not_reach(half_run):
    rows = json.loads(CliRunner().invoke(command, [str(half_run), "--json"]).output)["rows"]
    assert [row["status"] for row in rows].count("not_reached") == 2
