"""A product that nobody knew, added to a copy of ptxbench: which files that takes, and that a table opens."""

import filecmp
import json

import pytest
from fakes.scratch_copy import ROOT, printed_by, scratch_copy

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
    return scratch_copy(tmp_path)


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
    (copy / "kernel.ptx").write_text(EMPTY.format(target=target))
    few = "--protocol dynamic --opt-level O3 --max-repeats 3 --seed 1 --out run"
    said = printed_by(
        copy,
        f"table fma.rn.f32 --gpu simulated:{name} {few}",
        "report run --format json",
        f"occupancy kernel.ptx --target {target} --block 1024 --json",
    )
    read = json.JSONDecoder().raw_decode
    report, end = read(said, said.index("{"))
    assert title in report["gpu"]
    (row,) = report["rows"]
    # FFMA of its base, at its scale.
    assert row["dynamic_pj"] == pytest.approx(12.4 * 0.55, rel=0.02)
    assert row["status"] == "ok"
    (found,) = read(said, said.index("{", end))[0]["sizes"]
    assert found["limited_by"] == ["warps"]
