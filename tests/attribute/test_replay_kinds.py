"""Kinds of launches, and the graphs that they are launched by."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.attribute.replay.kinds import kinds_of, require_alone, with_fills
from ptxbench.attribute.replay.plan import (
    SETTINGS,
    Attempt,
    Wanted,
    difference_from_step,
    next_idle_share,
    plan_kind,
    spread,
)
from ptxbench.core.errors import InputError
from ptxbench.devices.step import SLEEP, SLEEP_NS, UNDO, NodeType, StepNode

WANTED = Wanted(power_w=400, clock_mhz=1980, is_limited=False, idle_w=120)


def kernel(name, **attributes):
    return StepNode(NodeType.KERNEL, name, **attributes)


def test_a_kind_is_every_launch_of_a_function_shape_and_attributes():
    nodes = [kernel("a"), kernel("b"), kernel("a"), kernel("a", grid=(2, 1, 1)), kernel("a", shared_bytes=4)]
    assert [kind.instances for kind in kinds_of(nodes)] == [(0, 2), (1,), (3,), (4,)]
    assert kinds_of(nodes)[0].calls == 2


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (kernel("_Z3fooi"), "foo(int)"),
        (StepNode(NodeType.COPY, "copy from host to device", size=12), "copy from host to device, 12 bytes"),
        (StepNode(NodeType.FILL, "fill of device memory", size=2_500_000), "fill of device memory, 2.5 MB"),
        (StepNode(NodeType.FILL, "fill of device memory", size=3 * 10**9), "fill of device memory, 3 GB"),
    ],
)
def test_a_kind_has_a_name_that_people_read(node, name):
    (kind,) = kinds_of([node])
    assert kind.name == name


def test_a_step_that_waits_for_other_gpus_is_refused():
    require_alone(kinds_of([kernel("gemm"), StepNode(NodeType.COPY, "allreduce")]))
    with pytest.raises(InputError, match="ncclDevKernel_AllReduce_Sum_f32_RING_LL may wait for another GPU"):
        require_alone(kinds_of([kernel("gemm"), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL")]))


def test_a_graph_lasts_long_enough_and_is_not_too_large():
    plan = plan_kind([[3], [5]], 10e-6)
    assert plan.order == (3, 5) * 100
    assert plan.launches * 10e-6 >= SETTINGS.graph_s
    assert plan.sleeps == 0
    assert len(plan_kind([[0]], 0.1e-6).order) == SETTINGS.most_nodes
    assert plan_kind([[7]], 1.0).order == (7,)
    assert plan_kind([[n] for n in range(5000)], 1e-6).launches == 5000


@given(st.floats(0.01, 0.9), st.floats(1e-6, 1e-2), st.integers(1, 50))
def test_the_share_of_time_asleep_is_what_was_asked_for(share, launch_s, count):
    plan = plan_kind([[n] for n in range(count)], launch_s, share)
    asleep_s, busy_s = plan.sleeps * SLEEP_NS * 1e-9, plan.launches * launch_s
    # One sleep more or less.
    assert abs(asleep_s - share * (asleep_s + busy_s)) <= SLEEP_NS * 1e-9
    assert plan.sleeps >= 1


@given(st.integers(1, 60), st.integers(0, 200))
def test_sleeps_are_spread_evenly_and_launches_keep_their_order(launches, sleeps):
    order = spread([[n] for n in range(launches)], sleeps)
    assert [one for one in order if one != SLEEP] == list(range(launches))
    assert order.count(SLEEP) == sleeps
    gaps, run = [], 0
    for one in order[1:]:
        if one == SLEEP:
            run += 1
        else:
            gaps.append(run)
            run = 0
    gaps.append(run)
    assert max(gaps) - min(gaps) <= 1


def test_a_launch_stays_behind_the_fills_that_it_needs():
    assert spread([[1, 2], [4]], 2) == (1, 2, SLEEP, 4, SLEEP)
    plan = plan_kind([[1, 2], [4]], 1e-3)
    assert plan.order == (1, 2, 4)
    assert plan.launches == 2


@pytest.mark.parametrize(
    ("every", "order"),
    [
        (0, (1, 2, 4, 5)),
        (1, (UNDO, 1, 2, UNDO, 4, UNDO, 5)),
        (2, (UNDO, 1, 2, 4, UNDO, 5)),
        (3, (UNDO, 1, 2, 4, 5)),
    ],
)
def test_what_launches_change_is_written_back_before_so_many_of_them(every, order):
    plan = plan_kind([[1, 2], [4], [5]], 1e-3, undo_every=every)
    assert plan.order == order
    assert plan.launches == 3


def test_the_fills_directly_before_a_kernel_are_there_for_it():
    fill, copy = StepNode(NodeType.FILL, "fill", size=4), StepNode(NodeType.COPY, "copy", size=4)
    nodes = [fill, fill, kernel("a"), kernel("b"), fill, copy, kernel("c")]
    assert [with_fills(nodes, n) for n in (2, 3, 4, 5, 6)] == [(0, 1, 2), (3,), (4,), (5,), (6,)]


def attempt(share, power_w=700.0, clock_mhz=1700.0, is_limited=True):
    return Attempt(share, power_w, clock_mhz, is_limited)


def test_a_kind_like_the_step_needs_no_idle_time():
    assert next_idle_share([attempt(0, 300, 1980, False)], WANTED) is None
    assert next_idle_share([attempt(0, 300, 1975, False)], WANTED) is None
    assert difference_from_step(attempt(0, 300, 1975, False), WANTED) == ""


def test_a_kind_at_the_limit_gets_the_idle_time_that_gives_the_power_of_the_step():
    share = next_idle_share([attempt(0, 700)], WANTED)
    assert share == pytest.approx(1 - (400 - 120) / (700 - 120))
    assert (1 - share) * 700 + share * 120 == pytest.approx(400)
    # What is seen with some idle time is of the kind and of that.
    asleep = attempt(0.2, 0.8 * 700 + 0.2 * 120)
    assert next_idle_share([attempt(0, 650), asleep], WANTED) == pytest.approx(share)


def test_a_lower_clock_is_enough_to_need_idle_time():
    assert next_idle_share([attempt(0, 700, 1900, False)], WANTED) is not None


def test_more_idle_time_is_tried_where_the_limit_is_still_met():
    shares = [0.0]
    tried = [attempt(0, 700)]
    while (share := next_idle_share(tried, WANTED)) is not None:
        assert share > shares[-1]
        shares.append(share)
        tried.append(attempt(share, 600))
    assert len(shares) == SETTINGS.tries + 1


def test_too_much_idle_time_is_taken_back_by_halves():
    limited = Wanted(690, 1700, True, 120)
    tried = [attempt(0, 700, 1600), attempt(0.4, 500, 1980, False)]
    assert next_idle_share(tried, limited) == pytest.approx(0.2)
    tried.append(attempt(0.2, 650, 1650, True))
    assert next_idle_share(tried, limited) == pytest.approx(0.3)
    tried.append(attempt(0.3, 650, 1705, False))
    assert next_idle_share(tried, limited) is None


def test_a_kind_faster_than_the_step_by_itself_is_left_so_and_it_is_said():
    limited = Wanted(690, 1700, True, 120)
    fast = attempt(0, 300, 1980, False)
    assert next_idle_share([fast], limited) is None
    assert difference_from_step(fast, limited) == "ran at 1980 MHz; the step at 1700 MHz"
    assert "held down by the power limit" in difference_from_step(attempt(0.9), WANTED)


def test_power_or_clock_that_is_not_known_ends_in_an_answer():
    tried = [attempt(0, math.nan, math.nan)]
    for _ in range(SETTINGS.tries + 1):
        share = next_idle_share(tried, WANTED)
        if share is None:
            break
        assert 0 < share <= SETTINGS.most_idle
        tried.append(attempt(share, math.nan, math.nan))
    assert share is None
    assert next_idle_share([attempt(0, 300, math.nan, False)], WANTED) is None
