"""The figures of docs/model.md, studies/model/fit.md and README are what fit_model.py writes."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def module():
    sys.path.insert(0, str(ROOT / "runners"))
    yield importlib.import_module("fit_model")
    sys.path.remove(str(ROOT / "runners"))
    for name in ("fit_model", "spread_code", "transfer_model"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def judged(module):
    return [module.judge(gpu) for gpu in module.RUNS]


def test_the_page_has_what_the_terms_come_to(module, judged):
    answer, study = module.ANSWER.read_text(), module.PAGE.read_text()
    for name, block in module.blocks(judged, left_out=False).items():
        assert f"<!-- {name}:begin -->\n{block}<!-- {name}:end -->" in (
            answer if name == "answers" else study
        ), name


def test_the_readme_says_how_far_off_whole_kernels_are(module, judged):
    assert module.summary(judged) in (ROOT / "README.md").read_text()


def test_the_page_says_what_models_that_know_less_come_to(module, judged):
    rows = [row.split("|") for row in module.ANSWER.read_text().splitlines() if row.startswith("|")]
    said = {row[1].strip(): [cell.strip() for cell in row[2:-1]] for row in rows}
    for name in ("the table", "every opcode at 12 pJ", "no energy of instructions", "mean power times time"):
        found = [dict(one.baselines)[name] for one in judged]
        assert said[name] == [f"{of_set.mean_absolute_pct:.1f}" for sets in found for of_set in sets]
