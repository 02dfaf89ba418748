"""Baselines take away what they say, and the documents show what they come to."""

from pathlib import Path

import pytest
from fakes.kernel_session import OPCODE_ENERGIES, MadeUpSession, mixture
from fakes.script import load_script
from validation_file import Purpose

from ptxbench.model.atlas import open_atlas
from ptxbench.model.baselines import FILE, Form, class_medians, constant, read_baselines
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.terms import read_terms
from ptxbench.storage.document import write_beside
from ptxbench.storage.shipped import SHIPPED

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
    found = energies(load_script("runners/baseline_models.py").shuffled(opcode_energies, 1))
    assert sorted(found.values()) == sorted(energies(opcode_energies).values())
    assert found != energies(opcode_energies)


def test_kept_baselines_are_as_far_off_as_the_documents_say():
    table, runner = H200 / "table-6eda", load_script("runners/model_validation.py")
    error_pct = runner.mean_absolute_error_pct
    kept, energies = read_baselines(table), open_atlas("h200").opcode_energies
    own, constant_model = read_terms(table), kept.models[0]
    assert constant_model.form is Form.CONSTANT
    less = constant(energies, constant_model.constant_pj)
    for at, folder in enumerate(("validation", "suite")):
        for said, known, terms in (
            (kept.table, energies, own),
            (constant_model.errors, less, constant_model.terms),
        ):
            found = runner.judge_terms(H200 / folder, known, terms).kernels
            assert said[at].mean_absolute_pct == pytest.approx(error_pct(found), abs=0.05)
        # The table is the best of them.
        least = min(baseline.errors[at].mean_absolute_pct for baseline in kept.models)
        assert kept.table[at].mean_absolute_pct < least


def test_a_file_of_the_former_name_is_read_as_one_of_now(tmp_path):
    now = (SHIPPED["h200"] / FILE).read_text()
    assert '"models"' in now
    (tmp_path / "nulls.json").write_text(now.replace('"models"', '"nulls"'))
    assert repr(read_baselines(tmp_path)) == repr(read_baselines(SHIPPED["h200"]))


@pytest.mark.parametrize("run", ["nvidia-h200/table-6eda", "nvidia-h100/table-57c3"])
def test_the_page_has_every_kept_model(run):
    kept = read_baselines(ROOT / "results" / run)
    rows = [row.replace(" ", "") for row in (ROOT / "studies" / "model" / "fit.md").read_text().splitlines()]
    for errors in (kept.table, *(baseline.errors for baseline in kept.models)):
        cells = [f"{one.mean_absolute_pct:.1f}|{one.worst_pct:.1f}|" for one in errors]
        assert any(all(cell in row for cell in cells) for row in rows)


def test_baselines_are_fitted_and_judged_like_the_table(tmp_path, monkeypatch):
    baseline_models = load_script("runners/baseline_models.py")
    monkeypatch.setattr(baseline_models, "_CONSTANTS_PJ", (8.0, 14.0))
    monkeypatch.setattr(baseline_models, "_SHUFFLES", 1)
    made = MadeUpSession(tmp_path / "validation")
    for n in range(8):
        for pattern in ("random", "zeros"):
            made.add(f"fit{n}", pattern, Purpose.FIT, mixture(n), n * 2e9, 6e-3)
            made.add(f"judged{n}", pattern, Purpose.JUDGED, mixture(40 + n), n * 1e9, 6e-3)
    folder = made.write()
    models = baseline_models.fit_baselines([folder], OPCODE_ENERGIES)
    found = models.judged_by(folder)
    assert len(found.kernels) == 16
    assert found.table.mean_absolute_pct < min(baseline.mean_absolute_pct for baseline in found.baselines)
    assert {one.kind for one in models.powers} == {"random", "zeros"}
    kept = models.kept([("library", found)])
    write_beside(tmp_path / FILE, kept)
    assert [one.form for one in read_baselines(tmp_path).models] == list(Form)
    nothing = next(one for one in kept.models if one.form is Form.NOTHING)
    assert nothing.errors[0].worse_low_pct > 0
