import csv
import json
from pathlib import Path

import pytest
from fakes.script import run_script

RUNNER = Path(__file__).parents[2] / "runners" / "check_catalogue.py"


def check(*arguments):
    return run_script(RUNNER, *arguments)


def test_writes_a_row_for_each_level_and_form_and_a_manifest(tmp_path):
    out = tmp_path / "new" / "check.csv"
    done = check("--gpu", "simulated", "--out", out, "add.u32", "fma.rn.f32")
    assert (done.returncode, done.stderr) == (0, "")
    assert "FAILED" not in done.stdout
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 6
    assert {(row["opt_level"], row["form"]) for row in rows} == {
        ("O0", "latency"),
        ("O3", "latency"),
        ("O3", "throughput"),
    }
    assert {(row["gate"], row["launched"], row["result"]) for row in rows} == {("exact", "True", "unchecked")}
    manifest = json.loads(out.with_suffix(".json").read_text())
    assert manifest["gpu"]["kind"] == "simulated"
    assert (manifest["rows"], manifest["failed"]) == (6, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fma.rn.f23"], "no instruction fits 'fma.rn.f23'"),
        (["--category", "nonsense"], "no catalogue row is in nonsense"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path, arguments, words):
    done = check("--gpu", "simulated", "--out", tmp_path / "x.csv", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
