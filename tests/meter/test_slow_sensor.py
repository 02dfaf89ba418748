"""`ptxbench meter correct`: a log of a slow sensor, and the energy that its kernels really took."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptxbench.cli.main import run

C_S, IDLE_W, POWER_W = 0.833, 100.0, 400.0
KERNELS_S = ((5.0, 11.0), (20.0, 22.0))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Readings every 20 ms of a first-order low-pass, and when the kernels ran."""
    folder = tmp_path_factory.mktemp("log")
    time_s = np.arange(0, 28, 0.02)
    seen_w = np.full(len(time_s), IDLE_W)
    for begin_s, end_s in KERNELS_S:
        late = np.clip(time_s - begin_s, 0, None)
        risen = 1 - np.exp(-np.minimum(late, end_s - begin_s) / C_S)
        seen_w += (POWER_W - IDLE_W) * risen * np.exp(-np.clip(time_s - end_s, 0, None) / C_S)
    rows = zip(time_s, seen_w + np.random.default_rng(1).normal(0, 0.2, len(time_s)), strict=True)
    power = "\n".join(f"{at:.3f},{value:.3f}" for at, value in rows)
    (folder / "power.csv").write_text("time_s,power_draw_w\n" + power + "\n")
    windows = "\n".join(f"{1e6 * a:.0f},{1e6 * b:.0f},{b - a:g} s" for a, b in KERNELS_S)
    (folder / "windows.csv").write_text("start_us,end_us,label\n" + windows + "\n")
    return folder


def found(log, capsys, *more):
    files = ("--nvml", str(log / "power.csv"), "--windows", str(log / "windows.csv"))
    assert run(["meter", "correct", *files, *more, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["kernels"]


@pytest.mark.parametrize("more", [(), ("--capacitance", str(C_S))])
def test_what_the_sensor_missed_is_found(log, capsys, more) -> None:
    for (begin_s, end_s), kernel in zip(KERNELS_S, found(log, capsys, *more), strict=True):
        true_j = POWER_W * (end_s - begin_s)
        assert kernel["capacitance_s"] == pytest.approx(C_S, rel=0.02)
        assert kernel["corrected_j"] == pytest.approx(true_j, rel=0.02)
        assert kernel["uncorrected_j"] < 0.93 * true_j


def test_a_table_is_printed_and_a_capacitance_that_none_can_have_refused(log, capsys) -> None:
    files = ["--nvml", str(log / "power.csv"), "--windows", str(log / "windows.csv")]
    assert run(["meter", "correct", *files]) == 0
    assert "by Eq. 6 J" in capsys.readouterr().out
    assert run(["meter", "correct", *files, "--capacitance", "0"]) == 2
    assert "--capacitance" in capsys.readouterr().err
