"""Kernels of a program launched again at its end, by the library's C code and a libcuda of the host."""

import os
import subprocess
import time

import numpy as np
import pytest
from fakes import native
from fakes.native import CC, LIBRARY, SANITIZE, compiled
from test_injector import FAKE, GPUS, require_sanitizers

from ptxbench.attribute.injector import ReplayPlan, injected, replaying
from ptxbench.attribute.launches import read_launches
from ptxbench.attribute.replay.program_log import NOTHING_TO_DO, SLEEPING

FAKE_REPLAYED = FAKE.with_name("replayed.c")
CODE = 5

pytestmark = pytest.mark.skipif(not CC, reason="no C compiler")


def build(*flags):
    """Return the fake libcuda, the program and the injector, built with `flags`."""
    shared = ("-Wl,-soname,libcuda.so.1", "code.c", "-o", "libcuda.so.1", *LIBRARY)
    linked = ("-DPROGRAM", "code.c", "-o", "program", "libcuda.so.1", "-Wl,-rpath,$ORIGIN", "-ldl")
    fakes = compiled(FAKE_REPLAYED.read_text(), (*flags, *shared), (*flags, *linked))
    return fakes / "libcuda.so.1", fakes / "program", native.injector(*flags)


@pytest.fixture(scope="module")
def plain():
    return build("-O1")


@pytest.fixture(scope="module")
def sanitized():
    require_sanitizers()
    return build(*SANITIZE)


def what_hangs(words):
    """Return whether time must pass while nothing happens."""
    return words[0] == "hang"


def play(built, folder, *words, code=CODE, after=0, **more):
    """Run the program alone and with replay; both must say the same. Return what was launched again."""
    fake, program, library = built
    plan = ReplayPlan(0.02, 20.0, 0.7, after)
    # Time passes while kernels run alone: a machine that is busy changes nothing.
    plainly = {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0", "FAKE_CLOCK": "1"}
    plainly |= more
    if what_hangs(words):
        del plainly["FAKE_CLOCK"]
    environment = injected(plainly, library, [fake], folder)
    del environment["LD_PRELOAD"]
    alone, ended = (
        subprocess.run((program, *words), env=one, capture_output=True, text=True, check=False)
        for one in (plainly, replaying(environment, folder, plan))
    )
    assert "Sanitizer" not in ended.stderr
    assert "runtime error" not in ended.stderr, ended.stderr
    assert alone.returncode == ended.returncode == code
    # The last thing that the program prints is what its memory holds behind the replay.
    assert ended.stdout == alone.stdout
    assert ended.stderr == alone.stderr
    return read_launches(folder)


def told(log):
    """Return the kinds of the only process by name and first dimension, and its windows by kind."""
    (replay,) = log.replays
    kinds = {(kind.node.name, kind.node.grid[0]): kind for kind in replay.kinds}
    return replay, kinds


def test_each_kind_is_launched_again_and_memory_is_as_the_program_left_it(sanitized, tmp_path):
    log = play(sanitized, tmp_path, "plain")
    replay, kinds = told(log)
    assert {key: kind.calls for key, kind in kinds.items()} == {
        ("grow", 1): 200,
        ("copy", 1): 200,
        ("copy", 2): 7,
    }
    assert {kind.gpu for kind in kinds.values()} == {GPUS[0]}
    assert all(kind.seen == kind.calls and kind.launch_s >= 30e-6 for kind in kinds.values())
    assert not any(kind.refused for kind in kinds.values())
    assert replay.stopped == ()
    assert (replay.saved_bytes, replay.changed_bytes) == (2 * 4096 * 8, 0)
    for number in (SLEEPING, NOTHING_TO_DO, *(kind.number for kind in kinds.values())):
        window = replay.of(number, GPUS[0])
        assert window.end_ns - window.start_ns >= 0.7 * 20e6
        assert replay.begin_ns <= window.start_ns < window.end_ns <= replay.end_ns
    # What changes what it reads is written back before each launch.
    growing = replay.of(kinds["grow", 1].number, GPUS[0])
    assert growing.undone == growing.launches
    assert replay.undo_of(kinds["grow", 1].number, GPUS[0]).launches > 0
    assert replay.of(kinds["copy", 1].number, GPUS[0]).undone == 0
    # Nothing of the replay is taken for the program.
    (launches,) = log.by_gpu.values()
    assert len(launches) == 407
    assert launches.end_ns.max() <= replay.begin_ns
    assert log.dropped == 0


def test_the_kernels_of_a_graph_are_kinds(sanitized, tmp_path):
    _, kinds = told(play(sanitized, tmp_path, "graph"))
    assert {key: kind.calls for key, kind in kinds.items()} == {("grow", 2): 30, ("copy", 2): 10}
    replay, _ = told(read_launches(tmp_path))
    # A graph of all that the program's graph has of a kind, in its order, several times.
    assert replay.of(kinds["grow", 2].number, GPUS[0]).launches % 3 == 0


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("managed", "managed memory"),
        ("mapped", "the host's memory"),
        ("peer", "memory of another GPU"),
        ("ipc", "memory of another process"),
        ("freed", "freed before the program ended"),
        ("reused", "freed before the program ended"),
        ("nccl", "may wait for another GPU"),
        ("cooperative", "cooperative launch"),
    ],
)
def test_what_cannot_be_launched_again_is_refused_alone(plain, tmp_path, what, why):
    replay, kinds = told(play(plain, tmp_path, what))
    refused = [kind for kind in kinds.values() if kind.refused]
    assert len(refused) == 1
    assert why in refused[0].refused
    assert replay.of(refused[0].number, GPUS[0]) is None
    assert sum(replay.of(kind.number, GPUS[0]) is not None for kind in kinds.values()) == len(kinds) - 1


