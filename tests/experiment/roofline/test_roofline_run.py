"""A run on the simulated GPU gives back its hidden energies; what cannot be true is refused."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from ptxbench.cli.main import run
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated import SimulatedGpu, find_profile
from ptxbench.devices.simulated.truth import opcode_energy_pj
from ptxbench.experiment.roofline.kernel import KINDS, IntensityKernel, build, loop_fault
from ptxbench.experiment.roofline.measure import measure
from ptxbench.experiment.roofline.point import RooflineOptions, open_folder
from ptxbench.experiment.roofline.result import measured_points, work_out, write_result
from ptxbench.report.cost import find_costs, open_cost_table
from ptxbench.storage.shipped import find_table

PROFILE = find_profile("h200-memory")
INTENSITIES = (0.125, 0.5, 1, 2, 4, 32, 64, 128, 512)
FEW = RooflineOptions(kinds=("f32",), intensities=INTENSITIES)
CAPPED = replace(PROFILE, name="capped", board=replace(PROFILE.board, power_cap_w=300.0))
SLOW = replace(PROFILE, name="slow", sensors=find_profile("slow-sensor").sensors)


def energies(result):
    return {one.name: one.value for one in result.energies}


def truth(profile, result):
    board, flop_pj = profile.board, opcode_energy_pj("FFMA", "random") / 2
    constant_w = board.static_w + board.static_slope_w_per_k * (result.temperature_c - board.static_at_c)
    return {"f32": flop_pj, "dram": profile.memory.dram_pj_per_byte, "constant": constant_w}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("roofline") / "run"
    measure(SimulatedGpu(PROFILE), FEW, path)
    return path


def test_the_hidden_energies_come_back_within_two_percent(finished):
    result = work_out(open_folder(finished))
    for name, hidden in truth(PROFILE, result).items():
        assert energies(result)[name].value == pytest.approx(hidden, rel=0.02), name
    assert result.slope_w_per_k == pytest.approx(PROFILE.board.static_slope_w_per_k, rel=0.1)


def test_under_a_limit_of_300_w_slowed_kernels_are_left_out_and_the_energies_come_back(tmp_path):
    on_few = replace(FEW, sms=(4, 8, 16))
    result = work_out(measure(SimulatedGpu(CAPPED), on_few, tmp_path / "run"))
    assert result.left_out
    for name, hidden in truth(CAPPED, result).items():
        assert energies(result)[name].value == pytest.approx(hidden, rel=0.02), name


def test_a_slow_sensor_gives_the_same_apart_from_its_own_scale(tmp_path):
    result = work_out(measure(SimulatedGpu(SLOW), FEW, tmp_path / "run"))
    gain = SLOW.sensors[0].gain
    for name, hidden in truth(SLOW, result).items():
        found = energies(result)[name]
        assert abs(found.value - gain * hidden) <= max(found.uncertainty, 0.02 * hidden), name


def test_a_byte_from_l2_has_its_own_energy(tmp_path):
    both = replace(FEW, levels=("dram", "l2"))
    found = energies(work_out(measure(SimulatedGpu(PROFILE), both, tmp_path / "run")))
    assert found["l2"].value == pytest.approx(PROFILE.memory.l2_pj_per_byte, rel=0.03)
    assert found["dram"].value == pytest.approx(PROFILE.memory.dram_pj_per_byte, rel=0.02)


def test_a_stopped_run_goes_on_and_gives_the_same_kernels(finished, tmp_path):
    class StoppedError(Exception):
        pass

    def stop(done, _count, _name):
        if done == 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        measure(SimulatedGpu(PROFILE), FEW, tmp_path / "run", show=stop)
    assert len(open_folder(tmp_path / "run").recordings) == 4
    folder = measure(SimulatedGpu(PROFILE), FEW, tmp_path / "run", resume=True)
    assert [r.name for r in folder.recordings] == [r.name for r in open_folder(finished).recordings]
    assert folder.finished
    assert len(measured_points(open_folder(tmp_path / "run"))) == len(folder.recordings)


def test_bytes_faster_than_dram_are_refused(tmp_path):
    one = RooflineOptions(kinds=("f32",), intensities=(0.125,), sms=(132,))
    folder = measure(SimulatedGpu(find_profile("h200")), one, tmp_path / "run")
    with pytest.raises(InputError, match="faster than DRAM can be"):
        measured_points(folder)


def test_a_run_of_slowed_kernels_alone_gives_no_number(tmp_path):
    folder = measure(SimulatedGpu(CAPPED), replace(FEW, sms=(132,)), tmp_path / "run")
    with pytest.raises(InputError, match=r"9 more were slowed down .* on fewer SMs"):
        work_out(folder)


def test_too_few_kernels_and_an_intensity_out_of_reach_are_one_line(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run"), "--gpu", "simulated:h200-memory", "--kind", "f32"]
    assert run(["roofline", "run", *out, "--intensity", "5000"]) == 2
    assert "5000 flop/byte cannot be reached with f32" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert run(["roofline", "run", *out, "--intensity", "1"]) == 2
    assert "2 points are too few for 3 energies (f32, dram, constant)" in capsys.readouterr().err


def test_the_result_is_kept_in_the_folder(finished):
    write_result(open_folder(finished), "random")
    kept = json.loads((finished / "roofline.json").read_text())
    assert [one["name"] for one in kept["energies"]] == ["f32", "dram", "constant"]
    assert len(kept["points"]) == 2 * len(INTENSITIES)


def test_a_run_is_shown_again_and_gives_tradeoffs_with_intervals(finished, capsys):
    assert run(["roofline", "show", str(finished)]) == 0
    out = capsys.readouterr().out
    assert "pJ/flop" in out
    assert "race to halt" in out
    arguments = ["--run", str(finished), "--f=2", "--m=4", "--intensity=1", "--json"]
    assert run(["roofline", "tradeoff", *arguments]) == 0
    greenup = json.loads(capsys.readouterr().out)["greenup"]
    assert greenup["low"] < greenup["value"] < greenup["high"]
    assert run(["roofline", "tradeoff", *arguments, "--kind=f64"]) == 2
    assert "no 'f64', only f32, dram, constant" in capsys.readouterr().err


def test_the_energies_of_the_instruction_table_stand_beside_the_fitted_ones(finished, capsys):
    assert run(["roofline", "show", str(finished), "--table", "h200", "--json"]) == 0
    beside = json.loads(capsys.readouterr().out)["table_pj"]
    (row,) = [
        cost
        for cost in find_costs("fma.rn.f32", [open_cost_table("h200", find_table("h200"))])
        if (cost.opt_level, cost.protocol, cost.operands) == ("O3", "dynamic", "random")
    ]
    assert beside["f32"] == pytest.approx(row.pj_per_flop)
    # HBM of an H200, measured on other boards: between 100 and 150 pJ a byte.
    assert 100 < beside["dram"] < 150
    assert beside["constant"] is None
    assert run(["roofline", "show", str(finished), "--table", "h200"]) == 0
    assert f"{row.pj_per_flop:.4g}" in capsys.readouterr().out


def test_the_pictures_are_drawn(finished, tmp_path):
    assert run(["roofline", "show", str(finished), "--plot", str(tmp_path / "roofline.svg")]) == 0
    assert "<svg" in (tmp_path / "roofline.svg").read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["a100", "h200"])
def test_the_machine_code_does_what_its_intensity_says(kind, target):
    for intensity in (0.125, 0.7, 256):
        built = build(SimulatedGpu(find_profile(target)), IntensityKernel(KINDS[kind], intensity))
        assert built.fault == ""
        assert built.cubin.opt_level is OptLevel.O3


def test_a_loop_that_lacks_a_multiply_add_or_a_load_is_not_what_it_should_be():
    kernel = IntensityKernel(KINDS["f32"], 1)
    counts = {"FFMA": 64, "LDG.E.128.STRONG.GPU": 8, "BRA": 1}
    assert loop_fault(kernel, Counter(counts)) == ""
    assert "63 FFMA, not 64" in loop_fault(kernel, Counter(counts | {"FFMA": 63}))
    assert "7 LDG" in loop_fault(kernel, Counter(counts | {"LDG.E.128.STRONG.GPU": 7}))
    assert "LDL" in loop_fault(kernel, Counter(counts | {"LDL": 1}))
