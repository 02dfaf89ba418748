import csv
import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner
from fakes import run as fake

from ptxbench.catalogue.load import load_named
from ptxbench.cli.main import run
from ptxbench.cli.report import command
from ptxbench.core.condition import ARAFA, DYNAMIC
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.report import formats
from ptxbench.report.formats import RunReport, format_names, render_report
from ptxbench.report.formats.accelwattch import PARAMETERS
from ptxbench.report.text import markdown_table, number, tables_text
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.table import COLUMNS


def printed(_capsys, rows, info=fake.GPU, width=None):
    return tables_text(rows, info, width)


def report(rows, info=fake.GPU, path="run"):
    return RunReport(path, info, tuple(rows))


def arafa():
    return replace(fake.row(), protocol=ARAFA, mtsm_pj=251_250.0, papi_pj=250_000.0, dynamic_pj=math.nan)


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
    assert " ".join(reason.split()) in text


def test_a_valid_row_with_a_remark_shows_it(capsys):
    row = replace(fake.row(), reason="2N copies give 13.1 pJ, +5.6%")
    assert "ok: 2N copies give 13.1 pJ, +5.6%" in printed(capsys, [row])


def test_json_has_null_for_nan():
    document = json.loads(
        render_report("json", [report([fake.row(), arafa()], fake.simulated())], None),
        parse_constant=pytest.fail,
    )
    assert (document["kind"], document["gpu"]) == ("simulated", "Simulated H200")
    dynamic, other = document["rows"]
    assert (dynamic["dynamic_pj"], dynamic["mtsm_pj"]) == (12.4, None)
    assert (other["dynamic_pj"], other["mtsm_pj"], other["status"]) == (None, 251_250.0, "ok")


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


@pytest.mark.parametrize("form", [[], ["--format", "markdown"]])
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


LONG = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


def narrow_rows():
    refused = replace(fake.row(LONG), status=Status.GATE_FAILED, reason="odd " * 30, dynamic_pj=math.nan)
    return [replace(fake.row(LONG), power_w=530.25), refused, fake.row("add.u32"), arafa()]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_number_and_no_status_is_cut_at_any_width(width):
    text = tables_text(narrow_rows(), fake.GPU, width)
    tables = [part for part in text.split("\n\n") if part]
    assert all(len(line) <= width for table in tables for line in table.splitlines()[1:])
    words = set(text.split())
    assert words >= {"12.4", "0.012", "251.2", "ok", "gate_failed", "O3", LONG, "add.u32"}
    assert text.count("odd odd") >= 1
    assert {"530.2", "2", "IADD3*0.5"} <= words


def test_columns_are_left_out_in_a_fixed_order():
    other = replace(fake.row("add.u32"), sass="IADD3 MOV", operands="zeros", issue_cycles=4.0, power_w=99.0)
    rows = [fake.row(LONG), other]
    seen = []
    for width in range(140, 74, -1):
        lines = tables_text(rows, fake.GPU, width).splitlines()
        last = lines[-1].partition(": ")[2] if lines[-1].startswith("not shown") else ""
        if last not in seen:
            seen.append(last)
    assert seen == ["", "power W", "SM cycles, power W", "SASS, SM cycles, power W"]


def test_a_pipe_gets_one_line_a_row():
    lines = tables_text(narrow_rows(), fake.GPU, None).splitlines()
    assert sum(LONG in line for line in lines) == 2
    assert not any(line.startswith("not shown") for line in lines)


def test_what_a_foreign_run_holds_moves_no_cursor():
    row = replace(fake.row("\x1b[2Jfma\x07"), reason="a\rb")
    assert not any(c in tables_text([row], fake.GPU, 80) for c in "\x1b\x07\r")


def test_every_format_shows_every_run():
    other = replace(fake.GPU, name="NVIDIA H100_x")
    for name in format_names():
        second = replace(fake.row(), dynamic_pj=23.5)
        text = render_report(name, [report([fake.row()]), report([second], other, "other")], None)
        assert "12.4" in text, name
        assert "23.5" in text, name
        assert "H100" in text, name


