"""`ptxbench table` as its users meet it."""

import hashlib
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.nvml import DRIVER_MISMATCH, FakeDevice, use_nvml
from fakes.profile_file import write_profile

from ptxbench.api.table import load_run
from ptxbench.catalogue.starters import STARTERS
from ptxbench.cli.main import run
from ptxbench.cli.table_cluster import ClusterOptions
from ptxbench.devices.driver_presence import driver_traces, wants_gpus
from ptxbench.devices.simulated.load import H200
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.nvml import NvmlDevice
from ptxbench.storage import known_rows
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.run_spread import RunSpread, SpreadTerm
from ptxbench.storage.table import write_table

TESTS = Path(__file__).parents[1]
QUICK = [
    "--opt-level",
    "O3",
    "--protocol",
    "dynamic",
    "--min-repeats",
    "2",
    "--max-repeats",
    "2",
    "--seed",
    "7",
]
# Their four kernels draw unlike powers, so that no noise tells which comes first in a sweep.
PAIR = ["fma.rn.f32", "popc.b32", *QUICK, "--protocol", "arafa"]


def table(*arguments):
    return run(["table", *map(str, arguments)])


def one_line(capsys):
    """The only thing that was printed: one line on standard error."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("ptxbench: error: ")
    return captured.err


def use_boards(monkeypatch, *devices, **faults):
    """Let these be the GPUs of this machine; none of them can run a kernel."""
    use_nvml(monkeypatch, *devices, **faults)
    use_cuda(monkeypatch, CudaGpu=NvmlDevice)


def use_cuda(monkeypatch, **names):
    monkeypatch.setitem(sys.modules, "ptxbench.devices.cuda", SimpleNamespace(**names))


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([], "NVML sees no GPU here; use --gpu simulated"),
        ([FakeDevice()] * 4, "this machine has 4, indices 0 to 3"),
    ],
)
def test_a_gpu_that_is_not_there_is_exit_code_3(monkeypatch, capsys, tmp_path, devices, words):
    use_boards(monkeypatch, *devices)
    assert table("--gpu", 7, "--out", tmp_path / "run") == 3
    line = one_line(capsys)
    assert "GPU 7 does not exist" in line
    assert words in line
    assert not (tmp_path / "run").exists()


def test_an_unknown_uuid_is_exit_code_3(monkeypatch, capsys):
    use_boards(monkeypatch, FakeDevice())
    assert table("--gpu", "GPU-1234") == 3
    assert "GPU-1234" in one_line(capsys)


def test_a_gpu_that_no_machine_has_in_a_process_of_its_own():
    done = command_line("table", "--gpu", "9999")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wgmma", "--gpu", "simulated"], "'wgmma' stands for 68 instructions, more than 40; give 'wgmma.*'"),
        (["fma.rn.f23", "--gpu", "simulated"], "no instruction fits 'fma.rn.f23'; did you mean "),
        (["--gpu", "nonsense"], "--gpu 'nonsense' is no index, UUID, simulated[:PROFILE] or replay:RUN"),
        (["--gpu", "\N{SUPERSCRIPT TWO}"], "is no index, UUID"),
        (["--gpu", "-1"], "is no index, UUID"),
        (["--gpu", "simulated:gtx9"], "no simulated GPU is called 'gtx9'; there are a100"),
        (["--gpu", "replay:/nowhere"], "/nowhere holds no run"),
        (["--gpu", "simulated", "--resume"], "--resume needs --out"),
        (["--gpu", "simulated", "--resume", "--out", "/nowhere"], "/nowhere holds no run"),
        (["--gpu", "simulated", "--opt-level", "O1"], "'O1' is not one of 'O0', 'O3'"),
        (["--gpu", "simulated", "--operands", "ones"], "'ones' is not one of 'random', 'zeros'"),
        (["--gpu", "simulated", "--window", "0"], "'--window'"),
        (["--gpu", "simulated", "--max-repeats", "1"], "'--max-repeats'"),
        (
            ["--gpu", "simulated", "--min-repeats", "8", "--max-repeats", "7"],
            "--max-repeats is 7, less than --min-repeats, 8",
        ),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(monkeypatch, tmp_path, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert table(*arguments) == 2
    assert words in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert table("--gpu", "simulated", "--out", tmp_path / "file" / "run") == 2
    assert f"cannot write {tmp_path / 'file' / 'run'}: Not a directory" in one_line(capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_somebody_else_is_one_line_and_exit_code_2(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert table("--gpu", "simulated", "--out", tmp_path / "run") == 2
    assert "choose a folder that you may write" in one_line(capsys)


def test_a_folder_that_holds_something_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("chapter 1")
    assert table("--gpu", "simulated", "--out", tmp_path) == 2
    assert "not empty" in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "lacking", [{SourceName.COUNTER}, {SourceName.INSTANT, SourceName.AVERAGE, SourceName.MEMORY}]
)
def test_a_gpu_or_driver_without_a_power_source_is_one_line_and_exit_code_2(tmp_path, capsys, lacking):
    sensors = tuple(s for s in H200.sensors if s.source not in lacking)
    old = f"simulated:{write_profile(tmp_path / 'old.toml', sensors)}"
    for source in lacking:
        assert table("--gpu", old, "--source", source, "--out", tmp_path / "run") == 2
        line = one_line(capsys)
        assert f"does not answer the power source '{source}'; it answers: samples, " in line
    assert not (tmp_path / "run").exists()
    # Without a wish the best of those that are left is taken.
    assert table("fma.rn.f32", "--gpu", old, *QUICK, "--out", tmp_path / "run") == 0


def test_the_energy_counter_alone_gives_the_same_energy(tmp_path, capsys):
    rows = {}
    for source in ("samples", "counter"):
        arguments = ["--source", source, "--window", "2", "--out", tmp_path / source, "--json"]
        assert table("fma.rn.f32", "--gpu", "simulated", *QUICK, *arguments) == 0
        (rows[source],) = json.loads(capsys.readouterr().out)["rows"]
    assert rows["counter"]["dynamic_pj"] == pytest.approx(rows["samples"]["dynamic_pj"], rel=0.01)
    assert rows["counter"]["dynamic_pj"] != rows["samples"]["dynamic_pj"]


def test_without_a_driver_the_simulated_gpu_serves_and_both_ends_say_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("ptxbench.devices.select.driver_traces", tuple)
    monkeypatch.setattr("ptxbench.devices.select.wants_gpus", lambda _environment: "")
    monkeypatch.chdir(tmp_path)
    assert table("fma.rn.f32", *QUICK) == 0
    captured = capsys.readouterr()
    first, last = captured.err.splitlines()
    assert first == last
    assert first.startswith("ptxbench: this machine has no NVIDIA driver, so the GPU is SIMULATED")
    assert "SIMULATED" in captured.out
    assert "fma.rn.f32" in captured.out
    (folder,) = (tmp_path / "runs" / "nvidia-h200-simulated").iterdir()
    assert f"run folder: {folder.relative_to(tmp_path)}" in captured.out
    assert not (tmp_path / "results").exists()
    with RunFolder.open(folder) as kept:
        assert kept.manifest.gpu.kind == "simulated"
        assert kept.finished


@pytest.mark.skipif(bool(driver_traces()), reason="this machine has an NVIDIA driver")
@pytest.mark.skipif(bool(wants_gpus(os.environ | {"CUDA_VISIBLE_DEVICES": ""})), reason="this is a job")
def test_no_driver_in_a_process_of_its_own(tmp_path):
    done = command_line(
        "table", "fma.rn.f32", *QUICK, "--json", "--out", tmp_path / "run", CUDA_VISIBLE_DEVICES=""
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["kind"] == "simulated"
    first, last = done.stderr.splitlines()
    assert first == last
    assert "SIMULATED" in first


@pytest.mark.skipif(bool(driver_traces()), reason="this machine has an NVIDIA driver")
def test_a_job_that_finds_no_driver_is_exit_code_3_and_nothing_is_simulated(tmp_path):
    done = command_line("table", "fma.rn.f32", *QUICK, "--out", tmp_path / "run", CUDA_VISIBLE_DEVICES="0,1")
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert "no NVIDIA driver, but CUDA_VISIBLE_DEVICES is '0,1'" in line
    assert "--gpu simulated" in line
    assert not (tmp_path / "run").exists()


def test_a_driver_that_does_not_work_is_exit_code_3_and_never_simulated(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("ptxbench.devices.select.driver_traces", lambda: ("libcuda.so.1",))
    use_boards(monkeypatch, init_error=DRIVER_MISMATCH)
    assert table("fma.rn.f32", *QUICK, "--out", tmp_path / "run") == 3
    assert "the driver was updated while it was loaded: restart the machine" in one_line(capsys)
    assert not (tmp_path / "run").exists()


def test_json_is_one_document_with_every_column(tmp_path, capsys):
    arguments = ["--protocol", "arafa", "--out", tmp_path / "run", "--json"]
    assert table("fma.rn.f32", "--gpu", "simulated", *QUICK, *arguments) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out, parse_constant=pytest.fail)  # NaN is no JSON
    assert captured.err == ""
    assert (document["kind"], document["gpu"]) == ("simulated", "NVIDIA H200 (simulated)")
    columns = (tmp_path / "run" / "table.csv").read_text().splitlines()[0].split(",")
    assert [list(row) for row in document["rows"]] == [columns, columns]
    dynamic, arafa = document["rows"]
    assert (dynamic["protocol"], arafa["protocol"]) == ("dynamic", "arafa")
    assert dynamic["mtsm_pj"] is None
    assert arafa["dynamic_pj"] is None
    assert dynamic["dynamic_pj"] == pytest.approx(12.4, rel=0.02)
    assert dynamic["status"] == "ok"


def test_a_row_that_is_not_valid_is_exit_code_1_and_said(tmp_path, capsys):
    arguments = ["--operands", "zeros", "--out", tmp_path / "run"]
    assert table("div.u32", "fma.rn.f32", "--gpu", "simulated", *QUICK, *arguments) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "not_supported: instruction div.u32: no pattern zeros" in text
    (row,) = [r for r in read_rows(tmp_path / "run") if r.instruction == "fma.rn.f32"]
    assert row.status == "ok"
    # The same code when the finished run is looked at again.
    assert table("--gpu", "simulated", "--resume", "--out", tmp_path / "run") == 1


def test_what_is_named_twice_is_measured_once(tmp_path):
    arguments = ["--opt-level", "O3", "--out", tmp_path / "run"]
    assert table("fma.rn.f32", "fma.rn.f32", "--gpu", "simulated", *QUICK, *arguments) == 0
    assert len(read_rows(tmp_path / "run")) == 1


def test_all_of_the_catalogue_is_more_than_the_starters(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        "ptxbench.experiment.run.measure_table",
        lambda _gpu, folder, _show, budget_s: asked.append(folder) or (),
    )
    assert table("--gpu", "simulated", "--out", tmp_path / "few") == 0
    assert table("--all", "--gpu", "simulated", "--out", tmp_path / "all") == 0
    assert table("*", "--gpu", "simulated", "--out", tmp_path / "star") == 0
    assert table("*.f32", "--category", "nonsense", "--gpu", "simulated", "--out", tmp_path / "a") == 2
    few, whole, star = (folder.manifest.part.arguments.instructions for folder in asked)
    assert star == whole
    assert few == STARTERS
    assert set(few) <= set(whole)


def test_the_standard_is_chosen_by_the_gpu_at_o3_and_a_pack_of_it_is_one_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("ptxbench.experiment.plan.STANDARD", 2)
    out = tmp_path / "standard"
    # As the command reads them: its `minutes` are those of a task of a cluster.
    assert ClusterOptions(standard=True).most_minutes == 15
    assert ClusterOptions(standard=True, budget_minutes=3).most_minutes == 3
    assert ClusterOptions().most_minutes is None
    assert table("--standard", "--gpu", "simulated:a100", "--out", out, *QUICK[2:]) == 0
    with RunFolder.open(out) as folder:
        rows = folder.rows()
    assert {row.opt_level for row in rows} == {"O3"}
    assert len(rows) == 2
    assert {row.instruction for row in rows} <= set(STARTERS)
    assert run(["pack", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out.with_suffix(".tar"))
    assert run(["pack", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sha256"] == hashlib.sha256(Path(said["file"]).read_bytes()).hexdigest()
    assert run(["pack", str(tmp_path / "nothing")]) == 2


def test_instructions_are_named_by_sass_and_ptx_and_what_was_found_is_said(monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(
        "ptxbench.experiment.run.measure_table",
        lambda _gpu, folder, _show, budget_s: asked.append(folder) or (),
    )
    ptx = "fma.rn.f64 %fd1, %fd2, %fd3, %fd4;"
    assert table("DADD", ptx, "--gpu", "simulated", "--out", tmp_path / "run") == 0
    (folder,) = asked
    measured = folder.manifest.part.arguments.instructions
    assert {"add.f64", "fma.rn.f64"} <= set(measured)
    assert "add.f32" not in measured
    assert "ptxbench: found DADD by SASS: " in capsys.readouterr().err


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "run"
    assert table(*PAIR, "--gpu", "simulated", "--out", path) == 0
    return path


def test_a_replay_gives_the_recorded_rows_to_the_byte(recorded, tmp_path, capsys):
    assert table("--gpu", f"replay:{recorded}", "--out", tmp_path / "again") == 0
    captured = capsys.readouterr()
    output = captured.out
    assert "differ" not in captured.err
    assert (tmp_path / "again" / "table.csv").read_bytes() == (recorded / "table.csv").read_bytes()
    assert "REPLAYED from NVIDIA H200 (simulated)" in output
    assert table("--gpu", f"replay:{recorded}", "--json", "--out", tmp_path / "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["gpu"]) == ("replayed", "NVIDIA H200 (simulated)")


def test_a_replay_whose_rows_are_not_those_recorded_says_so(recorded, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(recorded, other)
    rows = read_rows(other)
    write_table(other / "table.csv", [replace(rows[0], power_w=rows[0].power_w * 1.001), *rows[1:]])
    assert table("--gpu", f"replay:{other}", "--out", tmp_path / "again") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"1 of {len(rows)} rows differ from the recorded table.csv" in said
    assert f"ptxbench diff {other} {tmp_path / 'again'}" in said


def test_a_run_with_static_power_by_row_is_refused_before_anything_is_written(tmp_path, capsys):
    """The first runs in results/ are of this kind."""
    early = Path(__file__).parents[2] / "results" / "nvidia-h200" / "repeat-1"
    assert table("--gpu", f"replay:{early}", "--out", tmp_path / "again") == 2
    assert "measured static power anew for each row" in one_line(capsys)
    assert not (tmp_path / "again").exists()


def test_a_replay_of_a_replay_too(recorded, tmp_path):
    assert table("--gpu", f"replay:{recorded}", "--out", tmp_path / "second") == 0
    assert table("--gpu", f"replay:{tmp_path / 'second'}", "--out", tmp_path / "third") == 0
    assert (tmp_path / "third" / "table.csv").read_bytes() == (recorded / "table.csv").read_bytes()


def test_a_replay_of_a_part(recorded, tmp_path):
    """Rows of another number of rows differ only by the static power, which all of them share."""
    assert table("popc.b32", "--gpu", f"replay:{recorded}", "--out", tmp_path / "part") == 0
    wanted = [row for row in read_rows(recorded) if row.instruction == "popc.b32"]
    part = read_rows(tmp_path / "part")
    assert [row.power_w for row in part] == [row.power_w for row in wanted]
    assert [row.protocol for row in part] == ["dynamic", "arafa"]
    assert part[0].dynamic_pj == pytest.approx(wanted[0].dynamic_pj, rel=0.01)
    assert repr(part[1]) == repr(wanted[1])


def test_a_replay_asked_for_what_was_not_recorded_is_one_line(recorded, tmp_path, capsys):
    capsys.readouterr()
    assert table("xor.b32", "--gpu", f"replay:{recorded}", "--out", tmp_path / "again") == 2
    assert "holds no kernel of this PTX" in one_line(capsys)


@pytest.mark.parametrize("spec", ["simulated", "replay:{}"])
def test_what_is_no_measurement_never_goes_under_results(recorded, tmp_path, capsys, spec):
    capsys.readouterr()
    out = tmp_path / "results" / "nvidia-h200" / "mine"
    assert table("fma.rn.f32", *QUICK, "--gpu", spec.format(recorded), "--out", out) == 2
    assert "results/, which is for real GPUs" in one_line(capsys)
    assert not out.exists()


# Runs `ptxbench` and sends itself a signal once so many trials are on the disk.
_SIGNALLED = """
import os, signal, sys
from ptxbench.storage import known_rows
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.run_spread import RunSpread, SpreadTerm
name, left = sys.argv.pop(1), int(sys.argv.pop(1))
# A shell's background jobs are started with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
append = RunFolder.append
def counted(folder, record, trace):
    global left
    append(folder, record, trace)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.Signals[name])
