"""The way from a session's files to kernel_validation.csv, on kernels whose truth is made up here."""

import csv
import json
import math
from dataclasses import replace

import pytest
from fakes.kernel_session import GAMMA, HMMA_PJ, OPCODE_ENERGIES, REQUEST_PJ, MadeUpSession, mixture
from fakes.script import load_script
from validation_file import Purpose

from ptxbench.core.errors import InputError
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.model.work import Access

RUNNER = load_script("runners/model_validation.py")
validate_model = RUNNER.validate_model


@pytest.fixture
def session(tmp_path):
    made = MadeUpSession(tmp_path / "validation")
    for n in range(8):
        for pattern in ("random", "zeros"):
            made.add(
                f"fit{n}",
                pattern,
                Purpose.FIT,
                mixture(n, tensor=n % 3),
                n * 2e9,
                1.4e-3,
                pattern == "random",
            )
    for n, time_s in enumerate((0.4e-3, 0.5e-3, 0.6e-3)):
        made.add(f"slowed{n}", "random", Purpose.FIT, mixture(20 + n, tensor=4), 1e9, time_s)
    return made


def test_kernels_that_were_not_fitted_come_out_right_capped_or_not(session):
    for n in range(4):
        for pattern in ("random", "zeros"):
            session.add(f"judged{n}", pattern, Purpose.JUDGED, mixture(40 + n, tensor=n), 3e9, 6e-3)
    session.add("hot", "random", Purpose.JUDGED, mixture(50, tensor=9), 1e9, 0.5e-3)
    found = validate_model(session.write(), OPCODE_ENERGIES)
    assert len(found.kernels) == 9
    assert found.missing == ()
    assert RUNNER.mean_absolute_error_pct(found.kernels) < 2
    assert {k.kernel for k in found.kernels if k.capped} == {"hot"}
    (hot,) = (k for k in found.kernels if k.capped)
    assert hot.estimated_capped
    assert hot.estimated_by_limit_j == pytest.approx(hot.measured_j, rel=0.01)
    # It is the clock term that does it.
    assert hot.full_clock_j > 1.1 * hot.measured_j
    assert found.terms.gamma == pytest.approx(GAMMA, abs=0.15)
    assert found.terms.tensor[0].kind == "HMMA.F32"
    assert found.terms.tensor[0].random_pj == pytest.approx(HMMA_PJ["random"], rel=0.05)
    assert not any("judged" in name or "hot" in name for name in found.terms.kernels)


def test_judged_kernels_do_not_change_what_is_fitted(tmp_path):
    terms = []
    for extra in (1.0, 3.0):
        made = MadeUpSession(tmp_path / f"{extra}")
        for n in range(6):
            made.add(f"fit{n}", "random", Purpose.FIT, mixture(n, tensor=n % 3), n * 2e9, 1.5e-3)
        made.add("judged", "random", Purpose.JUDGED, mixture(9), 0.0, 1.5e-3 * extra)
        terms.append(validate_model(made.write(), OPCODE_ENERGIES).terms)
    assert terms[0] == terms[1]


def test_the_csv_has_the_parts_and_a_case_without_counts_is_named(session, tmp_path):
    session.add("judged", "random", Purpose.JUDGED, mixture(9), 1e9, 1.5e-3)
    session.add("lost", "random", Purpose.JUDGED, mixture(9), 1e9, 1.5e-3, profiled=False)
    found = validate_model(session.write(), OPCODE_ENERGIES)
    assert found.missing == ("lost random: no counts",)
    RUNNER.write_validated(tmp_path / "v.csv", found.kernels)
    (row,) = csv.DictReader((tmp_path / "v.csv").read_text().splitlines())
    parts = json.loads(row["parts"])
    assert sum(parts.values()) == pytest.approx(float(row["estimated_j"]), rel=1e-3)
    assert {"static", "fp32", "DRAM"} <= set(parts)
    assert float(row["measured_ci95_j"]) > 0
    assert math.isfinite(float(row["low_j"]))


def test_a_session_without_counts_is_refused(session):
    session.rows.clear()
    with pytest.raises(InputError, match="no kernel was both measured and counted"):
        validate_model(session.write(), OPCODE_ENERGIES)


def wasting(folder, costs, counted_all=True):
    """A session of kernels that ask L2 for lines, some for many more than their bytes."""
    made = MadeUpSession(folder)
    for n in range(8):
        for pattern in ("random", "zeros"):
            requests = costs * (2e7 if n % 2 else 4e8) * (n + 1)
            uncounted = not counted_all and (n, pattern) == (3, "zeros")
            made.add(
                f"fit{n}",
                pattern,
                Purpose.FIT,
                mixture(n),
                n * 2e9,
                6e-3,
                requests=None if uncounted else requests,
            )
    made.add("judged", "zeros", Purpose.JUDGED, mixture(9), 1e9, 6e-3, requests=costs * 2e9)
    return validate_model(made.write(), OPCODE_ENERGIES)


