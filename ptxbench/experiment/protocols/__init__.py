"""Measuring protocols. To add one, write a file here and list its object in `PROTOCOLS`."""

from __future__ import annotations

from ptxbench.core.errors import InputError
from ptxbench.experiment.protocols.arafa import Arafa
from ptxbench.experiment.protocols.base import Protocol
from ptxbench.experiment.protocols.dynamic import Dynamic

# In the order in which a run measures them.
PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (Arafa(), Dynamic())}


def find_protocol(name: str) -> Protocol:
    """Return the protocol called `name`.

    Raises:
        InputError: There is none.
    """
    if name not in PROTOCOLS:
        raise InputError(f"unknown protocol {name!r}; known protocols: {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
