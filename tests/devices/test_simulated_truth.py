"""The hidden energies, and how long a loop takes on a simulated chip."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.ground_truth import instruction_energy_pj, loop_energy_pj, opcode_energy_pj
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.devices.simulated.timing import Grid, iteration_cycles, plan_phases, resident_blocks
from ptxbench.sass.program import Loop, SassInstruction

A100 = find_profile("a100")
RTX2080TI = find_profile("rtx2080ti")
RTX3090 = find_profile("rtx3090")


def _loop(*opcodes: str) -> Loop:
    return Loop(tuple(SassInstruction(16 * n, "", opcode, "R0, R0, R1") for n, opcode in enumerate(opcodes)))


_TAIL = ("IADD3", "ISETP.NE.AND", "BRA")


def test_instruction_energy_is_what_a_copy_adds() -> None:
    target, overhead = _loop(*["FFMA"] * 8, *_TAIL), _loop(*_TAIL)
    assert instruction_energy_pj(target, overhead, 8, "random", H200) == pytest.approx(12.4)
    assert instruction_energy_pj(target, overhead, 4, "random", H200) == pytest.approx(24.8)


def test_energy_scales_with_the_profile() -> None:
    scaled = replace(H200, chip=replace(H200.chip, energy_scale=1.5))
    loop = _loop("DFMA", *_TAIL)
    expected_pj = 1.5 * loop_energy_pj(loop, "random", H200)
    assert loop_energy_pj(loop, "random", scaled) == pytest.approx(expected_pj)


@pytest.mark.parametrize("opcode", ["FFMA", "IMAD", "DFMA", "LOP3.LUT", "MUFU.EX2", "VABSDIFF4.U8"])
def test_zeros_cost_about_two_fifths(opcode: str) -> None:
    ratio = opcode_energy_pj(opcode, "zeros", H200) / opcode_energy_pj(opcode, "random", H200)
    assert 0.3 < ratio < 0.5


def test_zeros_do_not_save_the_same_everywhere() -> None:
    def ratio(opcode: str) -> float:
        return opcode_energy_pj(opcode, "zeros", H200) / opcode_energy_pj(opcode, "random", H200)

    assert len({ratio(opcode) for opcode in ("FFMA", "IMAD", "DFMA")}) == 3


def test_an_unlisted_opcode_costs_the_same_in_every_process() -> None:
    # A literal, because Python's own hash of a string differs from process to process.
    unsigned = opcode_energy_pj("VABSDIFF4.U8", "random", H200)
    assert unsigned == pytest.approx(17.992029961908635)
    assert opcode_energy_pj("VABSDIFF4.S8", "random", H200) != unsigned


def test_modifiers_shift_a_listed_opcode_a_little() -> None:
    plain, wide = opcode_energy_pj("IMAD", "random", H200), opcode_energy_pj("IMAD.WIDE.U32", "random", H200)
    assert wide != plain
    assert 0.85 * plain <= wide <= plain
    assert opcode_energy_pj("IMAD.SHL.U32", "random", H200) < 0.8 * plain


def test_a_load_beyond_l1_costs_more_and_takes_longer() -> None:
    near, far = _loop("LDG.E"), _loop("LDG.E.STRONG.GPU")
    assert loop_energy_pj(far, "random", H200) > 3 * loop_energy_pj(near, "random", H200)
    assert iteration_cycles(far, 1, H200) > 5 * iteration_cycles(near, 1, H200)


@pytest.mark.parametrize("opcode", ["BRA", "NOP", "BSSY.RECONVERGENT", "UIADD3", "ULDC.64"])
def test_control_and_uniform_instructions_are_a_warps_and_cheap(opcode: str) -> None:
    assert 0 < opcode_energy_pj(opcode, "random", H200) < 2
    assert opcode_energy_pj(opcode, "zeros", H200) == opcode_energy_pj(opcode, "random", H200)


def test_a_sleeping_loop_is_free_and_lasts_a_microsecond() -> None:
    loop = _loop("NANOSLEEP", *_TAIL)
    assert loop_energy_pj(loop, "random", H200) == 0
    assert iteration_cycles(loop, 64, H200) == pytest.approx(1980, rel=0.01)


def test_an_unknown_pattern_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"'stripes'.*random, zeros"):
        loop_energy_pj(_loop("FFMA"), "stripes", H200)


@pytest.mark.parametrize(
    ("opcode", "profile", "cycles"),
    [
        ("FFMA", H200, 16 * 64 * 1),
        ("FFMA", A100, 16 * 64 * 2),
        ("DFMA", H200, 16 * 64 * 2),
        ("DFMA", RTX3090, 16 * 64 * 64),
        ("LOP3.LUT", H200, 16 * 64 * 2),
        ("MUFU.EX2", H200, 16 * 64 * 8),
    ],
)
def test_full_sms_are_bound_by_the_pipe(opcode: str, profile, cycles: float) -> None:
    assert iteration_cycles(_loop(*[opcode] * 64), 64, profile) == cycles


def test_pipes_overlap_until_the_issue_port_is_full() -> None:
    mixed = _loop(*["LOP3.LUT", "FFMA", "FFMA", "IMAD"] * 16)
    assert iteration_cycles(mixed, 64, H200) == 16 * 64


def test_one_warp_is_bound_by_its_latencies() -> None:
    assert iteration_cycles(_loop(*["FFMA"] * 64), 1, H200) == 64 * 4
    assert iteration_cycles(_loop(*["MUFU.EX2"] * 64), 4, H200) == 64 * 18


@pytest.mark.parametrize(
    ("registers", "threads", "blocks"),
    [
        (16, 256, 8),  # threads
        (32, 1024, 2),  # threads and registers at once
        (33, 1024, 1),  # registers, given by eight
        (64, 1024, 1),
        (65, 1024, 0),
        (255, 256, 1),
        (16, 32, 32),  # blocks
        (16, 1, 32),
        (16, 96, 21),
        (16, 65, 21),  # threads, given by the warp
        (0, 1024, 2),
        (16, 1025, 0),
        (16, 0, 0),
    ],
)
def test_resident_blocks_on_an_h200(registers: int, threads: int, blocks: int) -> None:
    assert resident_blocks(registers, threads, H200) == blocks


def test_resident_blocks_on_a_smaller_sm() -> None:
    assert resident_blocks(16, 256, RTX2080TI) == 4
    assert resident_blocks(16, 32, RTX2080TI) == 16


def test_a_grid_over_the_capacity_runs_in_waves() -> None:
    loop = _loop(*["FFMA"] * 64, *_TAIL)
    capacity = 8 * 132
    one = plan_phases(loop, Grid(capacity, 256, 8), 1000, "random", H200)
    many = plan_phases(loop, Grid(2 * capacity + 132, 256, 8), 1000, "random", H200)
    assert len(one) == 1
    assert one[0].cycles == 1000 * 16 * 67
    assert one[0].energy_j == pytest.approx(
        1000 * capacity * 256 * loop_energy_pj(loop, "random", H200) * 1e-12
    )
    assert many[:2] == one * 2
    # One block an SM is left: 8 warps, 2 a sub-partition, and its latencies bind.
    assert len(many) == 3
    assert many[2].cycles == 1000 * iteration_cycles(loop, 8, H200)
    assert many[2].energy_j == pytest.approx(one[0].energy_j / 8)


def test_one_thread_is_charged_as_one_thread() -> None:
    loop = _loop("FFMA", *_TAIL)
    (phase,) = plan_phases(loop, Grid(1, 1, 32), 10**9, "random", H200)
    assert phase.energy_j == pytest.approx(1e-3 * loop_energy_pj(loop, "random", H200))
