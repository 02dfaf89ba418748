"""A table by its name, without a checkout."""

import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from fakes.script import load_script

from ptxbench.cli.report import command
from ptxbench.core.errors import InputError
from ptxbench.model.atlas import open_atlas
from ptxbench.storage.operations_file import read_operations
from ptxbench.storage.shipped import SHIPPED, find_table

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(("gpu", "run"), [("h100", "table-57c3"), ("h200", "table-6eda")])
def test_a_shipped_table_is_a_committed_run(gpu, run):
    shipped = SHIPPED[gpu]
    folder = RESULTS / shipped.name / run
    names = {path.name for path in shipped.iterdir()}
    assert names >= {"boards.json", "manifest.json", "solved.json", "table.csv"}
    for name in names - {"boards.json", "operations.csv"}:
        assert (shipped / name).read_bytes() == (folder / name).read_bytes(), f"copy {folder / name}"


@pytest.mark.parametrize("gpu", SHIPPED)
def test_operations_that_are_shipped_are_those_of_the_kept_runs(gpu):
    runner = load_script("runners/join_operations.py")
    kept = runner.shipped_rows(runner.kept_rows(SHIPPED[gpu].name))
    shipped = read_operations(SHIPPED[gpu])
    assert [(row.operation, row.board, row.valid) for row in shipped] == [
        (row.operation, row.board, row.valid) for row in kept
    ], "run runners/join_operations.py ship"
    energies = [(a.energy_j, b.energy_j) for a, b in zip(shipped, kept, strict=True) if b.valid]
    assert energies
    assert all(a == pytest.approx(b, rel=1e-5) for a, b in energies)


def test_the_tables_take_little_of_the_wheel():
    files = [path for folder in SHIPPED.values() for path in folder.iterdir()]
    assert sum(len(zlib.compress(path.read_bytes())) for path in files) < 500_000


def test_it_gives_energies_and_a_report_without_trials_or_kernels(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    table = open_atlas(find_table("h200"))
    assert table.gpu.name == "NVIDIA H200"
    assert table.machine.opcode_energies.energy("FFMA", 1.0).energy_pj == pytest.approx(14.4, abs=0.5)
    # The terms that kernels were fitted to come with it.
    assert len(table.machine.terms.kernels) == 101
    assert len(table.machine.terms.code_spreads) == 7
    assert "fma.rn.f32" in CliRunner().invoke(command, ["h200"], catch_exceptions=False).stdout
    assert not caplog.messages


def test_a_folder_is_itself_and_what_is_neither_is_refused(tmp_path):
    assert find_table(tmp_path) == tmp_path
    with pytest.raises(
        InputError, match=r"v100 holds no run, and no table .* has this name \(those are h100, h200\)"
    ):
        find_table("v100")
