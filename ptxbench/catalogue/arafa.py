"""Table I of Arafa et al. (2020): the published energies that a run's rows are set beside."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FILE = "arafa2020_table1.csv"


@dataclass(frozen=True)
class ArafaEnergy:
    """One pair of numbers of the table.

    Attributes:
        category: The paper's heading, such as "Integer Arithmetic".
        instructions: Its merged row, such as "add / sub / min / max".
        optimization: "O0" or "O3".
        architecture: "maxwell", "pascal", "volta" or "turing".
        papi_uj: Energy by their PAPI-style method, uJ.
        mtsm_uj: Energy by their multi-threaded synchronized monitoring, uJ.
    """

    category: str
    instructions: str
    optimization: str
    architecture: str
    papi_uj: float
    mtsm_uj: float

    @property
    def row(self) -> str:
        """Content of a catalogue row's `paper` field, such as "Integer Arithmetic: abs"."""
        return f"{self.category}: {self.instructions}"


@cache
def load_arafa_table() -> tuple[ArafaEnergy, ...]:
    """Return Table I as published, in the paper's order; its energies are in uJ.

    Arafa et al.: "Verified Instruction-Level Energy Consumption Measurement for NVIDIA GPUs",
    Computing Frontiers 2020, Table I. A cell that the paper leaves empty is NaN.
    """
    text = files("ptxbench.catalogue").joinpath("data", _FILE).read_text(encoding="utf-8")
    return tuple(
        ArafaEnergy(
            category=line["category"],
            instructions=line["instructions"],
            optimization=line["optimization"],
            architecture=line["architecture"],
            papi_uj=float(line["papi_uj"] or "nan"),
            mtsm_uj=float(line["mtsm_uj"] or "nan"),
        )
        for line in csv.DictReader(text.splitlines())
    )


@cache
def arafa_rows() -> frozenset[str]:
    """Return the merged rows of Table I as a catalogue row's `paper` field names them."""
    return frozenset(energy.row for energy in load_arafa_table())
