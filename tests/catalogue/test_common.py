import subprocess
import sys
from pathlib import Path

from ptxbench.catalogue import load
from ptxbench.catalogue.common import FILE, common_opcodes, common_rows, main_opcodes, measuring
from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.core.condition import OptLevel

ROOT = Path(__file__).parents[2]


def test_what_matrix_products_and_copies_execute_is_common():
    opcodes = common_opcodes()
    assert len(set(opcodes)) == len(opcodes) > 50
    # FFMA is what real kernels execute most of all that can be measured by itself.
    assert opcodes.index("FFMA") < opcodes.index("FADD") < opcodes.index("MUFU.RSQ")
    assert {"LDS.128", "LDG.E.128", "HMMA.16816.F32"} <= set(opcodes)


def test_each_is_measured_by_the_row_with_least_beside_it():
    rows = common_rows()
    assert {"fma.rn.f32", "mul.f32", "mma.m16n8k16.f32.f16.f16.f32"} <= set(rows)
    # div.rn.f32 executes FFMA too, among much else.
    assert "div.rn.f32" not in rows


def test_loads_and_stores_are_there_at_every_level_of_memory():
    rows = common_rows()
    for level in (
        "ld.global.v4.b32:l1",
        "ld.shared.v4.b32:shared",
        "ld.global.v4.b32:hbm",
        "st.global.b32:l2",
    ):
        assert level in rows


def test_a_row_that_cannot_be_measured_is_no_answer():
    for name in common_rows():
        row = find_instruction(name)
        assert not row.refused
        assert row.expected(OptLevel.O3, form=row.forms(OptLevel.O3)[-1]).counts


def test_the_shipped_shares_are_those_of_the_counts_that_they_name(tmp_path):
    shipped = ROOT / "ptxbench/catalogue/data" / FILE
    counts = ROOT / shipped.read_text().splitlines()[0].rpartition(" ")[2].rstrip(".")
    command = [sys.executable, str(ROOT / "runners/refresh_common.py"), str(counts)]
    subprocess.run([*command, "--out", str(tmp_path / FILE)], check=True)
    assert (tmp_path / FILE).read_text() == shipped.read_text()


def test_a_folder_without_counts_is_refused(tmp_path):
    command = [sys.executable, str(ROOT / "runners/refresh_common.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has no CSV of ncu" in done.stderr


def test_an_opcode_is_measured_by_the_instruction_that_has_the_fewest_others():
    found = measuring(["FFMA", "IMAD.IADD", "HFMA2.MMA", "BRA", "VIADDMNMX"])
    # A branch is a small part of every row that has one, and no guard's row serves.
    assert found == {"FFMA": "fma.rn.f32", "IMAD.IADD": "add.u16", "HFMA2.MMA": "fma.rn.f16x2"}


def test_reading_only_the_lines_that_name_an_opcode_changes_no_answer():
    known = load_catalogue()
    every = sorted({opcode for row in known for opcode in main_opcodes(row)})
    # "FADD" is a part of other opcodes' names, IMAD stands in keys that several rows share.
    some = [*every[::60], "FADD", "IMAD", "LDG.E"]
    by_all = {opcode: measuring([opcode]) for opcode in some}
    load._catalogue.cache_clear()
    by_lines = {opcode: measuring([opcode]) for opcode in some}
    assert load._catalogue.cache_info().currsize == 0
    assert by_lines == by_all


def test_no_opcode_is_measured_by_nothing():
    assert measuring([]) == {}
