"""`--baseline B --fail-over 3%` passes only where the energy of every GPU can be told not to have grown."""

import json
import math
from dataclasses import replace

import pytest

from ptxbench.api.window_energy import GpuEnergy
from ptxbench.attribute.attribution import NO_KERNEL, Share
from ptxbench.attribute.baseline import compare
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.report import document

NAN = math.nan
A, B = "GPU 0 (NVIDIA H100)", "GPU 1 (NVIDIA H100)"


def gpu(energy_j, half_j, name=A, kernels=()):
    interval_j = (energy_j - half_j, energy_j + half_j)
    shares = [Share((kernel,), 1, 1.0, j, (j - h, j + h), "fitted") for kernel, j, h in kernels]
    return GpuShare(GpuEnergy(name, energy_j, interval_j, "samples"), tuple(shares))


def program(*gpus):
    return ProgramEnergy(("x",), 0, 2.0, gpus, "samples", ())


def judge(tmp_path, before, now, limit=0.03):
    file = tmp_path / "energy.json"
    file.write_text(json.dumps(document(before)) if isinstance(before, ProgramEnergy) else json.dumps(before))
    found = compare(now, file, limit)
    return found.is_passed, "\n".join(found.lines)


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (gpu(1000, 5), gpu(1020, 5), "no growth by more than 3.0% in 1 of 1 rows"),
        (gpu(1000, 5), gpu(500, 2), "no growth"),
        # Kernels tell what they can; the energy of the board is what must be told.
        (
            gpu(1000, 5, kernels=[("k", 500, 90)]),
            gpu(1000, 5, kernels=[("k", 560, 90), ("new", 20, 1)]),
            f"kernels that are too uncertain to tell 3.0%: {A}, k would show 36.0%\n"
            "kernels, or groups of them, that only one of the two reports has: 1\n"
            "no growth by more than 3.0% in 1 of 3 rows",
        ),
    ],
)
def test_what_did_not_grow_passes(tmp_path, before, now, text):
    is_passed, said = judge(tmp_path, program(before), program(now))
    assert is_passed
    assert text in said


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (gpu(1000, 5), gpu(1040, 5), f"{A}: 1000 J before, 1040 J now (+4.0%)"),
        (
            gpu(1000, 5, kernels=[("k", 100, 5), (NO_KERNEL, 900, 5)]),
            gpu(1000, 5, kernels=[("k", 120, 5), (NO_KERNEL, 880, 5)]),
            f"{A}, k: 100 J before, 120 J now (+20.0%)",
        ),
        # Above the limit, but by no more than the intervals allow: not a growth, and not none.
        (gpu(1000, 30), gpu(1040, 30), f"the intervals of {A} would only show a growth of 6.0%"),
        (gpu(1000, 300), gpu(1000, 300), "would only show a growth of 60.0%"),
        (gpu(1000, 5), gpu(NAN, NAN), f"the energy of {A} is not known now"),
        (gpu(NAN, NAN), gpu(1000, 5), f"it does not know the energy of {A}"),
        (gpu(0, 0), gpu(1000, 5), f"it does not know the energy of {A}"),
        (gpu(1000, 5, "GPU 0 (NVIDIA A100)"), gpu(1000, 5), f"it has no {A}"),
    ],
)
def test_what_grew_or_cannot_be_told_does_not_pass(tmp_path, before, now, text):
    is_passed, said = judge(tmp_path, program(before), program(now))
    assert not is_passed
    assert text in said
    assert "nan" not in said
    assert "no growth" not in said


def test_one_board_that_cannot_be_compared_is_enough(tmp_path):
    both, one = program(gpu(1000, 5), gpu(900, 5, B)), program(gpu(1000, 5))
    assert judge(tmp_path, both, both)[0]
    for before, now in (
        (both, one),
        (one, both),
        (both, replace(both, gpus=(both.gpus[0], gpu(NAN, NAN, B)))),
    ):
        is_passed, said = judge(tmp_path, before, now)
        assert not is_passed
        assert B in said


@pytest.mark.parametrize("value", [None, NAN, math.inf, -5.0, 0])
@pytest.mark.parametrize("key", ["energy_j", "interval_j"])
def test_an_earlier_energy_that_is_no_number_does_not_pass(tmp_path, key, value):
    now = program(gpu(1000, 5))
    before = document(now)
    before["gpus"][0][key] = value if key == "energy_j" else [value, value]
    is_passed, said = judge(tmp_path, before, now)
    assert not is_passed
    assert "does not know the energy" in said
