"""Check the loops of the whole catalogue without a GPU: render, assemble by ptxas, disassemble, count."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.render import batch_prefix, render_batch, render_module
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import RefusedModuleError
from ptxbench.core.target import Target
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.loop_check import LoopCheck, Verdict, check_loops
from ptxbench.sass.program import SassKernel
from ptxbench.sass.verdict_cache import VerdictCache, verdict_key

# nvdisasm takes 0.15 to 0.3 s to start and 0.01 s a row, so rows share a process. Larger batches save
# little more, and make both the progress and the search for a refused row coarser.
_BATCH = 48


@dataclass(frozen=True)
class VerifiedRow:
    """What became of one instruction on one target at one optimization level.

    Attributes:
        instruction: Catalogue name.
        category: Its category.
        target: Assembler target.
        opt_level: Optimization level of the assembler.
        form: Latency or throughput form.
        verdict: The loop check's class, or ABSENT.
        sass: Opcodes and their counts for one copy, such as "HFMA2*0.5 HFMA2.MMA*0.5".
        sass_per_ptx: SASS instructions for one PTX instruction; None where no copy was counted.
        reason: Why it is refused or absent, else "".
        declared: Whether the catalogue itself says that it cannot be measured; no tool was run.
    """

    instruction: str
    category: str
    target: str
    opt_level: OptLevel
    form: Form
    verdict: Verdict
    sass: str
    sass_per_ptx: float | None
    reason: str
    declared: bool = False


@dataclass(frozen=True, eq=False)
class _Question:
    """One row of the answer to be; `absent` and `refused` say why no tool is run, or ""."""

    instruction: Instruction
    target: Target
    opt_level: OptLevel
    form: Form
    absent: str
    refused: str


def verify_instructions(
    instructions: Sequence[Instruction],
    targets: Sequence[Target],
    opt_levels: Sequence[OptLevel],
    cache: VerdictCache | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[VerifiedRow, ...]:
    """Check instructions on targets at optimization levels.

    Several instructions share one cubin here, while a measurement assembles and checks each alone. ptxas
    compiles entry by entry, so their SASS is the same. The rows come by target, instruction, optimization
    level and form.

    Args:
        instructions: Catalogue rows.
        targets: Assembler targets.
        opt_levels: Assembler levels.
        cache: Where verdicts are kept between runs, or None.
        progress: Called with how many rows are checked, and how many there are.

    Raises:
        ToolError: ptxas or nvdisasm is missing, or was stopped.
        InputError: A row's family has no template.
    """
    questions = [
        question
        for target in targets
        for instruction in instructions
        for question in _ask(instruction, target, opt_levels)
    ]
    checks: dict[_Question, LoopCheck] = {}
    for question, checked in _answers(questions, cache):
        checks[question] = checked
        progress(len(checks), len(questions))
    return tuple(_row(question, checks[question]) for question in questions)


def _ask(instruction: Instruction, target: Target, opt_levels: Sequence[OptLevel]) -> Iterator[_Question]:
    absent = instruction.absence(target)
    for level in opt_levels:
        for form in instruction.forms(level):
            refused = "" if absent else instruction.refusal(level, target.name, form)
            yield _Question(instruction, target, level, form, absent, refused)


def _answers(
    questions: Sequence[_Question], cache: VerdictCache | None
) -> Iterator[tuple[_Question, LoopCheck]]:
    """Yield an answer to every question, those that need no tool first."""
    pending = []
    for question in questions:
        if question.absent:
            yield question, LoopCheck(Verdict.ABSENT, (), (), question.absent)
        elif question.refused:
            yield question, LoopCheck(Verdict.REFUSED, (), (), question.refused)
        elif cache and (known := cache.get(_key(question))):
            yield question, known
        else:
            pending.append(question)
    # The work is in subprocesses, one on each CPU of this process; threads only wait for them.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        futures = [pool.submit(_judge_batch, batch, cache) for batch in _batches(pending)]
        try:
            for future in as_completed(futures):
                yield from future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _key(question: _Question) -> str:
    return verdict_key(question.instruction, question.target, question.opt_level, question.form)


def _batches(questions: Sequence[_Question]) -> Iterator[list[_Question]]:
    """Yield questions that one assembler run can answer: of one target and optimization level."""
    alike: dict[tuple[Target, OptLevel], list[_Question]] = {}
    for question in questions:
        alike.setdefault((question.target, question.opt_level), []).append(question)
    for group in alike.values():
        for begin in range(0, len(group), _BATCH):
            yield group[begin : begin + _BATCH]


def _judge_batch(batch: list[_Question], cache: VerdictCache | None) -> list[tuple[_Question, LoopCheck]]:
    """Check questions of one target and optimization level; halving finds a module that fails."""
    try:
        kernels = _build(batch)
    except RefusedModuleError as error:
        if len(batch) == 1:
            # Not kept: the tool may have failed for a reason that passes, such as a full disk.
            return [(batch[0], LoopCheck(Verdict.REFUSED, (), (), str(error)))]
        half = len(batch) // 2
        return _judge_batch(batch[:half], cache) + _judge_batch(batch[half:], cache)
    answers = [
        (q, check_loops(q.instruction, q.opt_level, k, q.target.name, q.form))
        for q, k in zip(batch, kernels, strict=True)
    ]
    if cache:
        for question, checked in answers:
            cache.put(_key(question), checked)
    return answers


def _build(batch: list[_Question]) -> list[dict[str, SassKernel]]:
    """Return each question's kernels by entry name."""
    first = batch[0]
    if len(batch) == 1:
        # The text that `show` prints, so that the line of a complaint can be looked up.
        ptx = render_module(first.instruction, first.target, first.form)
        cubin = assemble_ptx(ptx, first.target.name, first.opt_level)
        return [parse_listing(disassemble(cubin.image))]
    ptx = render_batch([(question.instruction, question.form) for question in batch], first.target)
    cubin = assemble_ptx(ptx, first.target.name, first.opt_level)
    kernels = parse_listing(disassemble(cubin.image))
    return [_with_prefix(kernels, batch_prefix(number)) for number in range(len(batch))]


def _with_prefix(kernels: Mapping[str, SassKernel], prefix: str) -> dict[str, SassKernel]:
    return {name.removeprefix(prefix): k for name, k in kernels.items() if name.startswith(prefix)}


def _row(question: _Question, checked: LoopCheck) -> VerifiedRow:
    return VerifiedRow(
        instruction=question.instruction.name,
        category=question.instruction.category,
        target=question.target.name,
        opt_level=question.opt_level,
        form=question.form,
        verdict=checked.verdict,
        sass=checked.sass_text,
        sass_per_ptx=checked.sass_per_ptx if checked.sass else None,
        reason=checked.reason,
        declared=bool(question.refused),
    )
