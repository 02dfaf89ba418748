import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from fakes.measuring import BLOCK, WatchedGpu, asked, measured

from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import GpuError, InputError, ToolError
from ptxbench.core.status import Status
from ptxbench.devices.replay import ReplayGpu
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.experiment.launch_configuration import WAVES
from ptxbench.experiment.linearity import Linearity
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import resume_run, start_run
from ptxbench.storage import precision
from ptxbench.storage.precision import PrecisionLimit
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role


def capped(power_cap_w):
    return replace(H200, board=replace(H200.board, power_cap_w=power_cap_w))


# Their four kernels draw unlike powers, so that no noise tells which comes first in a sweep.
PAIR = asked("fma.rn.f32", "popc.b32", protocols=(ARAFA, DYNAMIC))


class StoppedError(Exception):
    """The process is gone."""


def stop_after(gpu, launches):
    """Make the GPU's next launch but so many the last thing that happens."""

    def fails(_launch):
        if len(gpu.launched) > launches:
            raise StoppedError
        return False

    gpu.fails = fails


def begun(gpu, path, what, launches):
    stop_after(gpu, launches)
    with pytest.raises(StoppedError):
        measured(gpu, path, what)
    with RunFolder.open(path) as folder:
        return folder.done


def gone_on(gpu, path, what=None):
    with resume_run(gpu, what or RunOptions(), path) as folder:
        return measure_table(gpu, folder), folder.records()


def test_where_the_gpu_throttles_fewer_sms_are_taken(tmp_path):
    (free,) = measured(WatchedGpu(), tmp_path / "free", asked("fma.rn.f32"))
    gpu = WatchedGpu(capped(450.0))
    (row,) = measured(gpu, tmp_path / "run", asked("fma.rn.f32"))
    assert free.power_w > 450 > row.power_w
    assert (row.status, row.threads, row.repeats) == (Status.OK, 99 * BLOCK, 2)
    assert row.clock_mhz == pytest.approx(1980, rel=1e-3)
    assert row.dynamic_pj == pytest.approx(free.dynamic_pj, rel=0.01)
    assert row.issue_cycles == pytest.approx(free.issue_cycles, rel=1e-3)
    # Nothing more was spent on the attempt that throttled than its first round.
    with RunFolder.open(tmp_path / "run") as folder:
        hot = [r for r in folder.records() if r.grid == WAVES * 132 and r.repeat >= 0]
    assert {r.repeat for r in hot} == {0}
    assert Status.THROTTLED in {r.status for r in hot}


@pytest.mark.parametrize("name", ["fma.rn.f32", "div.u32"])
def test_a_row_takes_the_same_cycles_in_many_blocks_an_sm_as_in_one(tmp_path, monkeypatch, name):
    (many,) = measured(WatchedGpu(), tmp_path / "many", asked(name))
    monkeypatch.setattr("ptxbench.experiment.launch_configuration.WAVES", 1)
    (one,) = measured(WatchedGpu(), tmp_path / "one", asked(name))
    assert (one.threads, many.threads) == (132 * BLOCK, WAVES * 132 * BLOCK)
    assert many.issue_cycles == pytest.approx(one.issue_cycles, rel=0.01)


def test_a_gpu_that_always_throttles_gives_a_reason_and_no_number(tmp_path):
    gpu = WatchedGpu(capped(150.0))
    (row,) = measured(gpu, tmp_path / "run", asked("fma.rn.f32"))
    assert row.status is Status.THROTTLED
    assert "SwPowerCap" in row.reason
    assert math.isnan(row.dynamic_pj)
    assert {launch.grid for launch in gpu.launched if launch.kernel == "target"} == {
        WAVES * 132,
        99,
        66,
        33,
    }


def test_the_sleeping_kernel_fills_the_chip_on_every_attempt(tmp_path):
    gpu = WatchedGpu(capped(450.0))
    measured(gpu, tmp_path / "run", asked("fma.rn.f32"))
    assert {launch.grid for launch in gpu.launched if launch.kernel == "static"} == {132}


