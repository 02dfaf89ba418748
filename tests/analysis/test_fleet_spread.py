"""Eight boards of hidden factors beside each other, one of which is unlike the others."""

import math
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.analysis.board_spread import BoardRun
from ptxbench.analysis.fleet_spread import fleet_spread
from ptxbench.core.status import Status
from ptxbench.report.fleet import fleet_text

NAMES = ("fma.rn.f32", "add.f32", "mul.f32", "add.u32", "xor.b32", "mul.lo.u32", "fma.rn.f64")
FACTORS = (0.985, 0.99, 0.995, 1.0, 1.0, 1.005, 1.01, 1.015)


def board(number, factor, names=NAMES, noise=0.001, gpu="NVIDIA H200", name=None):
    info = replace(fake.GPU, uuid_hash=f"{number:012x}", name=gpu)
    rows = tuple(
        replace(
            fake.row(instruction),
            sass="FFMA",
            dynamic_pj=10 * (n + 1) * factor * math.exp(noise * math.sin(17 * n + number)),
            temperature_c=40.0 + number,
            static_w=120.0,
        )
        for n, instruction in enumerate(names)
    )
    return BoardRun(name or f"board-{number}", fake.manifest(info), rows)


def eight(**changes):
    return [board(n, factor, **changes) for n, factor in enumerate(FACTORS)]


def test_the_hidden_factors_are_found_about_the_median_board():
    (model,) = fleet_spread(eight()).models
    centre = 1.0
    assert [line.factor for line in model.boards] == pytest.approx([f / centre for f in FACTORS], rel=2e-3)
    assert not any(line.outlier for line in model.boards)
    assert model.rows == len(NAMES)
    assert model.row_scatter == pytest.approx(0.0007, rel=0.5)
    assert model.boards[0].temperature_c == pytest.approx(40.0)


def test_a_board_of_another_factor_and_one_that_scatters_are_named():
    boards = eight()
    boards[2] = board(2, 1.12)
    boards[5] = board(5, 1.0, noise=0.05)
    (model,) = fleet_spread(boards).models
    outliers = {line.run: line.outlier for line in model.boards if line.outlier}
    assert set(outliers) == {"board-2", "board-5"}
    assert "+1" in outliers["board-2"]
    assert "scatter" in outliers["board-5"]


def test_three_boards_do_not_say_what_is_usual():
    (model,) = fleet_spread([board(0, 1.0), board(1, 1.0), board(2, 1.3)]).models
    assert not any(line.outlier for line in model.boards)


def test_what_cannot_be_compared_is_named_with_its_reason():
    broken = BoardRun(
        "board-9",
        fake.manifest(replace(fake.GPU, uuid_hash="9" * 12)),
        (replace(fake.row(NAMES[0]), status=Status.NOT_REACHED, dynamic_pj=math.nan),),
    )
    boards = [*eight(), broken, board(10, 1.0, names=NAMES[:2]), board(3, 1.0, names=NAMES[:4], name="again")]
    document = fleet_spread(boards)
    reasons = {one.run: one.reason for one in document.left_out}
    assert reasons["board-9"] == "it has no valid row"
    assert "2 rows in common" in reasons["board-10"]
    assert "same board as board-3" in reasons["again"]
    assert len(document.models[0].boards) == 8
    assert "board-9: left out: it has no valid row" in fleet_text(document, None)


def test_unlike_models_are_not_compared():
    models = fleet_spread([board(0, 1.0), board(1, 1.0), board(2, 0.5, gpu="NVIDIA A100")]).models
    assert [(model.gpu.split(" (")[0], len(model.boards)) for model in models] == [
        ("NVIDIA A100", 1),
        ("NVIDIA H200", 2),
    ]
    text = fleet_text(fleet_spread([board(0, 1.0)]), 80)
    assert "1 board" in text
