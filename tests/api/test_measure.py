"""Instructions measured by the public interface, on the simulated GPU."""

import pytest

import ptxbench
from ptxbench.storage.run_folder import RunFolder


@pytest.fixture(scope="module")
def gpu():
    with ptxbench.open_gpu("simulated") as opened:
        yield opened


@pytest.fixture(scope="module")
def fma(gpu, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "kept"
    return folder, ptxbench.measure(gpu, "fma.rn.f32", precision=0.05, out=folder)


def test_an_instruction_has_its_energy_interval_sass_and_trials(fma):
    _, found = fma
    low, high = found.interval_pj
    # The simulated GPU's hidden energy of FFMA on random operands.
    assert low < 12.4 < high
    assert found.energy_pj == pytest.approx((low + high) / 2)
    assert found.sass == "FFMA"
    assert found.is_valid
    assert found.status == "ok"
    assert found.row.instruction == "fma.rn.f32"
    assert {trial.instruction for trial in found.trials} == {"fma.rn.f32"}
    assert "± " in str(found)
    assert "FFMA" in str(found)


def test_a_run_that_is_kept_is_read_back_alike(fma):
    folder, found = fma
    table = ptxbench.load_run(folder)
    assert table["fma.rn.f32"].energy_pj == pytest.approx(found.energy_pj, rel=1e-5)
    assert len(table["fma.rn.f32"].trials) == len(found.trials)
    assert table.gpu.kind == "simulated"


def test_fewer_lanes_are_rows_of_their_own_in_a_table(gpu, tmp_path):
    folder = tmp_path / "run"
    table = ptxbench.measure_table(gpu, ["fma.rn.f32"], opt_levels="O3", lanes=(32, 8), out=folder)
    whole, few = table["fma.rn.f32"], table.find("fma.rn.f32", lanes=8)
    assert (whole.row.lanes, few.row.lanes) == (32, 8)
    assert few.energy_pj > 1.2 * whole.energy_pj, "a warp's own part is spread over eight threads"
    assert {trial.lanes for trial in few.trials} == {8}
    assert "random, 8 lanes" in str(few)
    read = ptxbench.load_run(folder)
    assert read["fma.rn.f32", "O3", "dynamic", "random", 8].energy_pj == pytest.approx(
        few.energy_pj, rel=1e-5
    )
    with pytest.raises(ptxbench.InputError, match=r"not with .*lanes=16, but .*'random', 8\)"):
        table.find("fma.rn.f32", lanes=16)


def test_no_folder_is_left_behind(gpu, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = ptxbench.measure_table(gpu, ["add.f32", "ex2.approx.ftz.f32"], opt_levels="O3", precision=0.05)
    assert [row.instruction for row in table] == ["add.f32", "ex2.approx.ftz.f32"]
    assert list(tmp_path.iterdir()) == []
    assert table["add.f32"].trials
    assert set(table["add.f32"].trials).isdisjoint(table["ex2.approx.ftz.f32"].trials)


def test_what_cannot_be_measured_says_why(gpu):
    found = ptxbench.measure(gpu, "mma.m16n8k32.f32.e4m3.e4m3.f32", precision=0.05)
    assert not found.is_valid
    assert found.reason in str(found)
    assert found.energy_pj != found.energy_pj


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"instruction": "fma.f99"}, "fma.f99"),
        ({"instruction": ["fma.rn.f32", "add.f32"]}, "instruction must be one name; `measure_table` takes"),
        ({"opt_level": "O2"}, "opt_level"),
        ({"protocol": "magic"}, "protocol"),
        ({"operands": "ones"}, "operands"),
        ({"precision": float("nan")}, "precision"),
        ({"precision": 0}, "precision"),
        ({"precision": "fine"}, "precision"),
        ({"gpu": "simulated:nope"}, "nope"),
        ({"gpu": "first"}, "first"),
        ({"gpu": 1.5}, "gpu"),
    ],
)
def test_a_bad_argument_is_named(words, named):
    given = {"gpu": "simulated", "instruction": "fma.rn.f32", **words}
    with pytest.raises(ptxbench.InputError, match=named):
        ptxbench.measure(given.pop("gpu"), given.pop("instruction"), **given)


def test_an_open_gpu_waits_by_its_own_clock_and_says_what_it_is(gpu):
    gpu.sleep(3600)
    assert not gpu.is_real
    assert "SIMULATED" in repr(gpu)
    assert gpu.name == gpu.info.name


def test_isolated_it_is_measured_by_another_process_with_the_same_options(tmp_path):
    found = ptxbench.measure(
        "simulated", "add.u32", opt_level="O3", precision=0.01, out=tmp_path / "run", isolate=True
    )
    assert (found.row.instruction, found.row.opt_level, found.status) == ("add.u32", "O3", "ok")
    with RunFolder.open(tmp_path / "run") as folder:
        assert folder.manifest.part.arguments.precision == 0.01
        assert folder.manifest.command[1] == "table"
    with pytest.raises(ptxbench.InputError, match="already holds a run"):
        ptxbench.measure("simulated", "add.u32", out=tmp_path / "run", isolate=True)


def test_what_another_process_refuses_is_an_error_here(tmp_path):
    with pytest.raises(ptxbench.InputError, match="nonsense"):
        ptxbench.measure("simulated:nonsense", "add.u32", isolate=True)
    with pytest.raises(ptxbench.GpuError, match=r"9999|NVIDIA driver"):
        ptxbench.measure(9999, "add.u32", isolate=True)
    with (
        ptxbench.open_gpu("simulated") as gpu,
        pytest.raises(ptxbench.InputError, match="give `gpu` as an index, UUID or name, not open"),
    ):
        ptxbench.measure(gpu, "add.u32", isolate=True)
