"""The injector's C code against a libcupti that plays kernels."""

import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest
from fakes import native
from fakes.native import CC, LIBRARY, SANITIZE, compiled

from ptxbench.attribute import injector
from ptxbench.attribute.injector import build_injector, find_cupti, injected
from ptxbench.attribute.injector_source import NATIVE, shipped_library, write_library
from ptxbench.attribute.launches import read_launches
from ptxbench.core.errors import ToolError

FAKE = Path(__file__).parents[1] / "fakes" / "cupti.c"
FAKE_NVTX = FAKE.with_name("nvtx.c")
GPUS = [f"GPU-{b * 4}-{b * 2}-{b * 2}-{b * 2}-{b * 6}" for b in ("10", "11")]
TRUE = shutil.which("true") or ""

pytestmark = pytest.mark.skipif(not CC, reason="no C compiler")


def build(*flags):
    """Return the fake libcupti, the program, the injector and a program with ranges, built with `flags`."""
    soname = ("-Wl,-soname,libcuda.so.1",)  # it is the driver, too
    fakes = compiled(
        FAKE.read_text(),
        (*flags, "-fvisibility=default", *soname, "code.c", "-o", "libfakecupti.so", *LIBRARY),
        (*flags, "-DPROGRAM", "code.c", "-o", "program", "-ldl"),
    )
    nvtx = compiled(FAKE_NVTX.read_text(), (*flags, "code.c", "-o", "nvtx", "-ldl"))
    return fakes / "libfakecupti.so", fakes / "program", native.injector(*flags), nvtx / "nvtx"


def require_sanitizers():
    """Skip the test where the compiler has no sanitizers."""
    try:
        compiled("int main(void) { return 0; }", (*SANITIZE, "code.c", "-o", "try"))
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no sanitizers")


@pytest.fixture(scope="module")
def plain():
    return build("-O1")


@pytest.fixture(scope="module")
def hasty():
    """As `plain`, but it waits for a stream 0.2 and 2 s, not 3 and 30, and turns come ten times as often."""
    return build("-O1", "-DMOST_IDLE_MS=200", "-DPATIENCE_MS=2000", "-DTURN_COSTS=20")


@pytest.fixture(scope="module")
def sanitized():
    require_sanitizers()
    return build(*SANITIZE)


def play(built, folder, *words, preload=False, most_bytes=None, **more):
    fake, program, library, nvtx = built
    program = nvtx if words[0] == "nvtx" else program
    environment = injected({"PATH": os.environ["PATH"], **more}, library, [fake], folder)
    environment |= {"FAKE_CUPTI": str(fake), "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0"}
    if not preload:
        del environment["LD_PRELOAD"]

    def limit():
        if most_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    ended = subprocess.run(
        (program, *words), env=environment, capture_output=True, text=True, check=False, preexec_fn=limit
    )
    assert "Sanitizer" not in ended.stderr
    assert "runtime error" not in ended.stderr, ended.stderr
    return ended.returncode, read_launches(folder)


@pytest.mark.parametrize("count", [0, 10, 20_000])
def test_every_kernel_of_both_gpus_arrives(sanitized, tmp_path, count):
    code, log = play(sanitized, tmp_path, "", str(count))
    assert code == 3
    assert log.dropped == 0
    assert log.remarks == ()
    assert log.processes == 1
    if not count:
        assert log.by_gpu == {}
        return
    assert set(log.by_gpu) == set(GPUS)
    found = sorted(
        (int(start), int(end), launches.names[name], gpu)
        for gpu, launches in log.by_gpu.items()
        for start, end, name in zip(launches.start_ns, launches.end_ns, launches.name, strict=True)
    )
    base = found[0][0]
    assert found == [
        (base + 10 * i, base + 5 + 10 * i, f"kernel_{i % 3000}", GPUS[i % 2]) for i in range(count)
    ]
    assert {lane for launches in log.by_gpu.values() for lane in launches.lanes} == {
        f"process {log.by_gpu[GPUS[0]].lanes[0].split()[1].rstrip(',')}, stream 7"
    }


