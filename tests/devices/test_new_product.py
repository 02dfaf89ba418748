"""A product that nobody knew, added to a copy of ptxbench: which files that takes, and that a table opens."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROFILE = """
base = "rtx5090"
title = "{title}"
[chip]
target = "{target}"
sm_count = {sms}
"""
EMPTY = ".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
TARGETS = "ptxbench/core/target.py"
GENERATION = "ptxbench/catalogue/architectures/blackwell.toml"
PROFILES = "ptxbench/devices/simulated/profiles"


@pytest.fixture
def copy(tmp_path):
    for package in ("ptxbench", "ptx_templates"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def ptxbench(copy, *arguments):
    # The copy comes before the installation on the path.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "ptxbench", *arguments]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def touched(copy):
    files = (path for path in copy.rglob("*") if path.is_file())
    names = (path.relative_to(copy).as_posix() for path in files)
    return {n for n in names if not (ROOT / n).exists() or not filecmp.cmp(copy / n, ROOT / n, shallow=False)}


def add_product(copy):
    (copy / PROFILES / "rtx5080.toml").write_text(
        PROFILE.format(title="NVIDIA GeForce RTX 5080", target="sm_120a", sms=84)
    )
    return "rtx5080", "NVIDIA GeForce RTX 5080", "sm_120a", {f"{PROFILES}/rtx5080.toml"}


def add_capability(copy):
    (copy / PROFILES / "gb10.toml").write_text(PROFILE.format(title="NVIDIA GB10", target="sm_121a", sms=48))
    path = copy / TARGETS
    last = '    Target("sm_120a", 120, "8.7"),\n'
    assert last in path.read_text()
    path.write_text(path.read_text().replace(last, f'{last}    Target("sm_121a", 121, "8.8"),\n'))
    path = copy / GENERATION
    _, known, sm = path.read_text().partition("\n[sm.120]\n")
    assert known
    path.write_text(f"{path.read_text()}\n[sm.121]\n{sm}")
    return "gb10", "NVIDIA GB10", "sm_121a", {f"{PROFILES}/gb10.toml", TARGETS, GENERATION}


@pytest.mark.parametrize("add", [add_product, add_capability])
def test_a_new_product_has_a_table_and_an_occupancy(add, copy):
    name, title, target, files = add(copy)
    assert touched(copy) == files
    few = ["--protocol", "dynamic", "--opt-level", "O3", "--max-repeats", "3", "--seed", "1"]
    ptxbench(copy, "table", "fma.rn.f32", "--gpu", f"simulated:{name}", *few, "--out", "run")
    report = json.loads(ptxbench(copy, "report", "run", "--format", "json"))
    assert title in report["gpu"]
    (row,) = report["rows"]
    # FFMA of its base, at its scale.
    assert row["dynamic_pj"] == pytest.approx(12.4 * 0.55, rel=0.02)
    assert row["status"] == "ok"
    (copy / "kernel.ptx").write_text(EMPTY.format(target=target))
    asked = ["kernel.ptx", "--target", target, "--block", "1024", "--json"]
    (found,) = json.loads(ptxbench(copy, "occupancy", *asked))["sizes"]
    assert found["limited_by"] == ["warps"]
