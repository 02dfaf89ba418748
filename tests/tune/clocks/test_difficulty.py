"""The difficulty of a space: a local search that cannot miss, one that mostly does, and the message without
networkx."""

import builtins
import json
from pathlib import Path

import pytest
from tune.fakes_tune import trial

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.tune.clocks.difficulty import difficulty, parts
from ptxbench.tune.configuration import Configuration

KEPT = Path(__file__).parents[3] / "results" / "nvidia-h200" / "gemm" / "f32"


def grid(costs):
    """Trials on a grid of x and y with the given energies."""
    return [
        trial(0, energy_j=joules, variant=Configuration.of({"x": x, "y": y}))
        for y, row in enumerate(costs)
        for x, joules in enumerate(row)
    ]


def energy(one):
    return one.best_energy_j


def networkx():
    return pytest.importorskip("networkx", reason="the extra tune is not installed")


def test_with_one_minimum_every_search_ends_there():
    networkx()
    found = difficulty("energy", grid([[1, 2, 3], [2, 3, 4]]), energy)
    assert [(one.name, one.over_least) for one in found.minima] == [("x=0 y=0", 1.0)]
    assert found.proportion(1.0) == pytest.approx(1)
    # Neighbours differ in one axis: two pairs in each of three columns, and three in each of two rows.
    assert found.edges == 3 + 2 * 3


def test_a_hidden_optimum_is_hard_to_reach():
    networkx()
    # Of the whole row at y=1 one end leads to the optimum at once, all others past the minimum at x=3.
    found = difficulty("energy", grid([[1, 9, 9, 9], [9, 5, 5, 2]]), energy)
    assert [one.over_least for one in found.minima] == [1, 2]
    assert found.proportion(1.99) < 0.5
    assert found.proportion(2.0) == pytest.approx(1)


def test_the_centrality_is_that_of_a_random_walk():
    networkx()
    # From the middle of the three either end is as likely.
    found = difficulty("energy", grid([[1, 3, 1.2]]), energy)
    # The ends are neighbours as well, and 1 is the better.
    assert [one.over_least for one in found.minima] == [1]
    split = difficulty(
        "energy",
        [*grid([[1, 3]]), trial(1, energy_j=1.2, variant=Configuration.of({"x": 1, "y": 5}))],
        energy,
    )
    assert [one.centrality for one in split.minima] == pytest.approx([0.5, 0.5])


def test_trials_without_a_cost_are_no_nodes():
    networkx()
    some = grid([[1, 2, float("nan"), 3]])
    assert difficulty("energy", some, energy).candidates == 3
    with pytest.raises(InputError, match="2 trials have a cost"):
        difficulty("energy", some[:3], energy)


def test_clocks_and_limits_are_parts_of_their_own():
    networkx()
    settings = [
        GpuSettings(2000),
        GpuSettings(1000),
        GpuSettings(None, None, 300_000),
        GpuSettings(None, None, 700_000),
    ]
    trials = [
        trial(n, 1e-3 * n, 1.0 * n + m, settings=one) for n in (4, 8, 16) for m, one in enumerate(settings)
    ]
    found = {one.part: one.candidates for one in parts(trials)}
    assert found == {"time": 3, "energy": 3, "energy, SM clock": 6, "energy, power limit": 6}


def test_the_command_reports_a_kept_run(tmp_path, capsys):
    networkx()
    assert run(["tune", "study", "difficulty", str(KEPT), "--plot", str(tmp_path / "p.png")]) == 0
    shown = capsys.readouterr().out
    assert "NVIDIA H200" in shown
    assert "the space was not swept in full" in shown
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert run(["tune", "study", "difficulty", str(KEPT), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for one in document["parts"]:
        assert sum(minimum["centrality"] for minimum in one["minima"]) == pytest.approx(1)


def test_without_networkx_one_line_says_what_to_do(monkeypatch, capsys):
    plain = builtins.__import__

    def without(name, *rest):
        if name == "networkx":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert run(["tune", "study", "difficulty", str(KEPT)]) == 2
    error = capsys.readouterr().err
    assert "pip install networkx" in error
    assert error.count("\n") == 1
