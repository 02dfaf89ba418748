"""Stacks of energy, and the files that other programs show as flame graphs."""

import gzip
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ptxbench.api.window_energy import GpuEnergy
from ptxbench.attribute.attribution import NO_KERNEL, Share
from ptxbench.attribute.launches import Launches, LaunchLog
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.ranges import RangeKind, Ranges
from ptxbench.attribute.replay.profile import profile_of
from ptxbench.attribute.replay.replayed import STEP_FILE, ProfileFolder
from ptxbench.attribute.replay.shown import document
from ptxbench.attribute.stack_formats import FORMATS, collapsed, format_of, hatchet, pprof, speedscope
from ptxbench.attribute.stacks import (
    Stack,
    Stacks,
    by_range,
    module_frames,
    profile_stacks,
    program_stacks,
    tree,
)
from ptxbench.cli.main import run
from ptxbench.core.errors import InputError

H100 = Path(__file__).parents[2] / "results" / "nvidia-h100"
PROFILES = H100 / "profiles"
STACKS = Stacks(
    "a step",
    (
        Stack(("gpu", "train", "gemm"), 2.0, 0.5, 10),
        Stack(("gpu", "train", "norm;x"), 1.0, 0.25, 20),
        Stack(("gpu", "idle"), 0.5, 1.0, 1),
    ),
)

FRAMES = [one.frames for one in STACKS.stacks]


def ns(*seconds):
    return np.array([round(s * 1e9) for s in seconds], dtype=np.int64)


def launches(names, which, starts_s, ends_s, weight=None):
    zero = np.zeros(len(which), dtype=np.int64)
    return Launches(tuple(names), np.array(which), ns(*starts_s), ns(*ends_s), ("lane",), zero, weight)


def ranges(name, start_s, end_s):
    return Ranges(name, RangeKind.NVTX, ns(start_s), ns(end_s))


def test_a_tree_adds_up():
    root = tree(STACKS)
    (gpu,) = root.within()
    assert (root.energy_j, root.time_s, root.own_j) == (3.5, 1.75, 0.0)
    assert [one.name for one in gpu.within()] == ["train", "idle"]
    assert [one.energy_j for one in gpu.within()] == [3.0, 0.5]
    assert gpu.within()[0].own_j == 0.0
    assert [one.own_j for one in gpu.within()[0].within()] == [2.0, 1.0]


def test_collapsed_lines_have_microjoules_and_no_frame_breaks_them():
    lines = collapsed(STACKS).decode().splitlines()
    assert lines == ["gpu;train;gemm 2000000", "gpu;train;norm,x 1000000", "gpu;idle 500000"]


def test_speedscope_has_energy_and_time_of_the_same_stacks():
    plain = json.loads(speedscope(STACKS))
    names = [frame["name"] for frame in plain["shared"]["frames"]]
    energy, time = plain["profiles"]
    assert plain["$schema"].endswith("file-format-schema.json")
    assert [tuple(names[i] for i in sample) for sample in energy["samples"]] == FRAMES
    assert energy["weights"] == [2e6, 1e6, 5e5]
    assert energy["endValue"] == pytest.approx(3.5e6)
    assert (time["unit"], time["endValue"]) == ("nanoseconds", 1.75e9)
    assert {one["type"] for one in plain["profiles"]} == {"sampled"}
    assert len(energy["samples"]) == len(energy["weights"])


def test_speedscope_is_what_its_own_schema_asks_for():
    jsonschema = pytest.importorskip("jsonschema", reason="the extra tune is not installed")
    schema = json.loads(Path(__file__).with_name("speedscope_schema.json").read_text())
    plain = json.loads(speedscope(STACKS))
    jsonschema.validate(plain, schema)
    del plain["profiles"][0]["weights"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain, schema)


def test_hatchet_has_a_tree_with_metrics():
    (gpu,) = json.loads(hatchet(STACKS))
    assert gpu["frame"] == {"name": "gpu", "type": "function"}
    assert gpu["metrics"]["energy (inc)"] == 3.5
    train = gpu["children"][0]
    assert [one["metrics"]["energy"] for one in train["children"]] == [2.0, 1.0]


