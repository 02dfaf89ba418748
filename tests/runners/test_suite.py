"""The instruction suite: its split is as it was fixed; every case has a kernel, data and a number."""

import hashlib
import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.gpu_libraries import HOLDERS, SMS, install
from validation_file import Purpose

ROOT = Path(__file__).parents[2]
RUNNERS = ROOT / "runners"
# suite_data imports no library and keeps what it made, so that it is loaded once.
MODULES = ("suite_split", "suite_cases", "kernel_session", "kernel_counts", "validate_kernels")
# Kernels of the suite would be the same machine code under another name.
LIBRARY_KERNELS = {"hash32", "nbody", "xorshift"}
SUITES = ("instruction", "field", "code")
LARGE = {1 << 20, 1 << 25, 1 << 26, 1 << 28}


@pytest.fixture
def load(monkeypatch):
    """Import a module of the runners, with stand-ins for PyTorch and CuPy; `load.launches` are launches."""
    monkeypatch.syspath_prepend(str(RUNNERS))
    launches = install(monkeypatch)
    sys.modules["cupy"].asarray = lambda words: words
    sys.modules["cupy"].tile = lambda words, times: range(times * len(words))
    for name in (*HOLDERS, *MODULES):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def module(name):
        return importlib.import_module(name)

    module.launches = launches
    yield module
    for name in (*HOLDERS, *MODULES):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("suite", ["instruction", "field"])
def test_the_split_is_the_one_that_was_fixed_before_anything_was_measured(load, suite):
    split, _ = load("suite_split").SPLITS[suite]
    page = (ROOT / "studies" / "model" / "fit.md").read_text()
    written = re.search(rf"{re.escape(split.name)}`[^.]*?`([0-9a-f]{{64}})`", page, re.S)
    assert written is not None
    assert hashlib.sha256(split.read_bytes()).hexdigest() == written[1]


def test_judged_and_fit_kernels_are_of_other_families_and_other_code(load):
    kernels = load("suite_split").read_split()
    families = {purpose: {k.family for k in kernels if k.purpose is purpose} for purpose in Purpose}
    assert len(kernels) >= 40
    assert len(families[Purpose.JUDGED]) >= 6
    assert not families[Purpose.JUDGED] & families[Purpose.FIT]
    names = [k.name for k in kernels]
    assert len(set(names)) == len(names)
    assert not LIBRARY_KERNELS & set(names)


@pytest.mark.parametrize("suite", SUITES)
def test_every_kernel_of_the_split_has_code_and_all_code_is_in_the_split(load, suite):
    split = load("suite_split")
    kernels = split.read_split(suite)
    for code in {k.code for k in kernels}:
        written = re.findall(r"^(?:KERNEL|MMA|OPERATOR)\((\w+)[,)]", split.source_of(code), re.M)
        assert set(written) - {"name", "NAME"} == {k.name for k in kernels if k.code == code}


def test_the_third_suite_is_judged_alone_and_has_no_kernel_of_the_others(load):
    read = load("suite_split").read_split
    field = read("field")
    assert len(field) >= 20
    assert {k.purpose for k in field} == {Purpose.JUDGED}
    assert {k.bound for k in field} == {"instructions", "memory"}
    assert not {k.name for k in field} & ({k.name for k in read()} | LIBRARY_KERNELS)


@pytest.mark.parametrize("suite", SUITES)
def test_each_kernel_is_counted_once_on_random_data_or_on_each_kind(load, suite):
    cases = load("suite_cases").all_cases(suite)
    random = {c.name for c in cases if c.operands == "random"}
    assert {c.name for c in cases} - random == {"sleep"}
    assert len({(c.name, c.operands) for c in cases}) == len(cases)
    # As many marker kernels are there, and no more.
    assert len(cases) <= load("kernel_cases")._MARKERS
    told = {"instruction": {"branch/collatz-u32", "branch/gcd-u32"}, "field": {"graph/triangles-u32"}}
    assert {c.name for c in cases if c.data_decides} >= told.get(suite, set())


@pytest.mark.parametrize(("suite", "words"), [("instruction", {1 << 20}), ("field", LARGE)])
def test_every_block_is_on_an_sm_at_once_and_reads_words_of_its_kind(load, suite, words):
    for case in load("suite_cases").all_cases(suite):
        case.prepare(case.operands)()
    launches = load.launches[:-1]  # without the sleeping kernel
    assert {grid[0] % SMS for _, grid, _, _ in launches} == {0}
    assert all(grid[0] / SMS * block[0] <= 2048 for _, grid, block, _ in launches)
    assert {len(arguments[0]) for _, _, _, arguments in launches} == words
    assert all(
        arguments[1].size >= len(arguments[0]) or len(arguments[0]) == 1 << 20 for *_, arguments in launches
    )


@pytest.mark.parametrize("data_type", ["u32", "f16", "bf16", "f32", "f64"])
def test_data_are_what_their_kind_says(load, data_type):
    of = load("suite_data").input_words
    assert not of("zeros", data_type).any()
    assert len(np.unique(of("constant", data_type)[: 1 << 12].reshape(-1, 2), axis=0)) == 1
    assert len(np.unique(of("random", data_type)[: 1 << 16])) > 1 << 14
    # Nine of ten values are 0; two of 16 bits make a word.
    zeros = np.mean(of("sparse", data_type).reshape(-1, 2).max(axis=1) == 0)
    assert zeros == pytest.approx({"u32": 0.81, "f32": 0.81, "f64": 0.9}.get(data_type, 0.9**4), abs=0.01)


def test_small_integers_images_and_text_are_such(load):
    of = load("suite_data").input_words
    assert set(np.unique(of("integers", "u32"))) == set(range(256))
    assert set(np.unique(of("integers", "f32").view(np.float32))) == set(range(16))
    assert all(chr(c).isprintable() or c == 10 for c in np.unique(of("text", "u32").view(np.uint8)))
    pixels = of("image", "f32").view(np.float32)
    assert 0 <= pixels.min() < pixels.max() <= 1
    assert np.abs(np.diff(pixels)).mean() < pixels.std() / 4
    assert of("weights", "f64").view(np.float64).std() == pytest.approx(0.02, rel=0.01)
