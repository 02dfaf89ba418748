import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import run as fake
from fakes.full_disk import fill_disk

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.storage.kernels import KernelFiles
from ptxbench.storage.location import default_run_path
from ptxbench.storage.manifest import write_manifest
from ptxbench.storage.run_folder import RunFolder

OTHER_BOARD = replace(fake.GPU, uuid_hash="ba9876543210", index=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "h200" / "run"


@pytest.fixture
def new(path):
    with RunFolder.create(path, fake.manifest()) as folder:
        yield folder


def keep(folder, *numbers):
    for number in numbers:
        folder.append(fake.record(number), fake.trace(number))


def resume(path, gpu=fake.GPU):
    return RunFolder.resume(path, gpu, fake.ARGUMENTS, fake.LATER_SESSION)


def assert_holds(folder, *numbers):
    assert [repr(r) for r in folder.records()] == [repr(fake.record(n)) for n in numbers]
    assert folder.done == {fake.record(n).trial_id for n in numbers}
    for n in numbers:
        assert fake.same_trace(folder.trace(fake.record(n).trial_id), fake.trace(n))


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_trials_are_there_at_once_for_the_writer_and_a_reader(new, path):
    keep(new, 0, 1)
    assert_holds(new, 0, 1)
    assert_holds(RunFolder.open(path), 0, 1)
    assert not new.finished


def test_finished_run_holds_the_same(new, path):
    keep(new, 1, 0, 2)
    new.add_kernels([KernelFiles("fma", fake.PTX, fake.SASS, fake.CUBIN)])
    new.finish([fake.row()], fake.END)
    assert new.finished
    assert_holds(new, 1, 0, 2)
    with RunFolder.open(path) as again:
        assert_holds(again, 1, 0, 2)
        assert repr(again.rows()) == repr((fake.row(),))
        assert again.manifest.part.sessions[0].end == fake.END
    assert sorted(p.name for p in path.iterdir()) == [
        "kernels.zip",
        "manifest.json",
        "records.parquet",
        "table.csv",
        "traces.parquet",
    ]


def test_resumed_run_goes_on_where_it_was(new, path):
    keep(new, 0)
    new.end_session(fake.END)
    new.close()
    with resume(path) as folder:
        assert_holds(folder, 0)
        keep(folder, 1)
        folder.finish([], fake.LATER)
        assert_holds(folder, 0, 1)
    sessions = RunFolder.open(path).manifest.part.sessions
    assert [(s.start, s.end) for s in sessions] == [(fake.START, fake.END), (fake.LATER, fake.LATER)]


def test_finished_run_is_resumed_by_doing_nothing(new, path):
    keep(new, 0)
    new.finish([], fake.END)
    before = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    with resume(path) as folder:
        assert folder.finished
        assert_holds(folder, 0)
    assert {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()} == before
    for write in (
        lambda: keep(folder, 1),
        lambda: folder.write_rows([fake.row()]),
        lambda: folder.add_kernels([KernelFiles("fma", fake.PTX, fake.SASS, fake.CUBIN)]),
        lambda: folder.finish([], fake.LATER),
        lambda: folder.end_session(fake.LATER),
    ):
        with pytest.raises(ValueError, match="is open for reading only"):
            write()


def test_a_run_that_was_killed_before_its_folder_of_kernels_went_is_finished_and_swept(
    new, path, monkeypatch
):
    keep(new, 0)
    new.add_kernels([KernelFiles("fma", fake.PTX, fake.SASS, fake.CUBIN)])
    monkeypatch.setattr(new.kernels, "sweep", lambda: None)
    new.finish([fake.row()], fake.END)
    new.close()
    assert (path / "kernels").exists()
    with resume(path) as folder:
        assert folder.finished
        folder.require_whole()
        assert folder.kernels.cubin(folder.kernels.entries[0]) == fake.CUBIN
    assert not (path / "kernels").exists()
    assert (path / "kernels.zip").exists()


def test_rows_are_a_table_while_the_run_goes_on(new, path):
    new.write_rows([fake.row("add.f32")])
    new.write_rows([replace(fake.row("add.f32"), repeats=11), fake.row("fma.rn.f32")])
    assert [(r.instruction, r.repeats) for r in RunFolder.open(path).rows()] == [
        ("add.f32", 11),
        ("fma.rn.f32", 10),
    ]
    new.finish([fake.row("popc.b32")], fake.END)
    assert [r.instruction for r in RunFolder.open(path).rows()] == ["popc.b32"]


def test_trial_is_kept_once(new):
    keep(new, 0)
    with pytest.raises(ValueError, match="is held already"):
        keep(new, 0)
    assert_holds(new, 0)


def test_record_of_a_board_that_is_not_listed_is_refused(new):
    with pytest.raises(ValueError, match="ran on board elsewhere"):
        new.append(replace(fake.record(0), gpu="elsewhere"), fake.trace(0))
    assert new.done == frozenset()


def test_trace_of_another_recording_is_refused(new):
    with pytest.raises(ValueError, match="of two recordings"):
        new.append(fake.record(0), fake.trace(1))


def test_repeat_on_other_machine_code_is_refused_over_a_resume_too(new, path):
    keep(new, 0)
    other = replace(fake.record(1), cubin_sha256="0" * 64)
    with pytest.raises(InputError, match="ran machine code 0000000000000000"):
        new.append(other, fake.trace(1))
    new.close()
    with resume(path) as folder, pytest.raises(InputError, match="start a new run"):
        folder.append(other, fake.trace(1))
    assert_holds(RunFolder.open(path), 0)


def test_other_pattern_may_have_its_own_machine_code(new):
    keep(new, 0)
    new.append(replace(fake.record(1), operands="zeros", cubin_sha256="0" * 64), fake.trace(1))
    assert len(new.done) == 2


def test_changed_kernel_is_refused_on_resume(new, path):
    new.add_kernels([KernelFiles("fma", fake.PTX, fake.SASS, fake.CUBIN)])
    new.close()
    with resume(path) as folder, pytest.raises(InputError, match="made other machine code"):
        folder.add_kernels([KernelFiles("fma", fake.PTX, fake.SASS, replace(fake.CUBIN, image=b"other"))])


def test_other_driver_or_arguments_are_refused_and_nothing_changes(new, path):
    keep(new, 0)
    new.close()
    before = (path / "manifest.json").read_bytes()
    with pytest.raises(InputError, match=r"driver 580\.159\.04, this is 581\.0"):
        resume(path, replace(fake.GPU, driver="581.0"))
    with pytest.raises(InputError, match=r"max_repeats 20, this is 30"):
        RunFolder.resume(path, fake.GPU, replace(fake.ARGUMENTS, max_repeats=30), fake.LATER_SESSION)
    assert (path / "manifest.json").read_bytes() == before


def test_no_other_board_goes_on_with_a_run_but_one_that_an_older_version_let_goes_on(path):
    with RunFolder.create(path, fake.manifest()) as folder:
        keep(folder, 0)
    with pytest.raises(InputError, match=r"board 0123456789ab, this is ba9876543210; start a new run"):
        resume(path, OTHER_BOARD)
    write_manifest(path / "manifest.json", replace(fake.manifest(), gpus=(fake.GPU, OTHER_BOARD)))
    for number in (1, 2):
        with resume(path, OTHER_BOARD) as folder:
            folder.append(replace(fake.record(number), gpu=OTHER_BOARD.uuid_hash), fake.trace(number))
    folder = RunFolder.open(path)
    assert [b.uuid_hash for b in folder.manifest.gpus] == [fake.GPU.uuid_hash, OTHER_BOARD.uuid_hash]
    assert [r.gpu for r in folder.records()] == [
        fake.GPU.uuid_hash,
        OTHER_BOARD.uuid_hash,
        OTHER_BOARD.uuid_hash,
    ]
    assert len(folder.manifest.part.sessions) == 3


def test_one_writer_at_a_time(new, path):
    keep(new, 0)
    with pytest.raises(InputError, match=f"{path} is being written by another process"):
        resume(path)
    keep(new, 1)
    assert_holds(RunFolder.open(path), 0, 1)


@pytest.mark.parametrize("kind", [GpuKind.SIMULATED, GpuKind.REPLAYED])
def test_only_measurements_go_below_results(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    manifest = fake.manifest(replace(fake.simulated(), kind=kind))
    for path in (Path("results/a/b"), tmp_path / "results", Path("runs/../results/x")):
        with pytest.raises(InputError) as error:
            RunFolder.create(path, manifest)
        assert f"{path} is below results/, which is for real GPUs" in one_line(error)
    assert list(tmp_path.iterdir()) == []
    RunFolder.create(Path("runs/a"), manifest).close()
    Path("runs").rename("results")
    with pytest.raises(InputError, match="below results/"):
        RunFolder.resume(Path("results/a"), manifest.gpu, fake.ARGUMENTS, fake.LATER_SESSION)
    RunFolder.create(Path("results/real"), fake.manifest()).close()
    monkeypatch.chdir(tmp_path / "results")
    with pytest.raises(InputError, match="b is below results/"):
        RunFolder.create(Path("b"), manifest)


def test_folder_that_holds_a_run_or_anything_is_not_begun_in(new, path, tmp_path):
    with pytest.raises(InputError) as error:
        RunFolder.create(path, fake.manifest())
    message = f"{path} already holds a run; continue it with `resume`, or choose another folder"
    assert one_line(error) == message
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError) as error:
        RunFolder.create(tmp_path / "mine", fake.manifest())
    assert one_line(error) == f"{tmp_path / 'mine'} is not empty; choose a new folder for the run"


def test_folder_without_a_run(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        for read in (RunFolder.open, resume):
            with pytest.raises(InputError) as error:
                read(path)
            assert one_line(error) == f"{path} holds no run (no manifest.json); name the folder of a run"


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(InputError) as error:
            RunFolder.create(path, fake.manifest())
        assert one_line(error).startswith(f"cannot write {path}: ")


def test_full_disk_loses_only_the_trial_in_progress(new, path, monkeypatch):
    keep(new, 0)
    name = hashlib.sha256(fake.record(1).trial_id.encode()).hexdigest()[:16]
    with monkeypatch.context() as patch:
        fill_disk(patch, f"{name}.parquet")
        with pytest.raises(InputError, match="No space left on device; free some space"):
            keep(new, 1)
    assert_holds(new, 0)
    assert_holds(RunFolder.open(path), 0)
    keep(new, 2)
    assert_holds(RunFolder.open(path), 0, 2)


def test_unknown_trial_and_lost_readings_are_one_line(new, path):
    keep(new, 0)
    with pytest.raises(InputError, match="holds no trial x"):
        new.trace("x")
    for file in (path / "partial" / "traces").iterdir():
        file.unlink()
    with pytest.raises(InputError, match=r"cannot read .*parquet"):
        new.trace(fake.record(0).trial_id)
    with pytest.raises(InputError, match=r"cannot read .*parquet"):
        new.finish([], fake.END)
    assert not new.finished


def test_trial_twice_in_the_file_is_an_error(new, path):
    keep(new, 0)
    journal = path / "partial" / "records.jsonl"
    journal.write_bytes(journal.read_bytes() * 2)
    with pytest.raises(InputError, match="twice"):
        RunFolder.open(path).records()
    new.close()
    with pytest.raises(InputError, match="twice"):
        resume(path)
    journal.write_bytes(b"")
    resume(path).close()  # the failed one let go of the folder


def test_default_path_names_gpu_and_minute():
    path = default_run_path(fake.GPU, fake.START)
    assert re.fullmatch(r"results/nvidia-h200/2026-11-21T0313Z-[0-9a-f]{4}", path.as_posix())
    assert default_run_path(fake.simulated(), fake.START).parent == Path("runs/simulated-h200")
    assert default_run_path(fake.GPU, fake.START, Path("/data")).parent == Path("/data/nvidia-h200")
    assert len({default_run_path(fake.GPU, fake.START) for _ in range(20)}) > 1


def test_the_trial_that_a_process_died_of_is_kept_as_failed_and_only_once(new, path):
    keep(new, 0)
    new.note_in_progress(replace(fake.record(1), status=Status.LAUNCH_FAILED, reason="the process ended"))
    new.close()
    assert RunFolder.blame_trial_in_progress(path) == fake.record(1).trial_id
    with resume(path) as folder:
        assert [r.status for r in folder.records()] == [fake.record(0).status, Status.LAUNCH_FAILED]
        assert folder.trace(fake.record(1).trial_id).series == ()
    assert RunFolder.blame_trial_in_progress(path) == ""
    assert len(RunFolder.open(path)) == 2


def test_no_trial_or_a_torn_note_blames_nothing(new, path):
    keep(new, 0)
    assert RunFolder.blame_trial_in_progress(path) == ""
    (path / "partial" / "in_progress.json").write_text('{"trial_id": "fma')
    new.close()
    assert RunFolder.blame_trial_in_progress(path) == ""
    assert_holds(RunFolder.open(path), 0)


def test_a_file_in_the_place_of_a_folder_is_named_so(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(InputError, match="run: it is a file, not a folder; choose another folder"):
        RunFolder.create(tmp_path / "run", fake.manifest())


@pytest.mark.parametrize("left", ["", "header"])
def test_a_finished_run_without_rows_is_refused(tmp_path, left):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as made:
        made.finish([fake.row()], fake.END)
    table = tmp_path / "run" / "table.csv"
    header = table.read_text().splitlines()[0]
    table.unlink()
    if left:
        table.write_text(header + "\n")
    with RunFolder.open(tmp_path / "run") as folder, pytest.raises(InputError, match=r"table\.csv"):
        folder.rows()
