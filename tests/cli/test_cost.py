"""cost: what an instruction costs, looked up in a moment."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from itertools import product

import pytest
from fakes import run as fake

from ptxbench.api.table import load_table
from ptxbench.cli.main import run
from ptxbench.core.condition import ARAFA
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.storage.run_folder import RunFolder


def printed(capsys, *arguments, code=0):
    assert run(["cost", *arguments]) == code
    return capsys.readouterr().out


def refused(capsys, *arguments):
    assert run(["cost", *arguments]) == 2
    return capsys.readouterr().err


def document(capsys, *arguments):
    return json.loads(printed(capsys, *arguments, "--json"))


def half_width(name):
    """The half-width of an interval of the H200's table, as it is printed."""
    return f"{load_table('h200')[name].half_width_pj:.2g}"


def folder(path, *rows, gpu=fake.GPU):
    with RunFolder.create(path, fake.manifest(gpu)) as made:
        made.finish(rows, fake.END)
    return str(path)


def test_a_name_prints_both_optimization_levels_and_where_they_were_measured(capsys):
    lines = printed(capsys, "fma.rn.f32", "--table", "h200").splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["fma.rn.f32", "O0"], ["fma.rn.f32", "O3"]]
    for part in ("14.41", half_width("fma.rn.f32"), "thread", "7.204", "FFMA", "ok"):
        assert part in lines[2].split()
    whence = "\n".join(lines[3:])
    for part in ("NVIDIA H200", "6eda50547c2a", "580.159.04", "table-6eda", "2026-11-22", "9900406ea874"):
        assert part in whence


def test_fewer_lanes_are_rows_of_their_own_and_said(tmp_path, capsys):
    rows = [replace(fake.row(), lanes=lanes, dynamic_pj=energy) for lanes, energy in ((32, 12.0), (16, 15.0))]
    path = folder(tmp_path / "run", *rows)
    text = printed(capsys, "fma.rn.f32", "--table", path)
    lines = text.splitlines()
    assert "lane" not in lines[1]
    assert "random, 16 lanes" in lines[2]
    assert "fewer lanes: the energy is that of one active thread" in text
    found = document(capsys, "fma.rn.f32", "--table", path)["rows"]
    assert [(row["operands"], row["lanes"], row["energy_pj"]) for row in found] == [
        ("random", 32, 12.0),
        ("random", 16, 15.0),
    ]


def test_without_a_gpu_it_shows_every_gpu_that_was_measured(capsys):
    rows = document(capsys, "fma.rn.f32")["rows"]
    assert {(row["table"], row["opt_level"], row["operands"], row["lanes"]) for row in rows} == {
        *product(("h100", "h200"), ("O3",), ("random", "zeros", "halves"), (32,)),
        *product(("h100", "h200"), ("O3",), ("random",), (1, 8, 16, 24)),
        *(("h100", "O0", "random", 32), ("h200", "O0", "random", 32), ("h200", "O3", "uniform", 32)),
    }
    assert all(row["energy_pj"] > 0 for row in rows)
    assert all(
        row["boards"] > 1 for row in rows if row["operands"] in ("random", "zeros") and row["lanes"] == 32
    )
    text = printed(capsys, "fma.rn.f32")
    assert "57c3f0dca2b5" in text
    assert "6eda50547c2a" in text


def test_json_and_csv_have_the_same_rows_as_numbers(capsys):
    found = document(capsys, "fma.rn.f32", "--table", "h200")
    assert found["tables"][0]["driver"] == "580.159.04"
    assert len(found["tables"][0]["boards"]) >= 32
    (fast,) = (
        row
        for row in found["rows"]
        if (row["opt_level"], row["operands"], row["lanes"]) == ("O3", "random", 32)
    )
    assert (fast["type"], fast["unit"], fast["pj_per_byte"]) == ("f32", "thread", None)
    assert fast["boards"] >= 32
    assert fast["pj_per_flop"] == pytest.approx(fast["energy_pj"] / 2)
    rows = list(
        csv.DictReader(io.StringIO(printed(capsys, "fma.rn.f32", "--table", "h200", "--format", "csv")))
    )
    assert [float(row["energy_pj"]) for row in rows] == [row["energy_pj"] for row in found["rows"]]
    assert rows[0]["pj_per_byte"] == ""


