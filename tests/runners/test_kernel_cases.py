"""The cases of validate_kernels.py, their operands and launches, with stand-ins for PyTorch and CuPy."""

import importlib
import sys
from pathlib import Path

import pytest
from fakes.gpu_libraries import HOLDERS, install
from validation_file import Purpose

RUNNERS = Path(__file__).parents[2] / "runners"


@pytest.fixture
def library(monkeypatch):
    """The module kernel_cases, and what its kernels were launched with."""
    monkeypatch.syspath_prepend(str(RUNNERS))
    for name in HOLDERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    launches = install(monkeypatch)
    module = importlib.import_module("kernel_cases")
    yield module, launches
    for name in HOLDERS:
        sys.modules.pop(name, None)


def launched(library, name):
    module, launches = library
    (case,) = (c for c in module.all_cases() if (c.name, c.operands) == (name, "zeros"))
    case.prepare(case.operands)()
    return launches.pop()


def test_every_case_has_a_marker_and_what_no_session_has_measured_comes_first(library):
    module, _ = library
    cases = module.all_cases()
    assert len(cases) <= module._MARKERS
    assert len({(c.name, c.operands) for c in cases}) == len(cases)
    purposes = [c.purpose for c in cases]
    assert purposes == sorted(purposes, key=[Purpose.FIT, Purpose.JUDGED, Purpose.STATIC].index)
    assert [c.name for c in cases[:6:2]] == ["read-random", "read-random4", "read-sectors"]


def test_no_kernel_is_in_both_groups(library):
    module, _ = library
    names = {p: {c.name for c in module.all_cases() if c.purpose is p} for p in Purpose}
    assert not names[Purpose.FIT] & names[Purpose.JUDGED]


# The last word that the last thread of the grid reads, by what the kernel's code says.
LAST_WORD = {
    "read-strided": lambda threads, block, sms, lines: threads * lines * 32 - 1,
    "read-random": lambda threads, block, sms, n, reads: 4 * n - 1,
    "read-random4": lambda threads, block, sms, n, reads: n - 1,
    "read-sectors": lambda threads, block, sms, n, passes: 32 * (n // 8 - 1),
    "read-lines": lambda threads, block, sms, n, passes: (sms - 1) * n * 4 + 32 * (n // 8 - 1) + 31,
}


@pytest.mark.parametrize("name", LAST_WORD)
def test_kernels_that_waste_sectors_stay_within_their_operands(library, name):
    kernel, grid, block, (x, out, *numbers) = launched(library, name)
    assert kernel == name.replace("-", "_")
    threads = grid[0] * block[0]
    last = LAST_WORD[name](threads, block[0], grid[0], *numbers)
    assert 0.99 * x.size < last + 32 <= x.size + 31
    assert out.size >= threads * (4 if name == "read-random" else 1)


@pytest.mark.parametrize("name", ["read-random", "read-random4"])
def test_a_power_of_two_masks_random_places(library, name):
    _, _, _, (_, _, n, _) = launched(library, name)
    assert n & (n - 1) == 0


def test_the_code_has_every_kernel_that_is_launched(library):
    module, launches = library
    code = (RUNNERS / "cuda_kernels.cu").read_text()
    for case in module.all_cases():
        if case.operands == "zeros":
            case.prepare("zeros")()
    names = {name for name, *_ in launches}
    assert {"read_random", "read_sectors", "read_lines", "read_strided", "copy16", "sleeping"} <= names
    assert not {name for name in names if f" {name}(" not in code and f"MMA_LOOP({name}," not in code}
