"""The instruction suite as suite_split.toml says it: families, their kernels, and which are judged."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ptxbench.model.validation_file import Purpose

SPLIT = Path(__file__).with_name("suite_split.toml")
SOURCES = Path(__file__).with_name("suite")


@dataclass(frozen=True)
class SuiteKernel:
    """One kernel of the suite.

    Attributes:
        family: Its family; its code is suite/FAMILY.cu.
        purpose: What its measurement may be used for: the family's.
        name: Name of its function.
        data_type: Type of its data.
        rounds: Passes of its loop in a call.
        blocks_per_sm: Blocks on each SM.
        threads: Threads of a block.
        data: Kinds of data.
        data_decides: Whether its work depends on the data.
    """

    family: str
    purpose: Purpose
    name: str
    data_type: str
    rounds: int
    blocks_per_sm: int
    threads: int
    data: tuple[str, ...]
    data_decides: bool

    @property
    def case(self) -> str:
        """Name of its cases; the type at the end says what its data are."""
        return f"{self.family}/{self.name}-{self.data_type}"


def read_split() -> tuple[SuiteKernel, ...]:
    """Return every kernel of the suite, the judged families first."""
    with SPLIT.open("rb") as file:
        families = tomllib.load(file)
    return tuple(
        SuiteKernel(
            family=family,
            purpose=Purpose(told["purpose"]),
            name=one["name"],
            data_type=one["data_type"],
            rounds=one["rounds"],
            blocks_per_sm=one["blocks_per_sm"],
            threads=one["threads"],
            data=tuple(one["data"]),
            data_decides=one.get("data_decides", False),
        )
        for family, told in families.items()
        for one in told["kernels"]
    )


def source_of(family: str) -> str:
    """Return the CUDA C++ of a family, with what all families share."""
    return (SOURCES / "common.cuh").read_text() + (SOURCES / f"{family}.cu").read_text()
