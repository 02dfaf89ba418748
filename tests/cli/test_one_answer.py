"""One question has one answer in every command and in the interface, or the answer says what it includes."""

import csv
import io
import json
import re
import shutil
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest
from report.test_html import rows_of

from ptxbench.api.table import load_table
from ptxbench.cli.main import run
from ptxbench.model.atlas import LOAD_INCLUDES, open_atlas
from ptxbench.model.terms import BYTE_INCLUDES
from ptxbench.storage.run_spread import find_run_spread
from ptxbench.storage.shipped import SHIPPED, find_table
from ptxbench.tune.model_energy import open_model

ROOFLINES = Path(__file__).parents[2] / "results" / "nvidia-h200" / "roofline"
FMA, DRAM, L2 = "fma.rn.f32", "ld.global.v4.b32:hbm", "ld.global.cg.v4.b32:l2"
TENSOR = "mma.m16n8k16.f32.f16.f16.f32"
# Instruction, what a kind of flop or a level is called, its flops or bytes, and the roofline that has it.
QUESTIONS = [
    (FMA, "f32", 2, "pj_per_flop", "f32-levels"),
    (DRAM, "dram", 16, "pj_per_byte", "f32-levels"),
    (L2, "l2", 16, "pj_per_byte", "f32-levels"),
    (TENSOR, "mma-f16", 4096, "pj_per_flop", "mma-f16"),
]
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
COUNTED = (
    f'"ID","Kernel Name","CC","{OPCODES}","gpu__time_duration.sum","lts__t_bytes.sum","dram__bytes.sum"\n'
    '"","","","inst","ns","byte","byte"\n'
    '"0","k","9.0","1,000 (FFMA: 900; HMMA.16816.F32: 100)","1000000","1000000000","1000000000"\n'
)


@cache
def said(*arguments):
    """Return what a command prints; several questions have the answer of one call."""
    out = io.StringIO()
    with redirect_stdout(out):
        assert run([*map(str, arguments)]) == 0
    return out.getvalue()


def one(rows, instruction):
    (row,) = (
        row
        for row in rows
        if (row["instruction"], row["opt_level"], row["operands"]) == (instruction, "O3", "random")
        # A page says fewer lanes with the operands.
        and int(row.get("lanes") or 32) == 32
    )
    return row


def of_page(text, instruction):
    """Return a row of the HTML page as a mapping."""
    return one(rows_of(text), instruction)


@pytest.mark.parametrize("gpu", SHIPPED)
@pytest.mark.parametrize(("instruction", "name", "parts", "rate", "kept"), QUESTIONS)
def test_every_command_and_the_interface_give_one_number(gpu, instruction, name, parts, rate, kept):
    energy_pj = load_table(gpu)[instruction].energy_pj
    assert 1 < energy_pj < 1e4

    cost = one(json.loads(said("cost", instruction, "--table", gpu, "--json"))["rows"], instruction)
    assert (cost["energy_pj"], cost[rate]) == (energy_pj, pytest.approx(energy_pj / parts))
    table = csv.DictReader(io.StringIO(said("cost", instruction, "--table", gpu, "--format", "csv")))
    assert float(one(table, instruction)["energy_pj"]) == energy_pj

    report = json.loads(said("report", gpu, "--json"))
    assert one(report["rows"], instruction)["dynamic_pj"] == energy_pj
    assert one(report["rates"], instruction)[rate] == cost[rate]
    assert of_page(said("report", gpu, "--format", "html"), instruction)["energy_pj"] == energy_pj

    shown = json.loads(said("roofline", "show", ROOFLINES / kept, "--table", gpu, "--json"))
    assert shown["table_pj"][name] == pytest.approx(cost[rate])
    assert shown["table_notes"][name].startswith(f"{instruction}, ")


@pytest.mark.parametrize("gpu", SHIPPED)
def test_every_command_and_the_interface_give_one_interval_that_holds_for_other_boards(gpu, tmp_path):
    row = load_table(gpu)[FMA]
    cost = one(json.loads(said("cost", FMA, "--gpu", gpu, "--json"))["rows"], FMA)
    assert cost["ci95_pj"] == row.half_width_pj
    assert one(json.loads(said("report", gpu, "--json"))["rows"], FMA)["dynamic_ci95_pj"] == row.half_width_pj
    assert of_page(said("report", gpu, "--format", "html"), FMA)["ci95_pj"] == pytest.approx(
        row.half_width_pj, rel=1e-5
    )
    unit = open_atlas(gpu).unit_energy("f32")
    assert unit is not None
    assert unit.ci95_pj == pytest.approx(row.half_width_pj / 2)

    other = tmp_path / "other"
    shutil.copytree(SHIPPED[gpu], other, ignore=shutil.ignore_patterns("boards.json"))
    # The run alone stands for its own board, which repeats better than others agree.
    own = load_table(other)[FMA]
    own_diff, other_diff = (
        one(json.loads(said("diff", SHIPPED[gpu], table, "--json"))["rows"], FMA)
        for table in (other, of_another_board(other, tmp_path / "another"))
    )
    assert (own_diff["a_ci95"], own_diff["b_ci95"]) == (own.half_width_pj,) * 2
    assert (other_diff["a_ci95"], other_diff["b_ci95"]) == (row.half_width_pj,) * 2
    spread = find_run_spread(open_atlas(gpu).gpu)
    assert own.half_width_pj < row.half_width_pj
    assert spread.same_board.ci95 * own.energy_pj < own.half_width_pj


