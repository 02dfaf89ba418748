"""The joint solve against truths that are known: made-up kernels, and a run on the simulated GPU."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from fakes.measuring import asked
from fakes.run import row

from ptxbench.cli.report import command
from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.ground_truth import opcode_energy_pj
from ptxbench.devices.simulated.load import H200
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.model.pass_energy import PassEnergy
from ptxbench.model.solve import solve, solve_with_prior
from ptxbench.model.solved import read_solved
from ptxbench.storage.run_folder import RunFolder

TRUTH = {
    "FFMA": 14.0,
    "IADD3": 7.5,
    "MUFU.EX2": 18.0,
    "BRA": 0.5,
    "LDG.E": 21.0,
    "STG.E": 30.0,
    "BYTE.DRAM": 30.0,
}


def kernel(energy=None, error=0.1, pattern="random", **counts):
    counts = {opcode.replace("_", "."): float(n) for opcode, n in counts.items()}
    truth = sum(n * TRUTH[opcode] for opcode, n in counts.items())
    return PassEnergy("made up", pattern, tuple(counts.items()), energy or truth, error, 3)


def energies(solution, pattern="random"):
    return {one.opcode: one for one in solution.opcodes if one.pattern == pattern}


def test_energies_of_determined_opcodes_come_back_and_no_other_error_is_claimed():
    solution = solve(
        [
            kernel(FFMA=64, BRA=1),
            kernel(FFMA=128, BRA=1),
            kernel(IADD3=32, BRA=1),
            kernel(IADD3=64, FFMA=8, BRA=1),
        ]
    )
    found = energies(solution)
    for opcode in ("FFMA", "IADD3", "BRA"):
        assert found[opcode].identifiable
        assert found[opcode].energy_pj == pytest.approx(TRUTH[opcode], rel=1e-6)
    (fit,) = solution.fits
    assert (fit.kernels, fit.opcodes, fit.rank) == (4, 3, 3)
    assert fit.worst_residual < 1e-9


def test_errors_hold_the_truth_as_often_as_they_say():
    random = np.random.default_rng(7)
    inside = []
    for _ in range(60):
        passes = []
        for n in (32, 64, 96, 128):
            for counts in ({"FFMA": n, "BRA": 1}, {"IADD3": n, "BRA": 1}, {"FFMA": n, "IADD3": n, "BRA": 1}):
                exact = kernel(**counts)
                error = 0.02 * exact.energy_pj
                passes.append(replace(exact, energy_pj=random.normal(exact.energy_pj, error), error_pj=error))
        found = energies(solve(passes))
        inside += [abs(found[o].energy_pj - TRUTH[o]) < 1.96 * found[o].error_pj for o in ("FFMA", "IADD3")]
    assert 0.88 < np.mean(inside) <= 1.0


def test_opcodes_that_always_stand_together_are_named_and_have_no_error():
    passes = [kernel(FFMA=n, MUFU_EX2=2 * n, IADD3=k) for n, k in ((1, 9), (2, 5), (3, 1))]
    solution = solve(passes)
    found = energies(solution)
    assert found["IADD3"].identifiable
    assert found["IADD3"].energy_pj == pytest.approx(TRUTH["IADD3"])
    for one, other in (("FFMA", "MUFU.EX2"), ("MUFU.EX2", "FFMA")):
        assert not found[one].identifiable
        assert found[one].together_with == (other,)
        assert math.isnan(found[one].energy_pj)
        assert math.isnan(found[one].error_pj)
    assert [one.opcode for one in solution.opcodes] == ["IADD3", "FFMA", "MUFU.EX2"]
    # Together they cost what they cost, however it is shared.
    drawn = solve_with_prior(passes, solution)
    assert drawn["FFMA"][0] + 2 * drawn["MUFU.EX2"][0] == pytest.approx(14.0 + 2 * 18.0, rel=0.01)


def test_opcodes_of_which_none_is_told_apart_still_cost_something():
    passes = [kernel(FFMA=n, MUFU_EX2=n) for n in (1, 2)]
    drawn = solve_with_prior(passes, solve(passes))
    assert drawn["FFMA"][0] + drawn["MUFU.EX2"][0] == pytest.approx(14.0 + 18.0, rel=0.01)


def test_no_energy_is_negative():
    solution = solve([kernel(energy=100.0, FFMA=10), kernel(energy=90.0, FFMA=10, IADD3=10)])
    assert energies(solution)["IADD3"].energy_pj == 0


def test_patterns_are_solved_apart():
    solution = solve([kernel(FFMA=64), kernel(energy=300.0, pattern="zeros", FFMA=64)])
    assert energies(solution)["FFMA"].energy_pj == pytest.approx(14.0)
    assert energies(solution, "zeros")["FFMA"].energy_pj == pytest.approx(300 / 64)


def test_a_row_whose_direct_difference_is_elsewhere_is_listed_and_one_that_agrees_is_not():
    passes = [kernel(FFMA=64, BRA=1), kernel(BRA=1, error=0.01), kernel(IADD3=64, BRA=1)]
    made = replace(row(), protocol=DYNAMIC, operands="random", dynamic_ci95_pj=0.1, unit="thread")
    rows = [
        replace(made, instruction="right", sass="FFMA", dynamic_pj=14.0),
        replace(made, instruction="wrong", sass="IADD3*0.5", dynamic_pj=7.5),
        replace(made, instruction="unknown", sass="NEVERSEEN", dynamic_pj=7.5),
    ]
    solution = solve(passes, rows)
    assert [one.instruction for one in solution.compared] == ["right", "wrong"]
    assert [one.instruction for one in solution.disagreements] == ["wrong"]
    assert solution.disagreements[0].joint_pj == pytest.approx(3.75)


def test_a_row_of_a_level_is_compared_with_its_bytes():
    passes = [kernel(STG_E=10), kernel(STG_E=10, BYTE_DRAM=40), kernel(STG_E=20, BYTE_DRAM=40)]
    stores = replace(row(), protocol=DYNAMIC, operands="random", dynamic_ci95_pj=0.1, unit="thread")
    stores = replace(stores, instruction="st.global.b32:hbm", sass="STG.E", dynamic_pj=150.0)
    (found,) = solve(passes, [stores]).compared
    assert found.joint_pj == pytest.approx(30.0 + 4 * 30.0)
    assert not found.disagree


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("simulated") / "run"
    what = asked(
        "fma.rn.f32", "mad.lo.u32", "add.f32", opt_levels=(OptLevel.O3,), min_repeats=3, max_repeats=3
    )
    with start_run(SimulatedGpu(poll_interval_s=0.02), what, path) as folder:
        measure_table(SimulatedGpu(poll_interval_s=0.02), folder)
    return path


def test_a_simulated_run_gives_the_hidden_energies_back(run):
    with RunFolder.open(run) as folder:
        found = energies(read_solved(run).solution(folder.rows()))
    for opcode in ("FFMA", "FADD", "IMAD"):
        assert found[opcode].energy_pj == pytest.approx(opcode_energy_pj(opcode, "random", H200), rel=0.01)


def test_the_command_prints_json_and_says_simulated(run):
    result = CliRunner().invoke(command, ["--opcodes", str(run), "--json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    assert document["kind"] == "simulated"
    assert {one["opcode"] for one in document["opcodes"]} >= {"FFMA", "BRA"}
    text = CliRunner().invoke(command, ["--opcodes", str(run)], catch_exceptions=False).stdout
    assert "SIMULATED" in text


def test_a_run_without_dynamic_trials_is_refused_in_one_line(tmp_path):
    what = asked("fma.rn.f32", protocols=(ARAFA,), opt_levels=(OptLevel.O3,), min_repeats=1, max_repeats=1)
    gpu = SimulatedGpu(poll_interval_s=0.05)
    with start_run(gpu, what, tmp_path / "run") as folder:
        measure_table(gpu, folder)
    with pytest.raises(InputError, match="no valid trial of the dynamic protocol"):
        CliRunner().invoke(command, ["--opcodes", str(tmp_path / "run")], catch_exceptions=False)
