"""What the models say of kernels, clocks and rooflines stays as it was for the same code and samples."""

import math
from pathlib import Path

import numpy as np
from fakes.kept_numbers import assert_as_kept
from fakes.kernel_session import OPCODE_ENERGIES, MadeUpSession, mixture
from fakes.script import load_script
from validation_file import Purpose

import ptxbench
from ptxbench.model.clocks.law import Demand, PowerLaw, VoltageLaw, best_clock, unseen
from ptxbench.model.clocks.ridge import PowerCurve, PowerSample, fit_ridge
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.fit import RooflinePoint, fit_roofline
from ptxbench.model.roofline.power_capping import under_limit
from ptxbench.model.roofline.quantity import machine_quantities, tradeoff_quantities
from ptxbench.model.roofline.tradeoff import TradeOff

KERNELS = Path(__file__).parent / "kernels"
# What is estimated: file, entry and words of the launch.
LAUNCHES = {
    "elementwise": ("elementwise", None, {"trips": {0: 100}}),
    "elementwise, bytes given": (
        "elementwise",
        None,
        {"trips": {0: 4096}, "dram_bytes": 1e9, "l2_bytes": 2e9},
    ),
    "gather": ("gather", None, {"trips": {0: 64}, "integer_data": True}),
    "gemm": ("gemm", None, {"trips": {0: 512}, "operands": 0.4}),
    "gemm at a limit": ("gemm", None, {"trips": {0: 512}, "limit_w": 350.0, "time_s": None, "grid": 4096}),
    "gemm at a clock": ("gemm", None, {"trips": {0: 512}, "set_clock_mhz": 1200.0, "memory_ratio": 0.8}),
    "reduction": ("reduction", None, {"trips": {0: 33}, "operands": "zeros", "temperature_c": 60.0}),
    "stencil": ("stencil", None, {"trips": {0: 20}, "time_s": 2e-3, "steady": True}),
    "sine": ("operators", "f_sin", {"time_s": 1e-4}),
    "division": ("operators", "i_div64", {"time_s": 1e-4, "clock_mhz": 1500.0}),
    "power": ("operators", "f_pow", {}),
}


def test_each_model_says_the_same(tmp_path):
    assert_as_kept(
        __file__,
        {**of_launches(), **of_terms(tmp_path), **of_clocks(), **of_machines(), **of_points()},
    )


def of_launches():
    table, found = ptxbench.load_table("h200"), {}
    for name, (file, entry, words) in LAUNCHES.items():
        given = {"grid": 1056, "block": 256, **words}
        code = KERNELS / f"{file}.ptx"
        try:
            found[f"estimate of {name}"] = ptxbench.estimate_kernel(code, entry=entry, table=table, **given)
        except ptxbench.InputError as error:
            found[f"estimate of {name}"] = str(error)
    return found


def of_terms(folder):
    """Terms fitted to made-up kernels, and what they say of others."""
    made = MadeUpSession(folder / "session")
    for n in range(7):
        for pattern in ("random", "zeros"):
            random = pattern == "random"
            made.add(f"fit{n}", pattern, Purpose.FIT, mixture(n, tensor=n % 3), n * 2e9, 1.4e-3, random)
    for n, time_s in enumerate((0.4e-3, 0.55e-3)):
        made.add(f"slowed{n}", "random", Purpose.FIT, mixture(20 + n, tensor=4), 1e9, time_s, requests=1e7)
    for n in range(2):
        made.add(f"judged{n}", "random", Purpose.JUDGED, mixture(40 + n, tensor=n), 3e9, 6e-3)
    made.add("hot", "random", Purpose.JUDGED, mixture(50, tensor=9), 1e9, 0.5e-3)
    found = load_script("runners/model_validation.py").validate_model(made.write(), OPCODE_ENERGIES)
    return {"terms": found.terms, "judged kernels": found.kernels, "missing": found.missing}


