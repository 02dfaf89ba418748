"""Launch logs replayed on the simulated GPU: do the intervals hold its hidden energies?"""

import json

import numpy as np
import pytest

from ptxbench.attribute.attribution import NO_KERNEL
from ptxbench.attribute.exposure import ExposureMatrix
from ptxbench.attribute.launches import LaunchLog, join_launches
from ptxbench.attribute.program import energy_of
from ptxbench.attribute.recorded import BoardFacts, RecordedProgram, keep, program_manifest
from ptxbench.attribute.simulated import replay
from ptxbench.cli.main import run
from ptxbench.devices.simulated import SimulatedGpu, find_profile
from ptxbench.devices.simulated.launch_log import kernel_power_w

ORIGIN_NS = 5_000_000_000


def program(spans, length_s):
    """Return a run of kernels: name, begin and end in s, stream."""
    parts = [
        (name, *(np.array([round(at_s * 1e9) + ORIGIN_NS]) for at_s in times), f"process 1, stream {lane}")
        for name, *times, lane in spans
    ]
    log = LaunchLog({"GPU-1": join_launches(parts)}, 1)
    times_ns = (ORIGIN_NS, ORIGIN_NS + round(length_s * 1e9))
    return RecordedProgram(program_manifest(["p"], 0, times_ns, [], log), (), log)


def in_random_order(seed, names=8, length_s=15.0):
    """Kernels of 4 to 60 ms with short gaps, now and then a pause."""
    rng, at_s, spans = np.random.default_rng(seed), 0.2, []
    typical_s = rng.uniform(0.004, 0.06, names)
    while at_s < length_s - 0.3:
        which = int(rng.integers(names))
        end_s = at_s + typical_s[which] * rng.uniform(0.9, 1.1)
        spans.append((f"k{which}", at_s, end_s, 0))
        at_s = end_s + (rng.uniform(0.2, 0.4) if rng.random() < 0.01 else 2e-5)
    return program(spans, length_s)


def on_two_streams(seed):
    """Kernels of two streams that overlap by chance."""
    rng, spans = np.random.default_rng(seed), []
    for lane in range(2):
        at_s = 0.2
        while at_s < 14.5:
            which = int(rng.integers(3)) + 3 * lane
            end_s = at_s + rng.uniform(0.02, 0.08)
            spans.append((f"k{which}", at_s, end_s, lane))
            at_s = end_s + rng.uniform(0, 0.03)
    return program(spans, 15.0)


def in_steps(seed, names=12):
    """Training steps of 90 ms: long kernels in one order, steps of varying length, some without a part."""
    rng, at_s, spans = np.random.default_rng(seed), 0.2, []
    lengths_s = rng.exponential(0.008, names) + 0.001
    while at_s < 14.5:
        for which in range(names):
            if rng.random() < 0.3:
                continue
            end_s = at_s + lengths_s[which] * rng.uniform(0.97, 1.03)
            spans.append((f"k{which}", at_s, end_s, 0))
            at_s = end_s + 1e-5
        at_s += rng.uniform(0, 0.01)
    return program(spans, 15.0)


def truth_j(recorded, gpu):
    """Return the true energy of each kernel name; kernels that run at once share it by their powers."""
    (launches,) = recorded.log.by_gpu.values()
    edges_ns = np.unique(np.concatenate((launches.start_ns, launches.end_ns)))
    whole_j = np.diff([gpu._physics.energy_j(int(at_ns)) for at_ns in edges_ns])
    busy = ExposureMatrix(launches, 0)
    shares = np.diff(busy.until(edges_ns / 1e9), axis=0) / np.diff(edges_ns / 1e9)[:, None]
    hidden_w = np.array([kernel_power_w(name, gpu._seed, gpu._profile) for name in launches.names])
    weights = shares * (gpu._profile.board.static_w + hidden_w)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    return dict(zip(launches.names, weights.T @ whole_j, strict=True))


def cases(make, seeds, profile="h200", change=lambda recorded: recorded):
    """Return for each reported row of replayed runs: truth, energy and interval."""
    rows = []
    for seed in seeds:
        gpu = SimulatedGpu(find_profile(profile), seed=seed)
        drawn = replay(make(seed), gpu)
        true_j = truth_j(drawn, gpu)
        (share,) = energy_of(change(drawn)).gpus
        assert sum(row.energy_j for row in share.kernels) == pytest.approx(share.energy.energy_j)
        rows += [
            (sum(true_j[name] for name in row.names), row.energy_j, *row.interval_j)
            for row in share.kernels
            if row.names != (NO_KERNEL,)
        ]
    return np.array(rows)


def coverage(rows):
    return np.mean((rows[:, 2] <= rows[:, 0]) & (rows[:, 0] <= rows[:, 3]))


def test_intervals_hold_the_hidden_energies():
    rows = np.concatenate([cases(make, range(2)) for make in (in_random_order, on_two_streams, in_steps)])
    assert len(rows) >= 25
    assert coverage(rows) >= 0.9
    assert np.median(np.abs(rows[:, 1] / rows[:, 0] - 1)) < 0.03