def test_a_pattern_of_names_leaves_out_what_no_board_has_reached_and_says_how_many(capsys):
    every = document(capsys, "mma.*", "--table", "H200")["rows"]
    assert all(row["instruction"].startswith("mma.") for row in every)
    known = [row for row in every if row["boards"]]
    text = printed(capsys, "mma.*", "--table", "h200").splitlines()
    assert sum(line.startswith("mma.") for line in text) == len(known) < len(every)
    assert text[-1].startswith(f"{len(every) - len(known)} more rows")
    lines = printed(capsys, "mma.*", "--table", "h200", "--all-rows").splitlines()
    assert sum(line.startswith("mma.") for line in lines) == len(every)


def test_what_nobody_can_measure_says_why_and_does_not_send_the_user_to_measure_it(capsys):
    text = printed(capsys, "cp.async.bulk.shared.cluster", "--table", "h100", "--why")
    assert "not_supported: the GPU lacks" in text
    assert "needs a cluster launch" in text
    assert "`ptxbench table" not in text


def test_a_table_that_is_named_as_an_instruction_says_how_a_table_is_named(capsys):
    assert run(["cost", "fma.rn.f32", "H100"]) == 2
    assert "--table h100" in capsys.readouterr().err


def test_several_patterns_of_any_kind_are_one_table_and_say_what_was_not_found_by_name(capsys):
    ptx = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};"
    assert run(["cost", "ex2.approx.ftz.f32", "FADD", ptx, "--table", "h100", "--json"]) == 0
    shown = capsys.readouterr()
    names = {row["instruction"] for row in json.loads(shown.out)["rows"]}
    assert {"ex2.approx.ftz.f32", "add.f32", "mma.m16n8k16.f32.f16.f16.f32"} <= names
    assert "fma.rn.f32" not in names
    sass, spelled = shown.err.splitlines()
    assert sass.startswith("ptxbench: found FADD by SASS: ")
    assert spelled == f"ptxbench: found {ptx} by PTX: mma.m16n8k16.f32.f16.f16.f32"


def test_mma_is_all_that_begins_so(capsys):
    word = document(capsys, "mma", "--table", "h100")["rows"]
    assert word == document(capsys, "mma.*", "--table", "h100")["rows"]


def test_each_pattern_must_find_something(capsys):
    assert "no instruction fits 'hmna'; did you mean HMMA" in refused(capsys, "fma.rn.f32", "hmna")


def test_what_the_catalogue_has_and_no_table_says_so(capsys, tmp_path):
    mine = folder(tmp_path / "mine", fake.row("fma.rn.f32"))
    text = refused(capsys, "FADD", "--table", mine)
    assert "no table has any of its " in text
    assert f"({mine}), for 'FADD'; ptxbench table measures it" in text


def test_a_name_that_only_a_table_has_is_found_there(capsys, tmp_path):
    gone = replace(fake.row("fma.rn.f32"), instruction="gone.f32")
    mine = folder(tmp_path / "mine", fake.row("fma.rn.f32"), gone)
    for pattern in ("gone.f32", "gone.*"):
        (row,) = document(capsys, pattern, "--table", mine)["rows"]
        assert row["instruction"] == "gone.f32"
    assert "did you mean gone.f32" in refused(capsys, "gone.f23", "--table", mine)


@pytest.mark.parametrize(("pattern", "rate"), [("fma.rn.f32", "pJ/flop"), ("hbm", "pJ/B")])
@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_energy_of_a_flop_or_byte_stands_beside_the_gpu_that_it_is_of(capsys, pattern, rate, gpu):
    alone = printed(capsys, pattern, "--table", gpu)
    assert rate in alone.splitlines()[0]
    assert f"\n{gpu}: NVIDIA {gpu.upper()}" in alone
    both = printed(capsys, pattern).splitlines()
    assert (both[0].split()[0], rate in both[0]) == ("table", True)
    assert {line.split()[0] for line in both[2 : both.index("")]} == {"h100", "h200"}


