"""Null models take away what they say, and the documents show what they come to."""

from pathlib import Path

import pytest

from ptxbench.model import null_models
from ptxbench.model.null_models import class_medians, compare_with_nulls, constant, shuffled
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.solved import read_solved

ROOT = Path(__file__).parents[2]
H200 = ROOT / "results" / "nvidia-h200"


@pytest.fixture(scope="module")
def opcode_energies():
    random = {"FADD": 10.0, "FMUL": 14.0, "FFMA": 12.0, "IADD3": 7.0, "IMAD": 16.0}
    return OpcodeEnergies(
        {opcode: Known(pj, 0.1) for opcode, pj in random.items()},
        {opcode: Known(pj / 2, 0.1) for opcode, pj in random.items()},
    )


def energies(opcode_energies):
    return {opcode: known.energy_pj for opcode, known in opcode_energies.random.items()}


def test_a_constant_has_one_energy_for_all_and_keeps_the_ratio_of_zeros(opcode_energies):
    one = constant(opcode_energies, 12.0)
    assert set(energies(one).values()) == {12.0}
    assert {known.energy_pj for known in one.zeros.values()} == {6.0}


def test_class_medians_know_the_class_and_not_the_opcode(opcode_energies):
    found = energies(class_medians(opcode_energies))
    assert found["FADD"] == found["FMUL"] == found["FFMA"] == 12.0
    assert found["IADD3"] != found["FADD"]


def test_a_shuffled_table_has_the_same_energies_elsewhere(opcode_energies):
    found = energies(shuffled(opcode_energies, 1))
    assert sorted(found.values()) == sorted(energies(opcode_energies).values())
    assert found != energies(opcode_energies)


def test_what_the_documents_say_of_the_h200(monkeypatch):
    # One constant and one shuffle: the others only take longer.
    monkeypatch.setattr(null_models, "_CONSTANTS_PJ", (18.0,))
    monkeypatch.setattr(null_models, "_SHUFFLES", 1)
    found = compare_with_nulls(H200 / "validation", read_solved(H200 / "full").opcode_energies)
    by_name = {null.name: null for null in found.nulls}
    text = (ROOT / "docs" / "model.md").read_text()
    shown = [found.table, *(null for name, null in by_name.items() if "shuffled" not in name)]
    for one in shown:
        assert f"| {one.name} | {one.mean_absolute_pct:.1f} | {one.worst_pct:.1f} |" in text
    medians = by_name["every opcode at the median of its class"]
    low, high = found.difference_pct(medians)
    assert low < 0 < high
    mean_power = by_name["mean power of the fit kernels, by operands, times time"]
    assert found.difference_pct(mean_power)[0] > 0
