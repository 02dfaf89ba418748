"""Energy by kernel name against the truth of the simulated GPU."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.loads import LoadedGpu
from scipy.signal import lfilter
from threadpoolctl import threadpool_info, threadpool_limits

from ptxbench.api.board import Recording, open_boards
from ptxbench.attribute.attribution import NO_KERNEL, attribute, grouped
from ptxbench.attribute.equations import Readings
from ptxbench.attribute.exposure import ExposureMatrix
from ptxbench.attribute.launches import (
    Launches,
    LaunchLog,
    busy_spans,
    join_launches,
    read_launches,
    weighted_by_time,
)
from ptxbench.attribute.program import recorded_board, share_of
from ptxbench.attribute.ranges import RangeKind, Ranges
from ptxbench.attribute.unseen import UnseenTime
from ptxbench.sensors.trace import KernelWindow

POWERS_W = {"a": 100.0, "b": 250.0, "c": 400.0}


def launches(**kernels):
    """Return launches from lists of (begin, end) in ns."""
    return join_launches(
        [(name, *(np.array(side, dtype=np.int64) for side in zip(*times, strict=True)), "")
         for name, times in kernels.items()]
    )  # fmt: skip


def replay(seed, kept=lambda i, name: True, merge=None, offset_ns=0, rounds=250, turns=None):
    """Run kernels of three powers in turn; return the share of each name, and the true energies."""
    made = LoadedGpu(seed=seed)
    recording = Recording(open_boards(made.gpu)[0])
    clock, rng = recording.board.clock, np.random.default_rng(seed)
    recording.start(int)
    made.gpu.sleep(1.0)
    start_ns, truth, times = clock.now_ns(), dict.fromkeys(POWERS_W, 0.0), {}
    for i in range(rounds):
        step_s, round_ns = rng.uniform(0.02, 0.06), clock.now_ns()
        for name, power_w in POWERS_W.items():
            before_j, begin_ns = made.energy_j(), clock.now_ns()
            made.load(step_s if merge else rng.uniform(0.02, 0.06), power_w)
            if merge:
                step_s = merge
            if kept(i, name):
                times.setdefault(name, []).append((begin_ns + offset_ns, clock.now_ns() + offset_ns))
            truth[name] += made.energy_j() - before_j
        made.gpu.sleep(merge or 0.01)
        if turns is not None and not kept(i, ""):
            begin_ns = turns.pop()[0] if turns and turns[-1][1] == round_ns else round_ns
            turns.append((begin_ns, clock.now_ns()))
    end_ns = clock.now_ns()
    made.gpu.sleep(2.0)
    window = KernelWindow(start_ns, end_ns, (end_ns - start_ns) * 1e-9)
    ran = weighted_by_time(launches(**times), turns or ())
    log = LaunchLog({"": ran}, 1, unseen_ns=tuple(turns or ()), is_counted=False)
    share = share_of(recorded_board(recording), window, log)
    recording.stop()
    return share, truth


def test_the_true_energy_of_each_kernel_is_within_its_interval():
    inside, errors = [], []
    for seed in range(3):
        share, truth = replay(seed)
        assert math.isclose(sum(row.energy_j for row in share.kernels), share.energy.energy_j)
        for row in share.kernels:
            if row.names != (NO_KERNEL,):
                (name,) = row.names
                assert row.calls == 250
                inside.append(row.interval_j[0] <= truth[name] <= row.interval_j[1])
                errors.append(row.energy_j / truth[name] - 1)
    assert np.mean(inside) >= 0.93
    assert np.max(np.abs(errors)) < 0.02


def test_a_sensor_that_is_a_low_pass_is_found():
    # As NVML's samples of an H200: a time constant of 14 ms. A running mean misses by 8%.
    rng, low_pass_s, lag_s, step_s = np.random.default_rng(1), 0.01375, 0.0035, 2e-4
    powers_w, lengths_s = {"a": 341.0, "b": 444.0, "c": 129.0}, {"a": 0.042, "b": 0.101, "c": 0.1}
    times, at_s = {name: [] for name in powers_w}, 0.3
    for _ in range(60):
        for name, length_s in lengths_s.items():
            end_s = at_s + length_s * rng.uniform(0.99, 1.01)
            times[name].append((round(at_s * 1e9), round(end_s * 1e9)))
            at_s = end_s + 2e-5
    grid_s = np.arange(0, at_s + 0.5, step_s)
    true_w = np.full(len(grid_s), 115.0)
    for name, spans in times.items():
        for start_ns, end_ns in spans:
            true_w[(grid_s >= start_ns / 1e9) & (grid_s < end_ns / 1e9)] = powers_w[name]
    decay = np.exp(-step_s / low_pass_s)
    seen_w = lfilter([1 - decay], [1, -decay], true_w, zi=[115.0 * decay])[0]
    read_s = np.arange(0.007, grid_s[-1], 0.02)
    values_w = np.interp(read_s - lag_s, grid_s, seen_w) + rng.normal(0, 0.5, len(read_s))
    energy_j = float(true_w.sum() * step_s)
    readings = Readings(read_s, values_w, 0.06, 0.02)
    for row in attribute(
        readings, launches(**times), float(grid_s[-1]), energy_j, 0.01 * energy_j, 0
    ).kernels[:-1]:
        (name,) = row.names
        assert row.energy_j / row.time_s == pytest.approx(powers_w[name], rel=0.012)


def test_of_times_that_cannot_be_no_energy_of_a_kernel_follows():
    # A run of a second whose kernels stand for two.
    at_s = np.arange(0.0, 1.0, 0.02)
    readings = Readings(at_s, np.full(len(at_s), 200.0), 0.02, 0.02)
    part = Ranges("part", RangeKind.WINDOW, np.array([0]), np.array([10**9]))
    ran = replace(launches(a=[(0, 2 * 10**9)], b=[(10, 20)]), weight=np.array([1.0, 6.0]))
    found = attribute(readings, ran, 1.0, 200.0, 2.0, 0, [part])
    (row,) = found.kernels
    assert (row.energy_j, row.time_s, row.calls, found.ranges) == (200.0, 1.0, 7, ())
    assert row.method.startswith("the times of kernels add up to 2 s, more than the run")


@pytest.mark.parametrize(
    ("length_s", "why"),
    [(0.1, "run too short for the sensor"), (4.0, "which kernels ran is known for too few")],
)
def test_a_run_that_cannot_be_separated_says_why(length_s, why):
    at_s = np.arange(0.0, length_s, 0.02)
    readings = Readings(at_s, np.full(len(at_s), 200.0), 0.02, 0.02)
    ran = replace(launches(a=[(0, 10**7)], b=[(10**7, 2 * 10**7)]), weight=np.ones(2))
    unseen_ns = [(2 * 10**7, int(length_s * 1e9))]
    (row,) = attribute(readings, ran, length_s, 900.0, 2.0, 0, unseen_ns=unseen_ns, is_counted=False).kernels
    assert row.is_whole
    assert row.method.startswith(why)


def test_where_times_add_up_to_a_little_more_than_the_run_nothing_is_negative():
    at_s = np.arange(0.0, 4.0, 0.02)
    readings = Readings(at_s, 200 + 50.0 * (at_s % 1 > 0.5), 0.02, 0.02)
    halves_ns = [(i * 10**9 // 2, (i + 1) * 10**9 // 2) for i in range(8)]
    ran = launches(a=halves_ns[::2], b=[*halves_ns[1:-1:2], (3_500_000_000, 4_060_000_000)])
    *rows, without = attribute(readings, ran, 4.0, 900.0, 2.0, 0).kernels
    assert without.names == (NO_KERNEL,)
    assert (without.time_s, without.energy_j, without.interval_j) == (0.0, 0.0, (0.0, 0.0))
    assert sum(row.energy_j for row in rows) == pytest.approx(900)


def test_kernels_that_always_run_together_are_not_separated():
    # Turns of 80 us: each reading of 16 ms sees them all in one ratio.
    share, truth = replay(1, merge=2e-5, rounds=2_500)
    groups = [row for row in share.kernels if len(row.names) > 1]
    assert len(groups) == 1
    assert "not separable" in groups[0].method
    low_j, high_j = groups[0].interval_j
    assert low_j <= sum(truth[name] for name in groups[0].names) <= high_j
    # What each takes by time is no measurement, and its interval says so.
    members = groups[0].members
    assert sorted(one.names[0] for one in members) == sorted(groups[0].names)
    assert sum(one.energy_j for one in members) == pytest.approx(groups[0].energy_j)
    assert sum(one.calls for one in members) == groups[0].calls
    for one in members:
        assert "by time" in one.method
        assert one.interval_j[0] <= truth[one.names[0]] <= one.interval_j[1]


@pytest.mark.parametrize("offset_ms", [-8, 15])
def test_clocks_that_disagree_are_found_from_the_readings(offset_ms):
    share, truth = replay(2, offset_ns=offset_ms * 1_000_000)
    for row in share.kernels:
        if row.names != (NO_KERNEL,):
            assert abs(row.energy_j / truth[row.names[0]] - 1) < 0.02


def test_many_names_cost_no_more_than_a_few_looks_at_the_readings_each(monkeypatch):
    # Two hundred names of ten thousand kernels took minutes: each response of the sensor was tried on all.
    rng, interp, looks, names, length_s = np.random.default_rng(0), np.interp, [], 50, 170.0
    length_ns = rng.uniform(20e6, 80e6, 3400).astype(np.int64)
    name, end_ns = rng.integers(0, names, len(length_ns)), np.cumsum(length_ns)
    lane = np.zeros(len(name), dtype=np.int64)
    ran = Launches(tuple(map(str, range(names))), name, end_ns - length_ns, end_ns, ("",), lane)
    busy, at_s = ExposureMatrix(ran, 0), np.arange(0.3, length_s, 0.02)
    shares = (busy.until(at_s) - busy.until(at_s - 0.016)) / 0.016
    values_w = shares @ rng.uniform(200, 600, names) + rng.normal(0, 1, len(at_s))
    energy_j = float(values_w.mean()) * length_s

    def count_looks(at_s, *knots):
        looks.append(np.size(at_s))
        return interp(at_s, *knots)

    monkeypatch.setattr(np, "interp", count_looks)
    attribute(Readings(at_s, values_w, 0.06, 0.02), ran, length_s, energy_j, 0.01 * energy_j, 0)
    assert sum(looks) < 2e6 * names  # 14e6 before


def test_a_pause_is_a_time_in_which_nothing_ran():
    busy = ExposureMatrix(launches(a=[(10**9, 2 * 10**9), (3 * 10**9, 4 * 10**9)], b=[(0, 3 * 10**8)]), 0)
    start_s = np.array([-0.5, -0.5, 0.3, 0.2, 2.0, 2.1, 1.5, 4.0, 3.9])
    end_s = np.array([-0.1, 0.1, 1.0, 0.9, 3.0, 3.1, 1.7, 9.0, 9.0])
    assert busy.is_pause(start_s, end_s).tolist() == [1, 0, 1, 0, 1, 0, 0, 1, 0]


def test_energy_of_lost_kernels_goes_to_no_kernel():
    share, truth = replay(3, kept=lambda _i, name: name != "c")
    idle = next(row for row in share.kernels if row.names == (NO_KERNEL,))
    assert idle.energy_j > 0.97 * truth["c"]


def test_kernels_at_the_same_time_share_it():
    busy = ExposureMatrix(launches(a=[(0, 4_000_000_000)], b=[(1_000_000_000, 3_000_000_000)]), 0)
    at_s = np.array([0.5, 1.0, 2.0, 3.0, 10.0])
    assert busy.until(at_s)[:, 0] == pytest.approx([0.5, 1.0, 1.5, 2.0, 3.0])
    assert busy.until(at_s)[:, 1] == pytest.approx([0, 0, 0.5, 1.0, 1.0])
    assert busy.within(np.zeros(2), np.array([1.0, 2.0])) == pytest.approx([2.5, 0.5])


def some_at_once(count):
    """Return kernels of three names, of which some run at the same time."""
    rng = np.random.default_rng(2)
    start_ns = np.sort(rng.integers(0, 10**10, count))
    end_ns = start_ns + rng.integers(10, 3 * 10**10 // count, count)
    return join_launches([(name, start_ns[i::3], end_ns[i::3], "") for i, name in enumerate("abc")])


def test_kernels_in_pieces_give_the_times_of_kernels_in_one(monkeypatch):
    ran, at_s = some_at_once(2000), np.linspace(-1, 12, 500)
    whole = ExposureMatrix(ran, 0)
    monkeypatch.setattr("ptxbench.attribute.launches.PIECE", 7)
    pieces = ExposureMatrix(ran, 0)
    assert pieces.by_name_s == pytest.approx(whole.by_name_s, rel=1e-12)
    assert pieces.until(at_s) == pytest.approx(whole.until(at_s), abs=1e-9)
    # Where some kernel runs, all of the time is some name's.
    assert whole.by_name_s.sum() == pytest.approx(whole.until(np.array([20.0])).sum())


def test_kernels_back_to_back_take_no_memory_for_the_time_that_they_share():
    edges_ns = np.arange(0, 10**9, 10**5)
    ran = join_launches([(name, edges_ns[i:-1:2], edges_ns[i + 1 :: 2], "") for i, name in enumerate("ab")])
    busy = ExposureMatrix(ran, 0)
    assert busy._sharing is None
    assert busy.by_name_s == pytest.approx([0.5, 0.5], rel=1e-3)


@pytest.mark.parametrize(("most", "off_s"), [(1000, 0.05), (100, 0.3)])
def test_of_too_many_moments_some_are_left_out_but_no_time(monkeypatch, most, off_s):
    ran, at_s = some_at_once(2000), np.linspace(0, 10, 500)
    whole = ExposureMatrix(ran, 0)
    monkeypatch.setattr("ptxbench.attribute.exposure._MOST_KNOTS", most)
    thinned = ExposureMatrix(ran, 0)
    assert thinned.by_name_s == pytest.approx(whole.by_name_s, rel=1e-12)
    assert thinned.until(np.array([20.0]))[0] == pytest.approx(whole.by_name_s)
    difference_s = np.abs(thinned.until(at_s) - whole.until(at_s))
    assert 0 < difference_s.max() < off_s


def test_one_thread_works_out_what_ran(monkeypatch):
    threads = []

    def spy(*words, **more):
        threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return attribute(*words, **more)

    monkeypatch.setattr("ptxbench.attribute.program.attribute", spy)
    with threadpool_limits(2, user_api="blas"):
        replay(0, rounds=5)
    assert set(threads) == {1}


def test_kernels_that_are_seen_in_turns_keep_their_energy():
    whole, _ = replay(4)
    turns = []
    share, truth = replay(4, kept=lambda i, _name: i % 10 < 4, turns=turns)
    assert len(turns) == 25
    for row in share.kernels:
        if row.names != (NO_KERNEL,):
            assert row.calls == pytest.approx(250, rel=0.05)
            assert row.energy_j == pytest.approx(truth[row.names[0]], rel=0.1)
            seen_always = next(one for one in whole.kernels if one.names == row.names)
            power_w = seen_always.energy_j / seen_always.time_s
            assert row.energy_j / row.time_s == pytest.approx(power_w, rel=0.03)


def test_the_time_of_kernels_that_were_not_seen_is_within_its_interval(tmp_path):
    # The mix of kernels differs from turn to turn; launches are twice as fast while they are not seen.
    length_ns, inside = np.array([1500, 2500, 800]), []
    for seed in range(30):
        rng, at_ns, launched = np.random.default_rng(seed), 10, 0
        truth_s, calls, rows, said = np.zeros(3), 0, [], ["cupti 1", "name 0 a", "name 1 b", "name 2 c"]
        for turn in range(23):
            count, step_ns = (500, 6000) if turn % 2 == 0 else (int(500 * rng.uniform(1, 6)), 3000)
            name = rng.choice(3, count, p=rng.dirichlet([20, 20, 10]))
            start_ns = at_ns + step_ns * np.arange(count)
            rows += [(at, at + length_ns[which], which, 0, 0, 0)
                     for at, which in zip(start_ns, name, strict=True) if turn % 2 == 0]  # fmt: skip
            truth_s += np.bincount(name, length_ns[name], 3) / 1e9
            at_ns, launched, calls = at_ns + step_ns * count, launched + count, calls + count
            said.append(f"{'on' if turn % 2 else 'off' if turn < 22 else 'end'} {at_ns} {launched}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "1-1.txt").write_text("\n".join(said) + "\n")
        (folder / "1-1.bin").write_bytes(np.array(rows, dtype="<u8,<u8,<u4,<u4,<u4,<u4").tobytes())
        log = read_launches(folder)
        busy = ExposureMatrix(log.by_gpu[""], 0, log.unseen_ns)
        assert busy.calls.sum() == pytest.approx(calls, rel=1e-4)
        # A range that holds all has all of it.
        assert busy.until(np.array([at_ns / 1e9]))[0] == pytest.approx(busy.by_name_s)
        order = [log.by_gpu[""].names.index(text) for text in "abc"]
        inside += (np.abs(busy.by_name_s[order] - truth_s) < 1.96 * busy.error_s[order]).tolist()
    assert np.mean(inside) >= 0.92


def test_readings_between_turns_that_saw_the_same_kernels_count():
    # 100 ms of each 2 s are looked at; a program runs the one kernel for a minute, then the other.
    begin_s = np.concatenate([turn + np.arange(0, 0.1, 1e-4) for turn in np.arange(0.0, 120, 2)])
    name = (begin_s >= 60).astype(np.int64)
    start_ns = np.rint(begin_s * 1e9).astype(np.int64)
    # As many launches unseen as in 19 turns; each stands for those before and behind its turn.
    lane, weight = np.zeros(len(name), dtype=np.int64), np.where(begin_s < 0.1, 10.5, 20.0)
    weight[begin_s > 118] += 9.5
    ran = Launches(("a", "b"), name, start_ns, start_ns + 98_000, ("",), lane, weight)
    unseen_ns = [(turn * 10**9 + 10**8, turn * 10**9 + 2 * 10**9) for turn in range(0, 120, 2)]
    busy = ExposureMatrix(ran, 0, unseen_ns)
    busy.set_columns([(0,), (1,)])
    # Only where the one came behind the other, and at the end, it is not known which ran.
    assert busy.unknown_until(np.array([58.1, 60, 118.1, 120])) == pytest.approx([0, 1.9, 1.9, 3.8])
    # What was not seen is where it was.
    assert busy.within(np.array([10.0]), np.array([20.0])) == pytest.approx([9.8, 0], rel=0.05)
    at_s = np.arange(0.1, 120, 0.02)
    power_w = np.where(at_s > 60, 400.0, 200.0) + np.random.default_rng(0).normal(0, 1, len(at_s))
    readings = Readings(at_s, power_w, 0.01, 0.02)
    *kernels, _idle = attribute(readings, ran, 120, 36_000, 7, 0, unseen_ns=unseen_ns).kernels
    assert [one.names for one in kernels] == [("b",), ("a",)]
    assert [one.energy_j for one in kernels] == pytest.approx([58.8 * 400, 58.8 * 200], rel=0.05)


def test_a_turn_stands_for_the_times_beside_it_by_their_lengths():
    # Looked at from 0 to 1, 2 to 3 and 6 to 7; the kernel of the second turn stands for 4 s beside its own.
    start_ns = np.array([0, 2, 6], dtype=np.int64) * 10**9
    only, weight = np.zeros(3, dtype=np.int64), np.array([1.0, 5.0, 1.0])
    ran = Launches(("a",), only, start_ns, start_ns + 10**9, ("",), only, weight)
    busy = ExposureMatrix(ran, 0, [(10**9, 2 * 10**9), (3 * 10**9, 6 * 10**9)])
    assert busy.by_name_s == pytest.approx([7])
    assert busy.within(np.array([1.0]), np.array([2.0])) == pytest.approx([1])
    assert busy.within(np.array([3.0]), np.array([6.0])) == pytest.approx([3])


def write_log(folder, said, rows):
    """Write what a process wrote: its lines, and begin, end, name, device, stream and whether in a graph."""
    (folder / "1-1.txt").write_text("\n".join(["cupti 1", "name 0 a", "name 1 b", *said]) + "\n")
    (folder / "1-1.bin").write_bytes(np.array(rows, dtype="<u8,<u8,<u4,<u4,<u4,<u4").tobytes())
    return read_launches(folder)


def test_kernels_of_graphs_stand_for_graphs_and_others_for_launches_one_by_one(tmp_path):
    rows = [(10 * i, 10 * i + 5, 0, 0, 0, 1) for i in range(8)] + [(90, 95, 1, 0, 0, 0)]
    rows += [(210 + 10 * i, 215 + 10 * i, 0, 0, 0, 1) for i in range(8)]
    # Two graphs of four kernels and a launch, six graphs that were not seen, two graphs more.
    log = write_log(tmp_path, ["off 100 1 2", "on 200 1 8", "end 300 1 10"], rows)
    ran = log.by_gpu[""]
    assert log.is_counted
    calls = dict(zip(ran.names, np.bincount(ran.name, ran.weight), strict=True))
    assert calls == {"a": pytest.approx(10 * 4), "b": 1}


def test_seen_kernels_stand_for_those_that_were_lost(tmp_path):
    # As where two threads ran ahead on an H100: what was launched to be seen ran when nothing was looked at.
    rows = [(10 * i, 10 * i + 5, 0, 0, 0, 1) for i in range(6)]
    rows += [(200 + 10 * i, 205 + 10 * i, 0, 0, 0, 1) for i in range(9)]
    log = write_log(tmp_path, ["off 100 0 10", "dropped 5", "on 200 0 100", "end 300 0 110"], rows)
    assert log.dropped == 5
    assert log.by_gpu[""].weight.sum() == pytest.approx(110)


def test_what_another_thread_launched_while_two_graphs_were_made_is_counted(tmp_path):
    # Nothing is launched between the two.
    rows = [(10 * i, 10 * i + 5, 0, 0, 0, 0) for i in range(10)]
    rows += [(300 + 10 * i, 305 + 10 * i, 0, 0, 0, 0) for i in range(10)]
    turns = ["off 100 10 0", "on 200 15 0", "off 201 15 0", "on 299 20 0", "end 400 30 0"]
    log = write_log(tmp_path, turns, rows)
    assert log.is_counted
    assert log.by_gpu[""].weight.sum() == pytest.approx(30)


def test_what_a_process_launched_until_it_was_killed_is_counted(tmp_path):
    rows = [(10 * i, 10 * i + 5, 0, 0, 0, 0) for i in range(10)]
    write_log(tmp_path, ["off 100 10 0", "at 200 20 0", "at 300 35 0"], rows)
    log = read_launches(tmp_path, 10**12)
    assert log.is_counted
    assert log.by_gpu[""].weight.sum() == pytest.approx(35)
    # It ended long before the command.
    assert log.unseen_ns[-1][1] <= 300
    # Until 250 it is not known of what came behind 200.
    assert not read_launches(tmp_path, 250).is_counted


def test_kernels_that_a_host_launched_ahead_are_seen_after_the_turn(tmp_path):
    # What was launched until 100 runs until 140, and what was launched until 200 until 230.
    rows = [(10 * i, 10 * i + 10, 0, 0, 0, 0) for i in range(14)] + [(230, 240, 0, 0, 0, 0)]
    log = write_log(tmp_path, ["off 100 14 0", "on 200 23 0", "end 250 24 0"], rows)
    assert log.unseen_ns == ((140, 230),)
    assert log.by_gpu[""].weight.sum() == pytest.approx(24)


def test_kernels_that_have_the_times_of_their_whole_graph_are_said(tmp_path):
    turns = ["off 100 1 0", "on 200 5 0", "end 2000 6 0"]
    (tmp_path / "whole").mkdir()
    (tmp_path / "each").mkdir()
    whole = [(300, 900, i % 2, 0, 0, 1) for i in range(20)] + [
        (1000, 1600, i % 2, 0, 0, 1) for i in range(20)
    ]
    log = write_log(tmp_path / "whole", turns, whole)
    assert "the times of their whole graph" in log.remarks[0]
    # No energy follows from them.
    assert (log.by_gpu, log.unseen_ns) == ({}, ())
    each = [(300 + 30 * i, 330 + 30 * i, i % 2, 0, 0, 1) for i in range(40)]
    assert write_log(tmp_path / "each", turns, each).remarks == ()


@pytest.mark.parametrize(("step_ns", "is_said"), [(100_000, True), (300_000, False)])
def test_many_kernels_of_graphs_may_have_slowed_the_host(tmp_path, step_ns, is_said):
    rows = [(step_ns * i, step_ns * i + 900, 0, 0, 0, 1) for i in range(12_000)]
    log = write_log(tmp_path, ["end 9000000000 0 9"], rows)
    assert any("slowed a host that waits for each graph" in remark for remark in log.remarks) == is_said


def test_a_turn_in_which_nothing_was_launched_is_no_time_unseen(tmp_path):
    log = write_log(tmp_path, ["off 100 1 0", "on 200 1 0", "end 300 2 0"], [(10, 20, 0, 0, 0, 0)])
    assert log.unseen_ns == ()
    assert log.is_counted


def test_a_time_unseen_is_no_pause(tmp_path):
    ran = launches(a=[(0, 10**8), (3 * 10**8, 4 * 10**8)])
    assert len(busy_spans(ran)) == 2
    assert [(one.start_ns, one.end_ns) for one in busy_spans(ran, [(10**8, 3 * 10**8)])] == [(0, 4 * 10**8)]
    assert ExposureMatrix(ran, 0).is_pause(np.array([0.15]), np.array([0.25])).all()
    assert not ExposureMatrix(ran, 0, [(10**8, 3 * 10**8)]).is_pause(np.array([0.15]), np.array([0.25])).any()


def test_a_killed_process_that_was_not_looked_at_is_said_to_be_unseen(tmp_path):
    (tmp_path / "1-1.txt").write_text("cupti 1\noff 50 7\n")
    log = read_launches(tmp_path, 80)
    assert log.unseen_ns == ((50, 80),)
    assert not log.is_counted


def test_a_run_of_a_moment_is_one_row():
    few = Readings(np.array([0.01, 0.03]), np.array([100.0, 100.0]), 0.02, 0.02)
    (row,) = attribute(few, launches(a=[(0, 1000)], b=[(2000, 3000)]), 0.05, 5.0, 1.0, 0).kernels
    assert row.names == ("a", "b", NO_KERNEL)
    assert row.interval_j == (4.0, 6.0)
    assert "too short" in row.method


def test_a_program_that_repeats_itself_exactly_keeps_its_intervals():
    # Steps of 300 kernels of 40 names: another lag or window explains such readings nearly as well.
    inside = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        name = np.tile(rng.integers(0, 40, 300), 400)
        length_ns = rng.exponential(40_000, 40)[name] + 5_000
        end_ns = np.cumsum(length_ns + 3_000)
        spans_ns = (side.astype(np.int64) for side in (end_ns - length_ns, end_ns))
        ran = Launches(
            tuple(map(str, range(40))), name, *spans_ns, ("",), np.zeros(len(name), dtype=np.int64)
        )
        busy, length_s = ExposureMatrix(ran, 0), float(end_ns[-1]) / 1e9
        at_s = np.arange(0.1, length_s, 0.02)
        power_w = rng.uniform(200, 600, 40)
        shares = (busy.until(at_s) - busy.until(at_s - 0.016)) / 0.016
        values = shares @ power_w + 100 * (1 - shares.sum(axis=1)) + rng.normal(0, 0.5, len(at_s))
        energy_j = float(busy.by_name_s @ power_w + 100 * (length_s - busy.by_name_s.sum()))
        rows = attribute(Readings(at_s, values, 0.06, 0.02), ran, length_s, energy_j, 0.002 * energy_j, 0)
        for row in rows.kernels:
            if row.names == (NO_KERNEL,):
                continue
            names = [int(text) for text in row.names]
            true_j = float(busy.by_name_s[names] @ power_w[names])
            inside.append(row.interval_j[0] <= true_j <= row.interval_j[1])
    assert len(inside) >= 3
    assert np.mean(inside) >= 0.85


def test_what_is_mixed_up_is_told_together_and_what_merely_scatters_is_not():
    rng = np.random.default_rng(3)
    swap, noise = rng.normal(size=(2, 4000))
    known = 500 + rng.normal(size=4000)
    # A large kernel goes a little with the swap; only the other of the pair loses what one gains.
    draws_j = np.stack([100 + 40 * swap, known, 100 - 30 * swap, 5000 - 60 * swap + 200 * noise], axis=1)
    assert sorted(map(sorted, grouped(draws_j))) == [[0, 2], [1], [3]]
    assert grouped(np.stack([known, known], axis=1)) == [[0], [1]]


@pytest.mark.parametrize(("weight", "added_s"), [(3.0, 0.4), (10.0, 1.0)])
def test_launches_stand_for_others_up_to_all_of_the_time_that_was_not_looked_at(weight, added_s):
    ran = launches(a=[(0, 100_000_000), (200_000_000, 300_000_000)])
    weighted = replace(ran, weight=np.full(2, weight))
    unseen = UnseenTime(weighted, np.full(2, 0.1), 0, [(400_000_000, 1_400_000_000)], is_counted=True)
    assert unseen.by_name_s.tolist() == pytest.approx([added_s])
