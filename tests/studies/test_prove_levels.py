"""What makes a proof of a memory level, with a stand-in for ncu."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.script import load_script

STUDIES = Path(__file__).parents[2] / "studies/h200"

FAKE_NCU = """#!{python}
import subprocess, sys
log = sys.argv[sys.argv.index("--log-file") + 1]
child = sys.argv[sys.argv.index("--log-file") + 2 :]
done = subprocess.run(child, capture_output=True, text=True)
print(done.stdout, end="")
print(done.stderr, end="", file=sys.stderr)
with open(log, "w") as file:
    print("==PROF== Connected to process 1", file=file)
    print('"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum",'
          '"l1tex__t_sector_hit_rate.pct","lts__t_sector_hit_rate.pct"', file=file)
    print('"","","byte","byte","%","%"', file=file)
    print('"0","target",{values}', file=file)
"""


def prove(tmp_path, values, *arguments, python=sys.executable):
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    if values is not None:
        ncu = tools / "ncu"
        ncu.write_text(FAKE_NCU.format(python=python, values=values))
        ncu.chmod(0o755)
    return subprocess.run(
        [sys.executable, str(STUDIES / "prove_levels.py"), "--gpu", "simulated", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
    )


@pytest.fixture(scope="module")
def runner():
    return load_script("studies/h200/prove_levels.py")


@pytest.mark.parametrize(
    ("level", "stores", "l1", "l2", "traffic", "words"),
    [
        ("l1", False, 99.8, 60.0, 0.001, "proven"),
        ("l1", False, 55.0, 99.0, 0.001, "only 55.0% hit L1"),
        ("l2", False, 0.1, 99.9, 0.002, "proven"),
        ("l2", False, 0.1, 70.0, 0.3, "only 70.0% hit L2; 30% of the bytes"),
        ("l2", False, 40.0, 99.0, 0.0, "40.0% hit L1"),
        ("l2", True, 50.0, 99.0, 0.0, "proven"),
        ("hbm", False, 0.0, 3.0, 0.98, "proven"),
        ("hbm", False, 0.0, 50.0, 0.98, "proven"),
        ("hbm", False, 0.0, 96.0, 0.04, "only 4% of the bytes"),
        ("hbm", True, 0.0, 99.0, 0.97, "proven"),
        ("shared", False, 3.0, 5.0, 0.0, "proven"),
        ("shared", False, 3.0, 5.0, 0.4, "40% of the bytes"),
    ],
)
def test_the_verdict(runner, level, stores, l1, l2, traffic, words):
    assert runner.verdict(level, l1, l2, traffic, stores=stores).startswith(words)


def test_one_launch_is_profiled_and_the_csv_says_what_was_found(tmp_path):
    out = tmp_path / "levels.csv"
    done = prove(tmp_path, '"43,000,000,000","12","0.01","2.5"', "--out", out, "ld.global.v4.b32:hbm")
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = csv.DictReader(out.read_text().splitlines())
    assert (row["row"], row["level"], row["verdict"]) == ("ld.global.v4.b32:hbm", "hbm", "proven")
    assert float(row["dram_bytes"]) == 43e9
    assert int(row["loaded_bytes"]) == 400 * 32 * 1024 * 132 * 16
    assert json.loads(out.with_suffix(".json").read_text())["gpu"]["gpu_kind"] == "simulated"


def test_a_level_that_is_not_reached_is_exit_code_1(tmp_path):
    done = prove(tmp_path, '"43","12","99.9","2.5"', "--out", tmp_path / "x.csv", "ld.global.v4.b32:hbm")
    assert done.returncode == 1
    assert "99.9% hit L1" in done.stdout


def test_without_ncus_numbers_there_is_one_line_that_says_what_it_said(tmp_path):
    done = prove(tmp_path, '"a"', "--out", tmp_path / "x.csv", "ld.global.v4.b32:hbm")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "ld.global.v4.b32:hbm: ncu gave no metrics" in done.stderr


def test_without_ncu_there_is_one_line(tmp_path):
    if any((Path(folder) / "ncu").exists() for folder in os.environ["PATH"].split(os.pathsep)):
        pytest.skip("this machine has ncu")
    done = prove(tmp_path, None, "--out", tmp_path / "x.csv")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "ncu is not on PATH" in done.stderr


def test_rows_without_a_level_are_refused(tmp_path):
    done = prove(tmp_path, '""', "--out", tmp_path / "x.csv", "fma.rn.f32")
    assert done.returncode == 2
    assert "fma.rn.f32 is a row of one level" in done.stderr
