"""Counts from ncu's CSV, with the spellings that its versions have."""

import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.ncu import read_launches, work_of
from ptxbench.model.work import Access, Level

WARPS = "sass__inst_executed_per_opcode_with_modifier_all"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
THREADS = "sass__thread_inst_executed_true_per_opcode_with_modifier_all"


def written(path, metrics, *rows, units=None, head=("ID", "Kernel Name")):
    lines = ["==PROF== Connected to process 1", ",".join(f'"{name}"' for name in (*head, *metrics))]
    if units is not None:
        lines.append(",".join(f'"{unit}"' for unit in ("", "", *units)))
    lines += [",".join(f'"{cell}"' for cell in row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def work(path):
    return work_of(read_launches(path), "work", path)


@pytest.mark.parametrize(
    "cell",
    [
        "1,100 (FFMA: 1,000; IMAD.MOV.U32: 100)",
        "1100 (FFMA: 1000; IMAD.MOV.U32: 100)",
        "FFMA (1000), IMAD.MOV.U32 (100)",
        "FFMA=1e3; IMAD.MOV.U32=100",
    ],
)
def test_every_spelling_gives_the_same_counts(tmp_path, cell):
    path = written(tmp_path / "c.csv", [WARPS], ["0", "k(float*)", cell], units=["inst"])
    assert dict(work(path).opcodes) == {"FFMA": 32000, "IMAD.MOV.U32": 3200}


def test_threads_that_took_no_part_are_left_out_but_not_for_what_a_whole_warp_executes(tmp_path):
    path = written(
        tmp_path / "c.csv",
        [WARPS, THREADS],
        [
            "0",
            "k",
            "60 (FFMA: 10; HMMA.16816.F32: 20; UIADD3: 30)",
            "330 (FFMA: 200; HMMA.16816.F32: 10; UIADD3: 30)",
        ],
        units=["inst", "inst"],
    )
    assert dict(work(path).opcodes) == {"FFMA": 200, "HMMA.16816.F32": 640, "UIADD3": 960}


def test_bytes_and_time_come_in_their_units(tmp_path):
    path = written(
        tmp_path / "c.csv",
        [
            WARPS,
            SHARED,
            "lts__t_bytes.sum",
            "dram__bytes_read.sum",
            "dram__bytes_write.sum",
            "gpu__time_duration.sum",
        ],
        ["0", "k", "1 (FFMA: 1)", "5", "3.5", "1,000", "24", "2.5"],
        ["1", "k", "1 (FFMA: 1)", "3", "0.5", "1,000", "0", "1.5"],
        units=["inst", "", "Mbyte", "byte", "byte", "usecond"],
    )
    found = work(path)
    assert dict(found.bytes_moved) == {Level.SHARED: 8 * 128, Level.L2: 4e6, Level.DRAM: 2024}
    assert found.time_s == pytest.approx(4e-6)
    assert dict(found.opcodes) == {"FFMA": 64}


def test_opcodes_without_modifiers_are_said_to_be_so(tmp_path):
    path = written(tmp_path / "c.csv", ["sass__inst_executed_per_opcode"], ["0", "k", "1 (IMAD: 1)"])
    assert not work(path).modifiers


def test_a_text_that_is_no_raw_page_is_refused(tmp_path):
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"no CSV of ncu's raw page"):
        read_launches(tmp_path / "c.csv")
    details = written(tmp_path / "d.csv", ["Metric Name", "Metric Value"], ["0", "k", "x", "1"])
    with pytest.raises(InputError, match="--page raw"):
        read_launches(details)


def test_a_profile_without_opcodes_is_refused_with_what_to_ask_for(tmp_path):
    path = written(tmp_path / "c.csv", ["gpu__time_duration.sum"], ["0", "k", "5"])
    with pytest.raises(InputError, match=f"--metrics {WARPS}"):
        work(path)


def test_accesses_are_counted_where_every_launch_has_them(tmp_path):
    wavefronts, requests = "l1tex__t_output_wavefronts.sum", "lts__t_requests.sum"
    path = written(
        tmp_path / "c.csv",
        [WARPS, wavefronts, requests],
        ["0", "k", "1 (FFMA: 1)", "1,000", "64"],
        ["1", "k", "1 (FFMA: 1)", "24", "n/a"],
        units=["inst", "", "request"],
    )
    found = work(path)
    assert found.accesses == ((Access.L1_WAVEFRONT, 1024),)
    assert found.count(Access.L1_WAVEFRONT) == 1024


def test_accesses_that_an_older_profile_lacks_are_taken_to_move_whole_lines(tmp_path):
    path = written(tmp_path / "c.csv", [WARPS, "lts__t_bytes.sum"], ["0", "k", "1 (FFMA: 1)", "12,800"])
    found = work(path)
    assert found.accesses == ()
    assert found.count(Access.L2_REQUEST) == 100
    assert found.count(Access.L1_WAVEFRONT) == found.count(Access.L2_MISS) == 0


def test_bytes_that_ncu_could_not_count_are_not_counted(tmp_path):
    path = written(tmp_path / "c.csv", [WARPS, "dram__bytes.sum"], ["0", "k", "1 (FFMA: 1)", "n/a"])
    assert work(path).bytes_moved == ()


def test_misses_are_counted_in_tags_as_ncu_writes_them(tmp_path):
    misses = "lts__t_tag_requests_miss.sum"
    path = written(
        tmp_path / "c.csv",
        [WARPS, misses, "dram__bytes.sum"],
        ["0", "k", "1 (FFMA: 1)", "1,500", "128,000"],
        ["1", "k", "1 (FFMA: 1)", "24", "0"],
        units=["inst", "tag", "byte"],
    )
    found = work(path)
    assert found.accesses == ((Access.L2_MISS, 1524),)
    # Not as many as the bytes of DRAM would be whole lines.
    assert found.count(Access.L2_MISS) == 1524
