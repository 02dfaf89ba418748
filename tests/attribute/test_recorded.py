"""A run that is kept: worked out again from its folder, drawn on a time axis, shown as a page."""

import csv
import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes.browser import data_of
from fakes.loads import LoadedGpu

from ptxbench.api.board import open_boards
from ptxbench.attribute.attribution import NO_KERNEL
from ptxbench.attribute.launches import Launches, LaunchLog, innermost, join_launches, no_launches
from ptxbench.attribute.program import energy_of, recorded_board, recording, remarks_on
from ptxbench.attribute.ranges import RangeKind, join_ranges, read_windows
from ptxbench.attribute.recorded import RecordedProgram, keep, load, program_manifest
from ptxbench.attribute.report import csv_text, document
from ptxbench.attribute.timeline import events
from ptxbench.cli.main import run

H100 = Path(__file__).parents[2] / "results" / "nvidia-h100" / "programs"
EVIL = "<script>alert('x')</script>"
POWERS_W = {EVIL: 120.0, "_Z4copyPf": 330.0}


def record(rounds=60, is_simulated=True):
    """Run two kernels in turn on a simulated GPU, each in a range; return the recorded run."""
    made = LoadedGpu(seed=5)
    boards = open_boards(made.gpu)
    clock, rng = boards[0].clock, np.random.default_rng(5)
    parts, ranges = [], []
    with recording(boards) as recordings:
        start_ns = clock.now_ns()
        for _ in range(rounds):
            for lane, (name, power_w) in enumerate(POWERS_W.items()):
                begin_ns = clock.now_ns()
                made.load(rng.uniform(0.03, 0.09), power_w)
                times = (np.array([at], dtype=np.int64) for at in (begin_ns, clock.now_ns()))
                parts.append((name, *times, f"process 7, stream {lane}"))
                ranges.append((RangeKind.NVTX, f"part of {name}", begin_ns, clock.now_ns()))
        ranges.append((RangeKind.WINDOW, "all", start_ns, clock.now_ns()))
        end_ns = clock.now_ns()
    board = recorded_board(recordings[0])
    log = LaunchLog({"": join_launches(parts)}, 1, 2, ("a remark",), join_ranges(ranges))
    words = ["python", "train.py", EVIL]
    manifest = program_manifest(words, 3, (start_ns, end_ns), [board.facts], log, is_simulated=is_simulated)
    return RecordedProgram(manifest, (board,), log)


@pytest.fixture(scope="module")
def recorded():
    return record()


@pytest.fixture(scope="module")
def folder(recorded, tmp_path_factory):
    made = tmp_path_factory.mktemp("run")
    keep(recorded, made)
    return made


def test_a_kept_run_gives_the_same_numbers(recorded, folder):
    assert document(energy_of(load(folder))) == document(energy_of(recorded))


def test_ranges_have_rows_of_their_own(recorded):
    (gpu,) = energy_of(recorded).gpus
    kernels = {share.names[0]: share for share in gpu.kernels}
    ranges = {share.names[0]: share for share in gpu.ranges}
    for name in POWERS_W:
        part = ranges[f"part of {name}"]
        assert part.calls == kernels[name].calls == 60
        assert part.energy_j == pytest.approx(kernels[name].energy_j, rel=1e-3)
        assert part.method == "NVTX range"
    assert ranges["all"].energy_j == pytest.approx(gpu.energy.energy_j, rel=1e-3)
    assert ranges["all"].method == "EnergyMonitor window"


def test_in_csv_names_that_cannot_be_told_apart_stand_below_their_group_and_add_up(recorded):
    parts = [
        (name, np.array([start_ns]), np.array([end_ns]), f"process 7, stream {lane}")
        for one in recorded.log.ranges
        if one.name.startswith("part of")
        for start_ns, end_ns in zip(one.start_ns, one.end_ns, strict=True)
        for lane, name in enumerate(POWERS_W)
    ]
    log = LaunchLog({"": join_launches(parts)}, 1, 0, ())
    program = energy_of(RecordedProgram(recorded.manifest, recorded.boards, log))
    found = list(csv.DictReader(csv_text(program).splitlines()))
    members = [row for row in found if row["member_of"] == "group 1"]
    assert [row["kernels"] for row in found if not row["member_of"]] == ["group 1", NO_KERNEL]
    assert {row["kernels"] for row in members} == {EVIL, "copy(float*)"}
    assert sum(float(row["energy_j"]) for row in members) == pytest.approx(float(found[0]["energy_j"]))


@pytest.mark.hostile
def test_no_name_of_a_kernel_is_a_formula_in_csv(recorded):
    (launches,) = recorded.log.by_gpu.values()
    strange = replace(launches, names=("=HYPERLINK(1)", "\t@x\x1b"))
    log = replace(recorded.log, by_gpu={"": strange})
    text = csv_text(energy_of(replace(recorded, log=log)))
    assert {row["kernels"] for row in csv.DictReader(text.splitlines())} >= {"'=HYPERLINK(1)", "' @x\ufffd"}