def of_another_board(run, path):
    """Return a copy of a run as if another board had been measured."""
    shutil.copytree(run, path)
    manifest = path / "manifest.json"
    board = open_atlas(run).gpu.uuid_hash
    manifest.write_text(manifest.read_text().replace(board, "0" * len(board)))
    return path


@pytest.mark.parametrize("gpu", SHIPPED)
def test_every_number_of_a_shipped_table_has_an_interval(gpu):
    rows = json.loads(said("cost", "*", "--gpu", gpu, "--json"))["rows"]
    numbers = [row for row in rows if row["energy_pj"] is not None]
    assert len(numbers) > 800
    assert not [row["instruction"] for row in numbers if not row["ci95_pj"] > 0]
    # One that is known badly says so, and no other status has a number.
    assert {row["status"] for row in numbers} == {"ok", "imprecise"}
    poor = [row for row in numbers if row["status"] == "imprecise"]
    assert all(row["reason"].startswith("known to ± ") for row in poor)
    assert max(row["ci95_pj"] / row["energy_pj"] for row in numbers if row not in poor) < 0.11


def test_a_byte_of_a_load_and_one_of_an_estimate_say_what_they_include(tmp_path):
    cost = said("cost", L2, "--table", "h200")
    assert f"pJ/B: {LOAD_INCLUDES}" in cost
    path = tmp_path / "counts.csv"
    path.write_text(COUNTED)
    estimate = said("estimate", "k", "--ncu", path, "--table", "h200")
    for byte in open_atlas("h200").terms.bytes_pj:
        if byte.level in ("L2", "DRAM"):
            for text in (cost, estimate):
                assert f"{byte.level} {byte.random_pj:.4g}" in text
                assert BYTE_INCLUDES in text
    assert "a load of the table has all of these" in estimate
    assert "pJ a flop on random data, fitted to whole kernels" in estimate
    share = open_atlas("h200").terms.opcode_share
    assert (f"an opcode counts {share:.0%} of its own energy" in estimate) is (share < 1)


def test_a_rate_of_a_report_says_what_it_includes():
    for form in ("text", "markdown"):
        assert LOAD_INCLUDES in said("report", "h200", "--format", form)


def test_solve_sets_its_answer_beside_that_of_the_table_and_says_what_either_is():
    document = json.loads(said("report", "--opcodes", "h200", "--json"))
    assert "all loops of the run together" in document["includes"]
    (row,) = (row for row in document["compared"] if (row["instruction"], row["opt_level"]) == (FMA, "O3"))
    assert row["direct_pj"] == load_table("h200")[FMA].energy_pj
    (opcode,) = (one for one in document["opcodes"] if one["opcode"] == "FFMA")
    atlas = open_atlas("h200")
    assert opcode["energy_pj"] == pytest.approx(
        atlas.solved.opcode_energies.random["FFMA"].energy_pj, rel=1e-3
    )
    # An estimate takes the row, of several the median.
    rows_pj = sorted(
        row["direct_pj"] for row in document["compared"] if row["instruction"] in (FMA, "mad.rn.f32")
    )
    assert atlas.opcode_energies.random["FFMA"].energy_pj == pytest.approx(rows_pj[0], rel=0.03)


@pytest.mark.parametrize("gpu", SHIPPED)
def test_estimate_and_tune_price_an_opcode_and_a_byte_alike(gpu):
    atlas = open_atlas(gpu)
    tuned = open_model(find_table(gpu), atlas.gpu).machine
    assert tuned.terms == atlas.machine.terms
    for opcode in ("FFMA", "SHF.R.W.U32", "HMMA.16816.F32", "NOT.KNOWN"):
        priced = tuned.opcode_energies.energy(opcode, 1.0)
        assert priced == atlas.machine.opcode_energies.energy(opcode, 1.0)


def test_an_energy_of_loops_at_unlike_clocks_is_never_plain_ok():
    row = load_table("h100")[TENSOR]
    assert "its overhead loop at" in row.reason
    for text in (str(row), said("cost", TENSOR, "--table", "h100")):
        assert "its overhead loop at" in text
    energy = f"{row.energy_pj:.4g}"
    marked = {"markdown": rf"{energy} ± [\d.e+]+\\?\*", "latex": rf"{energy} \$\\pm\$ [\d.e+]+\*"}
    for form, pattern in marked.items():
        assert re.search(pattern, said("report", "h100", "--format", form)), form
