"""Jobs of several ranks: which rank a process is, whose GPU it measures, and what all ranks took."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
from fakes.loads import LoadedGpu
from fakes.nvml import FakeDevice, use_nvml

from ptxbench.api.board import open_boards
from ptxbench.attribute import child, program
from ptxbench.attribute.job import lines, load_job
from ptxbench.attribute.rank import Rank, own_gpus, rank_of
from ptxbench.attribute.recorded import RUN, ProgramManifest
from ptxbench.cli.main import run
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.manifest import read_manifest, write_manifest

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "6",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
}
SRUN = {
    "SLURM_PROCID": "7",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "3",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}
WATTS = {0: 300.0, 1: 310.0, 2: 400.0}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, Rank(3, 8, 1, 2, "node1", "torchrun")),
        (OPEN_MPI, Rank(5, 6, 2, 3, "node1", "Open MPI")),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Rank(1, 4, -1, 0, "node1", "MPI")),
        (SRUN, Rank(7, 8, 3, 4, "node1", "srun")),
        # torchrun that srun has started: the innermost counts.
        ({**SRUN, **TORCHRUN}, Rank(3, 8, 1, 2, "node1", "torchrun")),
        # A batch script is no step, and one rank is no job.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}, None),
        ({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}, None),
        # RANK alone is of anyone.
        ({"RANK": "2"}, None),
        ({"RANK": "9", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, None),
        ({"RANK": "x", "WORLD_SIZE": "8"}, None),
        ({}, None),
    ],
)
def test_the_launcher_tells_the_rank(environment, expected):
    assert rank_of(environment, "node1") == expected


def test_a_rank_measures_its_own_gpu_alone():
    rank, seen = rank_of(TORCHRUN, "a"), ["GPU-a", "GPU-b", "GPU-c"]
    assert own_gpus(rank, seen) == ["GPU-b"]
    # What is bound to it already, or all of a host that is its alone.
    assert own_gpus(rank, ["GPU-b"]) is None
    assert own_gpus(replace(rank, local=0, local_size=1), seen) is None
    assert own_gpus(replace(rank, local=-1), seen) is None
    assert own_gpus(replace(rank, local=4), seen) == ["GPU-b"]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The folder of a job of four ranks, of which the last wrote nothing; and what each was asked to open."""
    folder, asked = tmp_path_factory.mktemp("job") / "job", []
    with pytest.MonkeyPatch.context() as patch:
        use_nvml(patch, *(FakeDevice(uuid=f"GPU-{n}") for n in range(4)))
        patch.setattr("ptxbench.attribute.rank.socket.gethostname", lambda: "node1")
        for number, watts in WATTS.items():
            made = LoadedGpu()
            (board,) = open_boards(made.gpu)

            def open_own(specs, board=board):
                asked.append(specs)
                return (replace(board, uuid=specs[0]),)

            def run_child(words, environment, last_words, made=made, watts=watts):
                code = child.run_child(words, environment, last_words)
                made.load(3.0, watts)
                return code

            patch.setattr("ptxbench.api.board.open_boards", open_own)
            patch.setattr(program, "run_child", run_child)
            for name, value in {**TORCHRUN, "RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": 4}.items():
                patch.setenv(name, str(value) if name != "LOCAL_WORLD_SIZE" else "4")
            script = f"import sys, ptxbench; ptxbench.count('token', 10); sys.exit({5 if number == 1 else 0})"
            words = ["--no-kernels", "--out", str(folder), "--", sys.executable, "-c", script]
            assert run(["run", *words]) == (5 if number == 1 else 0)
            if number == 0:
                # Again into the same folder: nothing is lost.
                assert run(["run", *words]) == 2
                assert run(["run", "--html", str(folder / "page.html"), *words]) == 2
    return folder, asked


def test_each_rank_writes_its_part_and_reads_its_gpu(job):
    folder, asked = job
    assert sorted(path.name for path in folder.iterdir()) == ["rank-0", "rank-1", "rank-2"]
    assert asked == [["GPU-0"], ["GPU-1"], ["GPU-2"]]
    found = load_job(folder)
    assert [(one.rank.number, one.rank.host, one.uuids) for one in found.ranks] == [
        (n, "node1", (f"GPU-{n}",)) for n in range(3)
    ]
    assert found.missing == (3,)


