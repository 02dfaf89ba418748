"""Verdicts kept by content, so that a module that was checked once need not be assembled again."""

from __future__ import annotations

import hashlib
import inspect
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from ptxbench.catalogue import model, types
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.own_files import OWN_FILES, OwnFile
from ptxbench.codegen.render import template_texts
from ptxbench.core.cache import Cache
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import Target
from ptxbench.core.toolchain import assembler_name, tool_version
from ptxbench.sass.loop_check import LoopCheck, Verdict

# What makes a row's text, and what judges its SASS: a verdict follows from this code.
_PACKAGES = ("ptxbench.codegen", "ptxbench.sass")
_MODULES = (model, types)


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
        assembler_name(),
        tool_version("nvdisasm"),
        _family_digest(instruction.family, tuple(OWN_FILES.items())),
        _code_digest(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class VerdictCache:
    """Checks that were made before, one small JSON file each; one that is damaged is a miss.

    Args:
        root: In the place of the user's cache folder.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._cache = Cache("verdicts", root)

    def get(self, key: str) -> LoopCheck | None:
        """Return the check kept under `key`, or None."""
        held = self._cache.get(_name(key))
        try:
            entry = json.loads(held) if held is not None else {}
            return LoopCheck(
                Verdict(entry["verdict"]),
                tuple((str(opcode), float(count)) for opcode, count in entry["sass"]),
                tuple((str(opcode), int(count)) for opcode, count in entry["overhead"]),
                str(entry["reason"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, key: str, checked: LoopCheck) -> None:
        """Keep a check."""
        entry = {
            "verdict": checked.verdict,
            "sass": checked.sass,
            "overhead": checked.overhead,
            "reason": checked.reason,
        }
        self._cache.put(_name(key), json.dumps(entry).encode())


def _name(key: str) -> str:
    return f"{key[:2]}/{key}.json"


@cache
def _family_digest(family: str, own: tuple[OwnFile, ...]) -> str:
    del own  # two commands of one process may have unlike templates of one name
    return hashlib.sha256("\0".join(template_texts(family)).encode()).hexdigest()


@cache
def _code_digest() -> str:
    digest = hashlib.sha256("\0".join(map(inspect.getsource, _MODULES)).encode())
    for package in _PACKAGES:
        code = (file for file in files(package).iterdir() if file.name.endswith(".py"))
        for file in sorted(code, key=lambda one: one.name):
            digest.update(file.read_bytes())
    return digest.hexdigest()
