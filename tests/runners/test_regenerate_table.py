from pathlib import Path

import pytest
from fakes.script import run_script

from ptxbench.storage.run_folder import RunFolder

RUNNER = Path(__file__).parents[2] / "runners" / "regenerate_table.py"
QUICK = ["fma.rn.f32", "--gpu", "simulated", "--protocol", "dynamic", "--max-repeats", "2"]


def regenerate(*arguments):
    return run_script(RUNNER, *arguments)


def test_measures_says_each_trial_and_goes_on_with_the_run_that_is_there(tmp_path):
    out = tmp_path / "run"
    first = regenerate(*QUICK, "--out", out)
    assert first.returncode == 0
    assert "SIMULATED" in first.stdout
    with RunFolder.open(out) as folder:
        trials = [record.trial_id for record in folder.records()]
        rows = folder.rows()
    assert [(r.instruction, r.opt_level, r.status) for r in rows] == [
        ("fma.rn.f32", "O0", "ok"),
        ("fma.rn.f32", "O3", "ok"),
    ]
    assert [line.partition(": ")[0] for line in first.stderr.splitlines()] == trials

    second = regenerate(*QUICK, "--out", out)
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout == first.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fma.rn.f23", "--gpu", "simulated"], 2, "no instruction fits 'fma.rn.f23'"),
        (["--gpu", "9999"], 3, "regenerate_table: "),
        (["div.u32", *QUICK[1:], "--operands", "zeros"], 1, ""),
    ],
)
def test_its_exit_codes_are_those_of_ptxbench(tmp_path, capfd, arguments, code, words):
    done = regenerate(*arguments, "--out", tmp_path / "run")
    assert done.returncode == code
    # On a real GPU another process measures, whose words are not in `done`.
    said = done.stderr + capfd.readouterr().err
    assert words in said
    assert said.count("\n") <= 1
    assert "Traceback" not in said
