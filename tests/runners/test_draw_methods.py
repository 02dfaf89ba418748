"""The picture of all ways of reading power."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.report.figure import new_figure
from ptxbench.storage.document import read_document
from ptxbench.storage.methods_file import METHODS_FILE, MethodsFile

METHODS = Path(__file__).parents[2] / "results" / "nvidia-h100" / "methods" / METHODS_FILE


@pytest.fixture(scope="module")
def runner():
    return load_script("runners/draw_methods.py")


def test_boards_of_one_gpu_share_a_panel_and_ways_have_one_name_each(runner, tmp_path, monkeypatch):
    found = read_document(METHODS, MethodsFile, "methods_version")
    again, other = replace(found), replace(found, gpu=replace(found.gpu, name="NVIDIA H200"))
    figures = []

    def kept(*size):
        figures.append(new_figure(*size))
        return figures[0]

    monkeypatch.setattr(runner, "new_figure", kept)
    runner.draw([found, again, other], tmp_path / "methods.png")
    assert (tmp_path / "methods.png").read_bytes().startswith(b"\x89PNG")
    h100, h200 = figures[0].axes
    assert (h100.get_title(), h200.get_title()) == ("H100 80GB HBM3", "H200")
    assert len(h100.containers) == 2 * len(h200.containers)
    labels = h100.get_legend_handles_labels()[1]
    assert len(labels) == len(set(labels))
    # Even power alone: MTSM on usage has six lengths, from 10 ms to 3 s.
    mtsm = next(one for one in h200.containers if one.get_label().startswith("MTSM"))
    assert len(mtsm[0].get_xdata()) == 6
