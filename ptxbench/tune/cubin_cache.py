"""Machine code of users' kernels, kept by what it is made from: compiling takes most of a trial."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ptxbench.core.toolchain import tool_version
from ptxbench.sass.verdict_cache import default_cache_folder
from ptxbench.tune.expression import Value

_DIGEST_BYTES = 32


def cubin_key(name: str, code: bytes, values: Mapping[str, Value], target: str) -> str:
    """Return a digest of everything that a cubin follows from.

    Args:
        name: Name of the source file, which says what compiles it.
        code: The source.
        values: What it is compiled for.
        target: Such as "sm_90a".

    Raises:
        ToolError: A tool is missing.
    """
    tools = [tool_version(tool) for tool in (("nvcc", "ptxas") if ".cu" in name else ("ptxas",))]
    plain = json.dumps([name, hashlib.sha256(code).hexdigest(), dict(values), target, tools], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def cached(key: str, make: Callable[[], bytes], folder: Path | None = None) -> bytes:
    """Return what is kept under a key, or else make and keep it.

    An entry that is damaged is made again, and one that cannot be written is left out.

    Args:
        key: By `cubin_key`.
        make: Makes it.
        folder: Where it is kept; None: `$XDG_CACHE_HOME/ptxbench/cubins`, or the same below ~/.cache.
    """
    root = folder or default_cache_folder().with_name("cubins")
    path = root / key[:2] / key
    with suppress(OSError):
        held = path.read_bytes()
        digest, image = held[:_DIGEST_BYTES], held[_DIGEST_BYTES:]
        if hashlib.sha256(image).digest() == digest:
            return image
    image = make()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(hashlib.sha256(image).digest() + image)
        Path(temporary).replace(path)
    return image
