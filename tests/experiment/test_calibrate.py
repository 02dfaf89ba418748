"""A calibration of a simulated board gives back what is hidden of it; it is resumed, reported and used."""

import json
import math
from dataclasses import replace

import pytest
from fakes.measuring import asked

import ptxbench
from ptxbench.analysis.statistics import Uncertainty
from ptxbench.cli.main import run
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated import SimulatedGpu
from ptxbench.devices.simulated.governor import dynamic_factor
from ptxbench.devices.simulated.ground_truth import opcode_energy_pj
from ptxbench.devices.simulated.load import find_board
from ptxbench.experiment.calibrate import calibrate
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.model.atlas import open_atlas, open_shipped
from ptxbench.model.estimate import dynamic_parts
from ptxbench.model.tensor import multiply_adds
from ptxbench.model.work import Access, Activity, KernelWork, Level

ROWS = ("fma.rn.f32", "add.f32", "mad.lo.u32")
LOAD = {"dram": "LDG.E.128.STRONG.GPU", "l2": "LDG.E.128.STRONG.GPU", "l1": "LDG.E.128.STRONG.SM"}


def opened(name):
    profile, number = find_board(name)
    return SimulatedGpu(profile, number), profile


def table_of(name, path):
    gpu, _ = opened(name)
    what = asked(*ROWS, opt_levels=(OptLevel.O3,), min_repeats=2, max_repeats=2)
    with start_run(gpu, what, path) as folder:
        measure_table(gpu, folder)
    return path


@pytest.fixture(scope="module")
def h200(tmp_path_factory):
    """Folders of a table of one board, and of a calibration of another."""
    path = tmp_path_factory.mktemp("calibrate")
    table = table_of("h200-memory", path / "table")
    words = ["--gpu", "simulated:h200-memory@3", "--table", str(table), "--out", str(path / "run")]
    assert run(["calibrate", *words]) == 0
    return table, path / "run"


def stream_pj(machine, level):
    """What a byte of a stream costs by a machine: at all levels on its way, its load and its accesses."""
    moved, accesses = dict.fromkeys(Level, 0.0), dict.fromkeys(Access, 0.0)
    moved[Level.L1], accesses[Access.L1_WAVEFRONT] = 16.0, 16 / 512
    if level != "l1":
        moved[Level.CROSSBAR] = moved[Level.L2] = 16.0
        accesses[Access.L2_REQUEST] = 16 / 128
    if level == "dram":
        moved[Level.L2], moved[Level.DRAM] = 24.0, 16.0
        accesses[Access.L2_REQUEST] = accesses[Access.L2_MISS] = 16 / 64
    work = KernelWork("", ((LOAD[level], 1.0),), tuple(moved.items()), 1.0, accesses=tuple(accesses.items()))
    terms = replace(machine.terms, active_w=0.0)
    return sum(dynamic_parts(work, machine.opcode_energies, terms, Activity()).values()) * 1e12 / 16


def require_hidden_terms(path, name, table_name):
    """Compare a calibration with what is hidden of its board; the power source has a gain of its own."""
    _, profile = opened(name)
    gain = profile.sensors[0].gain
    atlas = open_atlas(path)
    found, terms = atlas.calibration, atlas.terms
    of_table = opened(table_name)[1].chip.energy_scale
    assert terms.opcode_scale == pytest.approx(profile.chip.energy_scale / of_table, rel=0.01)
    board = profile.board
    assert found.static_power.at(board.static_at_c) == pytest.approx(gain * board.static_w, rel=0.01)
    # No power of an active chip is hidden.
    active = next(one for one in found.found if one.name == "active chip")
    assert terms.active_w == active.value < 0.01 * board.static_w
    for level in LOAD:
        hidden_pj = gain * getattr(profile.memory, f"{level}_pj_per_byte")
        assert stream_pj(atlas.machine, level) == pytest.approx(hidden_pj, rel=0.04), level
    # It was not so before.
    before = replace(atlas.machine, terms=open_shipped("h100").terms)
    assert stream_pj(before, "dram") != pytest.approx(gain * profile.memory.dram_pj_per_byte, rel=0.1)
    opcode = "HMMA.16816.F32"
    energy = next(one for one in terms.tensor if one.kind == "HMMA.F32")
    for pattern in ("random", "zeros"):
        hidden_pj = gain * profile.chip.energy_scale * opcode_energy_pj(opcode, pattern, profile)
        assert getattr(energy, f"{pattern}_pj") * multiply_adds(opcode) == pytest.approx(hidden_pj, rel=0.05)
    lowest = terms.lowest_clock_ratio
    assert found.gamma_fitted
    assert lowest < 0.95
    assert lowest**terms.gamma == pytest.approx(dynamic_factor(lowest) / lowest, rel=0.02)