def test_a_clock_that_is_off_is_found_from_the_readings():
    def late(recorded):
        (launches,) = recorded.log.by_gpu.values()
        parts = [
            (launches.names[name], np.array([start + 12_000_000]), np.array([end + 12_000_000]), "")
            for name, start, end in zip(launches.name, launches.start_ns, launches.end_ns, strict=True)
        ]
        return RecordedProgram(recorded.manifest, recorded.boards, LaunchLog({"": join_launches(parts)}, 1))

    rows = cases(in_random_order, [3], change=late)
    assert len(rows) >= 6
    assert np.max(np.abs(rows[:, 1] / rows[:, 0] - 1)) < 0.08


def test_names_in_one_ratio_are_not_separable():
    names = sorted(map(str, range(20)), key=lambda name: kernel_power_w(name, 1, find_profile("h200")))
    low, high = names[0], names[-1]

    def pairs(_seed):
        at_s, spans = 0.2, []
        while at_s < 9.5:
            spans += [(low, at_s, at_s + 0.0004, 0), (high, at_s + 0.0004, at_s + 0.001, 0)]
            at_s += 0.00102
        return program(spans, 10.0)

    rows = cases(pairs, [1])
    assert len(rows) == 1
    assert coverage(rows) == 1


SHORT_S = 0.0005


def with_a_short_kernel(seed):
    """Two long kernels in turn, and one that runs ten times for half a millisecond."""
    rng, at_s, spans = np.random.default_rng(seed), 0.2, []
    for turn in range(200):
        for name in ("k0", "k1"):
            end_s = at_s + rng.uniform(0.01, 0.03)
            spans.append((name, at_s, end_s, 0))
            at_s = end_s + 1e-5
        if turn % 20 == 0:
            spans.append(("short(float*)", at_s, at_s + SHORT_S, 0))
            at_s += SHORT_S + 1e-5
    return program(spans, at_s + 0.3)


def test_a_kernel_that_is_too_short_has_its_bound():
    gpu = SimulatedGpu(seed=2)
    drawn = replay(with_a_short_kernel(2), gpu)
    (share,) = energy_of(drawn).gpus
    (short,) = (row for row in share.kernels if row.names == ("short(float*)",))
    assert short.method == "too short to tell, the interval is its bound"
    low_j, high_j = short.interval_j
    assert low_j <= truth_j(drawn, gpu)["short(float*)"] <= high_j
    assert high_j == pytest.approx(10 * SHORT_S * 700.0)


def test_a_table_and_counts_say_what_the_sensor_cannot(tmp_path, capfd):
    drawn = replay(with_a_short_kernel(2), SimulatedGpu(seed=2))
    (tmp_path / "run").mkdir()
    keep(drawn, tmp_path / "run")
    counts = tmp_path / "counts.csv"
    # In half a millisecond all SMs execute 132 SMs * 4 * 1.98 GHz * 0.5 ms warp instructions at most.
    cell = "400,000,000 (FFMA: 300,000,000; IADD3: 100,000,000)"
    counts.write_text(
        '"ID","Kernel Name","sass__inst_executed_per_opcode_with_modifier_all"\n'
        f'"0","void short(float *)","{cell}"\n"1","other","{cell}"\n'
    )
    words = ["run", "--from", str(tmp_path / "run"), "--table", "h200", "--ncu", str(counts), "--json"]
    assert run(words) == 0
    rows = {tuple(row["kernels"]): row for row in json.loads(capfd.readouterr().out)["kernels"]}
    short = rows["short(float*)",]
    assert short["method"] == "the table's estimate, too short for the sensor"
    assert short["energy_j"] == pytest.approx(short["expected_j"], rel=0.1)
    # 300e6 * 32 FFMA of 12 pJ and 100e6 * 32 IADD3 of 8 pJ in each of ten calls, and static power.
    assert 1.0 < short["expected_j"] < 2.5
    assert rows["k0",]["expected_j"] is None
    assert run([*words[:3], "--table", "h200"]) == 2
    assert run([*words[:3], "--table", "h200", "--ncu", str(tmp_path / "none.csv")]) == 2


def test_run_from_replays_a_kept_run_on_the_simulated_gpu(tmp_path, capfd):
    recorded = in_random_order(4, length_s=5.0)
    gpu = SimulatedGpu()
    kept = replay(recorded, gpu)
    board = kept.boards[0].facts
    assert board == BoardFacts(board.name, "", board.limit_w, 0, board.sensors, board.limit_w)
    keep(kept, tmp_path)
    assert run(["run", "--from", str(tmp_path), "--gpu", "simulated:a100"]) == 0
    said = capfd.readouterr().out
    assert "SIMULATED" in said
    assert "A100" in said
    assert run(["run", "--from", str(tmp_path), "--gpu", "0"]) == 2
    assert run(["run", "--gpu", "simulated", "--", "true"]) == 2
    assert run(["run", "--from", str(tmp_path), "--gpu", "simulated:x"]) == 2
