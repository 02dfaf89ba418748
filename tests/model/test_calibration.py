"""Terms of a board by its kernels: intervals hold what was made up, and are as narrow as the scatter."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import run as fake
from fakes.kernel_session import OPCODE_ENERGIES

from ptxbench.model.calibration import ACTIVE, OPCODES, fit_calibration
from ptxbench.model.fit_kernel import FitKernel
from ptxbench.model.terms import UNFITTED, ByteEnergy
from ptxbench.model.work import KernelWork, Level

BEFORE = replace(UNFITTED, bytes_pj=(ByteEnergy(Level.DRAM, 80.0, 40.0, 0.1),), active_w=10.0)
FFMA_J = OPCODE_ENERGIES.random["FFMA"].energy_pj * 1e-12
# What the board is like beside the table: energies of opcodes, a byte of DRAM, the active chip.
TRUTH = {OPCODES: 1.1, "DRAM random": 100.0, ACTIVE: 25.0}


def kernels(scatter, seed):
    rng = np.random.default_rng(seed)
    for n in range(12):
        ffma, moved, time_s = 1e12 * (1 + n % 4), 1e11 * (n % 3), 0.1 * (1 + n % 5)
        work = KernelWork(f"k{n}", (("FFMA", ffma),), ((Level.DRAM, moved),), time_s)
        dynamic_j = TRUTH[OPCODES] * ffma * FFMA_J + TRUTH["DRAM random"] * moved * 1e-12 + 25.0 * time_s
        total_j = dynamic_j + 120 * time_s
        dynamic_j += scatter * total_j * rng.normal()
        yield FitKernel(f"k{n} random", "random", work, dynamic_j, total_j, 1.0)


def test_intervals_hold_the_terms_as_often_as_they_say_and_are_as_narrow_as_the_scatter():
    held = []
    for seed in range(25):
        found = {
            one.name: one
            for one in fit_calibration(list(kernels(0.01, seed)), OPCODE_ENERGIES, BEFORE, fake.GPU).found
        }
        assert found.keys() == TRUTH.keys()
        held += [abs(one.value - TRUTH[name]) <= one.ci95 for name, one in found.items()]
        # Twelve kernels that are known to a percent tell an energy to some percent.
        assert 0.003 < found[OPCODES].ci95 < 0.1
        assert 0.5 < found["DRAM random"].ci95 < 15
    assert 0.9 <= np.mean(held) < 1


def test_exact_kernels_give_the_terms_themselves():
    fit = fit_calibration(list(kernels(0.0, 0)), OPCODE_ENERGIES, BEFORE, fake.GPU)
    assert fit.terms.opcode_scale == pytest.approx(1.1, rel=0.01)
    assert fit.terms.active_w == pytest.approx(25.0, rel=0.1)
    assert fit.terms.bytes_pj[0].random_pj == pytest.approx(100.0, rel=0.02)
    # No kernel ran on zeros: its energy goes with that on random operands.
    assert fit.terms.bytes_pj[0].zeros_pj == pytest.approx(50.0, rel=0.02)
    assert not fit.gamma_fitted
