"""The C code of tests and the injector, each compiled once for the same text and flags."""

import hashlib
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ptxbench.attribute.injector_source import source
from ptxbench.core.cache import base_folder

CC = shutil.which("cc") or ""
SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LIBRARY = ("-shared", "-fPIC", "-ldl", "-lpthread")


def compiled(text, *commands):
    """Return a folder, which other processes share, with what the compiler makes of a text.

    Args:
        text: The C code; the compiler finds it as "code.c".
        commands: The words of each run of the compiler, without the compiler.
    """
    kept = base_folder("XDG_CACHE_HOME", ".cache") / "ptxbench-tests" / "native"
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    compiler = Path(CC).resolve().stat()
    key = repr((text, commands, compiler.st_mtime_ns, compiler.st_size)).encode()
    folder = kept / hashlib.sha256(key).hexdigest()[:24]
    if not folder.exists():
        part = Path(tempfile.mkdtemp(dir=kept))
        (part / "code.c").write_text(text)
        for words in commands:
            subprocess.run((CC, "-std=gnu11", *words), check=True, cwd=part)
        # Another process may have been faster.
        with suppress(OSError):
            part.rename(folder)
    return folder


def injector(*flags):
    """Return the injected library."""
    words = ("-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "code.c", "-o", "injector.so", *LIBRARY)
    return compiled(source(), (*flags, *words)) / "injector.so"
