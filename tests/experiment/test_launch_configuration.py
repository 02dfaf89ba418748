from dataclasses import replace

import pytest
from fakes.measuring import SMS, loaded

from ptxbench.core.condition import OptLevel
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.launch_configuration import WAVES, LaunchConfiguration


def member(attempt=0, own_block=None, **change):
    """A member whose family needs a block of its own, or none."""
    one = loaded()
    unit = replace(one.unit, instruction=replace(one.unit.instruction, block=own_block), **change)
    return LaunchConfiguration(replace(one, unit=unit), check_linearity=True, attempt=attempt)


def test_the_first_attempt_runs_many_blocks_an_sm_and_later_ones_one_on_fewer_sms():
    assert WAVES > 1
    assert [member(attempt).grid(SMS) for attempt in range(4)] == [WAVES * SMS, 99, 66, 33]


def test_a_family_with_a_block_of_its_own_gets_one_an_sm():
    assert [member(attempt, own_block=256).grid(SMS) for attempt in range(4)] == [SMS, 99, 66, 33]


@pytest.mark.parametrize("level", OptLevel)
def test_a_block_is_of_1024_threads_at_both_levels_unless_its_family_needs_another(level):
    gpu = SimulatedGpu()
    assert member(opt_level=level).block(gpu) == 1024
    assert member(own_block=256, opt_level=level).block(gpu) == 256
