"""`ptxbench show`: an instruction's PTX, its SASS loop, the verdict of the loop check, and its operands."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import DEFAULT_TARGET, target_of
from ptxbench.cli.output import print_json, say_found
from ptxbench.cli.terminal import as_written
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import InputError, NotMeasurableError
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import CataloguePath, Json, OneOptLevel, OptionalPatterns
from ptxbench.core.target import find_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxbench.catalogue.model import Instruction
    from ptxbench.emulator.toggles import Toggles
    from ptxbench.sass.module import Module

_PROSE = ("verdict", "operands")
_PARTS = ("ptx", "sass", *_PROSE)


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench show`.

    Attributes:
        form_name: Use one chain of copies (latency) or several chains side by side (throughput).
        part: Print only this part.
    """

    patterns: OptionalPatterns = ()
    catalogue: CataloguePath = None
    opt_level: OneOptLevel = "O3"
    target: Annotated[str, target_of("default: sm_90a")] = DEFAULT_TARGET
    form_name: Annotated[str, Opt(choices=("latency", "throughput"), flag="--form")] = "latency"
    part: Annotated[str | None, Opt(choices=_PARTS)] = None
    as_json: Json = False


@command_of(_Options, "show")
def command(options: _Options) -> None:
    """Print an instruction's PTX, its SASS loop, the verdict of the loop check, and how operands change.

    This needs no GPU. The exit code is 1 if an instruction is refused. --json takes one instruction.
    """
    from ptxbench.catalogue.search import find
    from ptxbench.catalogue.select import few
    from ptxbench.storage.own_catalogue import with_own

    patterns = with_own(options.catalogue, options.patterns)
    if not patterns:
        raise InputError("name an instruction, or a file of instructions by --catalogue")
    if options.as_json and options.part is not None:
        raise click.UsageError(f"--json has every part; leave out --part {options.part}.")
    selection = few(find(patterns))
    rows = selection.rows
    if options.as_json and len(rows) > 1:
        raise InputError(f"--json shows one instruction; name one of {', '.join(row.name for row in rows)}")
    say_found(selection)
    passed = True
    for row in rows:
        try:
            module = _build(row, options)
        except NotMeasurableError as error:
            if len(rows) == 1:
                raise
            # What else a pattern names is shown all the same.
            click.echo(f"ptxbench: {error}", err=True)
            passed = False
            continue
        if len(rows) > 1:
            click.echo(f"######## {row.name} ########")
        _print(module, options)
        passed &= module.loop_check.passed
    if not passed:
        sys.exit(1)


def _build(instruction: Instruction, options: _Options) -> Module:
    from ptxbench.codegen.assemble import assemble_ptx
    from ptxbench.sass.module import build_module

    return build_module(
        instruction,
        find_target(options.target),
        OptLevel(options.opt_level),
        Form(options.form_name),
        lambda ptx, opt_level: assemble_ptx(ptx, options.target, opt_level),
    )


def _print(module: Module, options: _Options) -> None:
    from ptxbench.sass.text import target_loop_text, verdict_text

    # What one part takes is not worked out for another.
    parts: dict[str, Callable[[], str]] = {
        "ptx": lambda: module.ptx,
        "sass": lambda: target_loop_text(module.listing),
        "verdict": lambda: verdict_text(module),
        "operands": lambda: _operands_text(_toggles(module, options.target)),
    }
    if options.as_json:
        print_json(_document(module, options.target, parts["sass"](), _toggles(module, options.target)))
    elif options.part:
        click.echo(parts[options.part]().rstrip(), file=None if options.part in _PROSE else as_written())
    else:
        for gap, (label, text) in zip(("", *"\n\n\n"), parts.items(), strict=True):
            click.echo(f"{gap}==== {label} ====")
            click.echo(text().rstrip(), file=None if label in _PROSE else as_written())


def _toggles(module: Module, target_name: str) -> Toggles | None:
    """Return how the random operands change, or None where the reference does not know the loop."""
    from ptxbench.emulator.kernel import UnknownInstructionError
    from ptxbench.emulator.toggles import operand_toggles

    try:
        return operand_toggles(module.instruction, find_target(target_name), module.form)
    except UnknownInstructionError:
        return None


def _operands_text(toggles: Toggles | None) -> str:
    if toggles is None:
        return "how random operands change is not known: the reference does not compute this loop"
    return (
        f"random operands: {toggles.bits:.1f} bits of the registers that it reads change from one copy to "
        f"the next of its chain, and in {toggles.still:.0%} of the copies none"
    )


def _document(module: Module, target: str, sass_loop: str, toggles: Toggles | None) -> dict[str, object]:
    return {
        "instruction": module.instruction.name,
        "target": target,
        "opt_level": module.opt_level,
        "form": module.form,
        "assembler": module.cubin.assembler,
        "cubin_sha256": module.cubin.sha256,
        "ptx": module.ptx,
        "sass_loop": sass_loop,
        "operand_bits_changed": toggles.bits if toggles else None,
        "operands_still": toggles.still if toggles else None,
        **asdict(module.loop_check),
    }
