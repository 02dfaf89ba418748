"""The measuring protocols: one file each, found by being in this folder.

A file defines `PROTOCOL`, a `ptxbench.experiment.protocol.Protocol`; its name is the file's.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from ptxbench.core.errors import InputError

if TYPE_CHECKING:
    from ptxbench.experiment.protocol import Protocol


def protocol_names() -> tuple[str, ...]:
    """Return the names of all protocols, in the order in which a run measures them; nothing is imported."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def find_protocol(name: str) -> Protocol:
    """Return the protocol called `name`.

    Raises:
        InputError: There is none.
    """
    names = protocol_names()
    if name not in names:
        raise InputError(f"unknown protocol {name!r}; known protocols: {', '.join(names)}")
    return _loaded(name)


@cache
def _loaded(name: str) -> Protocol:
    from ptxbench.experiment.protocol import Protocol

    protocol = import_module(f"{__name__}.{name}").PROTOCOL
    assert isinstance(protocol, Protocol)  # noqa: S101
    return protocol
