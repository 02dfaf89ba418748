"""Readings and kernels are taken out of results/, and come back from the history of the repository."""

import gzip
import hashlib
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.script import load_script

from ptxbench.core.errors import InputError
from ptxbench.storage import traces
from ptxbench.storage.kernel_archive import write_archive

RUN = "results/gpu/table-1"
KEPT = "results/nvidia-h200/table-6eda-repeat"


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "runners"))
    return load_script("runners/slim_results.py"), load_script("runners/archive_readings.py")


@pytest.fixture
def repository(tmp_path):
    """A repository with two runs, one of which is kept whole."""
    root = tmp_path / "repository"
    for run in (RUN, KEPT):
        (root / run).mkdir(parents=True)
        for name in ("table.csv", "solved.json", "records.parquet", "traces.parquet", "kernels.zip"):
            (root / run / name).write_bytes(f"{run}\n{name}\0".encode())
    git(root.parent, "init", "-q", str(root))
    commit(root)
    return root


def git(root, *arguments):
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(root), *settings, *arguments]
    subprocess.run(command, check=True, capture_output=True)


def commit(root):
    git(root, "add", "-A")
    git(root, "commit", "-qm", "runs")


def files(root):
    return {p.relative_to(root): p.read_bytes() for p in (root / "results").rglob("*") if p.is_file()}


def test_the_page_of_results_says_how_many_folders_are_whole(scripts):
    text = (Path(__file__).parents[2] / "results" / "README.md").read_text()
    whole = scripts[0].KEPT_WHOLE
    assert f"{len(whole)} folders keep all" in text
    assert f"{sum('/roofline/' in one for one in whole)} rooflines" in text


def test_both_stages_leave_the_table_and_come_back_to_the_byte(scripts, repository):
    slim, archive = scripts
    before = files(repository)
    slim.slim(repository, slim.Kind.KERNELS)
    commit(repository)
    slim.slim(repository, slim.Kind.READINGS)
    commit(repository)
    kept = {p.name for p in (repository / RUN).rglob("*")}
    assert kept == {"table.csv", "solved.json"}
    assert (repository / KEPT / "kernels.zip").exists()
    entries = archive.read_archive(repository / "results" / "ARCHIVE.csv")
    assert [(one.run, one.kind, one.files) for one in entries] == [(RUN, "kernels", 1), (RUN, "readings", 2)]
    for one in entries:
        archive.restore(repository, one)
    after = files(repository)
    assert {path: data for path, data in after.items() if path.name != "ARCHIVE.csv"} == before


def test_kernels_that_the_history_has_as_a_folder_come_back_as_one_file(scripts, repository):
    _, archive = scripts
    (repository / RUN / "kernels.zip").unlink()
    folder = repository / RUN / "kernels"
    folder.mkdir()
    # Early runs had their texts without compression.
    members = {"index.json": b"[]", "a.cubin": b"\x7fELF", "a.sass": b"FFMA", "b.ptx": b".version 8.0"}
    for name, data in members.items():
        packed = name.startswith("a.")
        (folder / f"{name}{'.gz' * packed}").write_bytes(gzip.compress(data) if packed else data)
    commit(repository)
    found = [(f"{RUN}/kernels/{path.name}", path.read_bytes()) for path in folder.iterdir()]
    head = archive._git(repository, "rev-parse", "HEAD").decode().strip()
    size = sum(len(data) for _, data in found)
    one = archive.Archived(RUN, archive.Kind.KERNELS, head, 4, size, archive.listed_hash(found))
    shutil.rmtree(folder)
    archive.restore(repository, one)
    assert not folder.exists()
    with zipfile.ZipFile(repository / RUN / "kernels.zip") as file:
        assert {name: file.read(name) for name in file.namelist()} == members