RunFolder.append = counted
from ptxbench.cli.main import main
main()
"""
_PLAIN = "from ptxbench.cli.main import main; main()"


def command_line(*arguments, code=_PLAIN, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def read_rows(path):
    with RunFolder.open(path) as folder:
        return folder.rows()


def keys(path):
    return [(r.instruction, r.opt_level, r.protocol, r.operands, r.status) for r in read_rows(path)]


def trial_ids(path):
    with RunFolder.open(path) as folder:
        return [r.trial_id for r in folder.records()]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    path = tmp_path_factory.mktemp("killed") / "run"
    words = ("table", *PAIR, "--gpu", "simulated", "--out", path)
    assert command_line("SIGKILL", 16, *words, code=_SIGNALLED).returncode == -signal.SIGKILL
    assert (path / "partial" / "records.jsonl").read_bytes().count(b"\n") == 16
    assert not (path / "table.csv").exists()
    return path


@pytest.mark.hostile
def test_a_killed_run_goes_on_and_ends_with_the_rows_of_one_that_was_not(recorded, killed, tmp_path):
    path = shutil.copytree(killed, tmp_path / "run")
    assert table("--resume", "--gpu", "simulated", "--out", path) == 0
    assert keys(path) == keys(recorded)
    assert trial_ids(path) == trial_ids(recorded)
    assert len(set(trial_ids(path))) == len(trial_ids(path))
    assert not (path / "partial").exists()
    with RunFolder.open(path) as folder:
        assert [session.end is None for session in folder.manifest.part.sessions] == [True, False]


@pytest.mark.hostile
def test_lost_readings_of_a_run_are_said_and_measured_again(recorded, killed, tmp_path, capsys):
    path = shutil.copytree(killed, tmp_path / "run")
    for file in sorted((path / "partial" / "traces").iterdir())[:2]:
        file.unlink()
    assert table("--resume", "--gpu", "simulated", "--out", path) == 0
    said = capsys.readouterr().err
    assert "the readings of 2 trials are missing or damaged (" in said
    assert "measuring again" in said
    assert keys(path) == keys(recorded)
    assert sorted(trial_ids(path)) == sorted(trial_ids(recorded))


@pytest.mark.hostile
def test_ctrl_c_keeps_what_is_measured_and_says_how_to_go_on(tmp_path, capsys):
    path = tmp_path / "my run"
    stopped = command_line(
        *("SIGINT", 8, "table", "fma.rn.f32", *QUICK, "--gpu", "simulated:a100", "--out", path),
        code=_SIGNALLED,
    )
    assert stopped.returncode == 130
    assert "Traceback" not in stopped.stderr
    assert stopped.stdout == ""
    hint = next(line for line in stopped.stderr.splitlines() if "Continue with: " in line)
    words = shlex.split(hint.partition("Continue with: ")[2])
    assert words[0] == "ptxbench"
    held = trial_ids(path)
    assert len(held) == 8

    assert run(words[1:]) == 0
    assert trial_ids(path)[:8] == held
    assert [r.status for r in read_rows(path)] == ["ok"]
    assert "SIMULATED" in capsys.readouterr().out


def test_a_run_that_ends_by_its_time_says_how_to_go_on_with_this_gpu(tmp_path, capsys):
    path = tmp_path / "part"
    asked = ("--gpu", "simulated:h200@3", "--budget-minutes", 0.001, "--out", path)
    assert table("fma.rn.f32", "popc.b32", *QUICK, *asked) == 1
    hint = next(line for line in capsys.readouterr().out.splitlines() if "Continue with: " in line)
    words = shlex.split(hint.partition("Continue with: ")[2])
    assert "--gpu=simulated:h200@3" in words
    # The same board goes on; the next one would be refused.
    assert run(words[1:]) == 0


@pytest.mark.hostile
def test_two_processes_never_write_one_run(recorded, tmp_path, capsys):
    path = tmp_path / "run"
    command_line(
        "SIGKILL", 3, "table", "fma.rn.f32", *QUICK, "--gpu", "simulated", "--out", path, code=_SIGNALLED
    )
    with RunFolder.open(path) as folder:
        manifest = folder.manifest
    capsys.readouterr()
    with RunFolder.resume(path, manifest.gpu, manifest.part.arguments, manifest.part.sessions[0]):
        assert table("--resume", "--gpu", "simulated", "--out", path) == 2
        assert str(path) in one_line(capsys)


def test_what_is_shown_of_a_run_is_wider_than_its_own_trials_say_and_the_run_stays(
    tmp_path, monkeypatch, capsys
):
    term = SpreadTerm(0.02, 1000, 10, 0.2, 0.05, 0.05)
    monkeypatch.setattr(known_rows, "find_run_spread", lambda gpu: RunSpread(gpu.name, term, None, None))
    path = tmp_path / "run"
    assert table("fma.rn.f32", *QUICK, "--gpu", "simulated", "--out", path, "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)["rows"]
    with RunFolder.open(path) as folder:
        (row,) = folder.rows()
    assert row.relative_ci95 < 0.01
    half_pj = math.hypot(row.dynamic_ci95_pj, 0.02 * row.dynamic_pj)
    for one in (shown["dynamic_ci95_pj"], load_run(path)["fma.rn.f32"].half_width_pj):
        assert one == pytest.approx(half_pj, rel=1e-4)
    # What is computed again from its trials is the run's own, too.
    again = tmp_path / "again"
    assert table("--gpu", f"replay:{path}", "--out", again) == 0
    with RunFolder.open(again) as folder:
        assert folder.rows()[0].dynamic_ci95_pj == row.dynamic_ci95_pj
