from collections import Counter

import pytest

from ptxbench.analysis.subject import Subject
from ptxbench.catalogue.common import common_rows
from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import DYNAMIC, Condition, OptLevel, Pattern
from ptxbench.core.target import find_target
from ptxbench.experiment.order import BATCH_SIZE
from ptxbench.experiment.plan import STANDARD, later_alike, plan_batches, standard_names


@pytest.fixture(scope="module")
def subjects():
    return [
        Subject(row, Condition(level, DYNAMIC, Pattern.RANDOM))
        for row in load_catalogue()
        for level in OptLevel
    ]


def test_every_subject_is_in_one_batch_of_one_level(subjects):
    batches = plan_batches(subjects, 3)
    assert Counter(subject.name for batch in batches for subject in batch) == Counter(
        subject.name for subject in subjects
    )
    for batch in batches:
        assert 0 < len(batch) <= BATCH_SIZE
        assert len({subject.condition.opt_level for subject in batch}) == 1


def test_a_run_that_ends_early_has_got_equally_far_at_both_levels(subjects):
    batches = plan_batches(subjects, 3)
    for end in range(1, len(batches)):
        reached = Counter(subject.condition.opt_level for batch in batches[:end] for subject in batch)
        assert abs(reached[OptLevel.O0] - reached[OptLevel.O3]) <= BATCH_SIZE


def test_what_matters_most_comes_first(subjects):
    names = list(dict.fromkeys(t.instruction.name for batch in plan_batches(subjects, 3) for t in batch))
    dense = [name for name in common_rows() if ".sp." not in name and name not in STARTERS]
    begin = len(STARTERS) + len(dense)
    assert set(names[: len(STARTERS)]) == set(STARTERS)
    assert set(names[len(STARTERS) : begin]) == set(dense)
    of_first_batch = BATCH_SIZE - len(STARTERS)
    assert names[len(STARTERS) : BATCH_SIZE] == dense[:of_first_batch], "the commonest first"
    paper = {s.instruction.name: s.instruction.paper for s in subjects if s.instruction.paper}
    reached = {paper[name] for name in names[: begin + len(set(paper.values()))] if name in paper}
    assert reached == set(paper.values()), "each row of Table I is there before any has a second one"


def test_products_of_sparse_matrices_come_after_all_others(subjects):
    sparse = ["mma.sp" in t.name or "wgmma.sp" in t.name for b in plan_batches(subjects, 3) for t in b]
    assert sum(sparse) > 40
    assert sparse == sorted(sparse)
    batches = plan_batches(subjects, 3)
    assert all(len({subject.instruction.sparse for subject in batch}) == 1 for batch in batches)


def test_what_is_left_of_dense_products_is_measured_before_the_first_sparse_one(subjects):
    batches = plan_batches(subjects, 3)
    sparse = [batch[0].instruction.sparse for batch in batches]
    first = sparse.index(True)
    assert not later_alike(batches, first - 1)
    assert len(later_alike(batches, 0)) == first - 1
    assert len(later_alike(batches, first)) == len(batches) - first - 1


def test_kinds_take_turns_so_that_none_waits_for_the_end(subjects):
    names = list(dict.fromkeys(t.instruction.name for batch in plan_batches(subjects, 3) for t in batch))
    category = {subject.instruction.name: subject.instruction.category for subject in subjects}
    half = Counter(category[name] for name in names[: len(names) // 2])
    assert set(half) == set(category.values())


def test_the_seed_draws_the_order_and_nothing_else_does(subjects):
    again = plan_batches(list(subjects), 3)
    assert plan_batches(subjects, 3) == again
    assert plan_batches(subjects, 4) != again


@pytest.mark.parametrize("name", ["sm_75", "sm_90a"])
def test_the_standard_is_what_matters_most_on_a_target(subjects, name):
    target = find_target(name)
    names = standard_names(target)
    rows = {subject.instruction.name: subject.instruction for subject in subjects}
    assert len(names) == len(set(names)) == STANDARD
    there = {one for one, row in rows.items() if row.exists_on(target)}
    measurable = {
        one for one in there if not rows[one].refusal(OptLevel.O3, name, rows[one].forms(OptLevel.O3)[-1])
    }
    assert set(names) <= measurable
    starters = set(STARTERS) & measurable
    assert set(names[: len(starters)]) == starters
    assert set(common_rows()) & measurable <= set(names)
    assert any("wgmma" in one for one in names) == (name == "sm_90a")