def test_the_ledger_says_commit_size_and_hash_of_the_files_as_they_were(scripts, repository):
    slim, _ = scripts
    head = slim.git(repository, "rev-parse", "HEAD").strip()
    (one,) = slim.slim(repository, slim.Kind.READINGS)
    lines = []
    for name in ("records.parquet", "traces.parquet"):
        path = f"{RUN}/{name}"
        data = slim.git(repository, "show", f"{head}:{path}").encode()
        lines.append(f"{hashlib.sha256(data).hexdigest()}  {path}\n")
    assert one.sha256 == hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    assert one.commit == head
    text = (repository / "results" / "ARCHIVE.csv").read_text()
    assert text.splitlines()[0] == "run,kind,commit,files,bytes,sha256"
    assert text.splitlines()[1] == f"{RUN},readings,{head},2,{one.bytes},{one.sha256}"


def test_the_packed_archive_is_the_same_at_each_call(scripts, repository, tmp_path):
    slim, archive = scripts
    before = files(repository)
    slim.slim(repository, slim.Kind.KERNELS)
    first = archive.pack(repository, tmp_path / "one.tar.gz")
    assert archive.pack(repository, tmp_path / "two.tar.gz") == first
    assert (tmp_path / "one.tar.gz.sha256").read_text() == f"{first}  one.tar.gz\n"
    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        held = {Path(one.name): tar.extractfile(one).read() for one in tar}
    assert held == {p: data for p, data in before.items() if p == Path(RUN, "kernels.zip")}


def test_packing_the_kept_runs_changes_no_content(scripts, tmp_path):
    slim, _ = scripts
    run = tmp_path / KEPT
    run.mkdir(parents=True)
    members = {"a.ptx": b"add.f32 %f1, %f2, %f3;\n" * 900, "a.cubin": bytes(range(256)) * 9}
    write_archive(run / "kernels.zip", members)
    begin = np.sort(np.random.default_rng(1).integers(0, 10**11, 3000))
    values = {"trial_id": ["a"] * 3000, "source": ["samples"] * 3000, "value": np.round(begin / 1e9)}
    times = {"begin_ns": begin, "end_ns": begin + 900, "stamp_ns": begin, "code": begin * 0}
    readings = pa.table({**values, **times}).select(traces.SCHEMA.names)
    pq.write_table(readings, run / "traces.parquet", compression="none")
    before = sum(path.stat().st_size for path in run.iterdir())
    saved = slim.recompress(tmp_path)
    assert 0 < saved == before - sum(path.stat().st_size for path in run.iterdir())
    with zipfile.ZipFile(run / "kernels.zip") as file:
        assert {name: file.read(name) for name in file.namelist()} == members
    assert traces.read(run / "traces.parquet").equals(readings)
    assert slim.recompress(tmp_path) == 0


def test_what_is_not_committed_or_not_solved_is_not_taken_out(scripts, repository, capsys):
    slim, _ = scripts
    (repository / RUN / "table.csv").write_text("other")
    with pytest.raises(InputError, match=r"not as committed \(M results/gpu/table-1/table.csv\)"):
        slim.slim(repository, slim.Kind.KERNELS)
    (repository / RUN / "solved.json").unlink()
    commit(repository)
    with pytest.raises(InputError, match=r"has no solved.json; write it by `.* --opcodes .* --store`"):
        slim.slim(repository, slim.Kind.READINGS)
    assert (repository / RUN / "traces.parquet").exists()
    slim.slim(repository, slim.Kind.KERNELS)
    assert f"{RUN} has no solved.json" in capsys.readouterr().err


def test_files_that_are_not_those_of_the_ledger_are_refused(scripts, repository):
    slim, archive = scripts
    (one,) = slim.slim(repository, slim.Kind.KERNELS)
    wrong = archive.Archived(one.run, one.kind, one.commit, one.files, one.bytes, "0" * 64)
    with pytest.raises(InputError, match=r"are not those that ARCHIVE.csv notes"):
        archive.restore(repository, wrong)
    gone = archive.Archived(one.run, one.kind, "0" * 40, one.files, one.bytes, one.sha256)
    with pytest.raises(InputError, match="git fetch --unshallow"):
        archive.restore(repository, gone)
