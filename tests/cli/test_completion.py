"""What a shell completes: commands, options, instructions, GPUs and tables."""

import pytest
from click.shell_completion import ShellComplete

from ptxbench.cli import main as cli
from ptxbench.devices import select
from ptxbench.devices.select import ListedGpu


def completed(words):
    *before, incomplete = words.split(" ")
    found = ShellComplete(cli.group, {}, "ptxbench", "_PTXBENCH_COMPLETE").get_completions(before, incomplete)
    return [one.value for one in found]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", list(cli._SUBCOMMANDS)),
        ("rep", ["report"]),
        ("clocks r", ["restore", "ridge", "run"]),
        ("doctor s", ["sensor"]),
        ("cost --cat", ["--category"]),
        ("show popc.", ["popc.b32", "popc.b64"]),
        ("cost --table h", ["h", "h100", "h200"]),
        ("report h2", ["h2", "h200"]),
        ("table fma.rn.f32 --opt-level ", ["O0", "O3"]),
    ],
)
def test_a_word_is_completed_by_what_may_stand_there(words, found):
    assert completed(words) == found


def test_a_gpu_is_completed_by_those_of_the_machine_and_the_simulated_ones(monkeypatch):
    monkeypatch.setattr(select, "list_gpus", lambda: (ListedGpu(0, "H100", None, ""),))
    assert completed("doctor --gpu ")[:2] == ["0", "simulated:a100"]
    assert completed("doctor --gpu simulated:rtx2") == ["simulated:rtx2080ti"]


def test_completing_a_former_command_says_nothing(capsys):
    assert completed("sensor --pl") == []
    assert capsys.readouterr().err == ""