def test_requests_beyond_whole_lines_are_a_term_where_they_predict_kernels_left_out(tmp_path):
    found = wasting(tmp_path / "s", costs=1)
    (one,) = found.terms.accesses_pj
    assert one.access is Access.L2_REQUEST
    assert one.energy_pj == pytest.approx(REQUEST_PJ, rel=0.05)
    assert found.terms.left_out_error < 0.02
    (judged,) = found.kernels
    assert judged.estimated_j == pytest.approx(judged.measured_j, rel=0.02)
    assert json.loads(judged.parts)["L2 requests"] == pytest.approx(2e9 * REQUEST_PJ * 1e-12, rel=0.05)


def test_a_counter_that_one_fit_kernel_lacks_is_no_term(tmp_path):
    assert wasting(tmp_path / "s", costs=1, counted_all=False).terms.accesses_pj == ()


def test_a_counter_that_says_nothing_is_no_term(tmp_path):
    made = MadeUpSession(tmp_path / "s")
    for n in range(8):
        made.add(f"fit{n}", "random", Purpose.FIT, mixture(n), n * 2e9, 6e-3, requests=0)
    assert validate_model(made.write(), OPCODE_ENERGIES).terms.accesses_pj == ()


def test_a_kernel_that_alone_tells_of_a_term_is_not_among_those_that_are_predicted(tmp_path):
    """What an access costs would be extrapolated from next to nothing in the others."""
    made = MadeUpSession(tmp_path / "s")
    for n in range(8):
        for pattern in ("random", "zeros"):
            requests = 8e8 if n == 5 else 1e4 * (n + 1)
            made.add(f"fit{n}", pattern, Purpose.FIT, mixture(n), n * 2e9, 6e-3, requests=requests)
    terms = validate_model(made.write(), OPCODE_ENERGIES).terms
    assert [one.access for one in terms.accesses_pj] == [Access.L2_REQUEST]
    assert terms.accesses_pj[0].energy_pj == pytest.approx(REQUEST_PJ, rel=0.05)
    assert terms.left_out_error < 0.005


def test_integers_that_are_data_do_not_tell_how_much_addresses_toggle(tmp_path):
    index = []
    for name in ("mixing-u32", "mixing"):
        made = MadeUpSession(tmp_path / name)
        for n in range(6):
            made.add(f"fit{n}", "random", Purpose.FIT, mixture(n), n * 2e9, 6e-3)
        # Random integers toggle as much as the table's; in the session's truth IADD3 toggles half as much.
        made.add(name, "random", Purpose.FIT, {"IADD3": int(4e10)}, 0.0, 12e-3)
        trials = [t for t in made.trials if t.case == len(made.cases) - 1]
        for trial in trials:
            made.trials.remove(trial)
            more_w = 32 * 4e10 * 1.5e-12 / trial.time_s
            made.trials.append(replace(trial, power_w=trial.power_w + more_w))
        index.append(validate_model(made.write(), OPCODE_ENERGIES).terms.random.index)
    assert index[0] == pytest.approx(0.5, abs=0.05)
    assert index[1] > 0.7


def kept_share(folder, truth):
    """The share that a fit finds where opcodes keep `truth` of what tells them apart."""
    made = MadeUpSession(folder)
    for n in range(12):
        made.add(f"fit{n}", "random", Purpose.FIT, mixture(n), n * 2e9, 6e-3)
    said = {opcode: known.energy_pj for opcode, known in OPCODE_ENERGIES.random.items()}
    middle_pj = sorted(said.values())[1]
    apart = OpcodeEnergies(
        {o: Known(middle_pj + (pj - middle_pj) / truth, 0.1) for o, pj in said.items()},
        {o: Known(0.3 * pj, 0.1) for o, pj in said.items()},
    )
    return validate_model(made.write(), apart).terms.opcode_share


def test_opcodes_keep_what_kernels_left_out_ask_for(tmp_path):
    assert kept_share(tmp_path / "all", 1.0) == 1.0
    assert kept_share(tmp_path / "half", 0.5) < 1.0


def test_kernels_of_another_session_are_fitted_to_and_not_judged(session, tmp_path):
    session.add("judged", "random", Purpose.JUDGED, mixture(40), 3e9, 6e-3)
    other = MadeUpSession(tmp_path / "also")
    other.add("family/other", "random", Purpose.FIT, mixture(41), 1e9, 6e-3)
    other.add("family/judged", "random", Purpose.JUDGED, mixture(42), 1e9, 6e-3)
    found = validate_model(session.write(), OPCODE_ENERGIES, [other.write()])
    assert "family/other random" in found.terms.kernels
    assert [one.kernel for one in found.kernels] == ["judged"]