def test_without_kernels_the_ranges_tell_the_power_apart(recorded):
    log = LaunchLog({}, 1, 0, (), recorded.log.ranges)
    whole = energy_of(recorded)
    found = energy_of(RecordedProgram(recorded.manifest, recorded.boards, log))
    assert found.gpus[0].kernels == ()
    by_kernels = {share.names[0]: share.energy_j for share in whole.gpus[0].ranges}
    for share in found.gpus[0].ranges:
        assert share.energy_j == pytest.approx(by_kernels[share.names[0]], rel=0.02)


def test_of_ranges_within_each_other_the_innermost_counts():
    spans = [("outer", 0, 100), ("inner", 20, 50), ("inner", 60, 70), ("late", 90, 130)]
    found = innermost(join_ranges((RangeKind.NVTX, *span) for span in spans))
    pieces = [
        (found.names[name], start, end)
        for name, start, end in zip(found.name, found.start_ns, found.end_ns, strict=True)
    ]
    assert pieces == [
        ("outer", 0, 20), ("inner", 20, 50), ("outer", 50, 60), ("inner", 60, 70),
        ("outer", 70, 90), ("late", 90, 100), ("late", 100, 130),
    ]  # fmt: skip


def test_ranges_of_one_name_that_overlap_count_once():
    (found,) = join_ranges((RangeKind.NVTX, "a", *span) for span in ((0, 10), (5, 8), (10, 12), (20, 30)))
    assert [side.tolist() for side in found.merged()] == [[0, 20], [12, 30]]
    assert [side.tolist() for side in found.until(-1).merged()] == [[], []]


def test_no_range_is_lost_where_each_has_a_name_of_its_own():
    found = join_ranges((RangeKind.NVTX, f"step {i}", 10 * i, 10 * i + 5) for i in range(1500))
    assert len(found) == 1001
    assert sum(map(len, found)) == 1500
    assert (found[-1].name, len(found[-1])) == ("(all further names)", 500)


def test_the_time_line_has_kernels_by_stream_power_and_clock_on_one_axis(recorded):
    program = energy_of(recorded)
    found = list(events(recorded, program))
    kernels = [event for event in found if event["ph"] == "X"]
    launches = recorded.log.by_gpu[""]
    assert len(kernels) == len(launches) == 120
    assert {event["tid"] for event in kernels} == {0, 1}
    assert {event["name"] for event in kernels} == {EVIL, "copy(float*)"}
    assert kernels[0]["ts"] == 0
    starts = [event["ts"] for event in kernels]
    assert starts == sorted(starts)
    counters = {event["name"] for event in found if event["ph"] == "C"}
    assert counters == {"power (W)", "SM clock (MHz)", "temperature (C)"}
    # A reading stands where it says the power was: within a kernel it is that kernel's.
    longest = max(kernels, key=lambda event: event["dur"] * (event["name"] == EVIL))
    middle, half = longest["ts"] + longest["dur"] / 2, longest["dur"] / 2 - 17_000
    near = [
        event["args"]["W"]
        for event in found
        if event["ph"] == "C" and "W" in event["args"] and abs(event["ts"] - middle) < half
    ]
    assert near
    assert max(near) - min(near) < 10
    begins = [event for event in found if event["ph"] == "b"]
    ends = [event for event in found if event["ph"] == "e"]
    assert {event["id"] for event in begins} == {event["id"] for event in ends}
    assert len(begins) == 121


def test_from_writes_time_line_and_page_of_a_kept_run(folder, tmp_path, capfd):
    trace, packed, html = (tmp_path / name for name in ("trace.json", "trace.json.gz", "page.html"))
    assert run(["run", "--from", str(folder), "--trace", str(trace), "--html", str(html)]) == 0
    assert "SIMULATED" in capfd.readouterr().out
    assert run(["run", "--from", str(folder), "--trace", str(packed)]) == 0
    plain = json.loads(trace.read_text())
    assert json.loads(gzip.decompress(packed.read_bytes())) == plain
    assert plain["otherData"]["simulated"] is True
    data = data_of(html.read_text())
    (gpu,) = data["sections"]
    assert data["simulated"] is True
    assert [plot["title"] for plot in gpu["plots"]] == ["Power", "SM clock"]
    assert [table["title"] for table in gpu["tables"]] == ["Kernels", "Ranges of the program"]
    assert {row["method"] for row in gpu["tables"][1]["rows"]} == {"NVTX range", "EnergyMonitor window"}


