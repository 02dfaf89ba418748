"""`ptxbench occupancy`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.register_kernel import ptx_of_registers

from ptxbench.cli.main import run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_text(ptx_of_registers(30, "sm_80"))
    return path


def test_the_table_names_what_limits(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["occupancy", str(file), "--target", "sm_80", "--registers", "40"]) == 0
    out = capsys.readouterr().out
    assert "k on sm_80: 40 registers a thread" in out
    # 16384 // 1280 = 12 warps in each sub-partition: 48 of 64.
    (row,) = [line.split() for line in out.splitlines() if line.split()[:1] == ["256"]]
    assert row[:3] == ["256", "6", "75.0%"]
    assert "registers" in row


def test_json_has_every_limit_and_the_order(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["occupancy", str(file), "--target", "sm_80", "--shared", "40 * threads", "--json"]
    assert run([*words, "--block", "1024", "--block", "128", "--registers", "32"]) == 0
    found = json.loads(capsys.readouterr().out)
    small, large = found["sizes"]
    assert (small["threads"], large["threads"]) == (128, 1024)
    assert (large["by_blocks"], large["by_warps"], large["by_shared"], large["by_registers"]) == (32, 2, 4, 2)
    assert large["limited_by"] == ["warps", "registers"]
    assert (large["order"], small["order"]) == (1, 2)


def test_a_picture_is_drawn(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "occupancy.svg"
    assert run(["occupancy", str(file), "--target", "sm_80", "--plot", str(picture)]) == 0
    assert picture.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--shared", "__import__('os')"], "may call only"),
        (["--shared", "-5"], "must be a whole number from 0"),
        (["--entry", "other"], "no kernel other, only k"),
        (["--registers", "300"], "300"),
    ],
)
def test_bad_input_is_one_line(
    file: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["occupancy", str(file), "--target", "sm_80", *words]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.splitlines()) == 1
