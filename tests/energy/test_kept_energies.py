"""Energy, power, their errors and what is said of the source stay as they were for the same readings."""

from dataclasses import replace

import numpy as np
from fakes.beside import SAMPLES, recorded
from fakes.kept_numbers import assert_as_kept
from fakes.power import sensor, series, window

from ptxbench.energy.capacitance import fit_capacitance
from ptxbench.energy.gate.comparison import SourceCurve, compare, contradiction, joined
from ptxbench.energy.gate.lateness import shift_at_windows, shift_beside_counter
from ptxbench.energy.gate.readings import judge
from ptxbench.energy.gate.recording import believed_trace
from ptxbench.energy.gate.source import judge_source
from ptxbench.energy.gate.stuck import mark_stuck
from ptxbench.energy.predicted_error import LoadShape, methods_for, predict
from ptxbench.energy.settled import SourceCheck, settled_power
from ptxbench.energy.steady import power_between_edges, power_change, steady_power_w
from ptxbench.energy.window import blur_s, context_s, counted, noise_w_of, unresolved, window_energy
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import ALIKE, Shape
from ptxbench.sensors.trace import Trace

MAX_W = 700.0
LOW_PASS = replace(
    sensor(refresh_s=0.02, averaging_s=0.0272, lag_s=0.0035, source=SourceName.SAMPLES),
    shape=Shape.EXPONENTIAL,
    origin=ALIKE,
)
SOURCES = {
    "low-pass": LOW_PASS,
    "samples": SAMPLES,
    "part": sensor(refresh_s=0.1, averaging_s=0.025, lag_s=0.004, source=SourceName.INSTANT),
    "slow": sensor(refresh_s=0.1, averaging_s=1.0, lag_s=0.03),
    "documented": replace(sensor(refresh_s=0.1, averaging_s=0.1, lag_s=0.05), origin="documented"),
    "polled": sensor(refresh_s=0.0, quantum=0.1),
    "scattered": sensor(refresh_s=0.031, averaging_s=0.02, lag_s=0.002, source=SourceName.SAMPLES),
    "slow low-pass": replace(sensor(refresh_s=0.05, averaging_s=0.4), shape=Shape.EXPONENTIAL),
}
COUNTER = sensor(refresh_s=0.1, quantum=1e-3, lag_s=0.002, source=SourceName.COUNTER)
# Begin, end and watts of the kernels of a recording with a counter.
LOADS = ((0.8, 1.7, 420.0), (2.4, 3.0, 250.0), (4.0, 5.3, 380.0), (6.1, 7.2, 150.0))
LENGTHS_S = (0.03, 0.12, 0.5, 1.7)
GRID_S = np.arange(0.0, 6.0, 0.001)


def drawn(length_s, kind):
    """Power on the grid: 120 W, a load from 3 s on, and 160 W behind it; another load is near before it."""
    within = np.clip((GRID_S - 3.0) / length_s, 0.0, 1.0)
    load_w = {
        "even": np.full(len(GRID_S), 480.0),
        "ramp": 250.0 + 300.0 * within,
        "bursts": np.where(np.floor(within * 7) % 2 == 0, 520.0, 140.0),
    }[kind]
    power_w = np.where(GRID_S < 3.0, 120.0, np.where(3.0 + length_s > GRID_S, load_w, 160.0))
    return np.where((GRID_S >= 2.2) & (GRID_S < 2.55), 300.0, power_w)


def read(power_w, what, noise_w=0.4):
    """Readings of a source: the mean over what it averages, a wave for noise, a new value each refresh."""
    memory_s = max(what.averaging_s, 0.001)
    age_s = np.arange(0.0005, (6 if what.shape is Shape.EXPONENTIAL else 1) * memory_s, 0.001)
    weight = np.exp(-age_s / (memory_s / 2)) if what.shape is Shape.EXPONENTIAL else np.ones(len(age_s))
    made_s = np.arange(1.307, 5.9, what.refresh_s or 0.007)
    at_s = made_s[:, None] - what.lag_s - age_s
    value_w = np.interp(at_s, GRID_S, power_w) @ (weight / weight.sum())
    value_w += noise_w * (np.sin(97.0 * np.arange(len(made_s))) + np.sin(31.0 * np.arange(len(made_s))) / 2)
    if what.source is SourceName.SAMPLES:
        late_s = np.where(np.arange(len(made_s)) % 6 == 0, 0.009, 0.0)
        if what is SOURCES["scattered"]:
            late_s = 0.015 * (1 + np.sin(1.7 * np.arange(len(made_s))))
        stamp_s = made_s + late_s
        return series(stamp_s + 0.003, value_w, what.source, stamp_s=stamp_s)
    poll_s = np.arange(1.31, 5.9, 0.007)
    held = np.clip(np.searchsorted(made_s, poll_s, side="right") - 1, 0, None)
    return series(poll_s, value_w[held], what.source, call_s=0.001)


def read_counter(power_w, poll_s=0.011):
    time_s = np.arange(1.3, 5.9, poll_s)
    made_s = np.floor((time_s - 0.037) / 0.1) * 0.1 + 0.037
    energy_j = np.interp(made_s, GRID_S, np.cumsum(power_w) * 0.001)
    return series(time_s, np.round(1e4 + energy_j, 3), SourceName.COUNTER, call_s=0.001)


def cases():
    for kind in ("even", "ramp", "bursts"):
        for length_s in LENGTHS_S if kind != "bursts" else LENGTHS_S[2:]:
            yield f"{kind} {length_s}", drawn(length_s, kind), window(3.0, 3.0 + length_s)
    for at_s in (1.25, 1.37, 5.6, 5.85):
        yield f"at {at_s}", drawn(0.5, "even"), window(at_s, at_s + 0.2)


