"""A meter that was read during a run takes the place of its file: no clock is to be found."""

from dataclasses import replace

import pytest

from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.profile import SensorSpec
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import start_run
from ptxbench.meter.host import capture_of_run, log_from_run
from ptxbench.meter.validation import validate
from ptxbench.sensors.base import SourceName

GAIN = 0.94
INSTANT = replace(
    next(one for one in H200.sensors if one.source is SourceName.INSTANT), gain=GAIN, averaging_s=0.05
)
METER = SensorSpec(SourceName.STREAM, refresh_s=0.001, noise_w=0.5)
ASKED = {"opt_levels": (OptLevel.O3,), "protocols": (DYNAMIC,), "max_repeats": 2}


def measured(path, *sensors):
    gpu = SimulatedGpu(replace(H200, sensors=sensors), poll_interval_s=0.005)
    with start_run(gpu, RunOptions(instructions=("add.u32",), seed=3, **ASKED), path) as run:
        measure_table(gpu, run)
    return path


@pytest.fixture(scope="module")
def metered(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("metered") / "run", INSTANT, METER)


def test_the_meters_readings_judge_the_gpus_own(metered):
    capture = capture_of_run(metered)
    assert capture.rails == ("stream",)
    log = log_from_run(metered)
    assert {one.source for one in log.series} == {SourceName.INSTANT}
    found = validate(capture, log)
    assert found.sources[0].fit.gain.value == pytest.approx(GAIN, abs=0.02)
    assert found.alignment.offset_ms.value == pytest.approx(0.0, abs=2.0)


def test_a_run_without_a_meter_is_said(tmp_path):
    with pytest.raises(InputError, match="PTXBENCH_METER"):
        capture_of_run(measured(tmp_path / "run", INSTANT))
