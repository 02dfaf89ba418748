"""Which of the reasons that NVML names slowed a kernel down."""

import math

import pytest

from ptxbench.analysis.throttling import describe_throttling, slowing_reasons


@pytest.mark.parametrize(
    ("reasons", "power_w", "limit_w", "slowing"),
    [
        (0x4, 690, 700, 0x4),
        (0x4, 561, 700, 0x4),
        (0x4, 559, 700, 0),
        (0x4, 350, 400, 0x4),
        (0x4, math.nan, 700, 0x4),
        (0x4, 300, math.nan, 0x4),
        (0x4 | 0x20, 300, 700, 0x20),
        (0x40 | 0x1, 300, 700, 0x40),
        (0x1 | 0x2 | 0x10, 690, 700, 0),
        (-1, 690, 700, 0),
    ],
)
def test_the_power_cap_counts_near_the_limit_alone_and_heat_always(reasons, power_w, limit_w, slowing):
    assert slowing_reasons(reasons, power_w, limit_w) == slowing
    assert (describe_throttling(slowing) == "") == (slowing == 0)
