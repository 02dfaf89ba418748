"""A table by its name, without a checkout."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxbench.cli.report import command
from ptxbench.core.errors import InputError
from ptxbench.model.inputs import read_table
from ptxbench.storage.shipped import SHIPPED, find_table

RUN = Path(__file__).parents[2] / "results" / "nvidia-h200" / "table-6eda"


def test_the_shipped_table_is_the_one_of_the_readme():
    (shipped,) = SHIPPED.values()
    run = sorted(path for path in shipped.iterdir() if path.name != "boards.json")
    assert [path.name for path in run] == ["manifest.json", "model.json", "solved.json", "table.csv"]
    for path in run:
        assert path.read_bytes() == (RUN / path.name).read_bytes(), f"copy {RUN / path.name} to {path}"


def test_it_gives_energies_and_a_report_without_trials_or_kernels(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    table = read_table(find_table("h200"))
    assert table.gpu.name == "NVIDIA H200"
    assert table.machine.opcode_energies.energy("FFMA", 1.0).energy_pj == pytest.approx(13.2, abs=0.5)
    # The terms that kernels were fitted to come with it.
    assert len(table.machine.terms.kernels) == 101
    assert len(table.machine.terms.code_spreads) == 4
    assert "fma.rn.f32" in CliRunner().invoke(command, ["h200"], catch_exceptions=False).stdout
    assert not caplog.messages


def test_a_folder_is_itself_and_what_is_neither_is_refused(tmp_path):
    assert find_table(tmp_path) == tmp_path
    with pytest.raises(
        InputError, match=r"h100 holds no run, and no table .* has this name \(those are h200\)"
    ):
        find_table("h100")
