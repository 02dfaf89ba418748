"""Rows named after a level of memory: where their accesses go, worked out from the rendered text."""

import re

import numpy as np
import pytest
from fakes.measuring import WatchedGpu, asked, measured

from ptxbench.catalogue.load import load_catalogue
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import ARAFA, Form
from ptxbench.core.status import Status
from ptxbench.core.target import find_target

ROWS = [row for row in load_catalogue() if row.family == "level"]
L1, L2 = 192 << 10, 40 << 20  # of an A100, the smallest of those that such rows are meant for
SMS = 108


def bodies(row):
    """Text of each entry, by name."""
    text = render_module(row, find_target("sm_90a"), Form.LATENCY)
    return {part.partition("(")[0]: part for part in text.split(".visible .entry ")[1:]}


def number(pattern, text):
    (found,) = set(re.findall(pattern, text))
    return int(found)


def places(row, body, passes):
    """Begin of every thread's access within its block's region, shape (passes, copies, threads)."""
    loop = body.partition("again:")[2]
    offset = np.array([int(n) for n in re.findall(r"\[%(?:address|place)\+(\d+)\]", loop)])
    step, mask = number(r"add.u32 +%at, %at, (\d+)", loop), number(r"and.b32 +%at, %at, (\d+)", loop)
    chunk = number(r"mul.lo.u32 +%at, %at, (\d+)", body)
    thread = np.arange(row.block)
    first = (thread // 32 * chunk) & mask
    lane = thread % 32 * dict(row.params)["width"]
    at = [(first + turn * step) & mask for turn in range(passes)]
    return np.stack([offset[:, None] + start + lane for start in at]), mask + 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_access_leaves_the_blocks_region(row):
    for name in ("target", "target_2n"):
        body = bodies(row)[name]
        place, region = places(row, body, 70)
        assert place.shape[1] == row.copies * (2 if name == "target_2n" else 1)
        assert place.min() == 0
        assert place.max() + row.bytes <= region
        if dict(row.params)["level"] != "shared":
            # The region begins at a multiple of its size, wherever the block's memory begins.
            assert 2 * region == row.scratch * row.block
            assert f", {2 * region}, %address" in body


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_region_is_as_large_as_its_level_asks_for(row):
    place, region = places(row, bodies(row)["target"], 80)
    visited = np.zeros(region // 128, bool)
    visited[place // 128] = True
    assert visited.all()
    assert len(visited) * 128 == region
    level = dict(row.params)["level"]
    if level in ("l1", "shared"):
        assert region <= L1 / 4
    elif level == "l2":
        assert SMS * region < L2 / 2
        assert ".cg" in row.opcode or row.opcode.startswith("st.")
    else:
        # Between two visits of a line the block passes through a region that is no more in any cache.
        assert SMS * region > 10 * L2
        turns = region // (row.copies * row.block * row.bytes)
        once = place[:turns].reshape(-1)
        assert np.bincount(once).max() == 1
        assert len(once) * row.bytes == region


def test_one_thread_is_refused_because_it_would_leave_its_memory(tmp_path):
    what = asked("ld.global.b32:hbm", protocols=(ARAFA,))
    (row,) = measured(WatchedGpu(), tmp_path / "run", what)
    assert row.status is Status.NOT_SUPPORTED
    assert "needs blocks of 1024 threads" in row.reason


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_loads_region_is_filled_before_the_loop_in_every_kernel(row):
    for body in bodies(row).values():
        filled = "call" in body.partition("again:")[0]
        assert filled is (dict(row.params)["does"] == "load")
        assert "call" not in body.partition("again:")[2]