def test_each_method_and_each_judge_says_the_same():
    assert_as_kept(__file__, {**of_windows(), **of_sensors(), **of_judges()})


def of_windows():
    found = {}
    for case, power_w, when in cases():
        counter = read_counter(power_w)
        of_source = {name: (read(power_w, what), what) for name, what in SOURCES.items()}
        for name, (readings, what) in {**of_source, "counter": (counter, COUNTER)}.items():
            found[f"window {name} {case}"] = window_energy(readings, when, what)
            found[f"steady {name} {case}"] = steady_power_w(readings, when, what)
            for method, energy in methods_for(what.source).items():
                found[f"{method} {name} {case}"] = energy(readings, when, what)
        for name, (readings, what) in of_source.items():
            found[f"beside {name} {case}"] = counted(counter, readings, when, what)
            found[f"change {name} {case}"] = power_change(readings, when, what)
        found[f"edges {case}"] = power_between_edges(counter, when.start_ns, when.end_ns, 1e-3)
    return found


def of_sensors():
    found = {}
    load = LoadShape(np.array([0.0, 0.5]), np.array([0.3, 1.3]), np.array([400.0, 250.0]), 90.0, 1.5, 1.5)
    for name, what in {**SOURCES, "counter": COUNTER}.items():
        reach = context_s(what), *([blur_s(what)] if what is not COUNTER else [])
        found[f"reach {name}"] = [
            *reach,
            *(unresolved(length_s, what) for length_s in (0.01, 0.05, 0.1, 0.14, 0.2, 2.0)),
        ]
        if what is not COUNTER:
            readings, when = read(drawn(1.7, "even"), what), window(3.0, 4.7)
            found[f"capacitance of {name}"] = fit_capacitance(readings, when, what)
            found[f"noise {name}"] = noise_w_of(readings, what)
            curve = SourceCurve.of(readings.good(), what)
            moment_s = np.append(np.linspace(curve.at_s[0], curve.at_s[-1], 7), curve.at_s[[5, -1]])
            found[f"curve {name}"] = curve.energy_j(moment_s), curve.change_w(moment_s), what.unseen_share
            found[f"unseen {name}"] = [curve.unseen_j(a, a + 0.7) for a in moment_s[:5]]
            # The load began half a second before the window.
            begun_w = np.where((GRID_S >= 2.5) & (GRID_S < 5.0), 400.0, 100.0)
            found[f"begun before {name}"] = window_energy(read(begun_w, what, 0.02), window(3.0, 5.0), what)
    for name in ("samples", "part", "counter"):
        what = COUNTER if name == "counter" else SOURCES[name]
        found[f"predicted {name}"] = predict(what, load, 0.005)
    return found


def spoiled(source):
    """A source that holds a value while the load changes, doubles one and loses one."""
    value = source.value.copy()
    value[150:230] = value[150]
    value[50] *= 2.1
    value[300] = 0.0
    return replace(source, value=value)


def of_judges():
    """A board that is sound, and boards whose source is off by a gain, by a bend, by time, or spoiled."""

    def load(t):
        return 110.0 + sum(w * ((t >= a) & (t < b)) for a, b, w in LOADS)

    boards = {
        "sound": recorded(load),
        "gain": recorded(load, gain=lambda t, w: 1.04 * w),
        "bent": recorded(load, gain=lambda t, w: np.minimum(w, 300 + 0.8 * (w - 300))),
        "grows": recorded(load, gain=lambda t, w: w * (1 + 0.01 * t)),
        "late": recorded(load, late_s=0.35),
        "counter off": recorded(load, counter_gain=0.9),
    }
    source, counter = boards["sound"]
    boards["spoiled"] = spoiled(source), counter
    boards["short"] = (
        source.select((source.time_ns > 1_100_000_000) & (source.time_ns < 6_300_000_000)),
        counter,
    )
    boards["even"] = recorded(lambda t: np.full_like(t, 300.0))
    boards["late and short"] = (
        boards["late"][0].select(slice(40, 300)),
        boards["late"][1].select(slice(200, 1500)),
    )
    kernels = [window(start_s, end_s) for start_s, end_s, _ in LOADS]
    found = {}
    polled = replace(source, source=SourceName.USAGE, stamp_ns=np.full(len(source), -1))
    boards["polled"] = polled, counter
    for name, (source, counter) in boards.items():
        what = replace(SAMPLES, source=source.source)
        trace = Trace(0, 8_000_000_000, (source, counter))
        compared = compare(source, counter, what)
        found[f"compared {name}"] = compared[::7]
        found[f"joined {name}"] = joined(compared), contradiction(joined(compared), what.source)
        found[f"source {name}"] = judge_source(compared, 0.005)
        found[f"late {name}"] = [
            shift_beside_counter(source, counter, what),
            shift_at_windows(source, kernels, what),
        ]
        verdict = mark_stuck(judge(source, MAX_W), what, counter)
        found[f"marks {name}"] = [verdict.counts, verdict.note, verdict.objection]
        found[f"believed {name}"] = believed_trace(trace, (what, COUNTER), MAX_W)[1]
        check = SourceCheck(what, (what, COUNTER))
        for n, kernel in enumerate(kernels):
            settled = settled_power(trace, kernel, what, MAX_W, sensors=(what, COUNTER), even=n > 0)
            found[f"settled {name} {n}"] = settled.power, settled.note, settled.compared
            check.add(settled, kernel, even=n > 0)
            found[f"pause {name} {n}"] = check.pause_s
        found[f"check {name}"] = check.scale, check.objection
    return found
