"""What `run` makes of sensors that are wrong, live and of a kept run: held, or said, and never silent."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from fakes import distorters as d
from fakes.monitored import by_run, record
from fakes.troubled import Trouble

from ptxbench.attribute.launches import busy_spans, join_launches
from ptxbench.attribute.program import energy_of
from ptxbench.attribute.recorded import keep
from ptxbench.attribute.report import document, lines
from ptxbench.attribute.timeline import events
from ptxbench.cli.main import run
from ptxbench.core.status import Status
from ptxbench.sensors.base import SourceName
from ptxbench.storage.manifest import with_part

SAMPLES, COUNTER, INSTANT, USAGE = (
    SourceName.SAMPLES,
    SourceName.COUNTER,
    SourceName.INSTANT,
    SourceName.USAGE,
)


def said(case):
    return "\n".join(case.said)


@pytest.mark.parametrize("sources", [(SAMPLES, COUNTER), (COUNTER, INSTANT)])
def test_of_sources_that_agree_nothing_is_said_and_all_is_held(sources):
    for case in by_run(sources, d.changed_in_time(lambda _, w: w)):
        assert case.is_within(1.0)
        assert "wrong" not in said(case)
        assert "left out" not in said(case)


@pytest.mark.parametrize("sources", [(SAMPLES, COUNTER), (COUNTER, INSTANT)])
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (lambda: d.changed_in_time(lambda _, w: 1000 * w), "above what the board can draw"),
        (lambda: d.fresh_counted(3, lambda _: 0.0), "zero or negative"),
        (lambda: d.frozen_from(0.0), "stands still"),
        (lambda: d.changed_in_time(lambda _, w: 1.3 * w), "differs from the energy counter"),
        (lambda: d.late_values(1.0), "late"),
    ],
    ids=["mW", "zeros", "frozen", "gain", "late"],
)
def test_a_wrong_power_source_beside_a_right_counter_is_said(sources, fault, text):
    whole, *_ = by_run(sources, fault())
    assert whole.is_within(1.0)
    assert text in said(whole)


@pytest.mark.parametrize("not_followed", ["", "kernels were not requested"])
def test_another_process_on_the_board_is_said_whether_or_not_kernels_are_followed(not_followed):
    fault = d.another_process(80.0)
    program, _ = record((SAMPLES, COUNTER), fault, trouble=Trouble("80 W", others=1))
    program = replace(program, manifest=with_part(program.manifest, not_followed=not_followed))
    assert "another process was on it" in "\n".join(energy_of(program).remarks)


def test_kernels_are_told_apart_by_the_counter_where_the_power_is_not_believed():
    cases = by_run((SAMPLES, COUNTER), d.fresh_counted(2, lambda _: 0.0))
    assert [case.name for case in cases[1:]]
    assert all(case.is_within(1.0) for case in cases)


def test_a_counter_at_half_of_the_power_is_a_contradiction():
    program, truth = record((COUNTER, INSTANT), d.of_counter(lambda _, j: 0.5 * j))
    (gpu,) = energy_of(program).gpus
    assert gpu.energy.status is Status.SENSOR_IMPLAUSIBLE
    assert "one of the two is wrong" in gpu.energy.reason
    assert gpu.energy.interval_j[0] <= 0.51 * truth["run"]
    assert gpu.energy.interval_j[1] >= 0.99 * truth["run"]


@pytest.mark.parametrize(
    "fault", [lambda: d.frozen_from(0.0), lambda: d.changed_in_time(lambda _, w: 1000 * w)]
)
def test_a_kept_run_of_a_source_that_is_not_believed_has_no_number(tmp_path, capfd, fault):
    program, _ = record((USAGE,), fault())
    keep(program, tmp_path)
    run(["run", "--from", str(tmp_path), "--json"])
    (gpu,) = json.loads(capfd.readouterr().out)["gpus"]
    assert (gpu["energy_j"], gpu["status"]) == (None, "sensor_implausible")
    assert gpu["interval_j"] == [None, None]
    assert "cannot be true" in gpu["reason"]
    run(["run", "--from", str(tmp_path)])
    shown = capfd.readouterr().out
    assert "energy not known" in shown
    assert "nan" not in shown


def test_what_is_left_out_stays_in_the_run_is_counted_and_marked_in_the_trace():
    program, truth = record((SAMPLES,), d.fresh_counted(9, lambda _: 0.0))
    found = energy_of(program)
    (gpu,) = document(found)["gpus"]
    assert gpu["energy_j"] == pytest.approx(truth["run"], rel=0.01)
    (series,) = (one for one in program.boards[0].series() if one.source is SAMPLES)
    assert gpu["left_out"] == int((series.value == 0).sum()) > 40
    assert any(f"{gpu['left_out']} of " in line for line in lines(found))
    marks = [one for one in events(program, found) if one["name"].startswith("reading left out")]
    assert len(marks) == gpu["left_out"]
    assert {one["name"] for one in marks} == {"reading left out: zero or negative"}
    powers = [one["args"]["W"] for one in events(program, found) if "W" in one.get("args", {})]
    assert min(powers) > 50


def test_late_readings_are_said_by_the_kernels_where_no_counter_tells():
    whole, *_ = by_run((SAMPLES,), d.late_values(0.5))
    assert "by when the work began and ended" in said(whole)


def test_nothing_of_a_run_is_not_a_number():
    program, _ = record((USAGE,), d.changed_in_time(lambda *_: float("nan")))
    (gpu,) = energy_of(program).gpus
    assert math.isnan(gpu.energy.energy_j)
    assert gpu.energy.reason
    assert gpu.kernels == ()


def test_kernels_that_follow_each_other_closely_are_one_stretch_of_work():
    ms = 1_000_000
    starts, ends = np.array([0, 30, 300, 310, 700]) * ms, np.array([25, 60, 330, 320, 720]) * ms
    spans = busy_spans(join_launches([("a", starts, ends, "stream")]))
    assert [(one.start_ns // ms, one.end_ns // ms) for one in spans] == [(0, 60), (300, 330), (700, 720)]
    assert [one.elapsed_s for one in spans] == pytest.approx([0.06, 0.03, 0.02])
    assert busy_spans(join_launches([])) == ()


def test_where_a_counter_is_reset_the_report_names_the_source_that_stands_in():
    def reset(at_s, energy_j):
        return energy_j if at_s < 5 else 0.0

    for fault, method in (
        (reset, "corrected MTSM on instant"),
        (lambda _, j: j, "corrected MTSM on counter, ch"),
    ):
        program, _ = record((SourceName.COUNTER, SourceName.INSTANT), d.of_counter(fault))
        assert energy_of(program).method.startswith(method)
        assert ("counter" in energy_of(program).method) == (fault is not reset)
