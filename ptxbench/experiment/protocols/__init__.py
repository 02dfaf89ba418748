"""The measuring protocols: one file each, found by being in this folder.

A file defines `PROTOCOL`, a `ptxbench.experiment.protocol.Protocol`; its name is the file's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ptxbench.core.plugins import load_plugin, plugin_names

if TYPE_CHECKING:
    from ptxbench.experiment.protocol import Protocol


def protocol_names() -> tuple[str, ...]:
    """Return the names of all protocols, in the order in which a run measures them; nothing is imported."""
    return plugin_names(__path__)


@cache
def find_protocol(name: str) -> Protocol:
    """Return the protocol called `name`.

    Raises:
        InputError: There is none.
    """
    from ptxbench.experiment.protocol import Protocol

    protocol = load_plugin(__name__, __path__, name, "protocol").PROTOCOL
    assert isinstance(protocol, Protocol)  # noqa: S101
    return protocol
