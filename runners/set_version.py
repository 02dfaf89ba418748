"""Say a version in each file that has one, for a release or for what follows it.

    python runners/set_version.py 0.3.0 2026-11-27     # a release, and its date
    python runners/set_version.py 0.4.0.dev0           # then what comes next

A release is named by `ptxbench/core/version.py`, `CHANGELOG.md`, `CITATION.cff` and `docs/howto/cite.md`.
What comes next is named by the first two alone: people cite the last release.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import date
from pathlib import Path

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.storage.atomic import write_text

ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r"\d+\.\d+\.\d+(\.dev0)?")
# What stands for the version or the date in each file, as the second of three groups.
_CODE = ("ptxbench/core/version.py", r'(VERSION = ")([^"]*)(")')
_CHANGES = ("CHANGELOG.md", r"(\n## )([^\n]*)(\n)")
_CITED = (("CITATION.cff", r"(\nversion: )(\S+)(\n)"), ("docs/howto/cite.md", r"(version = \{)([^}]*)(\})"))
_DATED = (
    ("CITATION.cff", r"(\ndate-released: )(\S+)(\n)"),
    ("docs/howto/cite.md", r"(year    = \{)([^}]*)(\})"),
)
_UNRELEASED = "(unreleased)"


def main() -> int:
    """Write the version into all files; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="X.Y.Z, or X.Y.Z.dev0 for what follows a release")
    parser.add_argument("date", nargs="?", type=date.fromisoformat, help="of the release, YYYY-MM-DD")
    arguments = parser.parse_args()
    for path, text in changed(ROOT, arguments.version, arguments.date).items():
        write_text(path, text)
    return 0


def changed(root: Path, version: str, day: date | None) -> dict[Path, str]:
    """Return the files that say a version, as they are to be.

    Args:
        root: The checkout.
        version: The version.
        day: Date of a release; None for what follows one.

    Raises:
        InputError: It is no version, a release has no date, or the changes of a release have no section.
    """
    if not _VERSION.fullmatch(version) or version.endswith(".dev0") != (day is None):
        raise InputError(f"{version!r}: give X.Y.Z and its date, or X.Y.Z.dev0 without one")
    plain = version.removesuffix(".dev0")
    head = f"{plain} ({day})" if day else f"{plain} {_UNRELEASED}"
    now = said(root)["changes"]
    if day and now != f"{plain} {_UNRELEASED}":
        raise InputError(
            f"CHANGELOG.md begins with {now!r}, not with {plain} {_UNRELEASED}: name its version"
        )
    new = [(*_CODE, version), (*_CHANGES, head if day else f"{head}\n\n## {now}")]
    if day:
        new += [(*place, version) for place in _CITED]
        new += [(*place, text) for place, text in zip(_DATED, (str(day), str(day.year)), strict=True)]
    texts: dict[Path, str] = {}
    for name, pattern, text in new:
        path = root / name
        kept = texts.get(path) or path.read_text("utf-8")
        texts[path] = re.sub(pattern, rf"\g<1>{text}\g<3>", kept, count=1)
    return texts


def said(root: Path) -> dict[str, str]:
    """Return what the files say: `code`, `changes` (the head of the newest section), `cited`, `dated`.

    Raises:
        InputError: A file does not say it, or two files say unlike things.
    """
    cited, dated = {_found(root, *place) for place in _CITED}, [_found(root, *place) for place in _DATED]
    if len(cited) > 1 or dated[0][:4] != dated[1]:
        raise InputError(f"CITATION.cff and docs/howto/cite.md differ: {', '.join((*cited, *dated))}")
    code, changes = _found(root, *_CODE), _found(root, *_CHANGES)
    return {"code": code, "changes": changes, "cited": cited.pop(), "dated": dated[0]}


def _found(root: Path, name: str, pattern: str) -> str:
    found = re.search(pattern, (root / name).read_text("utf-8"))
    if not found:
        raise InputError(f"{name} says no version where one is looked for")
    return found[2]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"set_version: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