def test_accelergy_takes_every_energy_by_what_executes_it():
    product = replace(fake.row("mma.m16n8k16.f32.f16.f16.f32"), unit="warp", dynamic_pj=4242.0)
    failed = replace(fake.row("add.f32"), status=Status.GATE_FAILED, dynamic_pj=math.nan)
    text = render_report("accelergy", [report([fake.row(), product, failed], path="h200")], None)
    table = yaml.safe_load(text)["ERT"]
    assert table["version"] == "0.4"
    energies = {
        (component["name"], action["name"], action["arguments"]["operands"]): action["energy"]
        for component in table["tables"]
        for action in component["actions"]
    }
    assert energies == {
        ("h200.thread", "fma.rn.f32", "random"): 12.4,
        ("h200.warp", "mma.m16n8k16.f32.f16.f16.f32", "random"): 4242.0,
    }
    assert "energy: 12.4  # ± 0.012 (95%), ok" in text


def test_accelwattch_has_estimates_that_it_does_not_take_for_its_factors():
    zeros = replace(fake.row(), operands="zeros", dynamic_pj=4.8)
    text = render_report("accelwattch", [report([fake.row(), zeros, fake.row("popc.b32")])], None)
    (found,) = ElementTree.fromstring(text).iter("estimate")  # noqa: S314
    assert (found.get("parameter"), found.get("instruction")) == ("FP_MUL_ACC", "fma.rn.f32")
    assert (found.get("energy_pj"), found.get("ci95_pj"), found.get("per")) == ("12.4", "0.012", "thread")
    assert found.get("value") is None
    assert all(load_named(frozenset({name})) for name, _ in PARAMETERS.values())


def test_a_new_format_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "shout.py").write_text("def render(reports, width):\n    return reports[0].path.upper()\n")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    assert "shout" in format_names()
    assert render_report("shout", [report([])], None) == "RUN"


@pytest.mark.hostile
def test_a_report_does_not_replace_the_table_that_it_is_of(half_run, capsys):
    before = {path: path.read_bytes() for path in half_run.rglob("*") if path.is_file()}
    assert run(["report", str(half_run), "--format", "csv", "--out", str(half_run / "table.csv")]) == 2
    assert "which stays as it is; write elsewhere" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in half_run.rglob("*") if path.is_file()} == before


def test_the_ending_of_the_file_names_its_format(half_run, tmp_path, capsys):
    assert run(["report", str(half_run), "--out", str(tmp_path / "t.csv")]) == 0
    assert (tmp_path / "t.csv").read_text().splitlines()[0].count(",instruction,") == 1
    assert run(["report", str(half_run), "--format", "csv", "--out", str(tmp_path / "t.json")]) == 2
    assert "t.json ends as json does, and csv is asked for" in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists()


def test_an_unknown_format_is_one_line(tmp_path, capsys):
    assert run(["report", str(tmp_path), "--format", "poem"]) == 2
    assert (
        "'poem' is not one of accelergy, accelwattch, csv, html, json, latex, markdown, text."
        in capsys.readouterr().err
    )


def test_csv_has_the_columns_of_the_table_behind_the_run():
    (first, second) = csv.DictReader(render_report("csv", [report([fake.row(), arafa()])], None).splitlines())
    assert (first["run"], first["gpu"], first["kind"]) == ("run", "NVIDIA H200", "real")
    assert (first["dynamic_pj"], second["dynamic_pj"], second["mtsm_pj"]) == ("12.4", "", "251250")
    assert tuple(first)[3:] == COLUMNS


def test_latex_sets_gpus_side_by_side_by_category():
    optimized, other = fake.row("fma.rn.f32_a"), replace(fake.row("fma.rn.f32_a"), opt_level="O0")
    text = render_report("latex", [report([optimized, other]), report([optimized], path="second")], None)
    assert r"\begin{tabular}{lrrrr}" in text
    assert r"\multicolumn{5}{l}{\textbf{Floating-Point Instructions}}" in text
    assert r"\texttt{fma.rn.f32\_a} & 12.4 $\pm$ 0.012 & 12.4 $\pm$ 0.012 & 12.4 $\pm$ 0.012 & -- \\" in text
    assert text.count("{") == text.count("}")


def test_latex_shows_a_protocol_that_it_does_not_know():
    row = replace(fake.row(), protocol="new_one")
    assert r"\caption{new\_one}" in (text := render_report("latex", [report([row])], None))
    assert "12.4 pJ" in text
