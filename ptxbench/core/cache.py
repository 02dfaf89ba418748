"""Files that only save time, in the user's cache folder; read only if nobody else can have written them."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from ptxbench.core.new_file import file_in_place_of
from ptxbench.core.printable import printable

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def base_folder(variable: str, default: str) -> Path:
    """Return a base folder of the XDG specification, which asks that a relative one is passed over.

    Args:
        variable: Environment variable that names it, such as "XDG_CACHE_HOME".
        default: Where it is else, below the home folder.

    Raises:
        RuntimeError: The user has no home folder.
    """
    configured = os.environ.get(variable, "")
    return Path(configured) if configured.startswith("/") else Path.home() / default


class Cache:
    """A folder of files by name, in `$XDG_CACHE_HOME/ptxbench`, or `ptxbench` in ~/.cache.

    A file is used if it, the user's cache folder and all between belong to the user, and nobody else may
    write them or exchange a folder above; else a line says why not, once. One that is missing or cannot be
    written only costs time.

    Args:
        kind: Its name; "" for the folder itself.
        root: Instead of the user's cache folder.
        quiet: Whether nothing is said where it is passed over: it saves a moment.
    """

    def __init__(self, kind: str, root: Path | None = None, *, quiet: bool = False) -> None:
        self._kind = kind
        self._root = root
        self._is_said = quiet

    def get(self, name: str) -> bytes | None:
        """Return what is kept by a name, None where nothing is, or nothing that can be trusted."""
        path = self.path(name)
        try:
            return None if path is None else path.read_bytes()
        except OSError:
            return None

    def path(self, name: str) -> Path | None:
        """Return the file of a name, None where there is none, or none that can be trusted."""
        try:
            root, folder = self._folders()
            path = folder / name
            return path if path.is_file() and self._trusts(path, root) else None
        except (OSError, RuntimeError):
            return None

    def put(self, name: str, data: bytes) -> None:
        """Keep a file where the folder can be trusted; another process may keep the same at the same time."""
        with suppress(OSError, RuntimeError):
            root, folder = self._folders()
            path = folder / name
            _make(path.parent)
            if self._trusts(path.parent, root):
                with file_in_place_of(path, 0o600) as file:
                    file.write(data)

    def _folders(self) -> tuple[Path, Path]:
        """Return the user's cache folder, and in it that of the files.

        Raises:
            RuntimeError: The user has no home folder.
        """
        # The user may have put it elsewhere by a link; below it nothing is one.
        root = (self._root or base_folder("XDG_CACHE_HOME", ".cache")).resolve()
        return root, root / "ptxbench" / self._kind

    def _trusts(self, path: Path, root: Path) -> bool:
        fault = _fault(path, root)
        if fault and not self._is_said:
            self._is_said = True
            text = "ptxbench: the cache %s is passed over: %s"
            logging.getLogger(__name__).warning(
                text, printable(str(root / "ptxbench" / self._kind)), printable(fault)
            )
        return not fault


def _make(folder: Path) -> None:
    for one in (*reversed(folder.parents), folder):
        if not one.exists():
            one.mkdir(mode=0o700, exist_ok=True)


def _fault(path: Path, root: Path) -> str:
    """Return why a file or folder cannot be trusted, "" where it can.

    Raises:
        OSError: It is not there.
    """
    for one in (path, *path.parents):
        found = one.lstat()
        shared = bool(found.st_mode & _OTHERS_WRITE)
        if one.is_relative_to(root):
            if found.st_uid != os.getuid():
                return f"{one} belongs to another user"
            if stat.S_ISLNK(found.st_mode):
                return f"{one} is a link"
        elif found.st_mode & stat.S_ISVTX:
            shared = False  # there nobody renames what is another's, as in /tmp
        if shared:
            return f"others may write {one} (`chmod go-w` ends that)"
    return ""
