"""What moves an instruction's energy: the words of each case, and the table from a made-up session."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from validation_file import KernelCase, KernelTrial, Purpose, kernel_session

from ptxbench.core.gpu_info import GpuInfo

RUNNERS = Path(__file__).parents[2] / "runners"
MODULES = ("move_cases", "compare_moves")


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(RUNNERS))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def words_of(module, kernel, condition):
    case = next(c for c in module.move_cases() if (c.kernel, c.condition) == (kernel, condition))
    return module.input_words(case).reshape(16, -1)


@pytest.mark.parametrize("kernel", ["ffma", "hfma2", "imad", "lop3"])
def test_the_words_of_an_operand_differ_by_the_distance_that_the_condition_says(load, kernel):
    module = load("move_cases")
    for condition, distances in (
        ("still", (0, 0, 0)),
        ("a4", (4, 0, 0)),
        ("a8", (8, 0, 0)),
        ("b16", (0, 16, 0)),
    ):
        words = words_of(module, kernel, condition)
        found = [set(np.bitwise_count(words[2 * i] ^ words[2 * i + 1])) for i in range(3)]
        assert found == [{one} for one in distances]
    words = words_of(module, kernel, "b-random")
    assert (words[0] == words[1]).all()
    assert np.bitwise_count(words[2] ^ words[3]).mean() > 8


def test_what_floats_add_leaves_the_sum_as_it_is(load):
    module = load("move_cases")
    words = words_of(module, "ffma", "random").view(np.float32)
    half = words_of(module, "hfma2", "random").view(np.float16)
    double = words_of(module, "dfma", "random")
    x, y, z = ((double[4 * i].astype(np.uint64) << 32 | double[4 * i + 1]).view(np.float64) for i in range(3))
    assert (x * y + z == z).all()
    assert x.std() == pytest.approx(1, rel=0.05)
    for x, y, z in ((words[0], words[2], words[4]), (half[0], half[2], half[4])):
        assert np.isfinite(z).all()
        exact = z.astype(np.float64) + x.astype(np.float64) * y.astype(np.float64)
        assert (exact.astype(z.dtype) == z).all()


def test_every_case_has_a_kernel_and_a_name_of_its_own(load):
    module = load("move_cases")
    cases = module.move_cases()
    source = module.SOURCE.read_text()
    assert len({(c.kernel, c.condition) for c in cases}) == len(cases)
    for kernel in {c.kernel for c in cases}:
        assert f"({kernel}," in source or f" {kernel}(" in source
    assert np.mean(words_of(module, "predicated", "quarter")[6]) == 0.25
    assert not words_of(module, "predicated", "off")[6].any()


def test_the_table_finds_what_a_session_hides_and_counts_what_is_over_five_percent(load):
    module, compare = load("move_cases"), load("compare_moves")
    hidden_pj = {"ffma still": 5.0, "ffma a4": 5.1, "ffma a16": 8.0, "body10240 still": 5.0}
    cases, trials = [KernelCase(0, "sleep", "zeros", Purpose.STATIC)], []
    known = {f"{c.kernel} {c.condition}": c for c in module.move_cases()}
    for name, pj in hidden_pj.items():
        kernel, condition = name.split()
        cases.append(KernelCase(len(cases), f"move/{kernel}", condition, Purpose.FIT))
        passes = module.EXECUTED // known[name].body
        energy_j = passes * known[name].body * 128 * 132 * pj * 1e-12
        trials += [(len(cases) - 1, 120.0 + energy_j / 2e-3 * (1 + 1e-3 * i)) for i in range(2)]
    session = kernel_session(
        GpuInfo.partly_known("NVIDIA H200", "0", "580", 700.0, 1980.0), "samples", (), tuple(cases),
        tuple(
            KernelTrial(n, 0, 100, 0.2, w, 0.1, w, 40.0, 1980.0, 3201.0, 0, 0, "", (), ())
            for n, w in [(0, 120.0), (0, 120.0), *trials]
        ),
    )  # fmt: skip
    found = {one.name: one for one in compare.moves(session)}
    assert {name: one.energy_pj for name, one in found.items()} == pytest.approx(hidden_pj, rel=2e-3)
    assert [name for name, one in found.items() if one.counts] == ["ffma a16"]
    assert found["body10240 still"].base == "ffma still"
