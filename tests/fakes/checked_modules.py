"""Measuring modules, each rendered, parsed and checked once for the same machine code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.own_files import OWN_FILES
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import Target
from ptxbench.core.threads import WARP
from ptxbench.experiment import build, calibrate, load
from ptxbench.sass.listing import disassemble
from ptxbench.sass.module import Assembler, Module, build_module

# Each has some 0.4 MB of parsed code.
_MOST = 64


@contextmanager
def checked_once() -> Iterator[None]:
    """Let runs take modules that runs before them built; each is assembled and disassembled all the same."""
    kept: dict[tuple[object, ...], Module] = {}

    def built(
        instruction: Instruction,
        target: Target,
        opt_level: OptLevel,
        form: Form,
        assemble: Assembler,
        lanes: int = WARP,
    ) -> Module:
        key = (instruction, target, opt_level, form, lanes)
        held = None if OWN_FILES else kept.get(key)
        if held is not None:
            cubin = assemble(held.ptx, opt_level)
            if cubin.image == held.cubin.image and disassemble(cubin.image) == held.listing:
                return replace(held, cubin=cubin)
        found = build_module(instruction, target, opt_level, form, assemble, lanes)
        if len(kept) >= _MOST:
            kept.clear()
        kept[key] = found
        return found

    with pytest.MonkeyPatch.context() as patch:
        for uses_it in (build, calibrate, load):
            patch.setattr(uses_it, "build_module", built)
        yield