def test_what_soon_changes_no_more_is_written_back_all_the_same(plain, tmp_path):
    # A round of 128 halvings ends at nought, as does the next one.
    replay, kinds = told(play(plain, tmp_path, "halves"))
    assert replay.of(kinds["halve", 1].number, GPUS[0]).undone > 0


def test_what_the_limit_would_slow_down_gets_idle_time(plain, tmp_path):
    replay, kinds = told(play(plain, tmp_path, "heats"))
    number = kinds["heat", 1].number
    first = next(one for one in replay.windows if one.kind == number)
    last = replay.of(number, GPUS[0])
    assert (first.sleeps, first.launches > 0) == (0, True)
    assert last.sleeps > 0

    def launch_ns(one):
        return ((one.end_ns - one.start_ns) / one.times - one.sleeps * 20_000) / one.launches

    # It is held down towards the end of the first window.
    assert launch_ns(last) < 0.7 * launch_ns(first)
    assert launch_ns(last) == pytest.approx(launch_ns(replay.of(kinds["copy", 1].number, GPUS[0])), rel=0.02)
    # No other kind has any.
    assert not any(one.sleeps for one in replay.windows if one.kind != number and one.kind >= 0)


def test_of_long_launches_not_the_first_is_made_again(plain, tmp_path):
    # A launch of 1 us, and 15 of 9 ms, of which the window of 20 ms holds one at a time.
    replay, kinds = told(play(plain, tmp_path, "first"))
    window = replay.of(kinds["last", 1].number, GPUS[0])
    assert window.launches == 1
    assert (window.end_ns - window.start_ns) / window.times == pytest.approx(9e6, rel=0.01)


@pytest.mark.parametrize("more", [{}, {"FAKE_FULL": "1"}])
def test_of_large_memory_what_changes_is_written_back(sanitized, tmp_path, more):
    replay, kinds = told(play(sanitized, tmp_path, "large", **more))
    assert replay.saved_bytes == 2 * 4096 * 8 + 8 * ((3 << 17) + 1)
    assert replay.changed_bytes == 0
    assert (replay.of(kinds["poke", 1].number, GPUS[0]).undone > 0) is not bool(more)


@pytest.mark.parametrize(
    ("what", "why"),
    [("destroyed", "destroyed its context"), ("unloaded", "its code was unloaded")],
)
def test_what_is_gone_at_the_end_is_not_launched_again(plain, tmp_path, what, why):
    replay, kinds = told(play(plain, tmp_path, what))
    assert all(why in kind.refused for kind in kinds.values())
    assert not any(window.kind >= 0 for window in replay.windows)


@pytest.mark.parametrize(
    ("what", "name", "why"),
    [
        ("hang", "wait_for", "does not end"),
        ("crash", "follow", "crashes"),
        ("fail", "fail", "CUDA error 700 when they are made again: a kernel uses memory that is not there"),
    ],
)
def test_a_replay_that_goes_wrong_ends_and_the_program_with_its_own_code(plain, tmp_path, what, name, why):
    begun_s = time.monotonic()
    replay, kinds = told(play(plain, tmp_path, what))
    assert time.monotonic() - begun_s < 9
    assert why in kinds[name, 1].refused
    assert replay.stopped
    # The one that took the most time came first; the others were not reached.
    assert not any(window.kind >= 0 for window in replay.windows)


