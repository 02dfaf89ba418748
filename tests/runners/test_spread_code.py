"""What the documents say of estimates by code alone, from the recorded sessions of the H200."""

import shutil
import subprocess
import sys
from pathlib import Path

from ptxbench.model.terms import read_terms

ROOT = Path(__file__).parents[2]
H200 = ROOT / "results" / "nvidia-h200"


def test_what_the_documents_say_of_code_alone(tmp_path):
    run = tmp_path / "full"
    shutil.copytree(H200 / "full", run)
    folders = [H200 / "validation", H200 / "suite"]
    command = [sys.executable, ROOT / "runners" / "spread_code.py", "--table", run]
    for folder in folders:
        command += ["--validation", folder]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    spreads = read_terms(run).code_spreads
    kept = read_terms(H200 / "full").code_spreads
    # Sums differ by rounding between processors.
    assert [[f"{n:.6g}" for n in (s.low, s.high)] for s in spreads] == [
        [f"{n:.6g}" for n in (s.low, s.high)] for s in kept
    ]
    text = (ROOT / "docs" / "model.md").read_text()
    for one in spreads:
        time = "modelled" if one.modelled_time else "measured"
        memory = "over 0.5%" if one.global_memory else "up to 0.5%"
        assert f"| {time} | {memory} | {one.kernels} | {one.low:.2f} to {one.high:.1f} |" in text
    for figure in ("86/89 inside",):
        assert figure in done.stdout
        assert figure.split(" ")[0].replace("/", " of ") in text
