import pytest

from ptxbench.core.errors import InputError
from ptxbench.sensors.base import POWER_SOURCES, SourceName
from ptxbench.sensors.description import ALIKE, Shape
from ptxbench.sensors.known_sensors import sensor_for


@pytest.mark.parametrize(
    ("target", "averaging_s"),
    [("sm_70", 0.0), ("sm_75", 0.0), ("sm_80", 0.025), ("sm_86", 1.0), ("sm_90a", 1.0), ("sm_120", 1.0)],
)
def test_power_usage_is_a_one_second_mean_after_ga100(target, averaging_s):
    assert sensor_for(SourceName.USAGE, target).averaging_s == averaging_s


@pytest.mark.parametrize(
    ("source", "refresh_s", "averaging_s"),
    [
        (SourceName.USAGE, 0.1, 1.0),
        (SourceName.AVERAGE, 0.1, 1.0),
        (SourceName.MEMORY, 0.1, 1.0),
        (SourceName.INSTANT, 0.1, 0.025),
        (SourceName.COUNTER, 0.1, 0.0),
    ],
)
def test_h200(source, refresh_s, averaging_s):
    sensor = sensor_for(source, "sm_90a")
    assert (sensor.source, sensor.refresh_s, sensor.averaging_s) == (source, refresh_s, averaging_s)
    assert (sensor.quantum, sensor.origin) == (1e-3, "documented")


def test_samples_of_a_hopper_are_known_from_boards_alike():
    sensor = sensor_for(SourceName.SAMPLES, "sm_90a")
    assert (sensor.origin, sensor.shape, sensor.refresh_s) == (ALIKE, Shape.EXPONENTIAL, 0.02)
    # A time constant of 13.5 to 14.1 ms, as results/nvidia-h100/doctor-b6a0 and its like have it.
    assert 0.0135 < sensor.averaging_s / 2 < 0.0141
    assert sensor_for(SourceName.SAMPLES, "sm_80").origin == "documented"


@pytest.mark.parametrize("source", POWER_SOURCES)
@pytest.mark.parametrize("target", ["sm_52", "sm_80", "sm_100a", "sm_103f"])
def test_every_source_has_figures_on_every_target(source, target):
    assert sensor_for(source, target).refresh_s > 0


@pytest.mark.parametrize("target", ["90", "compute_90", "sm_", "sm_90b"])
def test_a_target_of_another_form_is_refused(target):
    with pytest.raises(InputError, match="sm_90"):
        sensor_for(SourceName.USAGE, target)


@pytest.mark.parametrize(("target", "regulation_s"), [("sm_90a", 0.2), ("sm_80", 0.0), ("sm_100a", 0.0)])
def test_where_launches_were_seen_to_move_the_power_that_is_waited_for(target, regulation_s):
    assert sensor_for(SourceName.SAMPLES, target).regulation_s == regulation_s


@pytest.mark.parametrize(
    ("source", "target", "excursion"),
    [
        (SourceName.SAMPLES, "sm_90a", 0.013),
        (SourceName.INSTANT, "sm_90a", 0.0),
        (SourceName.SAMPLES, "sm_80", 0.0),
    ],
)
def test_excursions_are_looked_for_where_they_were_seen(source, target, excursion):
    assert sensor_for(source, target).excursion == excursion
