import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes.kept_numbers import assert_as_kept
from simulated_session import Hidden, Session, write_run

from ptxbench.core.errors import InputError
from ptxbench.core.estimate import Estimate
from ptxbench.core.gpu_info import GpuKind
from ptxbench.meter.coarse import Placement, sharpen
from ptxbench.meter.figures import FittedOn, WindowEnergies, figures
from ptxbench.meter.host import HostLog, log_from_csv, log_from_run
from ptxbench.meter.readers import read_meter
from ptxbench.meter.result import as_json, statements
from ptxbench.meter.validation import validate
from ptxbench.sensors.base import SourceName

CAPTURES = Path(__file__).parents[2] / "hw_validation" / "captures"


@pytest.fixture(scope="module")
def real():
    def one(name):
        folder = CAPTURES / name
        return validate(
            read_meter(folder / "meter.csv.gz"), log_from_csv(folder / "nvml.csv", folder / "windows.csv")
        )

    return {name: one(name) for name in ("a100_square_50ms", "rtx3090_step_6s")}


def test_what_is_said_of_a_capture_stays_as_it_was(real):
    session = Session(
        Hidden(gain=1.05, averaging_s=0.1, refresh_s=0.1, time_constant_s=0.03),
        kernels=14,
        sensor_noise_w=0.2,
    )
    made = validate(session.capture(), session.log())
    found = {}
    for name, result in {**real, "made up": made}.items():
        # Files are named by where the repository is.
        said = [text.replace(str(CAPTURES), "") for text in statements(result)]
        found |= {
            f"{name}: {key}": one for key, one in as_json(result).items() if key not in ("files", "meter")
        }
        found |= {
            f"{name}: said": said,
            f"{name}: energies": result.meter_j[::3],
            f"{name}: methods": [
                (one.method, one.source, one.mape_pct, one.mape_corrected_pct) for one in result.methods
            ],
        }
    # The parameters of a sensor are searched for.
    assert_as_kept(__file__, found, rel=1e-5)


def test_sound_captures_raise_no_doubt(real):
    assert [one.notes for one in real.values()] == [(), ()]


def method(result, name, source):
    return next(one for one in result.methods if (one.method, one.source) == (name, source))


def source(result, name):
    return next(one for one in result.sources if one.fit.source == name)


@pytest.mark.parametrize(
    "hidden",
    [
        Hidden(averaging_s=0.1, refresh_s=0.1, drift_ppm=130.0, clock_offset_s=0.210),
        Hidden(gain=1.06, offset_w=-12.0, lag_s=0.045, averaging_s=0.025, refresh_s=0.02, drift_ppm=-75.0),
        Hidden(gain=0.9, offset_w=5.0, lag_s=0.15, clock_offset_s=-3600.25, drift_ppm=12.0),
    ],
)
def test_simulated_truth_is_recovered_within_1_percent(hidden):
    session = Session(hidden, kernels=40, sensor_noise_w=0.05, call_s=0.0107)
    result = validate(session.capture(), session.log())
    fit = result.sources[0].fit
    assert fit.gain.value == pytest.approx(hidden.gain, rel=0.01)
    assert fit.offset_w.value == pytest.approx(hidden.offset_w, rel=0.01)
    assert fit.lag_s.value == pytest.approx(hidden.lag_s, rel=0.01)
    assert result.alignment.offset_ms.value == pytest.approx(1e3 * hidden.clock_offset_s, rel=0.01)
    assert result.alignment.drift_ppm.value == pytest.approx(hidden.drift_ppm, abs=5)
    assert result.meter_j.sum() == pytest.approx(true_energy_j(session), rel=1e-3)
    assert all(abs(check.energy_pct) < 1 for check in result.sources[0].cross)
    assert len(result.sources[0].cross) == 2