def test_a_program_goes_on_behind_a_replay_after_some_launches(sanitized, tmp_path):
    log = play(sanitized, tmp_path, "plain", after=300)
    replay, kinds = told(log)
    assert {key: kind.calls for key, kind in kinds.items()} == {
        ("grow", 1): 200,
        ("copy", 1): 200,
        ("copy", 2): 7,
    }
    assert "first time behind the replay" in kinds["copy", 2].refused
    assert replay.of(kinds["copy", 2].number, GPUS[0]) is None
    for name in ("grow", "copy"):
        assert replay.begin_ns < replay.of(kinds[name, 1].number, GPUS[0]).start_ns < replay.end_ns
    assert replay.changed_bytes == 0
    (launches,) = log.by_gpu.values()
    assert len(launches) == 407
    assert np.count_nonzero(launches.start_ns >= replay.end_ns) == 107
    assert all(kind.seen == kind.calls for kind in kinds.values())


def test_a_program_of_too_few_launches_is_not_replayed_and_it_is_said(plain, tmp_path):
    log = play(plain, tmp_path, "plain", after=1000)
    assert log.replays == ()
    assert any("nothing can be launched again: the program made 407 launches" in one for one in log.remarks)


def test_a_replay_that_hangs_while_the_program_goes_on_ends_it_with_a_line(plain, tmp_path):
    fake, program, library = plain
    environment = injected({"PATH": os.environ["PATH"]}, library, [fake], tmp_path)
    del environment["LD_PRELOAD"]
    environment = replaying(environment, tmp_path, ReplayPlan(0.02, 20.0, 0.5, 1401))
    # The host sets the word anew before each launch, and only then.
    ended = subprocess.run(
        (program, "hangs within"), env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 124
    assert ended.stderr.startswith("ptxbench: the program is ended, as a kernel")


def test_what_a_kernel_prints_is_printed_once(plain, tmp_path):
    replay, kinds = told(play(plain, tmp_path, "say"))
    assert replay.of(kinds["say", 1].number, GPUS[0]) is not None


def test_memory_is_saved_on_the_host_where_the_gpu_has_no_room(plain, tmp_path):
    replay, kinds = told(play(plain, tmp_path, "plain", FAKE_FULL="1"))
    assert all(replay.of(kind.number, GPUS[0]) for kind in kinds.values())
    assert replay.changed_bytes == 0
    # There is nothing on the GPU to write back from.
    assert replay.of(kinds["grow", 1].number, GPUS[0]).undone == -1


@pytest.mark.parametrize(("gpu", "is_refused"), [(0, True), (1, False)])
def test_while_another_process_uses_the_gpu_nothing_is_launched_again(plain, tmp_path, gpu, is_refused):
    # That of the test, which lives, and has not said that it ended.
    (tmp_path / f"{os.getpid()}-1.txt").write_text(f"cupti 28\ndevice {gpu} {GPUS[gpu]}\n")
    replay, kinds = told(play(plain, tmp_path, "plain"))
    assert {"another process of the program" in kind.refused for kind in kinds.values()} == {is_refused}
    assert any(window.kind >= 0 for window in replay.windows) is not is_refused


@pytest.mark.parametrize(("what", "code"), [("exits", CODE), ("signal", -15)])
def test_a_program_that_ends_at_once_is_not_replayed(plain, tmp_path, what, code):
    assert play(plain, tmp_path, what, code=code).replays == ()


def test_where_another_tool_has_the_callbacks_it_is_said(plain, tmp_path):
    log = play(plain, tmp_path, "plain", FAKE_SUBSCRIBED="1")
    assert log.replays == ()
    assert any("nothing can be launched again: another tool" in remark for remark in log.remarks)
    assert sum(map(len, log.by_gpu.values())) == 407


@pytest.mark.hostile
def test_a_log_that_was_cut_off_or_damaged_is_read_as_far_as_it_goes(plain, tmp_path):
    play(plain, tmp_path, "plain")
    (file,) = tmp_path.glob("*.replay")
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b"window") + 9])
    replay, kinds = told(read_launches(tmp_path))
    assert len(kinds) == 3
    assert (replay.windows, replay.end_ns) == ((), None)
    file.write_bytes(b"refused x y\nkind 1 2\nwindow -1 a b\n\xff\xfe 7\nrefused\nbegin\n" + whole)
    assert len(told(read_launches(tmp_path))[1]) == 3
