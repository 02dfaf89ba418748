"""What the sampler costs a kernel: the benchmark that says so."""

import json
import sys
from dataclasses import replace

import pytest
from fakes.measuring import WatchedGpu
from fakes.script import load_script


class DisturbedGpu(WatchedGpu):
    """Kernels take longer while the sampler polls; and the longer, the later, for the chip warms up."""

    def __init__(self, cost):
        super().__init__()
        self._cost = cost
        self._launches = 0

    def run_sequence(self, launches, gaps_s, poll_interval_s=None):
        run = super().run_sequence(launches, gaps_s, poll_interval_s)
        self._launches += 1
        is_polled = poll_interval_s is None or poll_interval_s < 1
        factor = 1 + self._cost * is_polled + 0.0005 * self._launches
        windows = tuple(
            replace(w, elapsed_s=w.elapsed_s * factor, globaltimer_ns=round(w.globaltimer_ns * factor))
            for w in run.windows
        )
        return replace(run, windows=windows)


@pytest.fixture
def benchmark(monkeypatch):
    module = load_script("benchmarks/sampler_cost.py")

    def run(gpu, *arguments):
        monkeypatch.setattr(module, "open_gpu", lambda _: gpu)
        monkeypatch.setattr(sys, "argv", ["sampler_cost.py", "--pairs", "8", *map(str, arguments)])
        return module.main()

    return run


def test_a_sampler_that_costs_nothing_is_said_to(benchmark, tmp_path, capsys):
    out = tmp_path / "new" / "cost.json"
    assert benchmark(WatchedGpu(), "--out", out) == 0
    text = capsys.readouterr().out
    assert "SIMULATED, no measurement" in text
    assert "under 0.2%" in text
    assert "NOT" not in text
    document = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert document["manifest"]["gpu"]["kind"] == "simulated"
    assert [pair["polled_first"] for pair in document["pairs"]] == [True, False] * 4
    assert all(pair["polls"] >= 10 for pair in document["pairs"])


def test_a_cost_is_found_beneath_a_drift_that_is_as_large(benchmark, tmp_path, capsys):
    out = tmp_path / "cost.json"
    assert benchmark(DisturbedGpu(0.004), "--out", out) == 1
    assert "NOT shown to be under 0.2%" in capsys.readouterr().out
    for found in ("by_events_pct", "by_globaltimer_pct"):
        cost = json.loads(out.read_text())[found]
        assert cost["mean"] == pytest.approx(0.4, abs=0.01)


def test_a_drift_alone_is_no_cost(benchmark):
    assert benchmark(DisturbedGpu(0.0)) == 0


def test_simulated_numbers_do_not_go_below_results(benchmark, tmp_path, monkeypatch, capsys):
    with pytest.raises(Exception, match="results"):
        benchmark(WatchedGpu(), "--out", tmp_path / "results" / "cost.json")
