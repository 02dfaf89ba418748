"""Counts from ncu's CSV, with the spellings that its versions have."""

import re
import tracemalloc

import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.ncu import read_launches, work_of
from ptxbench.model.work import Access, Level
from ptxbench.storage import text_file

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


# One launch of saxpy as ncu 2025.3 writes it in base units.
SAXPY = (
    (f"{WARPS}", "inst", "186,368,000 (FFMA: 138,412,032; LDG.E.128: 8,650,752; EXIT: 376,832)"),
    (f"{THREADS}", "inst", "5,963,776,000 (FFMA: 4,429,185,024; LDG.E.128: 276,824,064; EXIT: 12,058,624)"),
    ("dram__bytes.sum", "byte", "4,429,185,024"),
    ("lts__t_bytes.sum", "byte", "8,900,000,000"),
    ("gpu__time_duration.sum", "ns", "3,104,512"),
)
# The same in the units that ncu chooses.
SCALED = {"4,429,185,024": "4.43", "8,900,000,000": "8.90", "3,104,512": "3.10"}


def saxpy(path, *, scaled=False, group=",", decimal=".", encoding="utf-8", in_name=False):
    metrics, units, cells = zip(*SAXPY, strict=True)
    if scaled:
        units = ["inst", "inst", "Gbyte", "Gbyte", "ms"]
        cells = [SCALED.get(cell, cell) for cell in cells]
    swapped = str.maketrans({",": group, ".": decimal})
    # The points in names of opcodes stay.
    cells = [re.sub(r"\d[\d.,]*", lambda number: number[0].translate(swapped), cell) for cell in cells]
    cells = [cell.replace(f"LDG.E{decimal}128", "LDG.E.128") for cell in cells]
    if in_name:
        metrics = [f"{metric} [{unit}]" for metric, unit in zip(metrics, units, strict=True)]
    written(path, metrics, ["0", "saxpy(int, float *)", *cells], units=None if in_name else units)
    path.write_bytes(path.read_text().encode(encoding))
    return path


@pytest.mark.parametrize(
    "locale",
    [
        {},
        {"group": ".", "decimal": ","},
        {"group": "\u202f", "decimal": ","},
        {"group": "\u00a0", "decimal": ",", "encoding": "cp1252"},
        {"group": " ", "decimal": ","},
        {"group": "\u2019"},
        {"group": "'", "encoding": "utf-8-sig"},
        {"group": ""},
        {"encoding": "utf-16"},
    ],
)
@pytest.mark.parametrize(("scaled", "in_name"), [(False, False), (True, False), (True, True)])
def test_counts_of_each_locale_encoding_and_place_of_the_unit(tmp_path, locale, scaled, in_name):
    found = work(saxpy(tmp_path / "c.csv", scaled=scaled, in_name=in_name, **locale))
    assert dict(found.opcodes) == {"FFMA": 4429185024, "LDG.E.128": 276824064, "EXIT": 12058624}
    relative = 5e-3 if scaled else 0
    assert found.time_s == pytest.approx(3.104512e-3, rel=relative)
    moved = {Level.DRAM: 4429185024, Level.L2: 8900000000}
    assert dict(found.bytes_moved) == pytest.approx(moved, rel=relative)


def test_bytes_of_reads_alone_are_not_taken_for_all(tmp_path):
    metrics = [WARPS, "dram__bytes_read.sum"]
    path = written(tmp_path / "c.csv", metrics, ["0", "k", "1 (FFMA: 1)", "1,234"], units=["inst", "byte"])
    with pytest.raises(InputError, match=r"dram__bytes_write\.sum of k is missing, so that"):
        work(path)


def test_numbers_of_two_locales_in_one_csv_are_refused(tmp_path):
    german = saxpy(tmp_path / "g.csv", group=".", decimal=",").read_text()
    english = saxpy(tmp_path / "e.csv").read_text()
    both = tmp_path / "c.csv"
    both.write_text(german + english)
    with pytest.raises(InputError, match=r"of saxpy.* is '138,412,032'.*profile again with `LC_ALL=C ncu"):
        work(both)


