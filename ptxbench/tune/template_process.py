"""Renders users' templates in a process of its own, which the system ends where a template does not end."""

from __future__ import annotations

import atexit
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

from ptxbench.core.errors import EndlessSourceError, RefusedModuleError, ToolError

# What a template may take, so that one without an end is known; chosen.
_CPU_S = 1.0
_MEMORY_BYTES = 1 << 30
_MAX_TEXT_BYTES = 16 << 20
# How a template without an end ends the process: by its processor time, or by the stack of a C function.
_ENDLESS_CODES = (-signal.SIGPROF, -signal.SIGSEGV)


class TemplateProcess:
    """A process that renders one template after the other; threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # Threads that wait for their turn need not find out one after the other.
        self._endless: set[str] = set()

    def render(self, name: str, text: str, values: Mapping[str, object]) -> bytes:
        """Render a template; a sandbox keeps it from anything but its values.

        Args:
            name: What to call it in messages.
            text: The template.
            values: Its variables.

        Raises:
            EndlessSourceError: It takes over 1 s of processor time, 1 GiB of memory or 16 MiB of text, or its
                macros call each other without an end.
            RefusedModuleError: It cannot be rendered.
            ToolError: The process cannot be started.
        """
        with self._lock:
            answer: dict[str, Any] = {"endless": True}
            if text not in self._endless:
                answer = self._answer(json.dumps({"text": text, "values": dict(values)}).encode() + b"\n")
            if "endless" in answer:
                self._endless.add(text)
        if "endless" in answer:
            raise EndlessSourceError(
                f"{name} does not come to an end: a template may take {_CPU_S:g} s, {_MEMORY_BYTES >> 30} GiB"
                f" and {_MAX_TEXT_BYTES >> 20} MiB of text"
            )
        if "error" in answer:
            raise RefusedModuleError(f"{name} does not render: {answer['error']}")
        return str(answer["text"]).encode()

    def _answer(self, question: bytes) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        line = b""
        with suppress(BrokenPipeError):
            process.stdin.write(question)
            process.stdin.flush()
            line = process.stdout.readline()
        if line:
            answer = json.loads(line)
            assert isinstance(answer, dict)  # noqa: S101
            return answer
        self._end()
        if process.returncode in _ENDLESS_CODES:
            return {"endless": True}
        raise ToolError(f"the process that renders templates ended with exit code {process.returncode}")

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", __name__, str(_CPU_S)]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise ToolError(f"{sys.executable} could not be started to render a template: {error}") from error
        atexit.register(self._end)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            atexit.unregister(self._end)
            process.communicate()


def _serve(cpu_s: float) -> None:
    """Answer until the other process closes the pipe; a template may take `cpu_s` of processor time."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)

    def answer(text: str, values: Mapping[str, object]) -> dict[str, object]:
        try:
            rendered = environment.from_string(text).render(values)
        except (MemoryError, RecursionError):
            return {"endless": True}
        except Exception as error:
            return {"error": str(error)}
        return {"text": rendered} if len(rendered) <= _MAX_TEXT_BYTES else {"endless": True}

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        question = json.loads(line)
        # Nobody handles SIGPROF: it ends this process, whatever that is doing.
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        found = answer(question["text"], question["values"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(json.dumps(found).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
