"""The simulated GPUs: those of `profiles/`, after real generations of GPUs, and a user's own TOML file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.profile import Profile
from ptxbench.devices.simulated.rng import hashed_unit
from ptxbench.storage.codec import Place, decode, encode
from ptxbench.storage.file_errors import read_text

_PROFILES = files("ptxbench.devices.simulated").joinpath("profiles")
_SUFFIX = ".toml"
_HELP = "docs/howto/simulate.md names every key"

# Of these tables a file gives what differs from its base; anything else that it gives replaces the base's.
_ADDED_TO = ("chip", "board", "memory", "energy_pj")

# The board that is lost after some launches, and the number that it counts as.
_LOST, _LOST_BOARD, _LOST_AFTER = "lost", 999_999, 12


@cache
def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that come with ptxbench."""
    names = (entry.name for entry in _PROFILES.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


@cache
def find_profile(name: str) -> Profile:
    """Return the profile that comes with ptxbench under `name`.

    Raises:
        InputError: There is none of that name.
    """
    _require_known(name)
    return _checked({"name": name, **_shipped(name)}, Path(name + _SUFFIX))


def read_profile(path: Path) -> Profile:
    """Return the profile of a user's file, called after it.

    Raises:
        InputError: The file cannot be read, is not TOML, lacks a key, or has an unknown one or a value that
            no GPU has; the text names file and key.
    """
    table = _parsed(read_text(path, f"name a profile; {_HELP}"), path)
    return _checked({"name": path.name.removesuffix(_SUFFIX), **_with_base(table, path)}, path)


def find_board(name: str) -> tuple[Profile, int]:
    """Return the profile that a name such as "h200@3" stands for, and the number of its board.

    Board 0, which a name without "@" is, is the profile itself; every other has energies, static power and
    cooling a little of its own. Sixteen H200s and two H100s lie within some 4% of each other by one factor
    (docs/accuracy.md); that is the spread of the factors here. Board "lost" stops answering in the middle of
    its first rows, to see what a run makes of that.

    Args:
        name: A profile that comes with ptxbench, or a file that ends with ".toml"; "@" and a board or not.

    Raises:
        InputError: There is no such profile, no such board, or the file is not legal.
    """
    profile_name, at, board = name.rpartition("@")
    if not at or board.endswith(_SUFFIX):
        profile_name, board = name, "0"
    is_file = profile_name.endswith(_SUFFIX)
    profile = read_profile(Path(profile_name)) if is_file else find_profile(profile_name)
    if board == _LOST:
        return replace(profile, fails_after=_LOST_AFTER), _LOST_BOARD
    if not re.fullmatch(r"\d+", board, re.ASCII):
        raise InputError(f"{board!r} is no board of a simulated GPU: give a number, or {_LOST!r}")
    number = int(board)
    return (_board(profile, number) if number else profile), number


def _board(profile: Profile, number: int) -> Profile:
    def near_one(what: str, spread: float) -> float:
        return 1 + spread * (2 * hashed_unit("board", profile.name, str(number), what) - 1)

    board = replace(
        profile.board,
        static_w=profile.board.static_w * near_one("static", 0.03),
        coolant_c=profile.board.coolant_c * near_one("coolant", 0.1),
    )
    chip = replace(profile.chip, energy_scale=profile.chip.energy_scale * near_one("energy", 0.04))
    return replace(profile, board=board, chip=chip)


def _require_known(name: str) -> None:
    if name not in profile_names():
        raise InputError(
            f"no simulated GPU is called {name!r}; there are {', '.join(profile_names())}, and files that end"
            f" with {_SUFFIX}"
        )


def _shipped(name: str) -> dict[str, Any]:
    file = Path(name + _SUFFIX)
    return _with_base(_parsed(_PROFILES.joinpath(file.name).read_text(encoding="utf-8"), file), file)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML ({error})") from error


def _with_base(table: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a file's keys, and those of its base that it does not give."""
    own = dict(table)
    base = own.pop("base", None)
    if base is None:
        return own
    if base not in profile_names():
        known = ", ".join(profile_names())
        raise Place(path, "base").error(f"must be a profile that comes with ptxbench ({known}), not {base!r}")
    merged = _shipped(base)
    for key, value in own.items():
        adds = key in _ADDED_TO and isinstance(value, dict)
        merged[key] = {**merged.get(key, {}), **value} if adds else value
    return merged


def _checked(table: dict[str, Any], path: Path) -> Profile:
    place = Place(path)
    try:
        profile = decode(Profile, table, place)
    except InputError as error:
        raise InputError(f"{error}; {_HELP}") from error
    _require_known_keys(table, encode(profile), place)
    return profile


def _require_known_keys(given: object, understood: object, place: Place) -> None:
    """Refuse a key that the reader passed over: it is misspelt, and its value would count for nothing."""
    if isinstance(given, dict) and isinstance(understood, dict):
        for key, value in given.items():
            if key not in understood:
                raise place.at(key).error(f"is no key of a profile; here it may have {', '.join(understood)}")
            _require_known_keys(value, understood[key], place.at(key))
    elif isinstance(given, list) and isinstance(understood, list):
        for index, pair in enumerate(zip(given, understood, strict=True)):
            _require_known_keys(*pair, place.item(index))


# What `--gpu simulated` is.
H200 = find_profile("h200")