def test_hidden_terms_of_a_board_of_sm_90_come_back(h200):
    require_hidden_terms(h200[1], "h200-memory@3", "h200-memory")


@pytest.mark.parametrize("product", ["rtx3090-memory", "rtx5090"])
def test_hidden_terms_of_boards_of_sm_86_and_sm_120_come_back(product, tmp_path):
    table = table_of(product, tmp_path / "table")
    gpu, _ = opened(f"{product}@2")
    path, found = calibrate(gpu, table, tmp_path / "run")
    assert found is not None
    require_hidden_terms(path, f"{product}@2", product)


def test_report_and_estimate_take_the_folder(h200, tmp_path, capsys):
    _, path = h200
    assert run(["report", str(path)]) == 0
    text = capsys.readouterr().out
    assert "SIMULATED" in text
    assert "kept: a byte that L2 hands out" in text
    assert run(["report", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in document["found"]} >= {"opcodes", "active chip", "DRAM random", "L2 zeros"}
    assert document["errors"]["left_out_pct"] < 2
    static = document["static_power"]
    ci95_w = Uncertainty(static["error_w"], static["degrees"]).ci95
    assert f"static power: {static['power_w']:.4g} ± {ci95_w:.2g} W (95%)" in text
    assert f"± {1.96 * document['terms']['gamma_error']:.2f} (95%)" in text
    kernel = ["tests/model/kernels/elementwise.ptx", "--grid=1056", "--block=256", "--trips=0=4096"]
    assert run(["estimate", *kernel, "--time-s=0.01", f"--table={path}", "--json"]) == 0
    estimated = json.loads(capsys.readouterr().out)
    assert estimated["gpu"] == open_atlas(path).gpu.name
    parts = {one["name"]: one["energy_j"] for one in estimated["parts"]}
    atlas = open_atlas(path)
    assert parts["static"] == pytest.approx(0.01 * atlas.static_power.power_w)
    unscaled = replace(atlas.calibration, terms=replace(atlas.terms, opcode_scale=1.0))
    scales = [replace(atlas, calibration=one).machine for one in (atlas.calibration, unscaled)]
    ffma = [machine.opcode_energies.energy("FFMA", 1.0).energy_pj for machine in scales]
    assert ffma[0] == pytest.approx(atlas.terms.opcode_scale * ffma[1])
    assert any("terms are those of the calibration" in note for note in estimated["notes"])
    # Rows are those of another board.
    with pytest.raises(InputError, match="is a calibration: rows are in its table"):
        calibrate(opened("h200-memory")[0], path, tmp_path / "again")
    with pytest.raises(InputError, match="is a calibration: rows are in its table"):
        ptxbench.cost("fma.rn.f32", table=path)
    assert run(["cost", "fma.rn.f32", f"--table={path}"]) == 2


def test_its_kernels_keep_the_names_by_which_it_goes_on(h200):
    """With the SMs that they run on, and the flop for a byte of a stream."""
    lines = (h200[1] / "kernels.jsonl").read_text().splitlines()
    names = {json.loads(line)["name"] for line in lines}
    streams = {
        *("dram-0.25-random-132", "dram-0.25-zeros-132", "dram-2-random-132"),
        *("l2-0.25-random-132", "l2-0.25-zeros-132", "l2-2-random-132"),
        *("l1-0.25-random-132", "l1-0.25-zeros-132", "l1-0.25-random-66"),
        *("shared-0.25-random-132", "shared-0.25-zeros-132", "shared-0.25-random-66"),
    }
    rows = {"fma.rn.f32-random-132", "add.f32-random-132", "mad.lo.u32-random-132"}
    few = {"fma.rn.f32-random-16", "mad.lo.u32-random-16"}
    halves = {name.replace("-132", "-66") for name in names if "mma.m" in name and name.endswith("-132")}
    assert names >= streams | rows | few | halves
    assert {int(name.rpartition("-")[2]) for name in names if "sleep" not in name} == {16, 66, 132}


class KilledError(BaseException):
    """Stands for a signal."""


def test_a_killed_calibration_goes_on_where_it_was(h200, tmp_path):
    table, whole = h200
    path = tmp_path / "run"

    def kill(done, _total, _name):
        if done == 12:
            raise KilledError

    with pytest.raises(KilledError):
        calibrate(opened("h200-memory@3")[0], table, path, show=kill)
    with (path / "kernels.jsonl").open("a") as file:
        file.write('{"name": "torn')
    with pytest.raises(InputError, match="was not finished"):
        open_atlas(path)
    seen = []
    _, found = calibrate(
        opened("h200-memory@3")[0], table, path, resume=True, show=lambda *one: seen.append(one)
    )
    assert seen[0][0] == 12
    assert found.left_out_error < 0.02
    other = open_atlas(whole).calibration
    assert {one.kernel for one in found.residuals} == {one.kernel for one in other.residuals}
    assert found.terms.opcode_scale == pytest.approx(other.terms.opcode_scale, rel=0.005)
    # What is kept is fitted again without a GPU.
    again = ptxbench.calibrate(f"replay:{path}", table=table, out=tmp_path / "again")
    assert again.found == found.found
    assert open_atlas(tmp_path / "again").terms == found.terms


def test_time_that_is_spent_is_exit_code_1_and_the_rest_can_be_resumed(h200, tmp_path, capsys, monkeypatch):
    table, _ = h200
    words = ["calibrate", "--gpu=simulated:h200-memory", f"--table={table}", f"--out={tmp_path / 'run'}"]
    assert run([*words, "--budget-minutes=0.2"]) == 2
    err = capsys.readouterr().err
    assert "--budget-minutes must be at least" in err
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr("ptxbench.experiment.calibrate._require_time", lambda *_: None)
    assert run([*words, "--budget-minutes=0.2"]) == 1
    assert "continue with --resume" in capsys.readouterr().err
    with pytest.raises(InputError, match="the time given is spent"):
        ptxbench.calibrate(
            "simulated:h200-memory", table=table, out=tmp_path / "run", resume=True, budget_minutes=0.01
        )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--gpu=simulated:h200-memory", "--table=h200"], "--table must name rows of NVIDIA H200"),
        (["--gpu=simulated:h200-memory"], "and h100 is of NVIDIA H100"),
        (["--gpu=simulated:rtx4090"], "--table must be named"),
        (["--gpu=simulated:rtx4090", "--table=TABLE"], "sm_90a), and this is NVIDIA GeForce RTX 4090"),
        (["--gpu=replay:TABLE", "--table=TABLE"], "is a table of instructions, not a recording"),
        (["--gpu=replay:TABLE", "--resume"], "--resume measures: name a GPU, not a recorded folder"),
    ],
    ids=["real-table", "default-table", "no-table", "capability", "replay", "replay-resume"],
)
def test_what_cannot_be_calibrated_is_one_line(h200, words, told, tmp_path, capsys):
    given = [word.replace("TABLE", str(h200[0])) for word in words]
    assert run(["calibrate", *given, f"--out={tmp_path / 'run'}"]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_table_without_rows_that_tell_of_opcodes_is_refused(tmp_path):
    gpu, _ = opened("h200-memory")
    what = asked("popc.b32", opt_levels=(OptLevel.O3,), min_repeats=2, max_repeats=2)
    with start_run(gpu, what, tmp_path / "table") as folder:
        measure_table(gpu, folder)
    with pytest.raises(InputError, match=r"no row by which opcodes can be calibrated.*ptxbench table fma"):
        calibrate(gpu, tmp_path / "table", tmp_path / "run")


def test_a_kernel_beside_another_program_is_left_out(h200, tmp_path):
    table, _ = h200
    path = tmp_path / "run"
    gpu, _ = opened("h200-memory@3")
    telemetry, beside = gpu.telemetry, []

    def shared():
        beside.append(1)
        return replace(telemetry(), other_processes=int(20 < len(beside) < 30))

    gpu.telemetry = shared
    _, found = calibrate(gpu, table, path)
    told = [note for note in found.notes if "another program was on the GPU" in note]
    assert told
    assert not {note.split()[0] for note in told} & {one.kernel for one in found.residuals}
    assert math.isfinite(found.left_out_error)