def test_a_figure_that_the_capture_does_not_determine_is_no_number_and_is_said(real):
    result = real["rtx3090_step_6s"]
    sources = tuple(
        replace(one, fit=replace(one.fit, width_s=Estimate(0.0044, 157_676.7))) for one in result.sources
    )
    lost = replace(result, sources=sources)
    assert as_json(lost)["sensors"][0]["width_ms"] == {"value": None, "uncertainty": None}
    name = sources[0].fit.source
    said = [text for text in statements(lost) if "not determined" in text]
    assert said[0].startswith(
        f"averaging of {name} is not determined: the power of this capture hardly changes"
    )
    assert not any("not determined" in text for text in statements(real["a100_square_50ms"]))


def true_energy_j(session):
    a, b = session.windows_s().T
    return float((session.power_w((a + b) / 2) * (b - a)).sum())


def test_correction_removes_what_gain_offset_and_lag_do():
    session = Session(Hidden(gain=0.8, offset_w=20.0, averaging_s=0.05, refresh_s=0.02), sensor_noise_w=0.1)
    result = validate(session.capture(), session.log())
    for name in ("mtsm", "integral"):
        one = method(result, name, SourceName.USAGE)
        assert one.mape_pct > 15
        assert one.mape_corrected_pct < 2.5
        assert one.rmse_corrected_j < one.rmse_j / 5
        assert one.windows == one.windows_corrected == 24


def test_mape_and_rmse_are_what_they_say():
    energies = WindowEnergies(
        "mtsm",
        SourceName.USAGE,
        np.array([90.0, 240.0, np.nan]),
        np.array([100.0, 198.0, 50.0]),
        FittedOn.OTHER_HALF,
    )
    one = figures(energies, np.array([100.0, 200.0, 50.0]))
    assert one.mape_pct == pytest.approx(15.0)
    assert one.rmse_j == pytest.approx(np.sqrt((10**2 + 40**2) / 2))
    assert one.mape_corrected_pct == pytest.approx(1 / 3)
    assert (one.windows, one.windows_corrected) == (2, 3)
    assert figures(energies, np.array([100.0, 200.0, 50.0]), [2]).windows == 0


def test_figures_of_each_instruction_are_kept_apart():
    session = Session(Hidden(averaging_s=0.1))
    result = validate(session.capture(), session.log())
    assert result.labels == ("kernel0", "kernel1", "kernel2")
    data = as_json(result)
    of_one = [m for m in data["instructions"] if m["instruction"] == "kernel1" and m["method"] == "mtsm"]
    assert [m["windows"] for m in of_one] == [8]


def test_json_holds_what_is_promised_and_is_valid():
    session = Session(Hidden(averaging_s=0.1))
    data = as_json(validate(session.capture(), session.log()))
    json.dumps(data, allow_nan=False)
    for key in ("offset_ms", "drift_ppm", "gain", "offset_w", "lag_ms"):
        assert data[key].keys() == {"value", "uncertainty"}
        assert data[key]["uncertainty"] > 0
    for one in data["methods"]:
        assert {"method", "source", "mape_pct", "rmse_j", "mape_corrected_pct", "windows"} <= one.keys()
    assert {one["method"] for one in data["methods"]} == {"sma", "papi", "mtsm", "corrected", "integral"}
    assert abs(data["alignment"]["halves"]["difference_ms"]) < 2


def test_step_capture_predicts_its_other_half_within_2_percent(real):
    result = real["rtx3090_step_6s"]
    for one in result.sources:
        assert len(one.cross) == 2
        assert all(abs(check.energy_pct) < 2 for check in one.cross)
    instant = source(result, SourceName.INSTANT)
    assert instant.fit.gain.value == pytest.approx(0.953, abs=0.005)
    assert instant.fit.width_s.value == pytest.approx(0.1, abs=0.01)
    usage = source(result, SourceName.USAGE)
    assert usage.fit.width_s.value == pytest.approx(1.1, abs=0.1)
    assert method(result, "mtsm", SourceName.INSTANT).mape_pct == pytest.approx(5.93, abs=0.1)
    assert method(result, "mtsm", SourceName.INSTANT).mape_corrected_pct < 0.5
    assert method(result, "mtsm", SourceName.USAGE).mape_pct == pytest.approx(10.97, abs=0.1)


