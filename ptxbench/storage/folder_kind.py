"""What kind of run a folder holds, and which command shows it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from shlex import quote

from ptxbench.core.errors import InputError
from ptxbench.storage.codec import Place
from ptxbench.storage.document import read_plain
from ptxbench.storage.file_errors import reading
from ptxbench.storage.migration import migrated

MANIFEST = "manifest.json"
# A program's run has one as it begins and one when it is whole; measured kernels are in the file of theirs.
_MANIFESTS = (MANIFEST, "run.json", "begun.json", "measured.json")
_FILES = {"program": "run.json", "kernels": "measured.json"}
# What a person reads comes before what is read by column or by line.
_SHOWN = ((".csv", ".json", ".md", ".txt"), (".parquet", ".jsonl"))
_NAMED = 5


class Kind(StrEnum):
    """What a run was made for."""

    TABLE = "table"
    RECORDING = "recording"
    ROOFLINE = "roofline"
    PROFILE = "profile"
    CALIBRATION = "calibration"
    PROGRAM = "program"
    TUNING = "tuning"
    CONCURRENT = "concurrent"
    KERNELS = "kernels"
    STUDY = "study"


# What a folder is, and the command that shows it; "" where its files are to be read.
_WORDS: Mapping[Kind, tuple[str, str]] = {
    Kind.TABLE: ("is a table of instructions", "ptxbench report {}"),
    Kind.RECORDING: ("is a recording", ""),
    Kind.ROOFLINE: ("is a roofline", "ptxbench roofline show {}"),
    Kind.PROFILE: ("is a profile of a step", "ptxbench report {}"),
    Kind.CALIBRATION: ("is a calibration", "ptxbench report {}"),
    Kind.PROGRAM: ("is a program's run", "ptxbench run --from {}"),
    Kind.TUNING: ("is a tuning", "ptxbench tune report {}"),
    Kind.CONCURRENT: ("is a tuning of concurrent kernels", ""),
    Kind.KERNELS: ("holds measured kernels", ""),
    Kind.STUDY: ("is a study by a script", ""),
}
# A recording by the command that made it.
_RECORDINGS: Mapping[str, tuple[str, str]] = {
    "sensor": ("is a study of sensors", "ptxbench doctor sensor --gpu replay:{}"),
    "methods": ("is a comparison of methods", "ptxbench doctor methods --gpu replay:{}"),
    "doctor": ("is a recording of `ptxbench doctor`", ""),
}


def require_kind(folder: Path, *wanted: Kind) -> None:
    """Refuse a folder that is of another kind, or of none, and say what shows it.

    A damaged manifest is let pass, for its reader to say what is wrong with it.

    Raises:
        InputError: The folder is of another kind, or cannot be read.
    """
    with reading(folder):
        kind, purpose = kind_of(folder)
        if kind in wanted or (kind is None and _manifest(folder) is not None):
            return
        raise InputError(f"{folder} {_what_it_is(folder, kind, purpose, wanted[0])}")


def _what_it_is(folder: Path, kind: Kind | None, purpose: str, wanted: Kind) -> str:
    if kind is not None:
        words, command = _RECORDINGS.get(purpose, _WORDS[kind])
        shown = f"`{command.format(quote(str(folder)))}` shows it" if command else _to_read(folder)
        return f"{words}, not {_WORDS[wanted][0].split(maxsplit=1)[1]}: {shown}"
    parts = (path.parent for name in _MANIFESTS for path in folder.glob(f"*/{name}"))
    inside = sorted({path.name for path in parts})
    if inside:
        more = ", ..." if len(inside) > _NAMED else ""
        return f"holds several runs: name one of {', '.join(inside[:_NAMED])}{more} below it"
    of = next((parent for parent in folder.parents[:2] if _manifest(parent) is not None), None)
    if of is not None:
        return f"is a part of a run: name {of}"
    if folder.is_dir() and _files(folder):
        return f"holds no run, but what a script wrote: {_to_read(folder)}"
    return f"holds no run (no {_FILES.get(wanted, MANIFEST)}); name the folder of a run"


def kind_of(folder: Path) -> tuple[Kind | None, str]:
    """Return the kind of run that a folder holds, None for none that can be told; of recordings what for."""
    path = _manifest(folder)
    if path is None:
        return None, ""
    try:
        plain = migrated(read_plain(path), Place(path))
        part = plain.get("part")
        return Kind(str(plain.get("kind"))), str(part.get("purpose", "")) if isinstance(part, dict) else ""
    except (InputError, ValueError):
        return None, ""


def _manifest(folder: Path) -> Path | None:
    return next((folder / name for name in _MANIFESTS if (folder / name).exists()), None)


def _to_read(folder: Path) -> str:
    return f"read {' and '.join(_files(folder)[:_NAMED])} in it"


def _files(folder: Path) -> list[str]:
    """Return the files that can be read, of the first endings that any has."""
    paths = [p for pattern in ("*", "*/*") for p in sorted(folder.glob(pattern)) if p.name != MANIFEST]
    shown = ([str(p.relative_to(folder)) for p in paths if p.suffix in endings] for endings in _SHOWN)
    return next(filter(None, shown), [])