def test_the_report_sums_and_compares_the_ranks(job, capfd):
    folder, _ = job
    assert run(["report", str(folder), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    each_j = [one["energy_j"] for one in found["ranks"]]
    assert found["energy_j"] == pytest.approx(sum(each_j))
    assert found["interval_j"][0] < found["energy_j"] < found["interval_j"][1]
    assert each_j[2] - each_j[0] == pytest.approx(3 * (WATTS[2] - WATTS[0]), rel=0.03)
    assert found["units"]["token"] == {"count": 30, "energy_j": pytest.approx(found["energy_j"] / 30)}
    assert run(["report", str(folder)]) == 0
    said = capfd.readouterr().out
    first, second = said.splitlines()[:2]
    assert first == "SIMULATED: these numbers are no measurements"
    assert second.startswith("4 ranks by torchrun on 1 host, 3 GPUs: ")
    assert "rank 3 wrote nothing: what they took is not in the sum" in said
    assert "rank 1 failed" in said
    assert "rank 2 took +" in said
    assert "rank 0 took" not in said
    assert run(["report", str(folder), "--format", "html"]) == 2
    assert "is a job of several ranks" in capfd.readouterr().err


def test_of_two_ranks_none_is_unlike_the_middle(job):
    found = load_job(job[0])
    two = replace(found, ranks=(found.ranks[0], found.ranks[2]))
    assert abs(two.beside_middle(two.ranks[1])) > 0.05
    assert not any("beside the middle" in one for one in two.remarks)


def test_a_gpu_that_two_ranks_read_counts_once(job, tmp_path):
    folder, _ = job
    for number in range(2):
        (tmp_path / f"rank-{number}").mkdir()
        for file in (folder / f"rank-{number}").iterdir():
            if file.is_file():
                (tmp_path / f"rank-{number}" / file.name).write_bytes(file.read_bytes())
        path = tmp_path / f"rank-{number}" / RUN
        manifest = read_manifest(path, ProgramManifest, Kind.PROGRAM)
        boards = tuple(replace(one, uuid="GPU-0") for one in manifest.part.boards)
        path.unlink()
        write_manifest(path, replace(manifest, part=replace(manifest.part, boards=boards)))
    found = load_job(tmp_path)
    assert len(found.counted) == 1
    assert found.energy_j == found.counted[0].energy_j
    assert any("read GPUs that another rank read as well" in line for line in found.remarks)


def test_kernels_are_summed_over_ranks_and_groups_by_their_parts(job):
    found = load_job(job[0])
    alone = {"kernels": ["gemm"], "energy_j": 10.0, "time_s": 1.0, "calls": 4, "members": []}
    parts = [
        {"kernel": "gemm", "energy_j": 6.0, "time_s": 0.5, "calls": 4},
        {"kernel": "norm", "energy_j": 1.0, "time_s": 0.1, "calls": None},
    ]
    group = {"kernels": ["gemm", "norm"], "energy_j": 7.0, "time_s": 0.6, "calls": 6, "members": parts}
    ranks = [
        replace(one, report={**one.report, "kernels": rows})
        for one, rows in zip(found.ranks, ([alone], [group], []), strict=True)
    ]
    gemm, norm = replace(found, ranks=tuple(ranks)).kernels
    assert (gemm.name, gemm.by_rank_j, gemm.energy_j, gemm.calls) == ("gemm", {0: 10.0, 1: 6.0}, 16.0, 8)
    assert (norm.name, norm.by_rank_j, norm.calls) == ("norm", {1: 1.0}, None)


def test_ranks_of_two_jobs_are_not_summed(job, tmp_path, capfd):
    folder, _ = job
    for number in range(2):
        (tmp_path / f"rank-{number}").mkdir()
        for name in (RUN, "energy.json"):
            file = folder / f"rank-{number}" / name
            (tmp_path / f"rank-{number}" / name).write_bytes(file.read_bytes())
    path = tmp_path / "rank-1" / RUN
    path.write_text(path.read_text().replace('"size": 4', '"size": 2'))
    assert run(["report", str(tmp_path)]) == 2
    assert "ranks of jobs of 2 and 4 ranks" in capfd.readouterr().err


@pytest.fixture
def copied(job, tmp_path):
    """A copy of the job, whose files may be changed."""
    return shutil.copytree(job[0], tmp_path / "job")


def change(path, **more):
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


UNKNOWN = {"gpu": "g", "interval_j": [None, None], "energy_j": None, "time_s": 1.0, "calls": 2, "members": []}


def test_what_is_not_known_is_no_number(copied, capfd):
    rows = [{**UNKNOWN, "kernels": ["gemm"]}, {**UNKNOWN, "kernels": ["(no kernel)"]}]
    change(copied / "rank-0" / "energy.json", energy_j=None, kernels=rows)
    change(copied / "rank-1" / "energy.json", kernels=rows)
    change(copied / "rank-2" / "energy.json", energy_j=0.0)
    assert run(["report", str(copied)]) == 0
    said = capfd.readouterr().out
    assert "energy not known" in said
    assert "nan" not in said
    assert run(["report", str(copied), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["energy_j"] is None
    assert found["kernels"][0]["by_rank_j"] == {"0": None, "1": None}
    assert found["ranks"][1]["in_kernels"] is None
    # A run that could not be separated has one row.
    change(
        copied / "rank-1" / "energy.json",
        kernels=[{**rows[0], "energy_j": 9.0, "kernels": ["gemm", "(no kernel)"]}],
    )
    assert run(["report", str(copied), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["ranks"][1]["in_kernels"] is None


@pytest.mark.parametrize(
    "more",
    [
        {"time_s": "x"},
        {"units": [1]},
        {"units": {"token": {"count": 0}}},
        {"kernels": [{**UNKNOWN, "kernels": ["k"], "members": None}]},
    ],
)
def test_a_damaged_report_of_a_rank_is_a_line(copied, more, capfd):
    change(copied / "rank-1" / "energy.json", **more)
    assert run(["report", str(copied)]) == 2
    assert "rank-1/energy.json is no energy.json of `ptxbench run --out`" in capfd.readouterr().err


def test_a_rank_whose_report_was_not_written_is_worked_out(job, copied):
    (copied / "rank-0" / "energy.json").unlink()
    assert load_job(copied).energy_j == pytest.approx(load_job(job[0]).energy_j)


@pytest.mark.parametrize("name", ["rank-3", "rank-00"])
def test_a_rank_below_another_name_is_refused(copied, capfd, name):
    shutil.copytree(copied / "rank-0", copied / name)
    assert run(["report", str(copied)]) == 2
    assert f"{name} holds rank 0" in capfd.readouterr().err


def test_a_size_that_no_job_has_is_a_line(copied, capfd):
    path = copied / "rank-1" / RUN
    path.write_text(path.read_text().replace('"size": 4', '"size": 400000000000'))
    assert run(["report", str(copied)]) == 2
    assert "rank-1: rank 1 of 400000000000 is none that a job has" in capfd.readouterr().err


def test_a_job_is_no_run_and_what_sums_it_up_is_named(copied, capfd):
    assert run(["run", "--from", str(copied)]) == 2
    assert f"`ptxbench report {copied}` sums them up" in capfd.readouterr().err


def test_names_from_a_report_are_harmless(copied):
    change(copied / "rank-0" / "energy.json", units={"\x1b[2Jtoken": {"count": 1}})
    said = lines(load_job(copied))
    assert any("\ufffd[2Jtoken" in line for line in said)
    assert all(line.isprintable() for line in said)


def test_a_report_overwrites_nothing_of_its_ranks(copied, capfd):
    file = copied / "rank-0" / "energy.json"
    before = file.read_bytes()
    assert run(["report", str(copied), "--out", str(file)]) == 2
    assert str(file) in capfd.readouterr().err
    assert file.read_bytes() == before