def test_methods_are_said_beside_the_report_of_a_kept_run(capfd):
    assert run(["run", "--from", str(H100 / "fma"), "--methods", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    energy_j = {one["method"]: one["energy_j"] for one in said["methods"]}
    assert energy_j["MTSM (Eq. 2)"] == pytest.approx(said["energy_j"], rel=0.01)
    # The program's last second has no kernel, and one reading at the end is all that PAPI-style has.
    assert energy_j["PAPI-style"] < 0.6 * said["energy_j"]
    assert run(["run", "--from", str(H100 / "fma"), "--methods"]) == 0
    assert "PAPI-style    842.31            -53.2%" in capfd.readouterr().out


@pytest.mark.parametrize("together", ["mixed", "events-mixed"])
def test_kernels_of_a_real_run_have_the_power_that_they_have_alone(together):
    # Kept runs of an H100: three kernels of 100 ms in turn, and each alone. A running mean misses by 7%.
    # Those that were timed by events ran on another board.
    def kernels(name):
        (gpu,) = energy_of(load(H100 / name)).gpus
        assert sum(share.energy_j for share in gpu.kernels) == pytest.approx(gpu.energy.energy_j)
        return {share.names[0]: share for share in gpu.kernels if share.names != (NO_KERNEL,)}

    mixed = kernels(together)
    assert len(mixed) == 3
    for name in ("fma", "copy", "wait"):
        ((kernel, alone),) = kernels(name).items()
        in_turn = mixed[kernel]
        assert in_turn.energy_j / in_turn.time_s == pytest.approx(alone.energy_j / alone.time_s, rel=0.03)
        low_w, high_w = (end / alone.time_s for end in alone.interval_j)
        assert in_turn.interval_j[0] / in_turn.time_s <= high_w
        assert in_turn.interval_j[1] / in_turn.time_s >= low_w


@pytest.mark.hostile
def test_no_text_of_a_run_is_markup_in_the_page(folder, tmp_path):
    html = tmp_path / "page.html"
    assert run(["run", "--from", str(folder), "--html", str(html)]) == 0
    text = html.read_text()
    assert text.count("</script>") == 2
    assert "\\u003cscript\\u003e" in text


@pytest.mark.hostile
def test_no_name_of_a_kernel_reaches_the_terminal_as_it_is(recorded, tmp_path, capfd):
    (launches,) = recorded.log.by_gpu.values()
    strange = replace(launches, names=("\x1b[2Jgone \u202e\u00fc", "k" * 10_000))
    keep(replace(recorded, log=replace(recorded.log, by_gpu={"": strange})), tmp_path)
    files = [word for kind in ("html", "trace") for word in (f"--{kind}", str(tmp_path / f"x.{kind}"))]
    assert run(["run", "--from", str(tmp_path), *files]) == 0
    said = capfd.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert max(map(len, said.splitlines())) < 200
    assert "\x1b" not in (tmp_path / "x.html").read_text()


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["run.json", "readings.parquet", "launches.parquet", "ranges.parquet"])
@pytest.mark.parametrize("text", [None, b"", b"{}", b"PAR1 broken"])
def test_a_folder_that_is_no_run_is_one_line(folder, tmp_path, capfd, name, text):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).unlink()
    if text is not None:
        (tmp_path / name).write_bytes(text)
    assert run(["run", "--from", str(tmp_path)]) == 2
    assert capfd.readouterr().err.count("\n") == 1


@pytest.mark.hostile
def test_a_board_that_nothing_read_is_one_line(folder, tmp_path, capfd):
    copied = shutil.copytree(folder, tmp_path / "damaged")
    plain = json.loads((copied / "run.json").read_text())
    plain["part"]["boards"][0]["sensors"] = []
    (copied / "run.json").write_text(json.dumps(plain))
    assert run(["run", "--from", str(copied)]) == 2
    said = capfd.readouterr().err
    assert "boards[0] has no sensors" in said
    assert said.count("\n") == 1