def test_burst_capture_says_what_its_sensor_cannot_see_and_keeps_within_that_bound(real):
    result = real["a100_square_50ms"]
    assert len(result.trials) == 76
    instant = source(result, SourceName.INSTANT)
    assert instant.fit.refresh_s == pytest.approx(0.1012, abs=0.0005)
    assert instant.fit.seen_fraction == pytest.approx(0.25, abs=0.03)
    assert instant.bound.window_pct > 50
    for check in instant.cross:
        assert abs(check.energy_pct) < max(5.0, instant.bound.half_pct)
    sentence = next(s for s in statements(result) if s.startswith("instant"))
    assert "of every 101.2 ms" in sentence
    assert f"{instant.bound.window_pct:.3g}% on one window" in sentence


def test_gain_of_one_burst_half_is_that_of_the_other(real):
    first, second = source(real["a100_square_50ms"], SourceName.INSTANT).cross
    assert first.fit.gain.value == pytest.approx(second.fit.gain.value, rel=0.02)


def test_counter_is_judged_too():
    session = Session(Hidden(gain=0.9, offset_w=6.0, averaging_s=0.02, refresh_s=0.02, lag_s=0.03))
    log = session.log()
    usage = log.series[0]
    step_s = np.diff(usage.time_ns, prepend=usage.time_ns[0]) / 1e9
    joules = np.cumsum(usage.value * step_s)
    number = np.floor((usage.time_ns - usage.time_ns[0]) / 1e8)
    _, first = np.unique(number, return_index=True)
    held = joules[first][np.searchsorted(first, np.arange(len(joules)), side="right") - 1]
    counter = replace(usage, source=SourceName.COUNTER, value=held)
    trials = tuple(replace(t, trace=replace(t.trace, series=(*t.trace.series, counter))) for t in log.trials)
    result = validate(session.capture(), replace(log, series=(*log.series, counter), trials=trials))
    one = source(result, SourceName.COUNTER)
    assert one.fit.gain.value == pytest.approx(0.9, rel=0.02)
    figure = method(result, "counter", SourceName.COUNTER)
    assert figure.mape_pct > 5
    assert figure.mape_corrected_pct < 2


def test_run_folder_is_validated_though_its_clock_counts_from_boot(tmp_path):
    session = Session(Hidden(averaging_s=0.1), kernels=10, epoch_ns=7_000_000_000)
    write_run(tmp_path / "run", session)
    capture = session.capture()
    epoch = replace(capture, time_ns=capture.time_ns + 1_700_000_000_000_000_000)
    result = validate(epoch, log_from_run(tmp_path / "run"))
    assert result.alignment.offset_ns == pytest.approx(1_700_000_000_337_000_000, abs=400_000)
    assert result.sources[0].fit.gain.value == pytest.approx(0.94, rel=0.01)
    assert result.labels == ("fma.rn.f32 O3 target",)


@pytest.mark.parametrize("seed", range(4))
def test_kernels_one_after_the_other_do_not_slip_by_one(seed):
    session = Session(Hidden(drift_ppm=0.0), kernels=20, shortest_s=0.5, longest_s=0.5, gap_s=2e-4, seed=seed)
    # Others ran before and after, so that no idle time marks the ends; the sensor lags by 90 ms.
    windows = session.log().windows[4:-4]
    true_ns = round(1e9 * session.hidden.clock_offset_s)
    rough = Placement(windows[0].start_ns, true_ns - 90_000_000, 0.99, reach_s=1.5)
    found = sharpen(session.capture(), windows, rough)
    assert found.offset_ns == pytest.approx(true_ns, abs=2_000_000)


def test_simulated_run_says_so():
    session = Session(Hidden(averaging_s=0.1), kernels=6)
    log = replace(session.log(), kind=GpuKind.SIMULATED)
    assert as_json(validate(session.capture(), log))["kind"] == "simulated"


