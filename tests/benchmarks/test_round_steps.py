"""Steps of the power from round to round are found, and told from drift and from other kernels."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import run as fake

from ptxbench.status import Status
from ptxbench.store.schema import Role

ROOT = Path(__file__).parents[2]
STATIC_W = 120.0


@pytest.fixture
def round_steps(monkeypatch):
    spec = importlib.util.spec_from_file_location("round_steps", ROOT / "benchmarks" / "round_steps.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "round_steps", module)
    spec.loader.exec_module(module)
    return module


def trial(number, dynamic_w, name="fma.rn.f32/O3/dynamic/random/target", **fields):
    power_w = STATIC_W + dynamic_w
    base = replace(
        fake.record(2 * number), trial_id=f"{name}/{number}", steady_power_w=power_w, repeat=number
    )
    return replace(base, temperature_c=40.0, **fields)


def sleeping(number):
    return trial(number, 0.0, name="static/static", role=Role.STATIC)


def test_a_step_is_the_change_of_the_dynamic_power_of_one_kernel(round_steps):
    records = [sleeping(0), sleeping(1)]
    records += [trial(n, dynamic_w) for n, dynamic_w in enumerate((200.0, 204.0, 204.0))]
    records += [trial(5, 300.0, name="add.f32/O3/dynamic/random/target")]
    found = round_steps.changes(records, 1980.0)
    assert [c.percent for c in found] == pytest.approx([2.0, 0.0])
    assert [c.below_clock for c in found] == [0, 0]
    text = "\n".join(round_steps.describe(found))
    assert "0 to 0.6% 50%" in text
    assert "1.2 to 2.4% 50%" in text


def test_what_is_not_valid_or_small_is_no_round(round_steps):
    records = [sleeping(0), sleeping(1), trial(0, 200.0), trial(1, 300.0, status=Status.THROTTLED)]
    records += [trial(n, 20.0 + n, name="popc.b32/O3/dynamic/random/target") for n in (2, 3)]
    assert round_steps.changes(records, 1980.0) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_round_below_the_full_clock_is_set_against_the_other(round_steps, order):
    rounds = [(200.0, 1980.0), (196.0, 1979.0)]
    records = [sleeping(0), sleeping(1)]
    records += [trial(n, rounds[at][0], sm_clock_mhz=rounds[at][1]) for n, at in enumerate(order)]
    (found,) = round_steps.changes(records, 1980.0)
    assert found.below_clock == 1
    assert found.low_minus_full_pct == pytest.approx(-2.0)


def test_rounds_of_one_direction_are_set_against_each_other(round_steps):
    hot, cold = "fma.rn.f32/O3/dynamic/random/target", "add.f32/O3/dynamic/random/target"
    middle = "mul.f32/O3/dynamic/random/target"
    down = [(hot, 300.0), (middle, 200.0), (cold, 100.0)]
    up = [(cold, 100.0), (middle, 196.0), (hot, 300.0)]
    names = [*down, *up, *down, *up]
    records = [sleeping(0), sleeping(1)] + [
        replace(trial(n, dynamic_w, name=name), order=n) for n, (name, dynamic_w) in enumerate(names)
    ]
    lines = round_steps.describe_sweeps(records, 1980.0)
    assert lines == [
        "1 pairs at the full clock from hot to cold, 300 to 430 W: median 0.00%; under 0.6% 100%",
        "1 pairs at the full clock from cold to hot, 300 to 430 W: median 0.00%; under 0.6% 100%",
    ]


def test_the_picture_and_the_words_come_from_the_committed_run(round_steps, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "steps.png"
    run = ROOT / "results" / "nvidia-h200" / "full"
    monkeypatch.setattr(sys, "argv", ["round_steps.py", str(run), "--plot", str(picture)])
    assert round_steps.main() == 0
    assert picture.stat().st_size > 1000
    assert "-O3: 337 pairs, both at the full clock" in capsys.readouterr().out