def rounds_in_order(path, level, repeats):
    """Return the roles of each round's trials in their order, and the power of each role, of one unit."""
    gpu = WatchedGpu()
    what = asked(
        "xor.b32", opt_levels=(level,), max_repeats=repeats, min_repeats=repeats, linearity=Linearity.ALL
    )
    measured(gpu, path, what)
    order = [[t.split("/")[-2] for t in gpu.trials if t.endswith(f"/{repeat}")] for repeat in range(repeats)]
    assert [names[-1] for names in order] == ["static"] * repeats
    with RunFolder.open(path) as folder:
        power_w = {r.role: r.steady_power_w for r in folder.records() if r.repeat == repeats - 1}
    return [names[:-1] for names in order], power_w


@pytest.mark.parametrize("level", list(OptLevel))
def test_rounds_run_from_hot_to_cold_and_by_chance_by_turns(tmp_path, level):
    order, power_w = rounds_in_order(tmp_path / "run", level, 6)
    assert set(order[0]) == {"target", "target_2n", "overhead", "overhead_2n"}
    # After the first round the power of the kernels is known.
    swept = sorted(order[0], key=lambda role: -power_w[role])
    assert order[2] == order[4] == swept
    assert {tuple(names) for names in order[1::2]} != {tuple(swept)}
    assert all(sorted(names) == sorted(swept) for names in order)
    again, _ = rounds_in_order(tmp_path / "again", level, 6)
    assert again == order


def test_each_round_is_warmed_by_the_kernel_that_it_begins_with(tmp_path):
    gpu = WatchedGpu()
    measured(gpu, tmp_path / "run", asked("xor.b32", max_repeats=3, min_repeats=3))
    launched = [(launch.trial_id, launch.kernel) for launch in gpu.launched]
    for (trial_id, kernel), (_, following) in pairwise(launched):
        if trial_id.endswith("/warm-up"):
            assert kernel == following
    warmed = [trial_id for trial_id, _ in launched if trial_id.endswith("/warm-up")]
    assert warmed == [f"batch/0/{number}/warm-up" for number in range(3)]


def test_two_kernels_of_each_level_run_in_all_later_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("ptxbench.experiment.plan.BATCH_SIZE", 2)
    names = ("fma.rn.f32", "add.f32", "mul.f32", "mad.lo.u32", "xor.b32", "add.u32")
    what = asked(*names, opt_levels=tuple(OptLevel), max_repeats=2, min_repeats=2, linearity=Linearity.NONE)
    gpu = WatchedGpu()
    measured(gpu, tmp_path / "run", what)
    with RunFolder.open(tmp_path / "run") as folder:
        targets = [r for r in folder.records() if r.role is Role.TARGET and r.repeat >= 0]
        assert all(row.status is Status.OK for row in folder.rows())
    counts = Counter(r.subject for r in targets)
    often = {unit for unit, n in counts.items() if n > 2}
    assert Counter(unit.split("/")[1] for unit in often) == {"O0": 2, "O3": 2}
    # Three batches a level: the first one's two rounds, and every other one of every batch behind it.
    assert {counts[unit] for unit in often if "/O0/" in unit} == {2 + 5}
    assert {counts[unit] for unit in often if "/O3/" in unit} == {2 + 4}
    assert sorted(r.trial_id for r in targets) == sorted({r.trial_id for r in targets})


def test_arafa_runs_one_thread_and_its_pairs_alternate_too(tmp_path):
    gpu = WatchedGpu()
    (row,) = measured(gpu, tmp_path / "run", asked("fma.rn.f32", protocols=(ARAFA,)))
    assert {(launch.grid, launch.block) for launch in gpu.launched} == {(1, 1)}
    rounds = [trial.split("/")[-2] for trial in gpu.trials if not trial.rpartition("/")[2].startswith("-")]
    assert rounds == ["target", "overhead", "overhead", "target"]
    assert row.latency_cycles == pytest.approx(4.0, rel=0.01)
    # One thread of one SM leaves the board at its static power.
    assert row.mtsm_pj == pytest.approx(row.power_w * 4000 / 1.98, rel=0.02)


def test_repeats_end_when_the_row_is_precise_enough(tmp_path):
    def repeats(precision, most):
        what = asked("fma.rn.f32", precision=precision, max_repeats=most)
        (row,) = measured(WatchedGpu(), tmp_path / f"{precision}", what)
        return row.repeats

    # Of one kernel nothing tells how much it scatters but its own rounds: two are too few.
    assert repeats(1.0, 4) == 3
    # Of target and overhead loop the less precise one is repeated.
    assert repeats(1e-5, 4) > 2


