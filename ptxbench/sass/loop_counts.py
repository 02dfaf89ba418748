"""What a pass of each kernel's loop executes, kept by its listing, which takes long to parse."""

from __future__ import annotations

import hashlib
import inspect
import json
from functools import cache

from ptxbench.core.cache import Cache
from ptxbench.sass import listing, loop, program
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import LoopError, find_loop

# Opcode with modifiers, and how often it is executed.
OpcodeCounts = tuple[tuple[str, float], ...]

_COUNTS = Cache("loop-counts")
# The code that counts follow from.
_CODE = (listing, loop, program)


def loop_counts(sass: str) -> dict[str, OpcodeCounts]:
    """Return what a pass of each kernel's loop executes, by entry name.

    Kernels whose loop cannot be found, or calls a routine, are left out.

    Args:
        sass: nvdisasm's listing of a module.

    Raises:
        RefusedModuleError: As `parse_listing`.
    """
    key = hashlib.sha256(f"{_code_digest()}{sass}".encode()).hexdigest()
    name = f"{key[:2]}/{key}.json"
    try:
        held = json.loads(_COUNTS.get(name) or b"")
        return {kernel: tuple((str(op), float(n)) for op, n in counts) for kernel, counts in held.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        found = _counted(sass)
        _COUNTS.put(name, json.dumps(found).encode())
        return found


def _counted(text: str) -> dict[str, OpcodeCounts]:
    found = {}
    for name, kernel in parse_listing(text).items():
        try:
            body = find_loop(kernel)
        except LoopError:
            continue
        # What a routine executes, and on which of its paths, is not in the loop.
        if not any(instruction.base == "CALL" for instruction in body.instructions):
            found[name] = tuple((op, float(n)) for op, n in sorted(body.counts.items()))
    return found


@cache
def _code_digest() -> str:
    text = "\0".join(inspect.getsource(module) for module in _CODE)
    return hashlib.sha256(text.encode()).hexdigest()
