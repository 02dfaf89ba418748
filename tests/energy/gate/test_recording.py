"""Recordings pass the gate: what is left of them, and what is said of each source."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.beside import SAMPLES, recorded, square
from fakes.power import sensor, window

from ptxbench.energy.gate.readings import Mark
from ptxbench.energy.gate.recording import believed_trace, judge_recording, notes_on_source
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Trace

MAX_W = 700.0
COUNTER = sensor(source=SourceName.COUNTER)
INSTANT = replace(SAMPLES, source=SourceName.INSTANT)


def trace(*series):
    return Trace(0, 8_000_000_000, series)


def spoiled(source, every, value_w=0.0):
    value = source.value.copy()
    value[::every] = value_w
    return replace(source, value=value)


def test_a_recording_keeps_what_can_be_true_and_says_what_it_lost():
    source, counter = recorded(square())
    twin = replace(source, source=SourceName.INSTANT, value=1000 * source.value)
    kept, notes = believed_trace(
        trace(spoiled(source, 10), twin, counter), (SAMPLES, INSTANT, COUNTER), MAX_W
    )
    assert [one.source for one in kept.series] == ["samples", "counter"]
    assert (kept.of(SourceName.SAMPLES).value > 0).all()
    assert [note.split(":")[0] for note in notes] == ["samples", "instant"]
    assert "40 zero or negative" in notes[0]
    assert "above what the board can draw" in notes[1]


def test_a_sound_recording_stays_as_it_is():
    whole = trace(*recorded(square()))
    kept, notes = believed_trace(whole, (SAMPLES, COUNTER), MAX_W)
    assert notes == ()
    assert all(np.array_equal(a.value, b.value) for a, b in zip(kept.series, whole.series, strict=True))
    assert notes_on_source([(whole, ())], SAMPLES, MAX_W) == ()


def test_what_is_no_power_source_is_not_judged_by_power():
    source, _ = recorded(square())
    cold = replace(source, source=SourceName.TEMPERATURE, value=np.full(len(source), 0.0))
    assert believed_trace(trace(cold), (SAMPLES,), MAX_W) == (trace(cold), ())


def test_a_verdict_holds_the_comparison_and_the_shift():
    source, counter = recorded(square(period_s=3.0), late_s=0.5)
    verdict = judge_recording(trace(source, counter), SAMPLES, MAX_W)
    assert verdict.shift.best_s == pytest.approx(0.5, abs=0.03)
    assert len(verdict.comparisons) > 2
    assert judge_recording(trace(counter), SAMPLES, MAX_W) is None
    frozen = replace(source, value=np.full(len(source), 300.0))
    assert judge_recording(trace(frozen, counter), SAMPLES, MAX_W).readings.counts.keys() == {Mark.STUCK}


def test_a_source_is_said_to_be_late_by_the_counter_or_by_the_windows_alone():
    source, counter = recorded(square(period_s=3.0), late_s=0.5)
    windows = [window(1.5, 3.0), window(4.5, 6.0)]
    for one in ((trace(source, counter), ()), (trace(source), windows)):
        assert "its values come 0.5 s late" in notes_on_source([one], SAMPLES, MAX_W)[0]


def test_recordings_are_pooled_for_the_counter():
    source, counter = recorded(square(), gain=lambda _, w: 1.1 * w)
    (note,) = notes_on_source([(trace(source, counter), ())] * 4, SAMPLES, MAX_W)
    assert note.startswith("samples: it differs from the energy counter by +")
    assert notes_on_source([(trace(source), ())], SAMPLES, MAX_W) == ()
