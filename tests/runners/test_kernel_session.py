"""A session of the validation without a GPU: what it leaves out, keeps and takes up again."""

import weakref
from dataclasses import replace

import pytest
from fakes.script import load_script
from validation_file import KernelCase, KernelTrial, Purpose, kernel_session, read_session

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.storage.manifest import with_part

module = load_script("runners/kernel_session.py")

NAMES = ("new", "old", "judged")
CASES = (
    KernelCase(0, "new", "random", Purpose.FIT),
    KernelCase(1, "old", "random", Purpose.FIT),
    KernelCase(2, "judged", "random", Purpose.JUDGED),
    KernelCase(3, "sleep", "zeros", Purpose.STATIC),
)
GPU = GpuInfo.partly_known("NVIDIA H200", "0123456789ab", "580", 700.0, 1980.0)
SESSION = kernel_session(GPU, "samples", (), CASES)
TRIAL_S = 1.0


class Bench:
    """A meter whose trials take a second each, on a clock of its own; some cases fail."""

    def __init__(self, broken=(), deadly=(), stop_after=None):
        self.at_s, self.prepared, self.measured = 0.0, [], []
        self.broken, self.deadly, self.stop_after = broken, deadly, stop_after
        self.dead = False

    def now_s(self):
        return self.at_s

    def prepare(self, case):
        self.prepared.append(case.name)
        return lambda: case

    def time_s(self, call):
        return 1e-3

    def alive(self):
        return not self.dead

    def free_share(self):
        return 1.0

    def measure(self, call, time_s, case, repeat):
        if len(self.measured) == self.stop_after:
            raise KeyboardInterrupt
        self.at_s += TRIAL_S
        if call().name in (*self.broken, *self.deadly):
            self.dead = call().name in self.deadly
            raise RuntimeError("no such kernel")
        self.measured.append((call().name, repeat))
        return KernelTrial(case, repeat, 1, 1e-3, 200.0, 0.1, 200.0, 40.0, 1980.0, 3201.0, 0, 0, "", (), ())


def sit(folder, bench, session=SESSION, budget_s=1e9):
    made = module.SessionRunner(folder, session, bench, bench.prepare, bench.now_s)
    return made.run([case.number for case in CASES], budget_s)


def awake(bench):
    return [one for one in bench.measured if one[0] != "sleep"]


def test_rounds_go_over_all_cases_between_sleeping_kernels(tmp_path):
    bench = Bench()
    session = sit(tmp_path, bench)
    assert awake(bench) == [(n, r) for r in (0, 1) for n in NAMES] + [("judged", 2)]
    assert bench.measured[0] == ("sleep", 0)
    assert bench.measured[-1] == ("sleep", 2)
    assert sorted(bench.prepared) == sorted((*NAMES, "sleep"))
    assert read_session(tmp_path) == session


def test_operands_of_earlier_cases_are_dropped_where_memory_runs_short(tmp_path):
    class SmallBench(Bench):
        """A device that holds the operands of two cases."""

        def __init__(self):
            super().__init__()
            self.held, self.most = weakref.WeakSet(), 0

        def prepare(self, case):
            call = super().prepare(case)
            self.held.add(call)
            self.most = max(self.most, len(self.held))
            return call

        def free_share(self):
            return 1 - len(self.held) / 2

    bench = SmallBench()
    session = sit(tmp_path, bench)
    assert bench.most <= 2
    assert awake(bench) == [(n, r) for r in (0, 1) for n in NAMES] + [("judged", 2)]
    assert not any(case.failure for case in session.part.cases)


def test_when_time_is_up_the_last_cases_are_left_out_in_the_first_round_too(tmp_path):
    bench = Bench()
    session = sit(tmp_path, bench, budget_s=2.5)
    assert awake(bench) == [("new", 0), ("old", 0)]
    assert len(session.part.trials) == 3
    assert not any(case.failure for case in session.part.cases)


def test_a_case_that_fails_is_named_and_not_tried_again(tmp_path):
    bench = Bench(broken=("old",))
    session = sit(tmp_path, bench)
    assert {name for name, _ in bench.measured} == {"new", "judged", "sleep"}
    assert bench.prepared.count("old") == 1
    assert session.part.cases[1].failure == "RuntimeError: no such kernel"


def test_a_lost_device_ends_the_process_and_the_next_one_goes_on_behind_the_case(tmp_path):
    first = Bench(deadly=("old",))
    with pytest.raises(module.DeviceLostError, match="old random: RuntimeError"):
        sit(tmp_path, first)
    assert awake(first) == [("new", 0)]
    second = Bench()
    session = sit(tmp_path, second, module.take_up(tmp_path, SESSION, resume=True))
    assert awake(second) == [("judged", 0), ("new", 1), ("judged", 1), ("judged", 2)]
    assert {(t.case, t.repeat) for t in session.part.trials} >= {(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)}
    assert session.part.cases[1].failure


def test_what_was_measured_is_kept_when_it_is_cut_off(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sit(tmp_path, Bench(stop_after=3))
    assert [t.case for t in read_session(tmp_path).part.trials] == [3, 0, 1]


def test_it_is_kept_as_it_goes(tmp_path):
    bench, held = Bench(), []
    prepare = bench.prepare

    def looking(case):
        held.append(len(read_session(tmp_path).part.trials) if (tmp_path / "measured.json").exists() else 0)
        return prepare(case)

    bench.prepare = looking
    bench.time_s = lambda call: setattr(bench, "at_s", bench.at_s + 10) or 1e-3
    sit(tmp_path, bench)
    assert held == [0, 1, 2, 3]


def test_a_session_is_not_written_over_and_not_mixed_with_another(tmp_path):
    sit(tmp_path, Bench())
    with pytest.raises(InputError, match="--resume"):
        module.take_up(tmp_path, SESSION, resume=False)
    with pytest.raises(InputError, match="another board"):
        module.take_up(
            tmp_path, replace(SESSION, gpus=(replace(GPU, uuid_hash="ba9876543210"),)), resume=True
        )
    with pytest.raises(InputError, match="other cases"):
        module.take_up(tmp_path, with_part(SESSION, cases=CASES[1:]), resume=True)
    assert module.take_up(tmp_path / "none", SESSION, resume=True) is SESSION
