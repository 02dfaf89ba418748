"""The suites of own kernels as their files say: families, their kernels, and which are judged."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from validation_file import Purpose

HERE = Path(__file__).parent
# Each suite's file, and the folder that holds its code.
INSTRUCTION, FIELD, CODE = "instruction", "field", "code"
SPLITS: Mapping[str, tuple[Path, Path]] = {
    INSTRUCTION: (HERE / "suite_split.toml", HERE / "suite"),
    FIELD: (HERE / "field_split.toml", HERE / "field"),
    CODE: (HERE / "code_split.toml", HERE / "field"),
}
COMMON = HERE / "suite" / "common.cuh"
WORDS = 1 << 20


@dataclass(frozen=True)
class SuiteKernel:
    """One kernel of a suite.

    Attributes:
        family: Its family.
        purpose: What its measurement may be used for: the family's.
        name: Name of its function.
        data_type: Type of its data.
        rounds: Passes of its loop in a call.
        blocks_per_sm: Blocks on each SM.
        threads: Threads of a block.
        data: Kinds of data.
        data_decides: Whether its work depends on the data.
        words: 32-bit words of its input.
        bound: What is thought to bound it, "instructions" or "memory".
        code: Its family's source, less what all share.
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
    words: int
    bound: str
    code: Path

    @property
    def case(self) -> str:
        """Name of its cases; the type at the end says what its data are."""
        return f"{self.family}/{self.name}-{self.data_type}"


def read_split(suite: str = INSTRUCTION) -> tuple[SuiteKernel, ...]:
    """Return every kernel of a suite, the judged families first."""
    split, folder = SPLITS[suite]
    with split.open("rb") as file:
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
            words=one.get("words", WORDS),
            bound=one.get("bound", "instructions"),
            code=folder / f"{family}.cu",
        )
        for family, told in families.items()
        for one in told["kernels"]
    )


def source_of(code: Path) -> str:
    """Return the CUDA C++ of a family, with what all families share."""
    return COMMON.read_text() + code.read_text()
