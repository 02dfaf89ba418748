"""Run the commands that a page shows with what they print, and put there what they print now.

    python runners/refresh_console.py docs/jobs.md            # says which blocks are stale
    python runners/refresh_console.py --write docs/jobs.md

Such a block is fenced as `console`. Its first line is a command after `$ ` (a backslash at its end joins the
next line), perhaps with `| head -N` behind it. The rest is its output, at 90 columns. Commands run in the
root of the repository. Those that need a GPU stand in other blocks.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.storage.atomic import write_text

ROOT = Path(__file__).parents[1]
_COLUMNS = 90
_BLOCK = re.compile(r"```console\n\$ (?P<command>(?:[^\n]*\\\n)*[^\n]+)\n(?P<output>.*?)```\n", re.DOTALL)
_HEAD = re.compile(r"(?P<words>.*) \| head -(?P<lines>[0-9]+)")


def main() -> int:
    """Check or write pages; return 1 where a block is stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=Path, nargs="+", help="Markdown files")
    parser.add_argument("--write", action="store_true", help="write what the commands print into the pages")
    arguments = parser.parse_args()
    stale = 0
    for path in arguments.pages:
        page = path.read_text("utf-8")
        fresh = refreshed(page)
        if arguments.write and fresh != page:
            write_text(path, fresh)
        for (command, shown), (_, prints) in zip(blocks(page), blocks(fresh), strict=True):
            if shown != prints:
                stale += 1
                print(f"{path}: {command}: {'written' if arguments.write else 'stale'}")
    return 1 if stale and not arguments.write else 0


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page, each with the output that the page shows."""
    return [(found["command"], found["output"]) for found in _BLOCK.finditer(page)]


def refreshed(page: str) -> str:
    """Return a page with what its commands print now."""
    return _BLOCK.sub(
        lambda found: f"```console\n$ {found['command']}\n{printed(found['command'])}```\n", page
    )


def printed(command: str) -> str:
    """Return what a command prints, on both streams, as a terminal of 90 columns shows it.

    Args:
        command: As in a shell, `ptxbench` first; `| head -N` may follow.

    Raises:
        InputError: It is no command of ptxbench, or fails.
    """
    line = command.replace("\\\n", " ")
    head = _HEAD.fullmatch(line)
    program, *words = shlex.split(head["words"] if head else line)
    if program != "ptxbench":
        raise InputError(f"{command!r}: only commands of ptxbench are run")
    lines = [line.rstrip() for line in output_of(*words).splitlines()]
    return "".join(f"{line}\n" for line in (lines[: int(head["lines"])] if head else lines))


def output_of(*words: str) -> str:
    """Return what a command prints, on both streams, as a terminal of 90 columns shows it.

    Args:
        words: Those after `ptxbench`. The command runs in the root of the repository.

    Raises:
        InputError: It fails.
    """
    out = io.StringIO()
    with (
        chdir(ROOT),
        patch.dict(os.environ, {"COLUMNS": str(_COLUMNS)}),
        patch("ptxbench.report.text_table.width_of", return_value=_COLUMNS),
        redirect_stdout(out),
        redirect_stderr(out),
    ):
        code = run(words)
    if code:
        raise InputError(f"`ptxbench {' '.join(words)}` ends with {code}: {out.getvalue().strip()}")
    return out.getvalue()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_console: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
