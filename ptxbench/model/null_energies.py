"""Energies of opcodes that know less than a table: one for all, one a class, or the right ones elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.opcodes import opcode_class

# Where instructions are to cost nothing: ratios of energies must stay defined.
NOTHING_PJ = 1e-9


def constant(opcode_energies: OpcodeEnergies, energy_pj: float) -> OpcodeEnergies:
    """Return the same opcodes with one energy for all, pJ; zeros keep their median ratio to random ones."""
    ratio = _zeros_ratio(opcode_energies)
    return OpcodeEnergies(
        dict.fromkeys(opcode_energies.random, Known(energy_pj, 0.0)),
        dict.fromkeys(opcode_energies.random, Known(ratio * energy_pj, 0.0)),
        rules=opcode_energies.rules,
        warp_shares=opcode_energies.warp_shares,
        own_rows=opcode_energies.own_rows,
    )


def class_medians(opcode_energies: OpcodeEnergies) -> OpcodeEnergies:
    """Return the same opcodes, each with the median energy of its functional class."""
    by_class: dict[str, list[float]] = {}
    for opcode, known in opcode_energies.random.items():
        by_class.setdefault(opcode_class(opcode), []).append(known.energy_pj)
    medians = {kind: float(np.median(energies)) for kind, energies in by_class.items()}
    return _with_energies(
        opcode_energies, {opcode: medians[opcode_class(opcode)] for opcode in opcode_energies.random}
    )


def shuffled(opcode_energies: OpcodeEnergies, seed: int) -> OpcodeEnergies:
    """Return the same opcodes with each other's energies, in random order."""
    energies = [known.energy_pj for known in opcode_energies.random.values()]
    drawn = np.random.default_rng(seed).permutation(energies)
    return _with_energies(opcode_energies, dict(zip(opcode_energies.random, map(float, drawn), strict=True)))


def _with_energies(opcode_energies: OpcodeEnergies, energies_pj: Mapping[str, float]) -> OpcodeEnergies:
    ratio = _zeros_ratio(opcode_energies)
    return OpcodeEnergies(
        {opcode: Known(energy_pj, 0.0) for opcode, energy_pj in energies_pj.items()},
        {opcode: Known(ratio * energy_pj, 0.0) for opcode, energy_pj in energies_pj.items()},
        rules=opcode_energies.rules,
        warp_shares=opcode_energies.warp_shares,
        own_rows=opcode_energies.own_rows,
    )


def _zeros_ratio(opcode_energies: OpcodeEnergies) -> float:
    """Return the median ratio of energy on zeros to that on random operands."""
    pairs = [
        (opcode_energies.energy(op, 0.0).energy_pj, known.energy_pj)
        for op, known in opcode_energies.random.items()
    ]
    return float(np.median([zeros / random for zeros, random in pairs if random > 0]))
