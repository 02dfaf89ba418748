"""The table beside models that know less, on made-up sessions whose truth is known."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.kernel_session import MadeUpSession, mixture
from fakes.script import run_script
from validation_file import MEASURED, KernelCase, KernelTrial, Purpose, kernel_session

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.solved import read_solved
from ptxbench.model.work import KernelWork, Level
from ptxbench.storage.manifest import write_manifest

RUNNERS = Path(__file__).parents[2] / "runners"
H200 = Path(__file__).parents[2] / "results" / "nvidia-h200"
TABLE = Path(__file__).parents[2] / "results" / "nvidia-h200" / "operands"
RANDOM_PJ = {"FFMA": 14.0, "IADD3": 8.0, "LOP3.LUT": 17.0, "MUFU.EX2": 19.0, "DFMA": 30.0, "HFMA2": 22.0}
ENERGIES = OpcodeEnergies(
    {op: Known(pj, 0.01 * pj) for op, pj in RANDOM_PJ.items()},
    {op: Known(0.4 * pj, 0.01 * pj) for op, pj in RANDOM_PJ.items()},
)
ACTIVE_W, SHARED_PJ = 25.0, 3.0
FACTORS = {"random": 1.0, "sparse": 0.3}
STATIC_J = 0.12


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(RUNNERS))
    monkeypatch.delitem(sys.modules, "compare_suite", raising=False)
    yield importlib.import_module("compare_suite")
    sys.modules.pop("compare_suite", None)


def made_up(module, energy_pj):
    """Cases in families that are each ruled by another opcode, with these energies as their truth."""
    random = np.random.default_rng(4)
    cases = []
    for n, main in enumerate([*RANDOM_PJ] * 4):
        for kind, factor in FACTORS.items():
            counts = {op: random.uniform(0.2, 1) * 1e8 for op in RANDOM_PJ} | {
                main: random.uniform(8, 20) * 1e8
            }
            shared, time_s = random.uniform(0, 4e9), random.uniform(1e-3, 2e-3)
            full_j = sum(count * energy_pj(op) * 1e-12 for op, count in counts.items())
            dynamic_j = full_j * (0.4 + 0.6 * factor) + shared * SHARED_PJ * 1e-12 + ACTIVE_W * time_s
            work = KernelWork(str(n), tuple(counts.items()), ((Level.SHARED, shared),), time_s)
            family, judged = f"{main}{n // 12}", n >= 12
            cases.append(
                module.SuiteCase(
                    f"{n} {kind}", family, kind, judged, work, time_s, dynamic_j + STATIC_J, STATIC_J, False
                )
            )
    return cases


def mean(one):
    return float(np.mean(np.abs(one.error_pct)))


def test_where_opcodes_decide_the_table_wins_and_the_interval_says_so(module):
    cases = made_up(module, RANDOM_PJ.__getitem__)
    model, table, best_constant, medians, wrong, nothing, power = module.compare(cases, ENERGIES)
    assert model.name == "the model: opcodes keep 100% of their own energy"
    assert mean(model) == mean(table) < 1
    for less in (best_constant, wrong, nothing, power):
        assert mean(less) > 2 * mean(table)
        assert module.gain_pct(cases, table, less)[0] > 0
    # Each opcode is a class of its own here, or nearly so.
    assert mean(medians) < mean(best_constant)


def test_where_every_opcode_costs_the_same_the_constant_wins_and_the_interval_says_so(module):
    cases = made_up(module, lambda _: 12.0)
    model, table, best_constant, *_ = module.compare(cases, ENERGIES)
    assert model.name == "the model: opcodes keep 25% of their own energy"
    assert mean(model) < mean(table)
    assert best_constant.name == "every opcode at 12 pJ (chosen by the fit families)"
    assert mean(best_constant) < 1 < mean(table)
    assert module.gain_pct(cases, table, best_constant)[1] < 0


def test_judged_cases_set_no_number(module):
    cases = made_up(module, RANDOM_PJ.__getitem__)
    doubled = [
        module.SuiteCase(**{**one.__dict__, "total_j": 2 * one.total_j}) if one.judged else one
        for one in cases
    ]
    estimated = [
        (1 + module.judge(some, "", ENERGIES).error_pct / 100) * [c.total_j for c in some if c.judged]
        for some in (cases, doubled)
    ]
    assert estimated[0] == pytest.approx(estimated[1])


def test_a_session_without_a_judged_case_is_refused(module, tmp_path):
    trial = KernelTrial(0, 0, 1, 1e-3, 120.0, 0.1, 0.0, 40.0, 1980.0, 1.0, 0, 0, "", (), ())
    session = kernel_session(
        GpuInfo.partly_known("NVIDIA H200", "0", "580", 700.0, 1980.0), "samples", (),
        (KernelCase(0, "sleep", "zeros", Purpose.STATIC),), (trial, trial),
    )  # fmt: skip
    write_manifest(tmp_path / MEASURED, session)
    (tmp_path / "counts").mkdir()
    with pytest.raises(InputError, match="fit and of judged families"):
        module.read_cases(tmp_path, tmp_path)


def test_a_folder_of_measured_and_counted_cases_gives_a_row_a_model_and_a_row_a_family(tmp_path):
    session = MadeUpSession(tmp_path / "v")
    for n, family in enumerate(("fit/a", "fit/b", "fit/c", "new/a", "new/b")):
        purpose = Purpose.JUDGED if family.startswith("new") else Purpose.FIT
        for kind in ("random", "zeros"):
            session.add(family, kind, purpose, mixture(n), 0.0, 6e-3)
    done = run_script("runners/compare_suite.py", "--validation", session.write(), "--table", TABLE)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "4 judged cases, 0 of them at the power limit"
    assert sum(line.startswith("| the table as it is |") for line in lines) == 1
    assert lines[-1].startswith("| new | 4 |")


def cells_of(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


@pytest.mark.parametrize(("gpu", "column"), [("nvidia-h200", 0), ("nvidia-h100", 3)])
def test_what_the_documents_say_of_both_gpus(module, monkeypatch, gpu, column):
    # One constant and one shuffle: the others only take longer.
    monkeypatch.setattr(module, "_CONSTANTS_PJ", (16.0,))
    monkeypatch.setattr(module, "_SHUFFLES", 1)
    cases = module.read_cases(H200.parent / gpu / "suite", H200 / "suite")
    text = (H200.parents[1] / "studies" / "model" / "fit.md").read_text()
    found = module.compare(cases, read_solved(H200 / "table-6eda").opcode_energies)
    assert found[0].name == "the model: opcodes keep 50% of their own energy"
    shown = {cells[0]: cells[1 + column :] for cells in map(cells_of, text.splitlines()) if cells}
    for name, one in zip(("the model", "the table as it is", "every opcode at 16 pJ"), found, strict=False):
        low, high = module.gain_pct(cases, found[0], one)
        difference = "" if one is found[0] else f"{low:+.1f} to {high:+.1f}"
        worst = float(np.max(np.abs(one.error_pct)))
        assert shown[name][:3] == [f"{mean(one):.1f}", f"{worst:.1f}", difference]
    assert not any(one.capped for one in cases)
