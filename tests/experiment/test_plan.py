from collections import Counter

import pytest

from ptxbench.catalogue.common import common_rows
from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import DYNAMIC, OptLevel, Pattern
from ptxbench.experiment.plan import BATCH_UNITS, Task, plan_batches


@pytest.fixture(scope="module")
def tasks():
    return [Task(row, level, DYNAMIC, Pattern.RANDOM) for row in load_catalogue() for level in OptLevel]


def test_every_task_is_in_one_batch_of_one_level(tasks):
    batches = plan_batches(tasks, 3)
    assert Counter(task.unit for batch in batches for task in batch) == Counter(task.unit for task in tasks)
    for batch in batches:
        assert 0 < len(batch) <= BATCH_UNITS
        assert len({task.opt_level for task in batch}) == 1


def test_a_run_that_ends_early_has_got_equally_far_at_both_levels(tasks):
    batches = plan_batches(tasks, 3)
    for end in range(1, len(batches)):
        reached = Counter(task.opt_level for batch in batches[:end] for task in batch)
        assert abs(reached[OptLevel.O0] - reached[OptLevel.O3]) <= BATCH_UNITS


def test_what_matters_most_comes_first(tasks):
    names = list(dict.fromkeys(t.instruction.name for batch in plan_batches(tasks, 3) for t in batch))
    paper = {task.instruction.name for task in tasks if task.instruction.paper}
    begin = paper | set(STARTERS)
    first = begin | common_rows()
    assert set(names[: len(STARTERS)]) == set(STARTERS)
    assert set(names[: len(begin)]) == begin
    assert set(names[: len(first)]) == first


def test_kinds_take_turns_so_that_none_waits_for_the_end(tasks):
    names = list(dict.fromkeys(t.instruction.name for batch in plan_batches(tasks, 3) for t in batch))
    category = {task.instruction.name: task.instruction.category for task in tasks}
    half = Counter(category[name] for name in names[: len(names) // 2])
    assert set(half) == set(category.values())


def test_the_seed_draws_the_order_and_nothing_else_does(tasks):
    again = plan_batches(list(tasks), 3)
    assert plan_batches(tasks, 3) == again
    assert plan_batches(tasks, 4) != again
