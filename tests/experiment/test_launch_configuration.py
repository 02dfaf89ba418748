from dataclasses import replace

import pytest
from fakes.measuring import SMS, prepared

from ptxbench.core.condition import OptLevel
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.launch_configuration import WAVES, LaunchConfiguration


def configuration(attempt=0, own_block=None, **change):
    """A subject whose family needs a block of its own, or none."""
    one = prepared()
    instruction = replace(one.subject.instruction, block=own_block)
    condition = replace(one.subject.condition, **change)
    subject = replace(one.subject, instruction=instruction, condition=condition)
    return LaunchConfiguration(replace(one, subject=subject), check_linearity=True, attempt=attempt)


def test_the_first_attempt_runs_many_blocks_an_sm_and_later_ones_one_on_fewer_sms():
    assert WAVES > 1
    assert [configuration(attempt).grid(SMS) for attempt in range(4)] == [WAVES * SMS, 99, 66, 33]


def test_a_family_with_a_block_of_its_own_gets_one_an_sm():
    assert [configuration(attempt, own_block=256).grid(SMS) for attempt in range(4)] == [SMS, 99, 66, 33]


@pytest.mark.parametrize("level", OptLevel)
def test_a_block_is_of_1024_threads_at_both_levels_unless_its_family_needs_another(level):
    gpu = SimulatedGpu()
    assert configuration(opt_level=level).block(gpu) == 1024
    assert configuration(own_block=256, opt_level=level).block(gpu) == 256
