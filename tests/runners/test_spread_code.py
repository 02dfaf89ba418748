"""What the documents say of estimates by code alone, from the recorded sessions of the H200."""

import shutil
from pathlib import Path

import pytest
from fakes.script import run_script

from ptxbench.model.terms import read_terms

ROOT = Path(__file__).parents[2]
H200 = ROOT / "results" / "nvidia-h200"


SHIPPED = ROOT / "ptxbench" / "tables" / "nvidia-h200"


def test_what_the_documents_say_of_code_alone_and_of_modelled_times(tmp_path):
    run = tmp_path / "shipped"
    shutil.copytree(SHIPPED, run)
    words = ["--table", run, "--without-baselines"]
    for folder in (H200 / "validation", H200 / "suite"):
        words += ["--validation", folder]
    done = run_script("runners/spread_code.py", *words)
    assert (done.returncode, done.stderr) == (0, "")
    found, kept = read_terms(run), read_terms(SHIPPED)
    # Sums differ by rounding between processors.
    assert [[f"{n:.6g}" for n in (s.low, s.high)] for s in found.code_spreads] == [
        [f"{n:.6g}" for n in (s.low, s.high)] for s in kept.code_spreads
    ]
    assert found.time.slack == pytest.approx(kept.time.slack)
    text = (ROOT / "studies" / "model" / "fit.md").read_text()
    for one in found.code_spreads:
        time = "modelled" if one.modelled_time else "measured"
        counted = "counted" if one.bytes_counted else "not"
        memory = "over 0.5%" if one.global_memory else "up to 0.5%"
        whole = "whole" if one.bytes_counted and one.global_memory else ""
        of = f"| {time} | {counted} | {memory} | {'parts' if one.scattered else whole} | {one.kernels}"
        row = f"{of} | {one.low:.2f} to {one.high:.1f} |"
        assert row in text
    assert f"take {found.time.slack:.2f} times what their pipes do" in text
