"""What kind of results a folder holds, and which command shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from ptxbench.core.errors import InputError
from ptxbench.storage import codec

ROOFLINE = "roofline"
_MANIFEST = "manifest.json"
# Words of a folder of recordings, by the command that made it, and the command that shows it.
_RECORDINGS: Mapping[str, tuple[str, str]] = {
    ROOFLINE: ("is a roofline", "ptxbench roofline show {}"),
    "sensor": ("is a study of sensors", "ptxbench sensor --gpu replay:{}"),
    "methods": ("is a comparison of methods", "ptxbench methods --gpu replay:{}"),
    "doctor": ("is a recording of `ptxbench doctor`", ""),
}
# What tells the other kinds: a key of the manifest, or a file where there is none.
_BY_KEY: Mapping[str, tuple[str, str]] = {
    "tuning_version": ("is a tuning", "ptxbench tune report {}"),
    "cases": ("is a tuning of block sizes", ""),
}
_BY_FILE: Mapping[str, tuple[str, str]] = {
    "run.json": ("is a program's run", "ptxbench run --from {}"),
    "measured.json": ("holds measured kernels", ""),
}
_NAMED = 5


def purpose_of(folder: Path) -> str:
    """Return the command that made a folder of recordings, "" for any other folder."""
    return _purpose(_manifest(folder))


def why_no_table(folder: Path) -> str:
    """Return what a folder is that is no run of `ptxbench table`, and what shows it; "" if it may be one."""
    manifest = _manifest(folder)
    is_damaged = (folder / _MANIFEST).exists() and not manifest
    if is_damaged or "schema_version" in manifest:
        return ""
    found = _RECORDINGS.get(_purpose(manifest))
    found = found or next((words for key, words in _BY_KEY.items() if key in manifest), None)
    found = found or next((words for name, words in _BY_FILE.items() if (folder / name).exists()), None)
    if found:
        words, command = found
        place = quote(str(folder))
        shown = f"`{command.format(place)}` shows it" if command else f"read {_files(folder)} in it"
        return f"{folder} {words}, not a table of instructions: {shown}"
    if manifest:
        return f"{folder} is not a table of instructions: its {_MANIFEST} is of another kind"
    inside = sorted(
        {path.parent.name for name in (_MANIFEST, *_BY_FILE) for path in folder.glob(f"*/{name}")}
    )
    if inside:
        more = ", ..." if len(inside) > _NAMED else ""
        return f"{folder} holds several runs: name one of {', '.join(inside[:_NAMED])}{more} below it"
    return f"{folder} holds no run (no {_MANIFEST}); name the folder of a run"


def _purpose(manifest: Mapping[str, object]) -> str:
    return str(manifest.get("purpose", ""))


def _manifest(folder: Path) -> Mapping[str, object]:
    try:
        plain = codec.read_json(folder / _MANIFEST)
    except (InputError, OSError):
        return {}
    return plain if isinstance(plain, dict) else {}


def _files(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".csv", ".json"))
    return " and ".join(name for name in names if name != _MANIFEST)