@pytest.mark.hostile
@pytest.mark.parametrize(
    "words",
    [
        ["--from", "nowhere"],
        ["--from", "nowhere", "--", "true"],
        ["--from", str(H100 / "fma"), "--timer", "events"],
        ["--from", str(H100 / "fma"), "--no-kernels"],
        [],
        ["--trace", __file__, "--", "true"],
        ["--html", __file__, "--", "true"],
        ["--trace", "no/such/folder/t.json", "--", "true"],
    ],
)
def test_bad_usage_of_a_kept_run_is_one_line(capfd, words):
    assert run(["run", *words]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_launches_of_no_gpu_are_kept(recorded, tmp_path):
    keep(RecordedProgram(recorded.manifest, recorded.boards, LaunchLog({})), tmp_path)
    found = load(tmp_path)
    assert found.log.by_gpu == {}
    assert energy_of(found).gpus[0].kernels == ()


def test_launches_keep_their_lanes(folder, recorded):
    kept, original = load(folder).log.by_gpu[""], recorded.log.by_gpu[""]
    assert isinstance(kept, Launches)
    names = [kept.names[i] for i in kept.name]
    assert names == [original.names[i] for i in original.name]
    assert [kept.lanes[i] for i in kept.lane] == [original.lanes[i] for i in original.lane]


@pytest.mark.parametrize(
    ("part", "log", "said"),
    [
        ({}, {"dropped": 3}, "3 kernels were lost: their energy is in '(no kernel)'"),
        (
            {},
            {"dropped": 3, "unseen_ns": ((0, 9),)},
            "3 kernels were lost: those that were seen stand for them",
        ),
        ({}, {"dropped": 0}, "kernels were lost"),
        ({}, {"processes": 0}, "no process of the command started CUDA"),
        ({"not_followed": "CUPTI is not there"}, {"processes": 0}, "CUPTI is not there"),
        ({"not_followed": "CUPTI is not there"}, {"processes": 0}, "no process of the command started CUDA"),
        ({"exit_code": None}, {}, "the run was not kept to its end"),
        (
            {},
            {"by_gpu": {}, "remarks": ("kernels are not known: no CUPTI",)},
            "energy by the program's ranges",
        ),
        ({}, {"by_gpu": {}, "remarks": ("no CUPTI not known",), "ranges": ()}, "whole-run energy"),
    ],
)
def test_what_the_reader_must_know_is_said_and_nothing_else(recorded, part, log, said):
    found = remarks_on(replace(recorded.manifest.part, **part), replace(recorded.log, **log))
    hidden = log.get("dropped") == 0 or (bool(part.get("not_followed")) and said.startswith("no process"))
    assert any(said in sentence for sentence in found) is not hidden


def test_of_time_unseen_its_share_is_said_and_whether_launches_were_counted_meanwhile(recorded):
    start_ns, length_ns = (
        recorded.manifest.part.start_ns,
        recorded.manifest.part.end_ns - recorded.manifest.part.start_ns,
    )
    unseen_ns = tuple(
        (start_ns + n * length_ns // 4, start_ns + n * length_ns // 4 + length_ns // 10) for n in (1, 2)
    )
    for is_counted, how in ((True, "estimated by the launches counted"), (False, "may be too low")):
        log = replace(recorded.log, unseen_ns=unseen_ns, is_counted=is_counted)
        said = remarks_on(recorded.manifest.part, log)
        (sentence,) = [one for one in said if "too fast" in one]
        assert "for 20% of the time" in sentence
        assert how in sentence


def test_kernels_of_a_gpu_that_was_not_read_are_said_and_those_of_none_leave_the_energy_whole(recorded):
    (launches,) = recorded.log.by_gpu.values()
    other = replace(recorded.log, by_gpu={**recorded.log.by_gpu, "GPU-7": launches})
    said = remarks_on(recorded.manifest.part, other)
    assert "kernels also ran on 1 GPUs that were not read: GPU-7" in said
    without = replace(recorded.log, by_gpu={"": no_launches()}, ranges=())
    (gpu,) = energy_of(RecordedProgram(recorded.manifest, recorded.boards, without)).gpus
    (share,) = gpu.kernels
    assert (share.names, share.calls, share.energy_j) == ((NO_KERNEL,), 0, gpu.energy.energy_j)
    assert share.interval_j == pytest.approx(gpu.energy.interval_j)


def test_ranges_are_joined_by_kind_and_name_in_order_and_one_that_ends_before_it_begins_is_none():
    parts = [("b", 5, 9), ("a", 7, 8), ("b", 1, 2), ("c", 4, 3), ("a", 2, 2)]
    found = join_ranges((RangeKind.NVTX, *part) for part in parts)
    spans = {one.name: list(zip(one.start_ns.tolist(), one.end_ns.tolist(), strict=True)) for one in found}
    assert spans == {"b": [(1, 2), (5, 9)], "a": [(2, 2), (7, 8)]}


def test_windows_are_read_from_all_files_and_lines_that_hold_none_are_left_out(tmp_path):
    good = '{"name": "step", "start_ns": 5, "end_ns": 9}\n'
    bad = (
        '{"name": "step", "start_ns": 5}\n',
        "[]\n",
        "no JSON\n",
        '{"name": 1, "start_ns": "x", "end_ns": 2}\n',
    )
    (tmp_path / "1.windows").write_text("".join(bad) + good)
    (tmp_path / "2.windows").write_text(good.replace("5", "15").replace("9", "19") + good[:20])
    (one,) = read_windows(tmp_path)
    assert (one.name, one.kind) == ("step", RangeKind.WINDOW)
    assert (one.start_ns.tolist(), one.end_ns.tolist()) == ([5, 15], [9, 19])
