"""What an opcode costs on zeros where a run has no trial on them."""

import csv
import tomllib
from pathlib import Path

import pytest
from fakes.measuring import asked
from fakes.script import run_script

from ptxbench.core.condition import OptLevel
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.zeros import shipped_ratios

ROOT = Path(__file__).parents[2]
DATA = tomllib.loads((ROOT / "ptxbench/model/zeros_ratios.toml").read_text())


def on_zeros(opcode, zeros=()):
    """Energy on zeros of an opcode that takes 100 pJ on random operands."""
    known = {one: Known(100.0, 1.0) for one in (opcode, *dict(zeros))}
    return (
        OpcodeEnergies(known, {one: Known(pj, 1.0) for one, pj in dict(zeros).items()})
        .energy(opcode, 0.0)
        .energy_pj
    )


def test_the_shipped_figures_are_those_of_the_run_that_they_name(tmp_path):
    done = run_script("runners/refresh_zeros.py", ROOT / DATA["run"], "--out", tmp_path / "z.toml")
    assert done.returncode == 0
    assert (tmp_path / "z.toml").read_text() == (ROOT / "ptxbench/model/zeros_ratios.toml").read_text()
    assert shipped_ratios().source == f"{DATA['run']} ({DATA['gpu']})"


def test_the_shipped_figures_are_rows_of_the_table():
    with (ROOT / DATA["run"] / "table.csv").open() as file:
        fma = {r["operands"]: float(r["dynamic_pj"]) for r in csv.DictReader(file) if r["sass"] == "FFMA"}
    assert DATA["opcodes"]["FFMA"] == [fma["zeros"], fma["random"]]


def test_a_run_without_zeros_is_refused():
    run = ROOT / "results/nvidia-h200/levels"
    done = run_script("runners/refresh_zeros.py", run)
    assert done.returncode == 2
    assert "no valid -O3 row on both" in done.stderr


def test_simulated_figures_are_not_shipped(tmp_path):
    gpu = SimulatedGpu(poll_interval_s=0.02)
    what = asked("fma.rn.f32", patterns=("random", "zeros"), opt_levels=(OptLevel.O3,), max_repeats=3)
    with start_run(gpu, what, tmp_path / "run") as folder:
        measure_table(gpu, folder)
    words = ("runners/refresh_zeros.py", tmp_path / "run")
    done = run_script(*words)
    assert done.returncode == 2
    assert "is simulated" in done.stderr
    assert run_script(*words, "--out", tmp_path / "z.toml").returncode == 0
    assert '"FFMA" = ' in (tmp_path / "z.toml").read_text()


@pytest.mark.parametrize(
    ("opcode", "like"),
    [
        ("FFMA", ["FFMA"]),
        ("FFMA.FTZ", ["FFMA"]),
        ("IMAD.WIDE.U32", ["IMAD"]),
        ("MUFU.RSQ", ["MUFU.EX2"]),
        ("FLO.U32", ["MUFU.EX2", "POPC"]),
        ("FSETP.GT.AND", ["FADD", "FMUL", "FFMA"]),
        ("LEA.HI", ["IADD3", "LOP3.LUT", "VIMNMX"]),
    ],
)
def test_an_opcode_is_taken_as_those_most_like_it(opcode, like):
    ratios = sorted(zeros_pj / random_pj for zeros_pj, random_pj in (DATA["opcodes"][o] for o in like))
    middle = (ratios[(len(ratios) - 1) // 2] + ratios[len(ratios) // 2]) / 2
    assert on_zeros(opcode) == pytest.approx(100 * middle)


@pytest.mark.parametrize("opcode", ["LDG.E.128", "STG.E", "STS.64", "LDC", "LDGSTS.E.128", "BRA", "UIADD3"])
def test_addresses_and_what_a_warp_executes_once_are_the_same_on_zeros(opcode):
    assert on_zeros(opcode) == pytest.approx(100.0)


def test_what_the_run_itself_measured_on_zeros_comes_first():
    assert on_zeros("FFMA", {"FFMA": 20.0}) == pytest.approx(20.0)
    assert on_zeros("FFMA.FTZ", {"FFMA": 20.0}) == pytest.approx(20.0)
    assert on_zeros("FSETP.GT.AND", {"FFMA": 20.0}) == pytest.approx(20.0)
    assert on_zeros("FFMA.SAT.FTZ", {"FFMA": 20.0, "FFMA.SAT": 60.0}) == pytest.approx(60.0)
    # Of this kind the run has none on zeros.
    assert on_zeros("MUFU.EX2", {"FFMA": 20.0}) == on_zeros("MUFU.EX2")


def test_what_nothing_measured_is_like_falls_as_what_computes_does():
    assert 30 < on_zeros("SHFL.BFLY") < 50
