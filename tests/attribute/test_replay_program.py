"""The rows of a program whose kernels were launched again: on a simulated board, beside the truth."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.browser import data_of
from fakes.loads import LoadedGpu

from ptxbench.api.board import open_boards
from ptxbench.attribute.attribution import BY_REPLAY, BY_TIME
from ptxbench.attribute.expected import WHOLE_GRAPH, replayed_powers
from ptxbench.attribute.launches import Launches, LaunchLog, join_launches
from ptxbench.attribute.page import program_page
from ptxbench.attribute.powers import Expected
from ptxbench.attribute.program import energy_of, recorded_board, recording
from ptxbench.attribute.recorded import (
    RecordedBoard,
    RecordedProgram,
    keep,
    load,
    log_facts,
    program_manifest,
)
from ptxbench.attribute.replay.of_program import _stretches, program_profiles
from ptxbench.attribute.replay.program_log import (
    ENDING,
    NOTHING_TO_DO,
    SLEEPING,
    ProcessReplay,
    ProgramKind,
    ReplayWindow,
    read_replay,
)
from ptxbench.attribute.report import document, lines
from ptxbench.attribute.stacks import program_stacks
from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.devices.step import NodeType, StepNode
from ptxbench.sensors.trace import KernelWindow

LANE = "process 7, stream 1"
GAP_S = 2e-6
# Names, launches a step, time of a launch, and what it adds to the power of an idle board.
KERNELS = (("gemm", 4, 60e-6, 330.0), ("norm", 8, 10e-6, 90.0), ("shared", 2, 40e-6, 200.0))
STEPS = 8_000
SLEEP_W, NOTHING_W = 4.0, 15.0
NOTHING_S = 1.5e-6
# What this kernel changes of what it reads is written back before each launch of it.
CHANGING, UNDO_S, UNDO_W = "norm", 6e-6, 260.0


def program(refused="", seen_factor=1.0, wrong_w=0.0, share_before=1.0, rested=""):
    """Return a run of steps and what was launched again, and the true energy of each kernel and of the steps.

    Args:
        refused: A kernel that was not launched again.
        seen_factor: How much longer the launches took in the program than they do again.
        wrong_w: What the launches again draw more.
        share_before: Share of the program that comes before the replay.
        rested: A kernel that gets idle time.
    """
    made = LoadedGpu()
    (board,) = open_boards(made.gpu)
    clock = board.clock
    # What one step adds to an idle board.
    step_s = sum(n * (time_s + GAP_S) for _, n, time_s, _ in KERNELS)
    step_w = sum(n * time_s * watts for _, n, time_s, watts in KERNELS) / step_s
    windows, undos = [], []

    def window(kind, launch_s, power_w, undone=0, to=windows, sleeps=0):
        launches, start_ns = 128, clock.now_ns()
        made.load(0.8, power_w)
        times = round(0.8 / (launches * launch_s))
        to.append(ReplayWindow(kind, "", start_ns, clock.now_ns(), times, launches, undone, sleeps))

    with recording([board]) as recordings:
        made.gpu.sleep(1.0)
        start_ns, before_j = clock.now_ns(), made.energy_j()
        made.load(share_before * STEPS * step_s, step_w)
        begin_ns, whole_j = clock.now_ns(), made.energy_j() - before_j
        static_w = whole_j / (share_before * STEPS * step_s) - step_w
        window(SLEEPING, 20e-6, SLEEP_W)
        window(NOTHING_TO_DO, NOTHING_S, NOTHING_W)
        for number, (name, _, time_s, watts) in enumerate(KERNELS):
            if name == CHANGING:
                window(number, UNDO_S, UNDO_W, to=undos)
                both_s = time_s + UNDO_S
                both_w = (time_s * (watts + wrong_w) + UNDO_S * UNDO_W) / both_s
                window(number, both_s, both_w, 128)
            elif name == rested:
                # As long asleep as at work, behind an attempt without that the limit slowed down.
                window(number, 1.2 * time_s, 0.9 * watts)
                window(number, 2 * time_s, (watts + SLEEP_W) / 2, sleeps=round(128 * time_s / 20e-6))
            elif name != refused:
                window(number, time_s, watts + wrong_w)
        end_ns = replayed_ns = clock.now_ns()
        if share_before < 1:
            before_j = made.energy_j()
            made.load((1 - share_before) * STEPS * step_s, step_w)
            end_ns, whole_j = clock.now_ns(), whole_j + made.energy_j() - before_j
        made.gpu.sleep(1.0)
    drawn = recorded_board(recordings[0])
    kinds = tuple(
        ProgramKind(
            number,
            "",
            StepNode(NodeType.KERNEL, name, number, (number + 1, 1, 1), (128, 1, 1)),
            STEPS * n,
            STEPS * n,
            STEPS * n * time_s * seen_factor,
            "it works on managed memory" if name == refused else "",
        )
        for number, (name, n, time_s, _) in enumerate(KERNELS)
    )
    launches = _launches(start_ns)
    behind_ns = np.where(launches.start_ns >= begin_ns, replayed_ns - begin_ns, 0)
    if share_before == 1:
        end_ns, behind_ns = begin_ns, np.zeros_like(behind_ns)
    launches = replace(launches, start_ns=launches.start_ns + behind_ns, end_ns=launches.end_ns + behind_ns)
    again = ProcessReplay("7", begin_ns, replayed_ns, kinds, tuple(windows), tuple(undos))
    log = LaunchLog({"": launches}, 1, replays=(again,))
    manifest = program_manifest(["p"], 0, (start_ns, end_ns), [drawn.facts], log, is_simulated=True)
    truths = {name: STEPS * n * time_s * (watts + static_w) for name, n, time_s, watts in KERNELS}
    return RecordedProgram(manifest, (drawn,), log), truths, whole_j


def _launches(origin_ns):
    """The kernels of all steps, one after the other."""
    length = np.array([time_s for _, n, time_s, _ in KERNELS for _ in range(n)])
    names = [name for name, n, *_ in KERNELS for _ in range(n)]
    begins = np.concatenate([[0.0], np.cumsum(length + GAP_S)])
    step_s = begins[-1]
    parts = []
    for i, name in enumerate(names):
        start_ns = origin_ns + np.round((begins[i] + step_s * np.arange(STEPS)) * 1e9).astype(np.int64)
        parts.append((name, start_ns, start_ns + round(length[i] * 1e9), LANE))
    return join_launches(parts)


def test_a_kind_is_read_with_all_that_its_launch_was_given(tmp_path):
    file = tmp_path / "7-0.txt"
    file.with_suffix(ENDING).write_text("begin 5\nkind 3 1 2 700 4 5 6 32 2 1 48 8 9 10 1 0 -2\n")
    (kind,) = read_replay(file, {1: "gemm"}, {2: "GPU-a"}).kinds
    node = StepNode(
        *(NodeType.KERNEL, "gemm", 3, (4, 5, 6), (32, 2, 1), 48, (8, 9, 10)),
        **{"is_cooperative": True, "is_programmatic": False, "priority": -2},
    )
    assert (kind.node, kind.gpu, kind.calls) == (node, "GPU-a", 700)


def profile(recorded):
    (found,) = program_profiles(recorded, energy_of(recorded))
    return found


def without_kernels(recorded):
    """Return what was launched again, where the readings of the run tell no kernels apart."""
    blind = replace(recorded, log=replace(recorded.log, by_gpu={}))
    (found,) = program_profiles(recorded, energy_of(blind))
    return found


@pytest.fixture(scope="module")
def whole():
    return program()


def test_every_kind_has_its_energy_and_they_add_up_to_the_program(whole):
    recorded, truths, whole_j = whole
    found = profile(recorded)
    rows = {row.name: row for row in found.rows if row.kind}
    assert set(rows) == set(truths)
    for (name, calls, time_s, _), truth_j in zip(KERNELS, truths.values(), strict=True):
        assert rows[name].status is Status.OK
        assert rows[name].energy_j == pytest.approx(truth_j, rel=0.02)
        assert rows[name].calls == STEPS * calls
        assert rows[name].launch_s == pytest.approx(time_s, rel=0.01)
        low_j, high_j = rows[name].interval_j
        assert low_j < rows[name].energy_j < high_j
    assert abs(found.step.energy_j - whole_j) < found.step.half_j < 0.02 * whole_j
    assert found.is_closed
    assert found.closure == pytest.approx(1.0, abs=0.03)
    assert found.is_simulated
    # The process did not tell whether its memory is as it was.
    assert found.changed_bytes == -1
    (gaps,) = [row for row in found.rows if row.kind is None]
    assert gaps.status is Status.OK
    assert gaps.time_s == pytest.approx(STEPS * GAP_S * 14, rel=0.1)


@pytest.fixture(scope="module")
def replayed(whole):
    """The energy of the program by its readings, and what was launched again."""
    energy = energy_of(whole[0])
    return energy, program_profiles(whole[0], energy)


def test_an_earlier_replay_splits_what_the_readings_cannot_tell_apart(whole, replayed):
    recorded, truths, _ = whole
    energy, profiles = replayed
    expected = replayed_powers(recorded, profiles)
    del expected["shared"]
    split = energy_of(recorded, expected)
    (by_time, _), (group, _) = (one.gpus[0].kernels for one in (energy, split))
    # It is no prior: the sum stays as the readings have it.
    assert (group.names, group.energy_j) == (by_time.names, by_time.energy_j)
    assert sum(one.energy_j for one in group.members) == pytest.approx(group.energy_j)
    plain = {one.names[0]: one.interval_j for one in by_time.members}
    for one in group.members:
        (name,) = one.names
        low_j, high_j = one.interval_j
        assert low_j < truths[name] < high_j
        assert one.energy_j == pytest.approx(truths[name], rel=0.05)
        assert one.method == (BY_TIME if name == "shared" else BY_REPLAY)
        assert high_j - low_j < 0.5 * (plain[name][1] - plain[name][0])
    assert any("by time and what they drew in the earlier replay" in line for line in lines(split))


def in_graphs(recorded, name, **more):
    """Return the run with each step as one launch of a graph."""
    launches = recorded.log.by_gpu[""]
    steps = len(launches) // STEPS
    start_ns, end_ns = launches.start_ns[::steps], launches.end_ns[steps - 1 :: steps]
    only = np.zeros(STEPS, dtype=np.int64)
    graphs = Launches((name,), only, start_ns, end_ns, (LANE,), only)
    log = replace(recorded.log, by_gpu={"": graphs}, **more)
    part = replace(recorded.facts, **log_facts(log))
    return replace(recorded, log=log, manifest=replace(recorded.manifest, part=part))


def test_an_earlier_replay_splits_a_graph_that_is_one_row(whole, replayed):
    recorded, truths, _ = whole
    # As by events.
    by_events = in_graphs(recorded, WHOLE_GRAPH)
    energy = energy_of(by_events, replayed_powers(recorded, replayed[1]))
    (graph, _) = energy.gpus[0].kernels
    assert graph.names == (WHOLE_GRAPH,)
    assert sum(one.energy_j for one in graph.members) == pytest.approx(graph.energy_j)
    for one in graph.members:
        (name,) = one.names
        low_j, high_j = one.interval_j
        assert low_j < truths[name] < high_j
        assert high_j - low_j < 0.4 * one.energy_j
        # How often it runs in a graph is not known.
        assert (one.method, one.calls) == (BY_REPLAY, None)
    assert {one["calls"] for one in document(energy)["kernels"][0]["members"]} == {None}
    assert not any("None" in line for line in lines(energy))
    row = data_of(program_page(by_events, energy))["sections"][0]["tables"][0]["rows"][0]
    assert (row["short"], {one["method"] for one in row["members"]}) == (WHOLE_GRAPH, {BY_REPLAY})
    frames = [one.frames for one in program_stacks(by_events, energy).stacks]
    assert (energy.gpus[0].energy.gpu, WHOLE_GRAPH, "gemm") in frames


def test_the_command_takes_an_earlier_replay(whole, tmp_path, capfd):
    plain = replace(whole[0].manifest, part=replace(whole[0].manifest.part, replays=()))
    for name, manifest in (("replayed", whole[0].manifest), ("plain", plain)):
        (tmp_path / name).mkdir()
        keep(replace(whole[0], manifest=manifest), tmp_path / name)
    words = ["run", "--from", str(tmp_path / "plain"), "--json", "--replayed"]
    assert run([*words, str(tmp_path / "replayed")]) == 0
    row = json.loads(capfd.readouterr().out)["kernels"][0]
    assert {one["method"] for one in row["members"]} == {BY_REPLAY}
    assert run([*words, str(tmp_path / "plain")]) == 2
    assert "nothing was launched again in" in capfd.readouterr().err


def test_a_run_keeps_its_report_where_a_replay_is_refused(whole, tmp_path, monkeypatch, capfd):
    def refuse(*_):
        raise InputError("`replayed` is of another GPU")

    (tmp_path / "kept").mkdir()
    keep(whole[0], tmp_path / "kept")
    monkeypatch.setattr("ptxbench.attribute.expected.replayed_powers", refuse)
    assert run(["run", "--from", str(tmp_path / "kept"), "--out", str(tmp_path / "out")]) == 2
    assert "is of another GPU" in capfd.readouterr().err
    assert json.loads((tmp_path / "out" / "energy.json").read_text())["gpus"]


def test_a_replay_of_another_gpu_is_refused(whole, replayed):
    recorded, _, _ = whole
    profiles = [replace(one, gpu="NVIDIA A100") for one in replayed[1]]
    part = replace(recorded.manifest.part, is_simulated=False)
    real = replace(recorded, manifest=replace(recorded.manifest, part=part))
    with pytest.raises(InputError, match="`replayed` is of NVIDIA A100"):
        replayed_powers(real, profiles)


def test_a_replay_amid_the_program_is_no_part_of_it(whole):
    recorded, truths, whole_j = program(share_before=0.5)
    plain = energy_of(whole[0])
    found = energy_of(recorded)
    assert found.time_s == pytest.approx(plain.time_s, rel=1e-3)
    assert found.energy_j == pytest.approx(whole_j, rel=0.02)
    ours = profile(recorded)
    assert ours.is_closed
    for row in ours.rows:
        if row.kind:
            assert row.energy_j == pytest.approx(truths[row.name], rel=0.02)
    assert "nan" not in program_page(recorded, found).lower()


def test_of_a_long_launch_the_time_in_the_program_counts(monkeypatch):
    recorded, truths, _ = program(seen_factor=1.1)
    alone = {row.name: row for row in profile(recorded).rows}
    monkeypatch.setattr("ptxbench.attribute.replay.of_program._LONG_S", 1e-6)
    for row in profile(recorded).rows:
        if row.kind:
            assert row.power_w == pytest.approx(alone[row.name].power_w)
            assert row.time_s == pytest.approx(1.1 * alone[row.name].time_s, rel=0.01)
            assert row.energy_j == pytest.approx(1.1 * truths[row.name], rel=0.03)


def test_a_kind_that_was_not_launched_again_keeps_what_the_readings_tell():
    recorded, truths, _ = program(refused="shared")
    found = profile(recorded)
    row = next(row for row in found.rows if row.name == "shared")
    assert row.status is Status.IMPRECISE
    assert "not launched again: it works on managed memory" in row.reason
    # By time among kernels that the readings cannot tell apart: within its interval, not near.
    low_j, high_j = row.interval_j
    assert low_j < truths["shared"] < high_j
    others = [row for row in found.rows if row.kind and row.name != "shared"]
    assert all(row.energy_j == pytest.approx(truths[row.name], rel=0.02) for row in others)
    # One that was not come to, as an assertion of another ended its context, says so.
    (ours,) = recorded.facts.replays
    *kinds, shared = (replace(one, refused="") for one in ours.kinds)
    # Three quarters of its launches are of one kind, the others of another.
    parts = (replace(shared, calls=3 * shared.calls // 4), replace(shared, number=9, calls=shared.calls // 4))
    ended = replace(ours, kinds=(*kinds, *parts), stopped=("CUDA error 710 ended its context",))
    part = replace(recorded.facts, replays=(ended,))
    found = profile(replace(recorded, manifest=replace(recorded.manifest, part=part)))
    most, least = (one for one in found.rows if one.name == "shared")
    assert (most.energy_j, least.energy_j) == pytest.approx((0.75 * row.energy_j, 0.25 * row.energy_j))
    assert most.half_j == pytest.approx(3 * least.half_j)
    assert most.reason.endswith("not launched again: before it CUDA error 710 ended its context")


def test_without_readings_of_it_the_row_has_no_number_and_its_reason():
    recorded, _, _ = program(refused="shared")
    found = without_kernels(recorded)
    row = next(row for row in found.rows if row.name == "shared")
    assert math.isnan(row.energy_j)
    assert row.status is Status.NOT_REACHED


def test_rows_that_do_not_add_up_are_estimates():
    recorded, _, _ = program(wrong_w=60.0)
    found = without_kernels(recorded)
    assert not found.is_closed
    assert {row.status for row in found.rows if row.kind} == {Status.IMPRECISE}
    assert any("of the program: they are estimates" in note for note in found.notes)


def test_idle_time_between_launches_is_taken_off():
    recorded, truths, _ = program(rested="gemm")
    (row,) = [row for row in without_kernels(recorded).rows if row.name == "gemm"]
    assert row.energy_j == pytest.approx(truths["gemm"], rel=0.02)
    assert row.launch_s == pytest.approx(60e-6, rel=0.02)
    assert row.idle_share == pytest.approx(0.5, abs=0.01)
    assert row.status is Status.OK


def test_launches_that_end_early_when_they_are_made_again_are_said():
    recorded, _, _ = program(seen_factor=4.0)
    found = without_kernels(recorded)
    (row,) = [row for row in found.rows if row.name == "gemm"]
    assert row.status is Status.IMPRECISE
    assert "when launched again" in row.reason


def test_launches_that_take_longer_by_themselves_are_said():
    recorded, _, _ = program(seen_factor=0.4)
    (row,) = [row for row in without_kernels(recorded).rows if row.name == "gemm"]
    assert row.status is Status.IMPRECISE
    assert "a launch by itself takes 60" in row.reason


def test_times_of_work_are_few_and_have_short_pauses_in_them():
    def spans(*edges_s):
        return tuple(KernelWindow(round(a * 1e9), round(b * 1e9), b - a) for a, b in edges_s)

    assert _stretches(()) == ()
    assert _stretches(spans((0, 1), (1.5, 2), (4, 5))) == spans((0, 2), (4, 5))
    # Of a hundred pauses, each longer than the one before, the longest part times of work.
    begins = np.cumsum(2.0 + 0.01 * np.arange(100))
    found = _stretches(spans(*((begin, begin + 0.5) for begin in begins)))
    assert len(found) == 40
    assert (found[0].start_ns, found[-1].end_ns) == (round(begins[0] * 1e9), round((begins[-1] + 0.5) * 1e9))


def test_where_the_energy_of_the_program_is_not_known_there_is_no_profile(whole):
    recorded, _, _ = whole
    (board,) = recorded.boards
    deaf = RecordedBoard(board.facts, tuple(replace(one, code=one.code + 999) for one in board.series()))
    blind = replace(recorded, boards=(deaf,), log=replace(recorded.log, by_gpu={}))
    assert program_profiles(blind, energy_of(blind)) == ()


def test_what_a_table_expects_is_within_a_kernel_in_stacks_and_page(whole, replayed):
    recorded, _, _ = whole
    energy, profiles = replayed
    expected = {"gemm": Expected(400.0, 20.0, parts={"tensor core": 0.75, "DRAM": 0.25})}
    stacks = program_stacks(recorded, energy, profiles, expected).stacks
    plain_j = {one.frames[-1]: one.energy_j for one in program_stacks(recorded, energy, profiles).stacks}
    parts_j = {one.frames[-1]: one.energy_j for one in stacks}
    assert parts_j["~ tensor core"] == pytest.approx(0.75 * plain_j["gemm, 1 x 128"])
    assert parts_j["~ DRAM"] == pytest.approx(0.25 * plain_j["gemm, 1 x 128"])
    assert parts_j["norm, 2 x 128"] == plain_j["norm, 2 x 128"]
    (gpu,) = data_of(program_page(recorded, energy, profiles, expected))["tree"]["children"]
    (gemm,) = [one for one in gpu["children"] if one["name"] == "gemm"]
    core, dram = gemm["children"][0]["children"]
    assert (core["name"], dram["name"]) == ("~ tensor core", "~ DRAM")
    assert core["energy"] == pytest.approx(0.75 * gemm["energy"], rel=1e-4)


def test_the_flame_graph_of_the_page_leaves_out_what_nobody_sees(whole, replayed):
    recorded, _, _ = whole
    energy, (profile,) = replayed
    small = tuple(replace(profile.rows[0], name=f"k{n}", kind=None, energy_j=0.01) for n in range(3))
    data = data_of(program_page(recorded, energy, (replace(profile, rows=(*profile.rows, *small)),)))
    names = {one["name"] for one in data["tree"]["children"][0]["children"]}
    # With the time without a kernel they are four.
    assert "4 smaller ones" in names
    assert not names & {"k0", "k1", "k2"}


def test_page_and_stacks_have_the_kernels_by_themselves(whole, replayed):
    recorded, truths, _ = whole
    energy, profiles = replayed
    themselves, kernels = data_of(program_page(recorded, energy, profiles))["sections"][0]["tables"]
    assert themselves["title"].startswith("Kernels by themselves")
    assert {"gemm 1 x 128", "gaps "} <= {f"{row['short']} {row['shape']}" for row in themselves["rows"]}
    (other,) = data_of(program_page(recorded, energy))["sections"][0]["tables"]
    assert other["title"] == kernels["title"] == "Kernels"
    stacks = program_stacks(recorded, energy, profiles).stacks
    gpu = energy.gpus[0].energy
    (gemm,) = [one for one in stacks if one.frames == (gpu.gpu, "gemm", "gemm, 1 x 128")]
    assert gemm.energy_j == pytest.approx(truths["gemm"], rel=0.02)
    assert sum(one.energy_j for one in stacks) == pytest.approx(gpu.energy_j, rel=0.05)


def test_a_program_of_many_kinds_shows_the_largest_and_counts_the_rest(whole):
    recorded, _, _ = whole
    found = without_kernels(recorded)
    many = replace(found, rows=tuple(replace(found.rows[0], name=f"k{n}") for n in range(33)))
    said = str(many)
    assert "k29" in said
    assert "k30" not in said
    assert "and 3 kinds more" in said


def test_the_report_is_kept_and_worked_out_again(whole, tmp_path, capfd):
    recorded, _, _ = whole
    energy = energy_of(recorded)
    profiles = program_profiles(recorded, energy)
    said = "\n".join(lines(energy, profiles))
    assert "launched again when the program was over" in said
    assert "% of the program" in said
    rows = document(energy, profiles)["replay"][0]["rows"]
    assert {"gemm", "norm", "shared", "gaps"} == {row["name"] for row in rows}
    assert "replay" not in document(energy)
    keep(recorded, tmp_path)
    assert load(tmp_path).facts.replays == recorded.facts.replays
    assert run(["run", "--from", str(tmp_path), "--json"]) == 0
    again = json.loads(capfd.readouterr().out)["replay"][0]
    assert again["closure"] == pytest.approx(profiles[0].closure)