def test_number_that_may_be_thousands_or_a_fraction_is_refused(tmp_path):
    metrics = [WARPS, "dram__bytes.sum"]
    path = written(tmp_path / "c.csv", metrics, ["0", "k", "1 (FFMA: 1)", "1.234"], units=["inst", "Kbyte"])
    with pytest.raises(InputError, match=r"'1\.234' may be thousands or a fraction; profile again"):
        read_launches(path)


@pytest.mark.parametrize(
    ("cell", "unit", "message"),
    [
        ("12 apples", "byte", "dram__bytes.sum of k is '12 apples'"),
        ("1,23,4", "byte", "dram__bytes.sum of k is '1,23,4'"),
        ("12", "furlong", "dram__bytes.sum of k is in 'furlong', which is no unit that is known"),
    ],
)
def test_cell_that_is_no_number_is_an_error(tmp_path, cell, unit, message):
    metrics = [WARPS, "dram__bytes.sum"]
    path = written(tmp_path / "c.csv", metrics, ["0", "k", "1,000 (FFMA: 1,000)", cell], units=["inst", unit])
    with pytest.raises(InputError, match=message):
        work(path)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("1,000 (FFMA: 1.5)", "counts '1.5' FFMA, which is no whole number"),
        ("1,000 (FFMA: 1,000; IADD3: n/a)", "has '.*IADD3: n/a.*' beside its counts"),
    ],
)
def test_counts_that_cannot_be_right_are_an_error(tmp_path, counts, message):
    with pytest.raises(InputError, match=message):
        work(written(tmp_path / "c.csv", [WARPS], ["0", "k", counts]))


def test_ncu_without_permission_says_what_to_set(tmp_path):
    lines = [
        "==PROF== Connected to process 4711 (/tmp/app)",
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access the counters",
    ]
    (tmp_path / "c.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"no permission .*NVreg_RestrictProfilingToAdminUsers=0"):
        read_launches(tmp_path / "c.csv")
    # Also below a header without launches.
    path = written(tmp_path / "d.csv", [WARPS])
    path.write_text(path.read_text() + lines[1])
    with pytest.raises(InputError, match="no permission"):
        read_launches(path)
    (tmp_path / "e.csv").write_text("==ERROR== The application returned an error code (11).")
    with pytest.raises(InputError, match=r"ncu says 'The application returned an error code"):
        read_launches(tmp_path / "e.csv")


def test_row_that_is_cut_off_is_an_error_and_what_the_program_prints_is_passed_over(tmp_path):
    path = written(tmp_path / "c.csv", [WARPS, "lts__t_bytes.sum"], ["0", "k", "1 (FFMA: 1)", "32"])
    whole = path.read_text()
    path.write_text(f'{whole}result: 3,14\n42\n"1","k","1 (FFMA: 1)","64"\n')
    assert dict(work(path).bytes_moved) == {Level.L2: 96}
    path.write_text(f'{whole}"1","k","1 (FF')
    with pytest.raises(InputError, match="line 4: 3 cells under 4 names; is it cut off"):
        work(path)


def test_tables_below_each_other_are_read_by_their_own_headers(tmp_path):
    first = written(
        tmp_path / "a.csv",
        [WARPS, "lts__t_bytes.sum"],
        ["0", "k", "1,000 (FFMA: 1,000)", "32"],
        units=["inst", "byte"],
    )
    second = written(
        tmp_path / "b.csv",
        ["lts__t_bytes.sum", WARPS],
        ["0", "k", "2", "1 (FFMA: 1)"],
        units=["Kbyte", "inst"],
    )
    both = tmp_path / "c.csv"
    both.write_text(first.read_text() + second.read_text())
    found = work(both)
    assert dict(found.opcodes) == {"FFMA": 32032}
    assert dict(found.bytes_moved) == {Level.L2: 2032}


def test_memory_does_not_grow_with_the_launches(tmp_path, monkeypatch):
    monkeypatch.setattr(text_file, "_BLOCK", 1 << 14)

    def peak(launches):
        rows = [[str(n), "k", "1,000 (FFMA: 1,000)", "32"] for n in range(launches)]
        path = written(tmp_path / "c.csv", [WARPS, "lts__t_bytes.sum"], *rows, units=["inst", "byte"])
        tracemalloc.start()
        try:
            assert dict(work(path).opcodes) == {"FFMA": 32000 * launches}
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # A launch has 40 characters.
    assert (peak(5000) - peak(1000)) / 4000 < 4
