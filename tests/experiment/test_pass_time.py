"""How long a pass of a kernel's loop takes."""

import pytest

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import LaunchError
from ptxbench.devices.base import Launch
from ptxbench.experiment.load import pass_time_s

LAUNCH = Launch("load", Cubin(b"", "sm_90a", OptLevel.O3, "none"), "target", 1, 32, 100, (), "random")


@pytest.mark.parametrize(("beside_s", "own_s"), [(0.0, 1e-6), (1e-4, 1e-9), (1e-3, 0.0)])
def test_the_time_of_a_pass_is_of_the_last_launch_and_its_own_passes(beside_s, own_s):
    launches = []

    def time_s(launch):
        launches.append(launch)
        return beside_s + own_s * launch.iterations

    found_s = pass_time_s(time_s, LAUNCH, 0.01)
    assert found_s == time_s(launches[-1]) / launches[-1].iterations
    assert len(launches) < 10


def test_a_kernel_that_takes_no_time_did_not_run():
    with pytest.raises(LaunchError, match="no time"):
        pass_time_s(lambda _: 0.0, LAUNCH, 0.01)