def test_lost_and_unfinished_kernels_are_counted(sanitized, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert play(sanitized, tmp_path / "a", "loss")[1].dropped == 5
    assert play(sanitized, tmp_path / "b", "unfinished")[1].dropped == 1


def test_where_the_disk_is_full_what_is_written_is_whole_and_the_rest_is_counted(sanitized, tmp_path):
    # A limit that tears a record. The names, of which there are 3,000, are written before.
    code, log = play(sanitized, tmp_path, "", "20000", most_bytes=32 * 5000 + 17)
    assert code == 3
    assert "kernels are not known" not in " ".join(log.remarks)
    seen = sum(map(len, log.by_gpu.values()))
    assert 3_000 < seen <= 5_000
    assert log.dropped == 20_000 - seen
    assert {name for one in log.by_gpu.values() for name in one.names} <= {f"kernel_{i}" for i in range(3000)}
    (records,) = tmp_path.glob("*.bin")
    assert records.stat().st_size == 32 * seen


def test_kernels_are_stamped_by_the_host_clock(sanitized, tmp_path):
    before_ns = time.monotonic_ns()
    _, log = play(sanitized, tmp_path, "clock", "0")
    (start_ns,) = log.by_gpu[GPUS[0]].start_ns
    assert before_ns <= start_ns <= time.monotonic_ns()


def test_a_crash_keeps_what_was_written_and_says_so(sanitized, tmp_path):
    code, log = play(sanitized, tmp_path, "crash", "20000")
    assert code != 3
    assert sum(map(len, log.by_gpu.values())) > 10_000
    assert "did not end by itself" in log.remarks[0]


def test_a_crash_loses_a_small_buffer_of_kernels_at_most(sanitized, tmp_path):
    _, log = play(sanitized, tmp_path, "crash", "30", FAKE_RUNNING="1")
    assert 19 <= sum(map(len, log.by_gpu.values())) < 30
    assert "its last kernels" in log.remarks[0]


def test_a_forked_child_writes_nothing_twice(sanitized, tmp_path):
    code, log = play(sanitized, tmp_path, "fork", "7")
    assert code == 3
    assert sum(map(len, log.by_gpu.values())) == 7
    assert log.processes == 1


def test_another_tool_shares_cupti(plain, tmp_path):
    before_ns = time.monotonic_ns()
    # The exit code says that the other tool got the 50 kernels of its own time, and no others.
    code, log = play(plain, tmp_path, "shared", "8", preload=True)
    assert code == 3
    assert "used CUPTI beside" in log.remarks[0]
    assert log.dropped == 0
    assert sum(map(len, log.by_gpu.values())) == 8 + 50 + 25
    # The other tool's clock was another one; the host's time is found again.
    starts_ns = np.concatenate([launches.start_ns for launches in log.by_gpu.values()])
    assert before_ns <= starts_ns.min()
    assert starts_ns.max() <= time.monotonic_ns()


def test_where_another_tool_begins_kernels_are_looked_at_at_once(plain, tmp_path):
    words = ("many", "20000", "shared")
    code, log = play(plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="1000")
    assert (code, log.is_counted, len(log.unseen_ns)) == (3, True, 1)
    starts_ns = [
        start_ns
        for one in log.by_gpu.values()
        for name, start_ns in zip(one.name.tolist(), one.start_ns.tolist(), strict=True)
        if one.names[name].startswith("kernel_")
    ]
    assert len(starts_ns) == 50 + 25
    (text,) = tmp_path.glob("*.txt")
    on_ns = [int(line.split()[1]) for line in text.read_text().splitlines() if line.startswith("on ")]
    assert on_ns[0] <= min(starts_ns)


def test_kernels_that_come_too_fast_are_seen_in_turns(plain, tmp_path):
    _, log = play(plain, tmp_path, "fast", PTXBENCH_MAX_LAUNCH_RATE="2000")
    seen = sum(map(len, log.by_gpu.values()))
    assert 0 < seen < 4000
    assert log.unseen_ns
    starts_ns = np.concatenate([launches.start_ns for launches in log.by_gpu.values()])
    for off_ns, on_ns in log.unseen_ns:
        assert off_ns < on_ns
        assert not np.any((starts_ns > off_ns + 5_000_000) & (starts_ns < on_ns))
    assert log.dropped == 0


def test_launches_that_are_not_seen_are_counted(plain, tmp_path):
    # They are five times as fast meanwhile, so that an estimate by time would find a fourth of them.
    # However busy the machine is, they come faster than what is allowed.
    launched = 200_000
    code, log = play(plain, tmp_path, "many", str(launched), preload=True, PTXBENCH_MAX_LAUNCH_RATE="1000")
    assert code == 3
    assert log.is_counted
    (seen,) = log.by_gpu.values()
    assert len(seen) < launched / 2
    calls = dict(zip(seen.names, np.bincount(seen.name, seen.weight), strict=True))
    assert calls["often"] == pytest.approx(launched * 2 / 3, rel=0.01)
    assert calls["seldom"] == pytest.approx(launched / 3, rel=0.01)


def test_a_program_that_ends_late_has_no_turn_behind_its_end(plain, tmp_path):
    # Launches so fast that the next turn is due while it ends.
    words = ("many", "3000", "late")
    code, log = play(plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="10000")
    assert (code, log.dropped) == (3, 0)
    (seen,) = log.by_gpu.values()
    # A busy machine may be so slow that a turn comes before.
    assert (len(seen) if seen.weight is None else seen.weight.sum()) == pytest.approx(3000)
    (text,) = tmp_path.glob("*.txt")
    # Kernels would be supposed from there to the end of the process.
    assert text.read_text().splitlines()[-1].startswith("end ")


def test_launches_of_a_program_that_is_killed_while_they_are_not_seen_are_counted(plain, tmp_path):
    words = ("many", "40000", "killed")
    assert play(plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="1000")[0] == -signal.SIGKILL
    log = read_launches(tmp_path, time.monotonic_ns() + 10**10)
    assert log.is_counted
    (seen,) = log.by_gpu.values()
    assert seen.weight.sum() == pytest.approx(40_000, rel=0.05)
    assert log.unseen_ns[-1][1] < time.monotonic_ns()


def test_kernels_of_graphs_are_seen_in_turns_with_their_own_times(plain, tmp_path):
    # 168,000 kernels in 1.7 s. The fake's kernels have the times of their whole graph where CUPTI is switched
    # or flushed amid one. A graph that was made while kernels were looked at is traced on when they are not.
    made = 2100
    launched = 1400 * 100 + 700 * 40
    words = ("graphs", str(made))
    code, log = play(plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000")
    assert (code, log.dropped, log.is_counted, log.remarks) == (3, 0, True, ())
    (seen,) = log.by_gpu.values()
    assert log.unseen_ns
    assert len(seen) < launched / 10
    lengths_ns = seen.end_ns - seen.start_ns
    assert set(lengths_ns[seen.name == seen.names.index("small")].tolist()) == {4000}
    assert seen.weight.sum() == pytest.approx(launched, rel=0.02)
    for off_ns, on_ns in log.unseen_ns:
        assert not np.any((seen.start_ns > off_ns) & (seen.start_ns < on_ns))
    (text,) = tmp_path.glob("*.txt")
    assert text.read_text().rstrip().endswith(f" 0 {launched}")


def test_a_turn_waits_for_the_graphs_of_a_host_that_runs_far_ahead(plain, tmp_path):
    # The exit code says that CUPTI was switched and flushed while no graph ran.
    words = ("graphs", "600")
    code, log = play(
        plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000", FAKE_AHEAD_MS="300"
    )
    assert (code, log.is_counted, len(log.unseen_ns)) == (3, True, 1)


def test_a_host_that_would_run_far_ahead_is_held_while_kernels_are_looked_at(plain, tmp_path):
    # It would launch all of 2.4 s at once, which would all be looked at then.
    launched = 2000 * 100 + 1000 * 40
    words = ("graphs", "3000")
    code, log = play(
        plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000", FAKE_AHEAD_MS="9000"
    )
    assert (code, log.is_counted, log.remarks) == (3, True, ())
    (seen,) = log.by_gpu.values()
    assert len(seen) < launched / 20
    assert seen.weight.sum() == pytest.approx(launched, rel=0.02)


def test_behind_a_turn_cupti_is_left_and_another_tool_finds_it(plain, tmp_path):
    # Kernels come too fast at first, so that none are looked at when the graphs begin.
    words = ("graphs", "300", "0", "0", "shared")
    code, log = play(plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000")
    assert (code, log.is_counted) == (3, True)
    assert "another tool" in " ".join(log.remarks)


@pytest.mark.parametrize(
    ("how", "more", "why"),
    [
        ("threads", {}, "several threads launch"),
        ("capture", {}, "another stream was busy, or another tool has its callbacks"),
        ("upload", {}, "a graph was launched while no kernels were looked at"),
        ("made", {}, "a graph was launched while no kernels were looked at"),
        ("cancelled", {"FAKE_AHEAD_MS": "100"}, None),
        ("", {"FAKE_STAYS": "1"}, "CUPTI does not let itself be removed"),
    ],
)
def test_where_it_may_do_harm_to_leave_cupti_it_stays(plain, tmp_path, how, more, why):
    # The exit code says that no graph was spoilt.
    words = ("graphs", "150", "0", "0", how)
    code, log = play(plain, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000", **more)
    assert (code, log.is_counted) == (3, True)
    said = [f"CUPTI stayed where CUDA graphs were not looked at ({why})" in one for one in log.remarks]
    assert said == ([True] if why else [])


@pytest.mark.parametrize(("how", "more"), [("stuck", {}), ("", {"FAKE_LEAVES": "1"})])
def test_cupti_comes_back_or_is_left_alone(hasty, tmp_path, how, more):
    # Its stream is never idle again, or CUPTI does not start a second time.
    words = ("graphs", "1600" if more else "60", "0", "0", how)
    code, log = play(hasty, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000", **more)
    assert (code, log.is_counted, len(log.unseen_ns)) == (3, True, 1)


def test_a_host_that_runs_far_ahead_is_not_waited_for_to_bring_cupti_back(hasty, tmp_path):
    # Twice 1,000 graphs, 0.8 s of the GPU, half of it ahead: longer than an idle stream would be waited for.
    words = ("graphs", "2000", "0", "1000")
    code, log = play(
        hasty, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000", FAKE_AHEAD_MS="400"
    )
    assert (code, log.is_counted, log.remarks) == (3, True, ())
    (seen,) = log.by_gpu.values()
    assert len(seen) < 2000 * 80 / 10
    assert len(log.unseen_ns) >= 2


def test_no_turn_is_taken_amid_graphs_that_the_host_waits_for(plain, tmp_path):
    # 200 graphs of 0.8 ms at a time, while a turn of looking is over after 20 ms and is waited for 0.1 s.
    # This CUPTI is too old to be left.
    words = ("graphs", "800", "0", "200")
    code, log = play(
        *(plain, tmp_path, *words), preload=True, FAKE_VERSION="28", PTXBENCH_MAX_LAUNCH_RATE="20000",
        FAKE_AHEAD_MS="900",
    )  # fmt: skip
    assert (code, log.is_counted) == (3, True)
    assert "CUPTI stayed" in " ".join(log.remarks)
    (seen,) = log.by_gpu.values()
    assert seen.weight.sum() == pytest.approx(800 * 80, rel=0.01)


def test_where_a_stream_is_never_idle_all_kernels_of_graphs_are_looked_at(hasty, tmp_path):
    # A kernel may wait for what its host does next. The host waits for it once.
    words = ("graphs", "60", "4")
    code, log = play(hasty, tmp_path, *words, preload=True, PTXBENCH_MAX_LAUNCH_RATE="20000")
    assert (code, log.dropped, log.unseen_ns) == (3, 0, ())
    (seen,) = log.by_gpu.values()
    assert len(seen) == 40 * 100 + 20 * 40


def test_nvtx_ranges_arrive_with_their_names(sanitized, tmp_path):
    code, log = play(sanitized, tmp_path, "nvtx")
    assert code == 3
    assert log.processes == 0
    assert log.remarks == ()
    found = {ranges.name: ranges for ranges in log.ranges}
    assert set(found) == {"outer\nrange", "inn\u00e9r", "library: call", "crossed", "started", "deep"}
    assert len(found["deep"]) == 256
    inner, outer = found["inn\u00e9r"], found["outer\nrange"]
    assert outer.start_ns[0] <= inner.start_ns[0] < inner.end_ns[0] <= outer.end_ns[0]
    assert inner.end_ns[0] - inner.start_ns[0] >= 2_000_000


# What Python, or a reader of lines, takes for the end of a line or a field.
ENDS = [*"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\t\x1b\x01\x7f", "\r\n", "\\n", "\\", "\\x0a", " ", ""]
ENTRIES = [
    "name 0 forged",
    "dropped 77",
    "device 0 GPU-forged",
    "refused forged",
    "end 5 5",
    "off 1 1",
    "\u00e9",
]


@pytest.mark.hostile
def test_no_name_is_taken_for_an_entry_of_the_log(sanitized, tmp_path):
    rng = Random(7)
    names = {
        "".join(rng.choice(one) for one in rng.choices([ENDS, ENTRIES, ["kernel"]], k=5)) for _ in range(3000)
    } | {f"kernel{end}{entry}{last}" for end in ENDS for entry in ENTRIES for last in ("", "\n")}
    file = tmp_path / "names"
    file.write_bytes(b"".join(name.encode() + b"\0" for name in sorted(names)))
    (tmp_path / "kernels").mkdir()
    code, log = play(sanitized, tmp_path / "kernels", "names", "0", str(file))
    assert (code, log.dropped, log.remarks, log.unseen_ns) == (3, 0, (), ())
    assert list(log.by_gpu) == [GPUS[0]]
    assert sorted(log.by_gpu[GPUS[0]].names) == sorted(names)
    few = sorted(names)[:900]  # a report keeps the first thousand
    file.write_bytes(b"".join(name.encode() + b"\0" for name in few))
    (tmp_path / "ranges").mkdir()
    code, log = play(sanitized, tmp_path / "ranges", "nvtx", str(file))
    assert (code, log.dropped, log.remarks) == (3, 0, ())
    assert sorted(one.name for one in log.ranges) == few


@pytest.mark.parametrize("more", [{"FAKE_VERSION": "13"}, {"FAKE_VERSION": "140000"}, {"FAKE_BUSY": "1"}])
def test_an_unknown_or_taken_cupti_is_refused_in_a_line(plain, tmp_path, more):
    code, log = play(plain, tmp_path, "refused", **more)
    assert code == 0
    assert log.by_gpu == {}
    assert "kernels are not known" in log.remarks[0]


def test_a_program_without_cuda_writes_nothing(plain, tmp_path):
    assert play(plain, tmp_path, "idle", preload=True)[1].processes == 0


@pytest.mark.hostile
def test_a_log_that_was_cut_off_is_read_as_far_as_it_goes(plain, tmp_path):
    play(plain, tmp_path, "", "10")
    (file,) = tmp_path.glob("*.bin")
    file.write_bytes(file.read_bytes()[:-5])
    assert sum(map(len, read_launches(tmp_path).by_gpu.values())) == 9
    (file,) = tmp_path.glob("*.txt")
    text = file.read_bytes()
    file.write_bytes(text[: text.index(b"kernel_8\n") + 7])
    names = {name for one in read_launches(tmp_path).by_gpu.values() for name in one.names}
    assert "kernel_7" in names
    assert "(name 8 was not written)" in names


def test_the_injector_is_built_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = build_injector()
    assert tmp_path in first.parents
    assert build_injector(compiler="no-such-compiler") == first


def test_without_a_compiler_there_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ToolError, match="no C compiler"):
        build_injector(compiler="no-such-compiler")


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["with a space", "with:colon", "with$ORIGIN"])
def test_the_loader_finds_the_injector_wherever_the_cache_is(plain, tmp_path, monkeypatch, name):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    build_injector()
    library = build_injector(compiler="no-such-compiler")
    environment = injected({"PATH": os.environ["PATH"]}, library, [plain[0]], tmp_path)
    # The loader complains of what it does not find, and goes on.
    ended = subprocess.run([TRUE], env=environment, capture_output=True, text=True, check=True)
    assert ended.stderr == ""


@pytest.mark.hostile
def test_an_injector_that_others_may_have_written_is_not_loaded(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = build_injector()
    content = first.read_bytes()
    first.write_bytes(b"theirs")
    first.chmod(0o666)
    second = build_injector()
    assert second.read_bytes() == content
    assert "others may write" in caplog.text


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """The library that came with a wheel; no other is kept, and there is no compiler."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    native = tmp_path / "native"
    native.mkdir()
    monkeypatch.setattr("ptxbench.attribute.injector_source.compiled", lambda _text: b"a library")
    made = write_library(native, NATIVE)
    monkeypatch.setattr(injector, "shipped_library", lambda name: shipped_library(name, native))
    return made


def test_with_a_wheel_of_this_machine_no_compiler_is_needed(shipped):
    library, checksum = shipped
    assert build_injector(compiler="no-such-compiler") == library
    words = ("sha256sum", "--check", "--quiet", checksum.name)
    subprocess.run(words, cwd=checksum.parent, check=True)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "harm", ["changed", "of another source", "without its checksum", "a damaged checksum"]
)
def test_a_library_that_is_not_the_wheels_is_not_loaded(shipped, harm):
    library, checksum = shipped
    if harm == "changed":
        library.write_bytes(b"another one")
    elif harm == "of another source":
        library.rename(library.with_name("injector-0123456789abcdef.so"))
    elif harm == "without its checksum":
        checksum.unlink()
    else:
        checksum.write_bytes(b"\xff\xfe")
    with pytest.raises(ToolError, match="no C compiler"):
        build_injector(compiler="no-such-compiler")


def test_a_wheel_in_a_folder_that_the_loader_takes_apart_is_copied(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    native = tmp_path / "with a blank"
    native.mkdir()
    monkeypatch.setattr("ptxbench.attribute.injector_source.compiled", lambda _text: b"a library")
    library, _ = write_library(native, NATIVE)
    monkeypatch.setattr(injector, "shipped_library", lambda name: shipped_library(name, native))
    copied = build_injector(compiler="no-such-compiler")
    assert " " not in str(copied)
    assert copied.read_bytes() == library.read_bytes()


def test_the_newest_cupti_that_the_driver_can_use_comes_first(tmp_path):
    for version in (12, 13, 14):
        (tmp_path / "lib64").mkdir(exist_ok=True)
        (tmp_path / "lib64" / f"libcupti.so.{version}").touch()
    found = [path.name for path in find_cupti("sh", 13, [tmp_path]) if tmp_path in path.parents]
    assert found == ["libcupti.so.13", "libcupti.so.12"]
