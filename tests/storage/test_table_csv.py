import csv
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
from fakes import run as fake
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.storage.schema import TableRow
from ptxbench.storage.table import read_rows, read_table, write_table

TEXT = st.text(st.characters(exclude_categories=("C", "Z"))) | st.text(',"\n ab', max_size=6)
KEPT = Path(__file__).parents[2] / "results" / "nvidia-h200" / "table1" / "table.csv"
KINDS = {"str": TEXT, "int": st.integers(min_value=0), "float": st.floats(-1e300, 1e300) | st.just(math.nan)}
POSITIVE = st.floats(0, 1e300) | st.just(math.nan)
ENUMS = {"opt_level": OptLevel, "status": Status}
VALUES = {
    f.name: st.sampled_from(ENUMS[f.name]) if f.name in ENUMS else KINDS[f.type] for f in fields(TableRow)
}
ROW = st.builds(TableRow, **VALUES | {"dynamic_ci95_pj": POSITIVE}).filter(lambda row: not row.fault())


def rounded(row):
    """The row as the table keeps it."""
    changes = {
        f.name: float(f"{value:.6g}") for f in fields(row) if isinstance(value := getattr(row, f.name), float)
    }
    return repr(replace(row, **changes))


def test_columns_are_found_by_name_and_new_ones_passed_over(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, [fake.row()])
    (row,) = csv.DictReader(path.read_text().splitlines())
    later = {"colour": "red", **dict(reversed(row.items()))}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, later)
        writer.writeheader()
        writer.writerow(later)
    assert list(map(repr, read_table(path))) == [rounded(fake.row())]
    assert read_rows(path, lambda name: name == "none") == ((), {"fma.rn.f32"})


def test_a_table_of_before_equation_1_had_an_interval_and_rows_lanes_is_read(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, [replace(fake.row(), mtsm_ci95_pj=1.5, lanes=8)])
    path.write_text("".join(f"{line.rsplit(',', 2)[0]}\n" for line in path.read_text().splitlines()))
    (row,) = read_table(path)
    assert (row.unit, str(row.mtsm_ci95_pj), row.lanes) == ("thread", "nan", 32)
    assert row.key == fake.row().key


def test_a_kept_table_of_nj_and_of_one_column_of_cycles_is_read_as_one_of_today(tmp_path):
    with KEPT.open(newline="") as file:
        cells = list(csv.DictReader(file))
    rows = read_table(KEPT)
    for row, cell in zip(rows, cells, strict=True):
        assert row.executions == int(cell["count"])
        cycles = (row.latency_cycles, row.issue_cycles)[:: 1 if row.protocol == "arafa" else -1]
        assert list(cycles) == pytest.approx([float(cell["cycles"] or "nan"), math.nan], nan_ok=True)
        for name in ("sma", "papi", "mtsm", "counter"):
            energy_nj = float(cell[f"{name}_nj"] or "nan")
            assert getattr(row, f"{name}_pj") == pytest.approx(1000 * energy_nj, rel=1e-12, nan_ok=True)
    write_table(tmp_path / "table.csv", rows)
    assert list(map(repr, read_table(tmp_path / "table.csv"))) == list(map(repr, rows))


@given(st.lists(ROW, max_size=4, unique_by=lambda row: row.key))
def test_any_rows_round_trip_to_six_digits(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "table.csv"
    write_table(path, rows)
    assert list(map(repr, read_table(path))) == list(map(rounded, rows))


def test_columns_are_those_that_scripts_rely_on(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, [fake.row()])
    assert path.read_text().splitlines()[0] == (
        "instruction,category,opt_level,protocol,operands,sass,sass_per_ptx,executions,threads,sma_pj,papi_pj,mtsm_pj,"
        "counter_pj,dynamic_pj,dynamic_ci95_pj,latency_cycles,issue_cycles,power_w,static_w,clock_mhz,temperature_c,"
        "repeats,status,reason,unit,mtsm_ci95_pj,lanes"
    )


def test_cells_as_a_plain_csv_reader_sees_them(tmp_path):
    path = tmp_path / "table.csv"
    reason = 'power fell, "again"\rand again'
    write_table(path, [replace(fake.row(), dynamic_pj=12.3456789, power_w=1e-7, reason=reason)])
    with path.open(newline="") as file:
        (cells,) = csv.DictReader(file)
    assert cells["sma_pj"] == ""
    assert cells["dynamic_pj"] == "12.3457"
    assert cells["power_w"] == "1e-07"
    assert cells["executions"] == "12800000000000000"
    assert cells["status"] == "ok"
    assert cells["reason"] == reason.replace("\r", " ")


def test_empty_cell_is_nan_and_empty_text_stays_text(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, [fake.row()])
    (row,) = read_table(path)
    assert math.isnan(row.sma_pj)
    assert row.reason == ""


def test_row_twice_is_refused_by_writer_and_reader(tmp_path):
    path = tmp_path / "table.csv"
    with pytest.raises(ValueError, match=r"row fma.rn.f32 O3 dynamic random stands twice"):
        write_table(path, [fake.row(), fake.row()])
    assert not path.exists()
    write_table(path, [fake.row()])
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[1]]))
    with pytest.raises(InputError, match=r"table.csv: row fma.rn.f32 O3 dynamic random stands twice"):
        read_table(path)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("instruction,category", "name,category", "the column instruction is missing"),
        (",category,", ",unit,", "the column category is missing"),
        (",repeats,", ",repeats,repeats,", "the column repeats stands twice"),
        (",unit,", ",", "the column unit is missing"),
        (",270336,", ",many,", "row 1.threads must be a whole number, not 'many'"),
        (",270336,", ",,", "row 1.threads must be a whole number, not ''"),
        (",270336,", ",2.5,", "row 1.threads must be a whole number, not '2.5'"),
        (",12.4,", ",twelve,", "row 1.dynamic_pj must be a number or null, not 'twelve'"),
        (",O3,", ",O2,", "row 1.opt_level must be one of O0, O3, not 'O2'"),
        (",ok,", ",fine,", "row 1.status must be one of ok, "),
        (",ok,", ",", "row 1 must have 27 cells, not 26"),
        ("fma.rn.f32,", '"fma.rn.f32,', "the file is no table ("),
        ("fma.rn.f32,", "\n", "row 1 must have 27 cells, not 0"),
    ],
)
def test_table_is_read_strictly(tmp_path, old, new, text):
    path = tmp_path / "table.csv"
    write_table(path, [fake.row()])
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        read_table(path)
    assert str(error.value).startswith(f"{path}: {text}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", None])
def test_file_that_is_no_table_is_one_line(tmp_path, data):
    path = tmp_path / "table.csv"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=r"table\.csv"):
        read_table(path)


def test_a_look_up_reads_the_rows_of_its_instruction_and_every_name(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, [fake.row("add.f32"), fake.row("mul.f32")])
    # What is wrong in another row is not looked at.
    path.write_text(path.read_text().replace("mul.f32,", "mul.f32,,,,", 1))
    rows, names = read_rows(path, lambda name: name == "add.f32")
    assert [row.instruction for row in rows] == ["add.f32"]
    assert names == {"add.f32", "mul.f32"}
    other = OptLevel.O0 if rows[0].opt_level is OptLevel.O3 else OptLevel.O3
    assert read_rows(path, lambda name: name == "add.f32", other) == ((), names)
    assert read_rows(path, lambda name: name == "add.f32", rows[0].opt_level)[0] == rows
    with pytest.raises(InputError, match="cells"):
        read_table(path)
