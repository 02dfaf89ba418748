"""What a row cost in time: its own trials, and an even share of what all rows share."""

import pytest
from fakes.measuring import trial

from ptxbench.analysis.operating_point import STATIC_SUBJECT
from ptxbench.analysis.run_cost import run_cost
from ptxbench.core.condition import ARAFA
from ptxbench.storage.schema import Role


def spent(name, kernel_s, wall_s, **change):
    """A trial of a row that ran for one time and took another."""
    trial_id = f"{name}/O3/dynamic/random/target/0"
    times = {"elapsed_s": kernel_s, "record_begin_ns": 7 * 10**9, "record_end_ns": round((7 + wall_s) * 1e9)}
    return trial(Role.TARGET, trial_id=trial_id, **times, **change)


def test_each_row_has_its_own_time_and_an_even_share_of_the_common_one():
    records = [
        *(spent("fma.rn.f32", 1.0, 3.0), spent("fma.rn.f32", 1.0, 3.0), spent("add.f32", 0.5, 1.5)),
        *(spent(STATIC_SUBJECT, 2.0, 4.0), spent("mul.f32", 50.0, 90.0, protocol=ARAFA)),
    ]
    found = run_cost(records)
    assert found.rows == 2
    # 2 + 2 / 2 and 0.5 + 2 / 2 s of kernels; 6 + 4 / 2 and 1.5 + 4 / 2 s in all.
    assert (found.total_kernel_s, found.total_wall_s) == pytest.approx((4.5, 11.5))
    assert (found.kernel_s, found.wall_s) == pytest.approx((2.25, 5.75))


def test_a_run_without_a_row_of_the_protocol_has_none():
    assert run_cost([]) is None
    assert run_cost([spent(STATIC_SUBJECT, 2.0, 4.0)]) is None