def of_clocks():
    curves = {
        "line": PowerCurve(80, 0.12, 1000, 1 / 1500),
        "bend": PowerCurve(80, 0.12, 1000, 0, kappa_per_mhz2=5e-7),
    }
    clocks_mhz = np.arange(345.0, 1981.0, 120.0)
    noise = 1 + 0.003 * np.random.default_rng(4).normal(size=len(clocks_mhz))
    found, fits = {}, {}
    for name, curve in curves.items():
        found[f"curve {name}"] = curve.power_w(700), curve.power_w(1700), curve.best_clock_mhz(345, 1980)
        powers_w = [curve.power_w(mhz) for mhz in clocks_mhz] * noise
        ridge = fits[name] = fit_ridge(list(map(PowerSample, clocks_mhz.tolist(), powers_w.tolist())))
        found[f"ridge of a {name}"] = [
            *(ridge.voltage, ridge.verdict, ridge.found, ridge.search_mhz, ridge.range_mhz, ridge.ridge_mhz),
            *(ridge.best_clock_mhz, ridge.idle_w, ridge.kappa_per_mhz2, ridge.curve),
        ]
    laws = {"power": PowerLaw(1.4, 0.1, 0.7), **{n: VoltageLaw(fit, 1980.0) for n, fit in fits.items()}}
    for name, law in laws.items():
        found[f"law {name}"] = [(law.scale(r), law.error(r), unseen(law, r)) for r in (0.3, 0.6, 0.9, 1.0)]
        for follows in (True, False):
            demand = Demand(200.0, 40.0, 120.0, 1.0, follows, law, memory_s=1.2)
            found[f"best clock by {name} {follows}"] = [
                best_clock(demand, 1980.0),
                best_clock(demand, 1980.0, [900.0, 1500.0, 1800.0, 1905.0], 1850.0),
                [demand.ratio_under(w) for w in (150.0, 260.0, math.nan)],
                [demand.power_at(r) for r in (0.5, 1.0)],
            ]
    return found


F32 = RooflineMachine(1 / 60e12, 1 / 4e12, 7.2e-12, 130e-12, 131)
MACHINES = {
    "free": F32,
    "capped": RooflineMachine(1 / 60e12, 1 / 4e12, 7.2e-12, 130e-12, 131, cap_w=500),
    "capped by its clock": RooflineMachine(1 / 60e12, 1 / 4e12, 7.2e-12, 130e-12, 131, 500, 1.4),
}


def of_machines():
    found = {}
    for name, machine in MACHINES.items():
        found[f"machine {name}"] = machine_quantities(machine)
        for intensity in (0.5, machine.time_balance, 8.0, 300.0):
            algorithm = Algorithm(1e12 * intensity, 1e12)
            found[f"algorithm {intensity:.3g} on {name}"] = [
                *(machine.time_s(algorithm), machine.energy_j(algorithm), machine.power_w(intensity)),
                *(under_limit(machine, algorithm), under_limit(machine, algorithm, on_chip=True)),
                machine.effective_energy_balance(intensity),
            ]
        for extra, less in ((1.5, 4.0), (3.0, 2.0), (1.1, math.inf)):
            trade = TradeOff(machine, 8.0, extra, less)
            found[f"trade {extra} {less} on {name}"] = tradeoff_quantities(trade), trade.verdict
    return found


def of_points():
    points = []
    for n, (kind, flop_j) in enumerate((("f32", 7.2e-12), ("f64", 20e-12)) * 12):
        flops, bytes_moved = 1e12 * 2 ** (n / 3), 1e12
        time_s = max(flops / 60e12, bytes_moved / 4e12)
        energy_j = (flops * flop_j + bytes_moved * 130e-12 + 131 * time_s) * (1 + 0.01 * math.sin(9 * n))
        moved = (("dram", bytes_moved),)
        points.append(RooflinePoint(f"{kind}-{n}", kind, flops, moved, time_s, energy_j))
    fit = fit_roofline(points)
    machine = fit.machine("f32", "dram", F32)
    return {
        "roofline": [fit.names, [fit.coefficient(name) for name in fit.names], fit.residual],
        "roofline of a kernel": fit.energy("f64", "dram", 1e12, 2e12, 0.5),
        "roofline machine": machine,
    }