def test_what_all_rows_share_holds_the_last_batch_of_a_level_only(tmp_path, monkeypatch):
    """More rounds of one row do not narrow it; batches to come do."""
    monkeypatch.setattr("ptxbench.experiment.plan.BATCH_SIZE", 1)
    monkeypatch.setattr("ptxbench.analysis.static_power.StaticPower.error_at", lambda *_: 10.0)
    names = ("fma.rn.f32", "xor.b32", "popc.b32")
    what = asked(*names, precision=0.02, min_repeats=2, max_repeats=4, linearity=Linearity.NONE)
    gpu = WatchedGpu()
    measured(gpu, tmp_path / "run", what)
    ids = [launch.trial_id for launch in gpu.launched]
    rounds = Counter(trial_id.split("/")[1] for trial_id in ids if trial_id.endswith("/warm-up"))
    assert rounds == {"0": 3, "1": 3, "2": 4}


@pytest.mark.parametrize("role", [Role.TARGET, Role.OVERHEAD])
def test_repeats_go_on_until_clearly_more_trials_count_than_are_set_aside(tmp_path, monkeypatch, role):
    """Where two are set aside two that count are no majority, and three are one by chance."""
    monkeypatch.setattr(
        "ptxbench.analysis.loop_energy.dipped_trials",
        lambda records: {r.trial_id for r in records if r.role is role and r.repeat < 2},
    )
    gpu = WatchedGpu()
    (row,) = measured(gpu, tmp_path / "run", asked("fma.rn.f32", precision=1.0, max_repeats=8))
    assert row.status is Status.OK
    repeats = Counter(trial.split("/")[-2] for trial in gpu.trials if "/-" not in trial)
    assert repeats[role] == 6
    # The other kernel is precise enough as it is.
    assert repeats[Role.OVERHEAD if role is Role.TARGET else Role.TARGET] <= 3


def test_progress_names_every_unit_and_ends_at_the_total(tmp_path):
    seen, trials = [], []
    what = asked("fma.rn.f32", "add.f32", protocols=(ARAFA, DYNAMIC))
    rows = measured(
        WatchedGpu(), tmp_path / "run", what, show=lambda *at: seen.append(at), on_trial=trials.append
    )
    done, totals, what = zip(*seen, strict=True)
    assert list(done) == sorted(done)
    assert (done[0], done[-1], set(totals)) == (0, 4, {4})
    assert "fma.rn.f32 -O3" in " ".join(what)
    assert seen[-1] == (4, 4, "")
    assert [(r.instruction, r.protocol) for r in rows] == [
        (name, protocol) for name in ("fma.rn.f32", "add.f32") for protocol in (ARAFA, DYNAMIC)
    ]
    with RunFolder.open(tmp_path / "run") as folder:
        assert folder.finished
        assert [r.trial_id for r in folder.records()] == [r.trial_id for r in trials]
        assert [(r.instruction, r.protocol, r.status) for r in folder.rows()] == [
            (r.instruction, r.protocol, r.status) for r in rows
        ]


class OtherAssembler(WatchedGpu):
    """Assembles the sleeping kernel, and hands everything else to `assembler`."""

    def __init__(self, assembler):
        super().__init__()
        self._assembler = assembler

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        if "nanosleep" in ptx:
            return super().assemble(ptx, opt_level)
        return self._assembler(ptx, opt_level)


def without_one_copy(ptx, level):
    """Assemble with one fma less than the catalogue says."""
    lines = ptx.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if line.lstrip().startswith("fma.rn.f32")), None)
    if first is not None:
        del lines[first]
    return assemble_ptx("".join(lines), "sm_90a", level)


def test_a_row_that_the_gate_refuses_says_why_and_launches_nothing_of_its_own(tmp_path):
    gpu = OtherAssembler(without_one_copy)
    refused, good = measured(gpu, tmp_path / "run", asked("fma.rn.f32", "add.u32"))
    assert refused.status is Status.GATE_FAILED
    assert "63 FFMA where 64 copies make 64" in refused.reason
    assert refused.sass.startswith("FFMA")
    assert math.isnan(refused.dynamic_pj)
    assert good.status is Status.OK
    assert {trial.split("/")[0] for trial in gpu.trials} == {"add.u32", "overhead", "static"}