SESSION = Session(Hidden(averaging_s=0.1), kernels=8)
CAPTURE, LOG = SESSION.capture(), SESSION.log()


def flat_log() -> HostLog:
    series = replace(LOG.series[0], value=np.full(len(LOG.series[0]), 80.0))
    return replace(LOG, series=(series,))


@pytest.mark.parametrize(
    ("capture", "log", "message"),
    [
        (replace(CAPTURE, power_w=np.full(len(CAPTURE), 99.0)), LOG, "same 99 W all the time"),
        (CAPTURE, flat_log(), "readings are the same all the time"),
        (
            CAPTURE.between(SESSION.epoch_ns, SESSION.epoch_ns + 1_600_000_000),
            LOG,
            "overlap is too short|any offset",
        ),
        (replace(CAPTURE, power_w=6 * CAPTURE.power_w), LOG, "is it the same GPU"),
        (replace(CAPTURE, power_w=0.3 * CAPTURE.power_w), LOG, "is it the same GPU"),
        (replace(CAPTURE, power_w=CAPTURE.power_w[::-1].copy()), LOG, "same session and GPU|same GPU"),
    ],
)
def test_what_does_not_belong_together_is_refused_in_one_line(capture, log, message):
    with pytest.raises(InputError, match=message) as error:
        validate(capture, log)
    assert "\n" not in str(error.value)


def test_missing_rail_is_noted():
    result = validate(replace(CAPTURE, power_w=0.6 * CAPTURE.power_w), LOG)
    assert any("every rail" in note for note in result.notes)


def test_windows_that_the_meter_misses_are_left_out_and_counted():
    windows = LOG.windows
    cut = CAPTURE.between(int(CAPTURE.time_ns[0]), windows[5].start_ns + 337_000_000 + 100_000_000)
    result = validate(cut, LOG)
    assert len(result.trials) == 5
    assert "the meter does not cover 3 of 8 windows" in result.notes


def test_windows_with_a_gap_in_the_meters_log_are_left_out():
    start_ns = LOG.windows[2].start_ns + 337_000_000
    gone = (CAPTURE.time_ns > start_ns + 50_000_000) & (CAPTURE.time_ns < start_ns + 150_000_000)
    result = validate(replace(CAPTURE, time_ns=CAPTURE.time_ns[~gone], power_w=CAPTURE.power_w[~gone]), LOG)
    assert len(result.trials) == 7
    assert "the meter's log has a gap in 1 of 8 windows" in result.notes


def smooth_session():
    """A load without a step: only the sensor's readings can align it."""
    rng = np.random.default_rng(5)
    knots_w = rng.uniform(100, 400, 40)

    def power_w(time_s):
        return np.interp(time_s, np.arange(40), knots_w)

    time_s = np.arange(0.0, 39.0, 1e-3)
    capture = replace(
        CAPTURE,
        time_ns=SESSION.epoch_ns + np.round(1e9 * (time_s + 5.0)).astype(np.int64),
        power_w=power_w(time_s) + rng.normal(0, 4, len(time_s)),
    )
    usage = LOG.series[0]
    read_s = (usage.time_ns - SESSION.epoch_ns) / 1e9
    return capture, replace(LOG, series=(replace(usage, value=0.95 * power_w(read_s) + 3.0),))


def test_load_without_steps_is_aligned_by_the_sensor_and_its_lag_is_not_told():
    result = validate(*smooth_session())
    assert result.alignment.basis == "signals"
    assert result.alignment.offset_ms.value == pytest.approx(5000.0, abs=5.0)
    assert result.sources[0].fit.gain.value == pytest.approx(0.95, rel=0.02)
    data = as_json(result)
    assert data["lag_ms"] == {"value": None, "uncertainty": None}
    assert data["drift_ppm"]["uncertainty"] is None
    assert data["alignment"]["halves"] is None
    assert any("no window has a step" in note for note in data["notes"])
