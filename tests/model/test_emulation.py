"""What an estimate by emulation takes from beside a table, and the activity of each opcode."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.errors import InputError
from ptxbench.emulator.sass.launch import Emulated
from ptxbench.emulator.sass.machine import Sample
from ptxbench.emulator.sass.tally import Tally, no_tallies
from ptxbench.model.emulated_work import activity_of
from ptxbench.model.emulation import FILE, EmulationTerms, by_emulation, read_emulation
from ptxbench.model.estimate import Conditions, Machine, estimate
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.terms import UNFITTED
from ptxbench.model.work import Activity, KernelWork
from ptxbench.sass.program import SassInstruction
from ptxbench.storage.document import write_beside

TERMS = EmulationTerms(1.25, 0.8, 1.2, 36, 5)
STATIC = StaticPower(100.0, 40.0, 0.0, 0.1, 0.01)
WORK = KernelWork("k", (("FFMA", 1e12), ("IADD3", 1e12)), time_s=1.0)


def machine():
    energies = OpcodeEnergies(
        {"FFMA": Known(12.0, 0.1), "IADD3": Known(8.0, 0.1)},
        {"FFMA": Known(4.0, 0.1), "IADD3": Known(4.0, 0.1)},
    )
    return Machine(energies, replace(UNFITTED, active_w=20.0), STATIC, math.nan)


def test_an_opcode_has_an_activity_of_its_own_and_one_factor_on_its_energy():
    activity = Activity(1.0, 1.0, 1.0, {"FFMA": 0.5})
    found = estimate(WORK, by_emulation(machine(), TERMS), Conditions(activity, 40.0))
    # FFMA half the way from 4 to 12 pJ; no power of an active chip.
    assert found.energy_j == pytest.approx(100 + 1.25 * (8 + 8))
    assert found.low_j == pytest.approx(100 + 0.8 * 20, rel=0.02)


def test_what_was_fitted_is_read_as_it_was_written(tmp_path):
    write_beside(tmp_path / FILE, TERMS)
    assert read_emulation(tmp_path) == TERMS


def test_a_table_without_it_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no emulation.json"):
        read_emulation(tmp_path)
    write_beside(tmp_path / FILE, replace(TERMS, scale=0.0))
    with pytest.raises(InputError, match="scale must be above 0"):
        read_emulation(tmp_path)


def seen(opcode, operands, *, words=0, **bits):
    """Return a run of one instruction, with the bits of each kind, a lane and word of those read or written.

    Args:
        opcode: Its opcode.
        operands: Its operands.
        words: How many words of registers it reads.
        bits: By the name of a tally, in small letters.
    """
    tallies = no_tallies(1)
    for what, count in ((Tally.ISSUED, 10), (Tally.LOOKED, 320), (Tally.PAIRS, 160)):
        tallies[what] = count
    written = {"DFMA": 2, "STG.E": 0, "ISETP.GE.AND": 0}.get(opcode, 1)
    for name, each in bits.items():
        lanes = 160 if name.startswith("halves") else 320
        tallies[Tally[name.upper()]] = (
            lanes * each * (written if name in ("flips", "halves_result") else words)
        )
    sample = Sample((1, 1, 1), (32, 1, 1), ((0, 0, 0),))
    code = (SassInstruction(0, "", opcode, operands),)
    return Emulated(code, tallies, 1.0, sample, (), 1, {})


RANDOM = {"halves": 16, "halves_result": 16, "ports": 16, "flips": 16, "ones": 16}


@pytest.mark.parametrize(
    ("opcode", "operands", "words", "bits", "low", "high"),
    [
        ("FFMA", "R0, R1, R2, R3", 3, RANDOM, 1.0, 1.0),
        ("FFMA", "R0, R1, R2, R3", 3, {}, 0.0, 0.0),
        ("FFMA", "R0, R1, R2, R3", 3, {"halves": 16, "halves_result": 16}, 0.2, 0.4),
        ("LOP3.LUT", "R0, R1, R2, RZ", 3, RANDOM, 1.0, 1.0),
        # An operand of f64 has two words.
        ("DFMA", "R0, R2, R4, R6", 6, RANDOM, 1.0, 1.0),
        # Stores and comparisons write no register.
        ("STG.E", "desc[UR4][R2.64], R6", 2, RANDOM, 1.0, 1.0),
        ("ISETP.GE.AND", "P0, PT, R0, R1, PT", 2, RANDOM, 1.0, 1.0),
        # Two of three operands are constants, which do not change.
        ("FFMA", "R0, R1, 0.5, c[0x0][0x210]", 1, RANDOM, 0.4, 0.6),
    ],
)
def test_activity_is_what_the_bits_of_operands_cost_over_those_of_random_words(
    opcode, operands, words, bits, low, high
):
    found = activity_of(seen(opcode, operands, words=words, **bits)).of(opcode)
    assert low - 1e-9 <= found <= high + 1e-9


def test_data_that_loads_bring_tell_of_bytes():
    tallied = seen("LDS", "R0, [R1]", halves_result=8, flips=8)
    assert activity_of(tallied).operands == pytest.approx(0.5)
    assert not np.isnan(activity_of(seen("NOP", "")).operands)
