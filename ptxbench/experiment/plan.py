"""What a run measures, and in which order: what matters first, and like beside like."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest

from ptxbench.analysis.subject import Subject
from ptxbench.catalogue.common import common_rows
from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import DYNAMIC, Condition, OptLevel, Pattern
from ptxbench.core.target import Target
from ptxbench.experiment.order import BATCH_SIZE
from ptxbench.experiment.protocols import find_protocol
from ptxbench.storage.manifest import RunArguments

# Instructions that `table --standard` measures, and how long it may take.
STANDARD, STANDARD_MINUTES = 300, 15.0


def plan_subjects(arguments: RunArguments) -> tuple[Subject, ...]:
    """Return what the arguments ask to measure, in the table's order.

    Raises:
        InputError: An instruction or a protocol is unknown.
    """
    subjects = []
    for name in arguments.instructions:
        instruction = find_instruction(name)
        for condition in arguments.combinations():
            form = find_protocol(condition.protocol).form(instruction, condition.opt_level)
            subjects.append(Subject(instruction, replace(condition, form=form)))
    return tuple(subjects)


def standard_names(target: Target) -> tuple[str, ...]:
    """Return the instructions of most worth on a target, the first `STANDARD` in the order of `plan_batches`.

    Only those count that can be measured there at -O3. What real kernels execute most is
    `catalogue/data/common_opcodes.csv`, which names its source.

    Args:
        target: Of the GPU at hand.
    """
    protocol, condition = find_protocol(DYNAMIC), Condition(OptLevel.O3, DYNAMIC, Pattern.RANDOM)
    subjects = []
    for row in load_catalogue():
        form = protocol.form(row, OptLevel.O3)
        if row.exists_on(target) and not row.refusal(OptLevel.O3, target.name, form):
            subjects.append(Subject(row, replace(condition, form=form)))
    ordered = [one for batch in plan_batches(subjects, seed=0) for one in batch]
    return tuple(one.instruction.name for one in ordered[:STANDARD])


def plan_batches(subjects: Sequence[Subject], seed: int) -> list[list[Subject]]:
    """Return the subjects in batches, in the order in which they are measured.

    First come the starters, then the commonest opcodes of real kernels, then an instruction of each row of
    Table I of Arafa et al. (2020). One row of every category and template follows, then the rest, a row of
    each kind after the other. So a run that ends early has measured what matters most. Products of sparse
    matrices come last of all: from the first one on everything draws a tenth more (docs/accuracy.md). A batch
    holds one protocol and one optimization level, so that neighbours draw similar power; the levels
    alternate, so that both get equally far.

    Args:
        subjects: What the run measures.
        seed: Seed of the order of kinds.
    """
    shuffled = random.Random(seed)  # noqa: S311
    tiers = _tiers(subjects)
    groups = sorted({_group(subject) for subject in subjects})
    shuffled.shuffle(groups)
    place = {group: number for number, group in enumerate(groups)}
    turn = _turns(subjects)

    def part(subject: Subject) -> tuple[bool, str]:
        return subject.instruction.sparse, subject.condition.protocol

    def order(subject: Subject) -> tuple[bool, str, int, int, int, int]:
        kind = place[_group(subject)]
        return *part(subject), *tiers(subject.instruction), turn[subject.name], kind

    batches = []
    for _, members in groupby(sorted(subjects, key=order), key=part):
        of_protocol = list(members)
        by_opt_level = [
            list(_batched([subject for subject in of_protocol if subject.condition.opt_level is opt_level]))
            for opt_level in OptLevel
        ]
        batches += [batch for pair in zip_longest(*by_opt_level) for batch in pair if batch]
    return batches


def later_alike(plan: Sequence[Sequence[Subject]], number: int) -> list[Condition]:
    """Return the conditions of the later batches of a batch's protocol in which the GPU draws alike.

    From the first product of sparse matrices on it draws more, so that what is left of the others, such as
    what throttled, is measured before it.

    Args:
        plan: What `plan_batches` returned.
        number: Which batch.
    """
    own = plan[number][0]
    return [
        batch[0].condition
        for batch in plan[number + 1 :]
        if batch[0].condition.protocol == own.condition.protocol
        and batch[0].instruction.sparse == own.instruction.sparse
    ]


def _batched(subjects: Sequence[Subject]) -> Iterator[list[Subject]]:
    """Yield the subjects in batches of at most `BATCH_SIZE`."""
    for n in range(0, len(subjects), BATCH_SIZE):
        yield list(subjects[n : n + BATCH_SIZE])


def _turns(subjects: Sequence[Subject]) -> dict[str, int]:
    """Return for each subject how many of its kind come before it, by name: kinds take turns."""
    seen: Counter[tuple[object, ...]] = Counter()
    turns = {}
    for subject in subjects:
        kind = (*_group(subject), subject.condition.key)
        turns[subject.name] = seen[kind]
        seen[kind] += 1
    return turns


def _tiers(subjects: Sequence[Subject]) -> Callable[[Instruction], tuple[int, int]]:
    """Return what gives a row's tier, and its place there where the tier has an order of its own."""
    rows = [subject.instruction for subject in subjects]
    # One row alone is in no order, and to read the catalogue for it takes 0.3 s.
    several = len({row.name for row in rows}) > 1
    common = {name: place for place, name in enumerate(common_rows())} if several else {}
    first_of_paper = {row.paper: row.name for row in reversed(rows) if row.paper}
    first_of_group = {(row.category, row.family): row.name for row in reversed(rows)}

    def tier(row: Instruction) -> tuple[int, int]:
        wanted = (
            row.name in STARTERS,
            row.name in common,
            row.name == first_of_paper.get(row.paper),
            row.name == first_of_group[row.category, row.family],
        )
        found = next((number for number, is_so in enumerate(wanted) if is_so), len(wanted))
        return found, common[row.name] if found == 1 else 0

    return tier


def _group(subject: Subject) -> tuple[str, ...]:
    """Return what rows of one kind share: their loops are alike."""
    row = subject.instruction
    return (row.family, row.companion, row.type, row.category)
