"""A case of each kind that was silently wrong once, for each consumer; `fault_matrix.py` has all of them."""

import pytest
from fakes.consumers import CONSUMERS
from fakes.fault_cases import BOARDS, kinds, verdict

pytestmark = pytest.mark.hostile
BOARD = "samples + counter"
STRENGTHS = {
    "unit": "mW",
    "zeros": "every 3",
    "negative": "every 7",
    "late": "0.5 s",
    "gain": "1.3",
    "frozen": "from 50%",
    "spikes": "1.2 MW once",
    "counter scaled": "0.5",
}


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("kind", STRENGTHS)
def test_no_fault_is_silent(consumer, kind):
    one = CONSUMERS[consumer]
    (trouble,) = (t for t in kinds(one.mid_s)[kind] if t.strength == STRENGTHS[kind])
    assert verdict(one.cases(BOARDS[BOARD], trouble)) in ("held", "said")


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_without_a_fault_all_is_held(consumer):
    (none,) = kinds(CONSUMERS[consumer].mid_s)["none"]
    assert verdict(CONSUMERS[consumer].cases(BOARDS[BOARD], none)) == "held"


@pytest.mark.parametrize("consumer", ["tune", "roofline", "table"])
def test_a_clock_that_falls_without_a_reason_is_not_silent(consumer):
    one = CONSUMERS[consumer]
    (trouble,) = (t for t in kinds(one.mid_s)["thermal slowdown"] if t.strength == "without a reason")
    assert verdict(one.cases(BOARDS[BOARD], trouble)) in ("held", "said")