def test_a_row_that_only_other_boards_reached_has_their_mean_and_says_so(capsys):
    row = document(capsys, "fma.rn.ftz.f32", "--table", "h200")["rows"][0]
    assert (row["status"], row["reason"], row["boards"]) == ("ok", "measured on 3 other boards", 3)
    assert row["energy_pj"] == row["boards_pj"] == pytest.approx(16.8, abs=0.1)
    assert 0 < row["ci95_pj"] < 0.05 * row["energy_pj"]
    assert (row["pj_per_flop"], row["sass_per_ptx"]) == (row["energy_pj"] / 2, 1)


def test_the_formats_of_a_report_have_these_rows_alone(capsys):
    shown = f"`fma.rn.f32` | FFMA | 14.41 ± {half_width('fma.rn.f32')}"
    assert shown in printed(capsys, "fma.rn.f32", "--format", "markdown")
    text = printed(capsys, "fma.rn.*", "--format", "latex")
    assert r"\texttt{fma.rn.f64}" in text
    assert "add.u32" not in text


def test_a_table_of_ones_own_stands_beside_that_of_the_h200(capsys, tmp_path):
    mine = folder(tmp_path / "mine", replace(fake.row("fma.rn.f32"), dynamic_pj=99.0))
    rows = document(capsys, "fma.rn.f32", "--table", "h200", "--table", mine)["rows"]
    assert [row["table"] for row in rows] == ["h200"] * (len(rows) - 1) + [mine]
    assert document(capsys, "fma.rn.f32", "--table", mine)["rows"][0]["boards"] == 1
    assert mine in printed(capsys, "fma.rn.f32", "--table", "h200", "--table", mine)


def test_numbers_of_a_simulated_gpu_say_so(capsys, tmp_path):
    gpu = replace(fake.GPU, kind=GpuKind.SIMULATED)
    mine = folder(tmp_path / "mine", fake.row("fma.rn.f32"), gpu=gpu)
    assert "SIMULATED, no measurement" in printed(capsys, "fma.rn.f32", "--table", mine)


def test_eq_1_is_named_by_its_protocol_and_a_refused_row_has_no_number(capsys, tmp_path):
    eq1 = replace(fake.row("fma.rn.f32"), protocol=ARAFA, mtsm_pj=500.0)
    bad = replace(fake.row("add.f32"), status=Status.GATE_FAILED, reason="a call in the loop")
    mine = folder(tmp_path / "mine", eq1, bad)
    (row,) = document(capsys, "fma.rn.f32", "--table", mine)["rows"]
    assert (row["protocol"], row["energy_pj"]) == ("arafa", 500.0)
    assert "arafa" in printed(capsys, "fma.rn.f32", "--table", mine)
    (row,) = document(capsys, "add.f32", "--table", mine)["rows"]
    assert (row["energy_pj"], row["boards"]) == (None, 0)
    assert "gate_failed: a call in the loop" in printed(capsys, "add.f32", "--table", mine)


@pytest.mark.parametrize("pattern", ["fma.rn.f23", "fma.rn.f23*"])
def test_a_name_that_nothing_fits_is_exit_2_with_near_ones(capsys, pattern):
    assert "did you mean fma.rn.f32" in refused(capsys, pattern)


def test_bad_usage_is_exit_2_and_names_the_cure(capsys, tmp_path):
    assert "(those are h100, h200); name the folder of a run" in refused(
        capsys, "fma.rn.f32", "--table", "v100"
    )
    assert "exclude each other" in refused(capsys, "fma.rn.f32", "--json", "--format", "csv")
    assert "holds no run" in refused(capsys, "fma.rn.f32", "--table", str(tmp_path))
    assert "Invalid value for '--table': the name is empty" in refused(capsys, "fma.rn.f32", "--table", "")
    assert "leave out --why" in refused(capsys, "--list", "--why")


