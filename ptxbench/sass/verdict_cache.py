"""Verdicts kept by content, so that a module that was checked once need not be assembled again."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from ptxbench.catalogue import model, types
from ptxbench.catalogue.model import Instruction
from ptxbench.codegen import operands, registers, render, values
from ptxbench.codegen.render import template_texts
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import Target
from ptxbench.core.toolchain import tool_version
from ptxbench.sass import (
    copy_check,
    listing,
    loop,
    loop_check,
    loop_counter,
    loop_path,
    operand,
    operation,
    program,
    shape,
    written,
)
from ptxbench.sass.loop_check import LoopCheck, Verdict

# The code that a verdict follows from: what makes a row's text, and what judges its SASS.
_CODE = (
    *(model, types, render, registers, operands, values),
    *(
        loop_check,
        loop_counter,
        loop_path,
        copy_check,
        operation,
        shape,
        operand,
        listing,
        loop,
        program,
        written,
    ),
)


def default_cache_folder() -> Path:
    """Return $XDG_CACHE_HOME/ptxbench/verdicts, or the same below ~/.cache."""
    # The specification asks that a relative path is passed over.
    configured = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(configured) if configured.startswith("/") else Path.home() / ".cache"
    return root / "ptxbench" / "verdicts"


def verdict_key(instruction: Instruction, target: Target, opt_level: OptLevel, form: Form) -> str:
    """Return a digest of everything that a verdict follows from.

    That is the row (its expectation is not in the text), the templates of its family, the tools, and the
    code that renders and judges. The text itself need not be there: rendering it takes longer than all
    the rest of a run from the cache.

    Raises:
        ToolError: ptxas or nvdisasm is missing.
    """
    parts = (
        repr(instruction),
        repr(target),
        opt_level.value,
        form.value,
        tool_version("ptxas"),
        tool_version("nvdisasm"),
        _family_digest(instruction.family),
        _code_digest(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class VerdictCache:
    """A folder of checks, one small JSON file each.

    It only saves time: an entry that cannot be read is a miss, one that cannot be written is left out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> LoopCheck | None:
        """Return the checked kept under `key`, or None."""
        try:
            entry = json.loads(self._path(key).read_text())
            return LoopCheck(
                Verdict(entry["verdict"]),
                tuple((str(opcode), float(count)) for opcode, count in entry["sass"]),
                tuple((str(opcode), int(count)) for opcode, count in entry["overhead"]),
                str(entry["reason"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, checked: LoopCheck) -> None:
        """Keep a checked; another process may write the same one at the same time."""
        path = self._path(key)
        entry = {
            "verdict": checked.verdict,
            "sass": checked.sass,
            "overhead": checked.overhead,
            "reason": checked.reason,
        }
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(entry, file)
            Path(temporary).replace(path)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


@cache
def _family_digest(family: str) -> str:
    return hashlib.sha256("\0".join(template_texts(family)).encode()).hexdigest()


@cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for module in _CODE:
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()
