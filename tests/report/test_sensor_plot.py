"""The picture of each source's response to the load: times in ms, watts also of the counter."""

from dataclasses import replace

import numpy as np
import pytest

from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import find_profile
from ptxbench.devices.simulated.profile import SensorSpec
from ptxbench.experiment.sensor_study import PURPOSE, RECORDING, sense
from ptxbench.report import sensor_plot
from ptxbench.sensors.base import SourceName
from ptxbench.storage.recording import RecordingFolder

pytest.importorskip("matplotlib", reason="the extra plot is not installed")

GPU = replace(
    find_profile("a100"),
    sensors=(
        SensorSpec(SourceName.USAGE, refresh_s=0.02, averaging_s=0.03, lag_s=0.005, noise_w=1.0),
        SensorSpec(SourceName.COUNTER, refresh_s=0.02, averaging_s=0.02, lag_s=0.0, noise_w=0.0),
    ),
)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The description of the sources, and their panels by name."""
    found, path = sense(SimulatedGpu(GPU), tmp_path_factory.mktemp("study") / "sensor")
    kept = []
    with pytest.MonkeyPatch.context() as patch, RecordingFolder.open(path, PURPOSE) as folder:
        patch.setattr(sensor_plot, "save", lambda figure, _: kept.append(figure))
        (recording,) = folder.recordings
        sensor_plot.plot_sensors(found, folder.trace(RECORDING), recording.windows, path / "p.png")
    (figure,) = kept
    return found, {axes.get_ylabel(): axes for axes in figure.axes}


def lines_of(axes):
    """Return the dots and the lines of a panel, each as x and y."""
    dots = [line.get_data() for line in axes.get_lines() if line.get_marker() == "."]
    model = [line.get_data() for line in axes.get_lines() if len(line.get_xdata()) > 100]
    return [np.concatenate(parts) for parts in zip(*dots, strict=True)], model[0]


def test_each_source_has_a_panel_in_watts_and_time_is_in_ms(drawn):
    panels = drawn[1]
    assert panels.keys() == {"usage, W", "counter, W"}
    assert "SIMULATED" in next(iter(panels.values())).get_title(loc="left")
    assert list(panels.values())[-1].get_xlabel().startswith("ms since the load was switched on")


@pytest.mark.parametrize("name", ["usage", "counter"])
def test_dots_go_from_idle_power_to_that_of_the_load_along_the_model(drawn, name):
    found, panels = drawn
    (source,) = [one for one in found.sources if one.sensor.source == name]
    (at_ms, value_w), (line_ms, line_w) = lines_of(panels[f"{name}, W"])
    assert -100 <= at_ms.min() < -60
    assert line_ms.min() == pytest.approx(-100)
    # Twice as long as the source takes to settle, and 0.1 s.
    assert line_ms.max() == pytest.approx(2e3 * source.sensor.settle_s + 100)
    assert line_ms.max() - 30 < at_ms.max() <= line_ms.max()
    idle_w, load_w = source.idle_w.value, source.idle_w.value + source.step_w.value
    assert value_w[at_ms < 0] == pytest.approx(idle_w, abs=8)
    settled = at_ms > 1e3 * source.sensor.settle_s
    assert value_w[settled] == pytest.approx(load_w, rel=0.06)
    assert (line_w[0], line_w[-1]) == pytest.approx((idle_w, load_w), rel=0.01)
    off_w = value_w - np.interp(at_ms, line_ms, line_w)
    assert np.sqrt((off_w**2).mean()) < 0.05 * (load_w - idle_w)
