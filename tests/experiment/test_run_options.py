from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.sensors.base import SourceName

SLOW_SENSOR = find_profile("slow-sensor")

GPU = SimulatedGpu()


def test_nothing_said_is_the_starters_at_both_levels_by_the_protocol_dynamic():
    arguments = RunOptions().complete(GPU)
    assert arguments.instructions == STARTERS
    assert len(STARTERS) == 12
    assert arguments.opt_levels == (OptLevel.O0, OptLevel.O3)
    assert arguments.protocols == (DYNAMIC,)
    assert arguments.patterns == ("random",)
    assert 2 <= arguments.min_repeats <= arguments.max_repeats
    assert (arguments.source, arguments.seed) == (None, None)


def test_what_is_said_stands_and_the_rest_is_default():
    arguments = RunOptions(instructions=("add.f32",), seed=0, precision=0.1, window_s=3.0).complete(GPU)
    assert (arguments.instructions, arguments.seed, arguments.precision, arguments.window_s) == (
        ("add.f32",),
        0,
        0.1,
        3.0,
    )
    assert arguments.protocols == (DYNAMIC,)


@pytest.mark.parametrize("profile", [H200, SLOW_SENSOR], ids=lambda profile: profile.name)
@pytest.mark.parametrize("source", [None, SourceName.USAGE])
def test_the_default_window_leaves_the_source_20_settled_readings(profile, source):
    gpu = SimulatedGpu(profile)
    sensor = choose_sensor(gpu, source)
    window_s = RunOptions(source=source).complete(gpu).window_s
    assert window_s >= sensor.averaging_s + sensor.lag_s + 20 * sensor.refresh_s


def test_over_a_recorded_run_what_is_not_said_is_as_recorded():
    assert RunOptions().over(fake.ARGUMENTS) == fake.ARGUMENTS
    assert RunOptions(seed=0, patterns=("zeros",)).over(fake.ARGUMENTS) == replace(
        fake.ARGUMENTS, seed=0, patterns=("zeros",)
    )


def test_what_is_said_twice_counts_once_in_the_order_of_saying():
    arguments = RunOptions(
        instructions=("fma.rn.f32", "add.f32", "fma.rn.f32"),
        opt_levels=(OptLevel.O3, OptLevel.O3),
        protocols=(DYNAMIC,) * 2,
        patterns=("zeros", "zeros"),
    ).complete(GPU)
    assert arguments.instructions == ("fma.rn.f32", "add.f32")
    assert (len(arguments.opt_levels), len(arguments.protocols), len(arguments.patterns)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ({"min_repeats": 10}, 10, 10),
        ({"max_repeats": 2}, 2, 2),
        ({"max_repeats": 50}, 2, 50),
        ({"min_repeats": 4, "max_repeats": 4}, 4, 4),
    ],
)
def test_the_bound_of_the_repeats_that_was_not_said_gives_way(said, least, most):
    arguments = RunOptions(**said).complete(GPU)
    assert (arguments.min_repeats, arguments.max_repeats) == (least, most)
    assert RunOptions(**said).over(arguments) == arguments  # so that a run can be resumed in the same words


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(InputError, match="max_repeats is 5, less than `min_repeats`, 9"):
        RunOptions(min_repeats=9, max_repeats=5).complete(GPU)


@pytest.mark.parametrize("finish", [lambda a: a.complete(GPU), lambda a: a.over(fake.ARGUMENTS)])
def test_an_unknown_instruction_is_named_with_its_neighbours(finish):
    with pytest.raises(InputError, match=r"'fma\.rn\.f23'; did you mean .*fma\.rn\.f32"):
        finish(RunOptions(instructions=("add.f32", "fma.rn.f23")))


def test_a_source_that_the_gpu_lacks_is_refused_with_what_it_has():
    counterless = replace(H200, sensors=tuple(s for s in H200.sensors if s.source is not SourceName.COUNTER))
    with pytest.raises(InputError, match=r"'counter'; it answers: samples, instant, average, usage, memory$"):
        RunOptions(source=SourceName.COUNTER).complete(SimulatedGpu(counterless))


def test_without_a_wish_the_first_sensor_is_taken():
    for profile in (H200, SLOW_SENSOR):
        assert choose_sensor(SimulatedGpu(profile), None).source is profile.sensors[0].source
    assert choose_sensor(GPU, SourceName.USAGE).source is SourceName.USAGE