@pytest.mark.parametrize(
    "option",
    [
        ("--list",),
        ("--why",),
        ("--category", "mma"),
        ("--type", "f64"),
        ("--sass", "HMMA"),
        ("--target", "sm_80"),
    ],
)
def test_an_operation_takes_no_option_of_instructions(capsys, option):
    assert f"an operation is no instruction: leave out {option[0]}." in refused(capsys, "gemm", *option)


def test_costs_of_a_sass_opcode_need_no_name(capsys):
    rows = document(capsys, "--sass", "DFMA", "--table", "h200")["rows"]
    assert {row["instruction"] for row in rows} > {"fma.rn.f64"}
    assert all("DFMA" in row["sass"] for row in rows if row["sass"])
    both = {row["instruction"] for row in document(capsys, "fma", "--type", "f64", "--table", "h200")["rows"]}
    assert both == {name for name in both if name.startswith("fma.") and ".f64" in name} != set()


def test_cost_of_nothing_says_how_to_list(capsys):
    assert run(["cost"]) == 2
    assert "list them with --list" in capsys.readouterr().err


def test_a_former_gpu_is_a_table_beside_another(capsys):
    assert run(["cost", "fma.rn.f32", "--gpu", "H100", "--table", "h200"]) == 0
    said = capsys.readouterr()
    assert said.err == "ptxbench: --gpu is now called --table\n"
    assert "h100" in said.out
    assert "h200" in said.out


def test_looking_up_loads_no_library_for_numbers():
    script = (
        "import sys; from ptxbench.cli.main import run; run(['cost', 'fma.rn.f32']);"
        "print({'numpy', 'pandas', 'pyarrow', 'scipy', 'rich', 'jinja2'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "set()\n")


@pytest.mark.hostile
def test_a_gpu_that_is_named_twice_is_shown_once(capsys):
    assert run(["cost", "fma.rn.f32", "--table", "h200"]) == 0
    once = capsys.readouterr().out
    assert run(["cost", "fma.rn.f32", "--table", "h200", "--table", "H200"]) == 0
    assert capsys.readouterr().out == once


def test_an_energy_at_another_clock_is_given_at_the_full_one_too(capsys):
    name = "mma.m16n8k16.f32.f16.f16.f32"
    (row,) = (
        one
        for one in document(capsys, name, "--table", "h100")["rows"]
        if (one["opt_level"], one["operands"]) == ("O3", "random")
    )
    assert row["clock_mhz"] < 0.95 * row["reference_mhz"]
    assert row["reference_pj"] == pytest.approx(
        row["energy_pj"] * (row["reference_mhz"] / row["clock_mhz"]) ** 1.5
    )
    text = printed(capsys, name, "--table", "h100")
    assert "at full clock: the energy at 1980 MHz, by clock^gamma, gamma 1.5 ± 0.98" in text
    assert "at full clock" not in printed(capsys, "add.u32")


def test_why_says_the_reasons_below_and_what_each_status_means(capsys):
    assert run(["cost", "xor.b32", "--table", "h200", "--why"]) == 0
    table, why = capsys.readouterr().out.split("\nok: the number is valid\n")
    assert all(line.endswith("  ok") for line in table.splitlines()[1:] if line.startswith("xor.b32"))
    assert "  excluded trials: 4 at an unknown drift level\n    h200 xor.b32 -O3 random\n" in why
    assert "  nothing to add\n    h200 xor.b32 -O0 random\n" in why


def test_every_status_has_a_meaning():
    assert all(status.meaning for status in Status)


def test_a_sparse_product_says_that_it_raises_what_all_draw(capsys):
    names = ["mma.sp.m16n8k16.f32.f16.f16.f32", "mma.m16n8k16.f32.f16.f16.f32"]
    assert run(["cost", *names, "--table", "h100", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    for row in rows:
        if row["boards"]:
            assert ("sparse product raises" in row["reason"]) == (row["instruction"] == names[0])
