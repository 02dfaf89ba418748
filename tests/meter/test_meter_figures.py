"""Errors of the methods: what each sees of a recording, and what its correction was fitted to."""

from dataclasses import replace

import numpy as np
import pytest
from simulated_session import Hidden, Session

from ptxbench.energy.methods import sma_j
from ptxbench.meter.figures import FittedOn
from ptxbench.meter.host import HostLog, log_from_csv
from ptxbench.meter.result import as_json, statements
from ptxbench.meter.validation import Validation, validate
from ptxbench.report.validation_plots import meter_w
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.signal import PowerSignal

# A mean over a second, as a board's `average`, beside kernels of about as long.
SLOW = Session(
    Hidden(averaging_s=1.0, refresh_s=0.1),
    kernels=16,
    shortest_s=0.8,
    longest_s=1.6,
    gap_s=3.0,
    sensor_noise_w=0.05,
)


@pytest.fixture(scope="module")
def slow() -> Validation:
    return validate(SLOW.capture(), cut_log(SLOW))


def cut_log(session: Session) -> HostLog:
    """The session's log with the readings of each trial cut between its neighbours, as from a file."""
    from ptxbench.meter.host import _cut
    from ptxbench.meter.readers.nvml import LabelledWindow

    log = session.log()
    begin_ns, end_ns = log.recordings[0]
    labelled = [LabelledWindow(trial.window, trial.label) for trial in log.trials]
    return replace(log, trials=_cut(log.series, labelled, begin_ns, end_ns))


def of(result: Validation, method: str):
    return next(one for one in result.methods if one.method == method)


def test_mtsm_corrected_is_judged_and_is_the_best_on_a_slow_mean(slow):
    corrected = of(slow, "corrected")
    assert corrected.windows == corrected.windows_corrected == 16
    # Before the correction only gain and offset are left: 0.94 and 7.5 W.
    assert 2 < corrected.mape_pct < 6
    assert corrected.mape_corrected_pct < 1
    assert corrected.mape_corrected_pct < of(slow, "integral").mape_corrected_pct / 3
    assert corrected.mape_corrected_pct < of(slow, "mtsm").mape_corrected_pct / 3


def test_each_window_is_corrected_by_the_half_that_it_is_not_in():
    session = Session(Hidden(refresh_s=0.02, drift_ppm=0.0), sensor_noise_w=0.05)
    log = session.log()
    edge_ns = log.trials[12].window.start_ns - 50_000_000

    def worse(series):
        # In the second half of the session the sensor reads a tenth less.
        return replace(series, value=np.where(series.time_ns < edge_ns, 1.0, 0.9) * series.value)

    changed = replace(log, series=tuple(map(worse, log.series)))
    trials = tuple(
        replace(
            trial,
            trace=replace(trial.trace, series=changed.series),
            recording=replace(trial.recording, series=changed.series),
        )
        for trial in log.trials
    )
    result = validate(session.capture(), replace(changed, trials=trials))
    for name in ("mtsm", "corrected", "integral"):
        one = of(result, name)
        assert one.fitted_on is FittedOn.OTHER_HALF
        # A fit to all would be wrong by 5% on either half, and a fit to each by nothing.
        assert one.mape_corrected_pct == pytest.approx(10.5, abs=1)
    assert "each window is corrected by a fit to the half of the capture that it is not in" in statements(
        result
    )


def test_single_window_is_corrected_by_itself_and_says_so():
    session = Session(Hidden(averaging_s=0.1), kernels=1, shortest_s=3.0, longest_s=3.0)
    result = validate(session.capture(), session.log())
    assert {one.fitted_on for one in result.methods} == {FittedOn.SAME_WINDOWS}
    assert any("fitted to the windows that it is scored on" in sentence for sentence in statements(result))
    assert {one["correction_fitted_on"] for one in as_json(result)["methods"]} == {"same windows"}


def test_sma_reads_through_the_whole_recording_as_published(slow):
    log = cut_log(SLOW)
    sma = next(one for one in slow.sources[0].energies if one.method == "sma")
    expected_j = [sma_j(log.series[0], trial.window).energy_j for trial in slow.trials]
    assert sma.energy_j == pytest.approx(expected_j)
    # One mean for all: the energies are as the durations.
    assert np.ptp(sma.energy_j / [trial.window.elapsed_s for trial in slow.trials]) == pytest.approx(
        0, abs=1e-6
    )


def test_sma_of_files_takes_the_whole_log(tmp_path):
    rows = [f"{10 * i},{50 if i < 900 else 250}" for i in range(1000)]
    (tmp_path / "n.csv").write_text("\n".join(["t_ms,power_draw_w", *rows]), encoding="utf-8")
    (tmp_path / "w.csv").write_text("start_ms,end_ms\n9000,9400\n9500,9900\n", encoding="utf-8")
    log = log_from_csv(tmp_path / "n.csv", tmp_path / "w.csv")
    assert all(len(trial.recording.of(SourceName.USAGE)) == 1000 for trial in log.trials)
    assert all(len(trial.trace.of(SourceName.USAGE)) < 100 for trial in log.trials)


def test_picture_shows_no_meter_before_and_after_its_capture():
    time_s = np.arange(2.0, 6.0, 1e-3)
    drawn_w = meter_w(PowerSignal(time_s, np.full(len(time_s), 80.0)), 0.0, 2e-3)
    at_s = 2e-3 * np.arange(len(drawn_w))
    assert np.isnan(drawn_w[at_s < 1.999]).all()
    assert np.isnan(drawn_w[at_s > 6.0]).all()
    assert drawn_w[(at_s > 2.001) & (at_s < 5.99)] == pytest.approx(80.0)