def test_a_kernel_that_fails_spoils_its_own_row_only(tmp_path):
    gpu = WatchedGpu()
    gpu.fails = lambda launch: launch.trial_id.startswith("fma.rn.f32")
    failed, good = measured(gpu, tmp_path / "run", asked("fma.rn.f32", "add.f32"))
    assert failed.status is Status.LAUNCH_FAILED
    assert "ILLEGAL_ADDRESS" in failed.reason
    assert failed.sass == "FFMA"
    assert good.status is Status.OK


def test_a_kernel_that_fails_midway_leaves_too_few_rounds(tmp_path):
    gpu = WatchedGpu()
    gpu.fails = lambda launch: launch.kernel == "overhead" and launch.trial_id.endswith("/1")
    (row,) = measured(gpu, tmp_path / "run", asked("fma.rn.f32"))
    assert (row.status, math.isnan(row.dynamic_pj)) == (Status.LAUNCH_FAILED, True)


def test_what_the_gpu_or_the_pattern_does_not_have_is_not_supported(tmp_path):
    rows = measured(WatchedGpu(), tmp_path / "run", asked("div.u32", "add.f32", patterns=("zeros",)))
    assert [row.status for row in rows] == [Status.NOT_SUPPORTED, Status.OK]
    assert "no pattern zeros" in rows[0].reason


def test_a_module_that_the_assembler_refuses_is_a_row(tmp_path):
    gpu = OtherAssembler(lambda ptx, level: assemble_ptx(ptx.replace("fma.rn", "fma.xx"), "sm_90a", level))
    rows = measured(gpu, tmp_path / "run", asked("fma.rn.f32", "add.f32"))
    assert [row.status for row in rows] == [Status.NOT_SUPPORTED, Status.OK]
    assert "ptxas failed" in rows[0].reason


