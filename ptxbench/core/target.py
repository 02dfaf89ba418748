"""The GPU targets that ptxbench writes PTX for."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.core.errors import InputError


@dataclass(frozen=True)
class Target:
    """One assembler target.

    Attributes:
        name: Such as "sm_90a".
        capability: Compute capability times ten.
        ptx_version: Lowest PTX ISA version that has the target.
        every_block: Whether every block of a kernel is stamped, or block 0 alone: what stands behind the loop
            changes the moves within it, and the catalogue's counts were taken so.
        like: Target whose expectations of SASS hold for it, too, unless the catalogue has its own.
    """

    name: str
    capability: int
    ptx_version: str
    every_block: bool = False
    like: str = ""


TARGETS = (
    Target("sm_75", 75, "7.0"),
    Target("sm_80", 80, "7.0"),
    Target("sm_86", 86, "7.1"),
    Target("sm_89", 89, "7.8"),
    Target("sm_90a", 90, "8.0", every_block=True),
    Target("sm_100a", 100, "8.6"),
    Target("sm_103a", 103, "8.8", like="sm_100a"),
    Target("sm_120a", 120, "8.7"),
)


def find_target(name: str) -> Target:
    """Return the target called `name`.

    Raises:
        InputError: There is none.
    """
    for target in TARGETS:
        if target.name == name:
            return target
    known = ", ".join(t.name for t in TARGETS)
    raise InputError(f"unknown target {name!r}; known targets: {known}")


def target_for_capability(major: int, minor: int) -> Target:
    """Return the target that runs on a GPU: its own, or the newest lower one of its generation.

    Raises:
        InputError: The GPU is older than every target or of an unknown generation.
    """
    capability = 10 * major + minor
    fitting = [t for t in TARGETS if t.capability <= capability and t.capability // 10 == major]
    # Architecture-specific targets ("a") run on their own capability only.
    fitting = [t for t in fitting if not t.name.endswith("a") or t.capability == capability]
    if not fitting:
        raise InputError(
            f"compute capability {major}.{minor} has no target in ptxbench; known: "
            + ", ".join(t.name for t in TARGETS)
        )
    return fitting[-1]


def digits(target: str) -> str:
    """Return the digits of a target or of a compute capability: 90 for sm_90a and for 9.0."""
    return "".join(c for c in target if c.isdigit())