def fields(data):
    """Return what a message of protocol buffers holds, by field: numbers and bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.setdefault(key >> 3, []).append(varint())
        else:
            assert key & 7 == 2
            size = varint()
            found.setdefault(key >> 3, []).append(data[at : at + size])
            at += size
    return found


def packed(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            values.append(value)
            value = shift = 0
    return values


def test_pprof_is_a_profile_by_its_definition():
    profile = fields(gzip.decompress(pprof(STACKS)))
    texts = [text.decode() for text in profile[6]]
    assert texts[0] == ""
    types = [(texts[fields(one)[1][0]], texts[fields(one)[2][0]]) for one in profile[1]]
    assert types == [("energy", "microjoules"), ("time", "nanoseconds"), ("calls", "count")]
    functions = {fields(one)[1][0]: texts[fields(one)[2][0]] for one in profile[5]}
    places = {fields(one)[1][0]: functions[fields(fields(one)[4][0])[1][0]] for one in profile[4]}
    samples = [(packed(fields(one)[1][0]), packed(fields(one)[2][0])) for one in profile[2]]
    # The innermost frame comes first.
    assert [tuple(places[i] for i in reversed(where)) for where, _ in samples] == FRAMES
    assert samples[0][1] == [2_000_000, 500_000_000, 10]
    assert texts[profile[14][0]] == "energy"
    assert 0 not in places
    assert pprof(STACKS) == pprof(STACKS)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.pb.gz", "pprof"),
        ("a.speedscope.json", "speedscope"),
        ("a.collapsed", "collapsed"),
        ("a.folded", "collapsed"),
        ("a.hatchet.json", "hatchet"),
    ],
)
def test_the_ending_says_the_format(name, form):
    assert format_of(Path(name)) == form
    assert FORMATS[form](STACKS)


def test_an_ending_that_says_none_is_refused_with_those_that_do():
    with pytest.raises(InputError, match=r"\.speedscope\.json"):
        format_of(Path("a.json"))


def test_a_kernel_counts_for_the_range_that_was_opened_last():
    kernels = launches(["a", "b"], [0, 0, 1, 0], [1.0, 3.0, 5.0, 9.0], [2.0, 3.5, 6.0, 9.5])
    found = by_range(kernels, (ranges("outer", 0.5, 7.0), ranges("inner", 2.5, 4.0)))
    assert found["a"] == pytest.approx({"outer": 0.5, "inner": 0.25, "": 0.25})
    assert found["b"] == {"outer": 1.0}
    assert by_range(kernels, ()) == {}
    heavy = launches(["a"], [0, 0], [1.0, 9.0], [2.0, 10.0], np.array([3.0, 1.0]))
    assert by_range(heavy, (ranges("outer", 0.5, 7.0),))["a"] == pytest.approx({"outer": 0.75, "": 0.25})


class Recorded:
    """A run of one GPU with two kernels, of which the first ran in a range for half of its time."""

    def __init__(self):
        kernels = launches(["gemm", "norm"], [0, 0, 1], [1.0, 3.0, 5.0], [2.0, 4.0, 6.0])
        self.log = LaunchLog({"uuid": kernels}, ranges=(ranges("layer", 0.5, 2.5),))
        self.boards = (type("Board", (), {"facts": type("Facts", (), {"uuid": "uuid"})}),)


def program(*kernels):
    energy = GpuEnergy("gpu 0", 10.0, (9.0, 11.0), "samples")
    return ProgramEnergy(("x", "y"), 0, 6.0, (GpuShare(energy, kernels),), "a method", ())


def share(name, energy_j, **more):
    return Share((name,), 4, 2.0, energy_j, (0.0, 20.0), "regression", **more)


def test_a_program_has_gpu_range_and_kernel():
    found = program_stacks(Recorded(), program(share("gemm", 6.0), share("norm", 3.0), share(NO_KERNEL, 1.0)))
    assert {(one.frames, one.energy_j) for one in found.stacks} == {
        (("gpu 0", "layer", "gemm"), 3.0),
        (("gpu 0", "gemm"), 3.0),
        (("gpu 0", "norm"), 3.0),
        (("gpu 0", NO_KERNEL), 1.0),
    }
    assert found.title == "x y"


def test_kernels_that_cannot_be_told_apart_are_within_their_group():
    members = (share("gemm", 4.0), share("norm", 2.0))
    group = Share(("gemm", "norm"), 8, 4.0, 6.0, (5.0, 7.0), "not separable", members=members)
    found = program_stacks(Recorded(), program(group, share(NO_KERNEL, math.nan)))
    assert [one.frames for one in found.stacks] == [
        ("gpu 0", "2 kernels, not separable", "gemm"),
        ("gpu 0", "2 kernels, not separable", "norm"),
    ]


def test_without_kernels_the_gpu_is_one_frame():
    found = program_stacks(Recorded(), program())
    assert [(one.frames, one.energy_j) for one in found.stacks] == [(("gpu 0",), 10.0)]
    whole = Share(("gemm", NO_KERNEL), 8, 6.0, 10.0, (9.0, 11.0), "run too short for the sensor")
    found = program_stacks(Recorded(), program(whole))
    assert [(one.frames, one.energy_j) for one in found.stacks] == [(("gpu 0",), 10.0)]


@pytest.fixture(scope="module")
def decode():
    folder = ProfileFolder.open(PROFILES / "decode")
    with folder.recordings:
        return profile_of(folder)


def test_a_measured_step_is_the_sum_of_its_stacks(decode):
    found = profile_stacks(decode)
    assert sum(one.energy_j for one in found.stacks) == pytest.approx(decode.sum_j)
    root = tree(found)
    (products,) = [one for one in root.within() if one.name == "elementwise_kernel: MulFunctor"]
    # One function in several launch shapes, and several functions of one short name.
    assert len(products.within()) == 3
    assert all(" x " in one.name for one in products.within())
    assert "gaps" in {one.name for one in root.within()}


def test_modules_are_frames_around_their_launches(decode):
    row = next(one for one in decode.rows if one.calls > 2)
    modules = [""] * 2000
    modules[row.kind.instances[0]] = "Llama.layers.0"
    found = replace(decode, modules=tuple(modules))
    inside = [one for one in profile_stacks(found).stacks if one.frames[:3] == ("Llama", "layers", "0")]
    assert [(one.calls, one.energy_j) for one in inside] == [(1, pytest.approx(row.launch_j))]
    assert tree(profile_stacks(found)).energy_j == pytest.approx(tree(profile_stacks(decode)).energy_j)
    rows = [one for one in document(found)["rows"] if one.get("modules") != {"": one["calls"]}]
    assert [one["modules"] for one in rows if one["type"] == "kernel"] == [
        {"Llama.layers.0": 1, "": row.calls - 1}
    ]


def test_modules_of_too_few_launches_are_damage(tmp_path):
    run = shutil.copytree(PROFILES / "decode", tmp_path / "run")
    step = json.loads((run / STEP_FILE).read_text())
    (run / STEP_FILE).write_text(json.dumps({**step, "modules": ["Llama"]}))
    with pytest.raises(InputError, match=rf"{STEP_FILE}: modules has 1 of \d+ launches"):
        ProfileFolder.open(run)


@pytest.mark.parametrize(
    ("label", "frames"),
    [
        ("model.layers.0.mlp", ("model", "layers", "0", "mlp")),
        ("model.layers.0 backward", ("model", "layers", "0 backward")),
        ("step 1.5", ("step 1.5",)),
        ("v1.2: load", ("v1.2: load",)),
        ("step", ("step",)),
        ("", ()),
    ],
)
def test_labels_of_modules_are_frames_within_each_other(label, frames):
    assert module_frames(label) == frames


@pytest.mark.parametrize("ending", ["pb.gz", "speedscope.json", "collapsed", "hatchet.json"])
def test_report_writes_them(tmp_path, ending, capsys):
    path = tmp_path / f"decode.{ending}"
    assert run(["report", str(PROFILES / "decode"), "--flame", str(path)]) == 0
    assert path.stat().st_size > 1000
    assert "wrote" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["h200"], "--flame is for a profile of a step"),
        ([str(H100 / "roofline" / "f32-levels"), "--format", "html"], "--flame is for a profile of a step"),
        ([str(H100 / "calibration-0c9b")], "--flame is for a profile of a step"),
        (["h200", "--boards"], "it prints text or --json"),
        (["h200", "--opcodes"], "it prints text or --json"),
    ],
    ids=["table", "roofline", "calibration", "boards", "opcodes"],
)
def test_what_is_no_profile_has_no_stacks(tmp_path, capsys, arguments, words):
    path = tmp_path / "x.pb.gz"
    assert run(["report", *arguments, "--flame", str(path)]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert not path.exists()