def test_an_assembler_that_was_stopped_ends_the_run_so_that_it_can_be_resumed(tmp_path):
    def stopped(_ptx, _level):
        raise ToolError("ptxas was stopped by SIGKILL")

    with pytest.raises(ToolError, match="SIGKILL"):
        measured(OtherAssembler(stopped), tmp_path / "run", asked("fma.rn.f32"))
    (row,), _ = gone_on(SimulatedGpu(), tmp_path / "run")
    assert row.status is Status.OK


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The rows and trials of a run that nothing stopped."""
    path = tmp_path_factory.mktemp("whole") / "run"
    rows = measured(WatchedGpu(), path, PAIR)
    with RunFolder.open(path) as folder:
        return rows, [r.trial_id for r in folder.records()]


@pytest.mark.parametrize("launches", [0, 1, 9, 33])
def test_resuming_runs_what_is_missing_once_and_nothing_else(tmp_path, whole, launches):
    what = PAIR
    whole_rows, all_trials = whole
    held = begun(WatchedGpu(), tmp_path / "run", what, launches)
    assert len(held) < len(all_trials)

    gpu = WatchedGpu()
    rows, records = gone_on(gpu, tmp_path / "run")
    assert [r.trial_id for r in records] == all_trials
    assert [r.order for r in records] == list(range(len(all_trials)))
    assert not held & set(gpu.trials)
    assert sorted(gpu.trials) == sorted(set(all_trials) - held)
    keys = [(r.instruction, r.opt_level, r.protocol, r.operands, r.status) for r in rows]
    assert keys == [(r.instruction, r.opt_level, r.protocol, r.operands, r.status) for r in whole_rows]
    for row, whole_row in zip(rows, whole_rows, strict=True):
        if row.protocol == DYNAMIC:
            assert row.dynamic_pj == pytest.approx(whole_row.dynamic_pj, rel=0.01)


def test_a_throttled_run_resumes_within_its_later_attempt(tmp_path):
    what = asked("fma.rn.f32")
    (whole,) = measured(SimulatedGpu(capped(450.0)), tmp_path / "whole", what)
    held = begun(WatchedGpu(capped(450.0)), tmp_path / "run", what, 22)
    assert any(int(trial.rpartition("/")[2]) >= 1000 for trial in held)
    gpu = WatchedGpu(capped(450.0))
    (row,), records = gone_on(gpu, tmp_path / "run")
    assert (row.status, row.threads, row.repeats) == (whole.status, whole.threads, whole.repeats)
    assert not held & set(gpu.trials)
    assert len({r.trial_id for r in records}) == len(records)


def test_a_finished_run_is_only_read(tmp_path):
    rows = measured(SimulatedGpu(), tmp_path / "run", asked("fma.rn.f32"))
    gpu = WatchedGpu()
    again, _ = gone_on(gpu, tmp_path / "run")
    assert gpu.launched == []
    assert [r.dynamic_pj for r in again] == [pytest.approx(r.dynamic_pj, rel=1e-5) for r in rows]


def test_a_run_is_not_gone_on_with_on_another_gpu_or_for_another_question(tmp_path):
    begun(WatchedGpu(), tmp_path / "run", asked("fma.rn.f32"), 3)
    for gpu, what in ((WatchedGpu(capped(450.0)), asked()), (WatchedGpu(), asked("add.f32"))):
        with pytest.raises(InputError, match="start a new run"):
            gone_on(gpu, tmp_path / "run", what)
        assert gpu.launched == []


def test_what_a_resumed_run_holds_of_later_units_does_not_change_when_a_unit_stops(tmp_path):
    """Else a resumed run, and its replay, ask for trials that the run never had."""
    what = asked("fma.rn.f32", precision=0.9, max_repeats=6)
    path = tmp_path / "run"
    gpu = WatchedGpu()
    with start_run(gpu, what, path) as folder:
        folder.finish = lambda *_: None
        measure_table(gpu, folder)
        held = folder.records()
        static = [r for r in held if r.role is Role.STATIC and r.repeat >= 0]
        target, overhead = (
            next(r for r in held if (r.role, r.repeat) == (role, 0)) for role in (Role.TARGET, Role.OVERHEAD)
        )
        # A static power at which the energy of the unit would be zero, and so never precise.
        pass_s = [r.elapsed_s / r.iterations for r in (target, overhead)]
        pass_j = [r.steady_power_w * s for r, s in zip((target, overhead), pass_s, strict=True)]
        zero_w = (pass_j[0] - pass_j[1]) / (pass_s[0] - pass_s[1])
        odd = replace(
            static[0],
            trial_id="zzz/O3/dynamic/random/static/0",
            order=len(held),
            steady_power_w=(len(static) + 1) * zero_w - sum(r.steady_power_w for r in static),
        )
        assert len(static) == 3
        folder.append(odd, folder.trace(static[0].trial_id))
    again = WatchedGpu()
    _, records = gone_on(again, path)
    assert again.launched == []
    assert len(records) == len(held) + 1


@pytest.mark.parametrize("budget_s", [1e-6, 2.5])
def test_a_budget_ends_between_rounds_and_what_was_not_reached_is_measured_later(tmp_path, budget_s):
    what = asked("fma.rn.f32", "add.f32", opt_levels=tuple(OptLevel))
    first = WatchedGpu()
    with start_run(first, what, tmp_path / "run") as folder:
        rows = measure_table(first, folder, budget_s=budget_s)
        assert not folder.finished
        assert [(r.instruction, r.opt_level, r.status) for r in folder.rows()] == [
            (r.instruction, r.opt_level, r.status) for r in rows
        ]
    assert {row.status for row in rows} <= {Status.OK, Status.NOT_REACHED}
    assert "--resume" in next(row.reason for row in rows if row.status is Status.NOT_REACHED)

    again = WatchedGpu()
    rows, records = gone_on(again, tmp_path / "run")
    assert {row.status for row in rows} == {Status.OK}
    assert not set(first.trials) & set(again.trials)
    # And all of it in one replay.
    with (
        RunFolder.open(tmp_path / "run") as whole,
        start_run(ReplayGpu(whole), RunOptions(), tmp_path / "2") as folder,
    ):
        replayed = measure_table(ReplayGpu(whole), folder)
        assert [r.trial_id for r in folder.records()] == [r.trial_id for r in records]
    assert [r.dynamic_pj for r in replayed] == [r.dynamic_pj for r in rows]


@pytest.mark.parametrize("budget_s", [7, 8.5, 10])
def test_no_round_is_begun_that_would_end_after_the_budget(tmp_path, budget_s):
    gpu = WatchedGpu()
    what = asked("fma.rn.f32", "add.f32", "mul.f32", "popc.b32", min_repeats=6, max_repeats=6)
    with start_run(gpu, what, tmp_path / "run") as folder:
        begin_ns = gpu.clock.now_ns()
        measure_table(gpu, folder, budget_s=budget_s)
        assert not folder.finished
    spent_s = (gpu.clock.now_ns() - begin_ns) / 1e9
    # A round of the five kernels is 2 s.
    assert budget_s - 2.5 < spent_s < budget_s


@pytest.mark.parametrize("budget_s", [4, 6])
def test_a_run_that_is_gone_on_with_keeps_its_budget(tmp_path, budget_s):
    what = asked("fma.rn.f32", "add.f32", "mul.f32", "popc.b32", min_repeats=12, max_repeats=12)
    with start_run(gpu := WatchedGpu(), what, tmp_path / "run") as folder:
        measure_table(gpu, folder, budget_s=10)
    gpu = WatchedGpu()
    with resume_run(gpu, RunOptions(), tmp_path / "run") as folder:
        begin_ns = gpu.clock.now_ns()
        measure_table(gpu, folder, budget_s=budget_s)
        assert not folder.finished
    assert len(gpu.trials) >= 5
    assert (gpu.clock.now_ns() - begin_ns) / 1e9 < budget_s


def test_rows_with_one_overhead_loop_measure_it_once_a_pattern(tmp_path):
    gpu = WatchedGpu()
    # Of one kind of values: the loop reads them.
    what = asked("fma.rn.f32", "fma.rn.ftz.f32", patterns=("random", "zeros"))
    rows = measured(gpu, tmp_path / "run", what)
    assert {row.status for row in rows} == {Status.OK}
    assert len({t.rpartition("/")[0] for t in gpu.trials if t.startswith("overhead/")}) == 2


def test_only_a_row_of_each_template_is_checked_against_2n_unless_asked(tmp_path):
    def checked(linearity):
        gpu = WatchedGpu()
        what = asked("fma.rn.f32", "add.f32", "popc.b32", linearity=linearity)
        measured(gpu, tmp_path / str(linearity), what)
        return {t.split("/")[0] for t in gpu.trials if "/target_2n/" in t}

    assert checked(Linearity.ALL) == {"fma.rn.f32", "add.f32", "popc.b32"}
    assert checked(Linearity.NONE) == set()
    assert 1 <= len(checked(None)) < 3


def test_a_kernel_that_breaks_its_process_is_passed_over_when_the_run_is_gone_on_with(tmp_path):
    gpu = WatchedGpu()

    def broken(launch):
        if launch.trial_id.startswith("add.f32"):
            gpu.lost = True
        return gpu.lost and launch.trial_id.startswith("add.f32")

    class LostGpu(WatchedGpu):
        lost = False

        def run(self, launch):
            if self.lost:
                raise GpuError("a kernel broke the CUDA context of this process; go on with --resume")
            return super().run(launch)

    gpu = LostGpu()
    gpu.fails = broken
    with pytest.raises(GpuError, match="--resume"):
        measured(gpu, tmp_path / "run", asked("fma.rn.f32", "add.f32", "mad.lo.u32"))
    rows, _ = gone_on(WatchedGpu(), tmp_path / "run")
    assert {row.instruction: row.status for row in rows} == {
        "fma.rn.f32": Status.OK,
        "add.f32": Status.LAUNCH_FAILED,
        "mad.lo.u32": Status.OK,
    }


def test_a_new_run_says_which_rows_missed_their_precision_by_far(tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "PRECISION", PrecisionLimit(1e-5))
    (row,) = measured(WatchedGpu(), tmp_path / "run", asked("fma.rn.f32", precision=1e-5))
    with RunFolder.open(tmp_path / "run") as folder:
        assert repr(folder.rows()) == repr(folder.known_rows())
        (kept,) = folder.rows()
    for one in (row, kept):
        assert one.status is Status.IMPRECISE
        assert one.reason.startswith("known to ± ")
        assert one.dynamic_pj > one.dynamic_ci95_pj > 1e-5 * one.dynamic_pj
    # A replay computes the same.
    with RunFolder.open(tmp_path / "run") as whole:
        (again,) = measured(ReplayGpu(whole), tmp_path / "again", asked("fma.rn.f32", precision=1e-5))
    assert again.status is Status.IMPRECISE
