"""What a run measures, and in which order: what matters first, and like beside like."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import groupby, zip_longest

from ptxbench.analysis.subject import unit_name
from ptxbench.catalogue.common import common_rows
from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import ARAFA, DYNAMIC, Form, OptLevel, Pattern
from ptxbench.storage.manifest import RunArguments

# Units of one batch: enough that the rounds of one unit lie seconds apart and that the warm-up of a round
# costs little, few enough that a batch ends within a minute.
BATCH_UNITS = 40


class Linearity(StrEnum):
    """For which units N copies are checked against 2N."""

    ALL = "all"
    SAMPLE = "sample"
    NONE = "none"


@dataclass(frozen=True)
class Task:
    """One row to fill.

    Attributes:
        instruction: Catalogue row.
        opt_level: Assembler level.
        protocol: Measuring protocol.
        pattern: Operand pattern.
        check_linearity: Whether N copies are checked against 2N.
    """

    instruction: Instruction
    opt_level: OptLevel
    protocol: str
    pattern: Pattern
    check_linearity: bool = False

    @property
    def form(self) -> Form:
        """One chain where latency counts, several where the whole chip is at work."""
        return Form.LATENCY if self.protocol == ARAFA else self.instruction.forms(self.opt_level)[-1]

    @property
    def unit(self) -> str:
        """Name of its unit: the beginning of its trials' ids."""
        return unit_name(self.instruction.name, self.opt_level, self.protocol, self.pattern)

    @property
    def name(self) -> str:
        """What the row is about, for a reader."""
        return f"{self.instruction.name} -{self.opt_level} {self.protocol} {self.pattern}"


def plan_tasks(arguments: RunArguments) -> tuple[Task, ...]:
    """Return the rows asked for, in the table's order."""
    linearity = Linearity(arguments.linearity)
    checked = _representatives() if linearity is Linearity.SAMPLE else frozenset(arguments.instructions)
    tasks = [
        Task(
            find_instruction(name),
            level,
            protocol,
            Pattern(pattern),
            protocol == DYNAMIC and linearity is not Linearity.NONE and name in checked,
        )
        for name in arguments.instructions
        for level in arguments.opt_levels
        for protocol in arguments.protocols
        for pattern in arguments.patterns
    ]
    return tuple(tasks)


@cache
def _representatives() -> frozenset[str]:
    """Return one row of every template: a starter, or else the catalogue's first; the loop is the template's.

    Whatever else a run measures, these are the rows that it checks.
    """
    rows = sorted(load_catalogue(), key=lambda row: row.name not in STARTERS)
    first: dict[str, str] = {}
    for row in rows:
        if not row.refused:
            first.setdefault(row.family, row.name)
    return frozenset(first.values())


def plan_batches(tasks: Sequence[Task], seed: int) -> list[list[Task]]:
    """Return the tasks in batches, in the order in which they are measured.

    First the starters, then the rows of Table I of Arafa et al. (2020), then the commonest opcodes of real
    kernels, then one row of every category and template, then the rest, a row of each kind after the other:
    a run that ends early has measured what matters most. A batch holds one protocol and level, so that
    neighbours draw similar power; batches of the levels alternate, so that both get equally far.

    Args:
        tasks: The rows asked for.
        seed: Seed of the order of kinds.
    """
    shuffled = random.Random(seed)  # noqa: S311
    first_of_group = _first_of_group(tasks)
    groups = sorted({_group(task) for task in tasks})
    shuffled.shuffle(groups)
    place = {group: number for number, group in enumerate(groups)}
    turn = _turns(tasks)

    def order(task: Task) -> tuple[str, int, int, int]:
        return task.protocol, _tier(task, first_of_group), turn[task.unit], place[_group(task)]

    batches = []
    for _, members in groupby(sorted(tasks, key=order), key=lambda task: task.protocol):
        of_protocol = list(members)
        by_level = [
            list(_batched([task for task in of_protocol if task.opt_level is level])) for level in OptLevel
        ]
        batches += [batch for pair in zip_longest(*by_level) for batch in pair if batch]
    return batches


def _batched(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Yield the tasks in batches of at most `BATCH_UNITS`."""
    for n in range(0, len(tasks), BATCH_UNITS):
        yield list(tasks[n : n + BATCH_UNITS])


def _turns(tasks: Sequence[Task]) -> dict[str, int]:
    """Return of each unit which one of its kind it is: kinds take turns."""
    seen: Counter[tuple[object, ...]] = Counter()
    turns = {}
    for task in tasks:
        kind = (*_group(task), task.opt_level, task.protocol, task.pattern)
        turns[task.unit] = seen[kind]
        seen[kind] += 1
    return turns


def _tier(task: Task, first_of_group: set[str]) -> int:
    row = task.instruction
    wanted = (row.name in STARTERS, row.paper, row.name in common_rows(), row.name in first_of_group)
    return next((tier for tier, is_so in enumerate(wanted) if is_so), len(wanted))


def _first_of_group(tasks: Sequence[Task]) -> set[str]:
    first: dict[tuple[str, str], str] = {}
    for task in tasks:
        first.setdefault((task.instruction.category, task.instruction.family), task.instruction.name)
    return set(first.values())


def _group(task: Task) -> tuple[str, ...]:
    """Return what rows of one kind share: their loops are alike."""
    row = task.instruction
    return (row.family, row.companion, row.type, row.category)
