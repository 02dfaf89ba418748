"""Packages whose modules are plug-ins: a protocol, a criterion or a format is one file in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from ptxbench.core.errors import InputError


def plugin_names(folders: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the modules in folders, sorted; nothing is imported.

    Args:
        folders: The `__path__` of the package.
    """
    return tuple(sorted(module.name for module in iter_modules(folders)))


def load_plugin(package: str, folders: Iterable[str], name: str, kind: str) -> ModuleType:
    """Import one module of a package of plug-ins.

    Args:
        package: Full name of the package.
        folders: Its `__path__`.
        name: Name of the module, as the user wrote it.
        kind: What the modules of this package are, for the error message.

    Raises:
        InputError: The package has no module of that name.
    """
    names = plugin_names(folders)
    if name not in names:
        raise InputError(f"unknown {kind} {name!r}; known: {', '.join(names)}")
    return import_module(f"{package}.{name}")
