"""Rows of every kind that the schema allows: each is rendered and accepted by ptxas."""

import re

import numpy as np
import pytest

from ptxbench.catalogue.load import parse_rows
from ptxbench.catalogue.types import TYPES
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.operands import RECORDS, SLOTS, operand_bytes, slot_of
from ptxbench.codegen.render import render_batch, render_module
from ptxbench.codegen.values import GENERATORS, encode
from ptxbench.core.condition import Form, OptLevel, Pattern
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.target import find_target

HOPPER = find_target("sm_90a")
GROUP = """
[[group]]
category = "trial"
family = "mixed"
values = "integer"
alive = "it does not have to be"
companions = 1
O0 = { NOP = 1 }
O3 = { NOP = 1 }
rows = [
%s
]
"""
ROWS = {
    "a shift by its own type": '{ name = "shl.b64", type = "b64", types = { b = "u32" }, values_of = { b = "shift" }, operands = ["y", "x", "b"] }',  # noqa: E501
    "16 bits": '{ name = "add.u16", type = "u16", operands = ["y", "x", "b"] }',
    "bf16": '{ name = "fma.rn.bf16x2", family = "arithmetic", companions = 0, type = "bf16x2", values = "cycle", operands = ["x", "x", "a", "b"], min_target = 80 }',  # noqa: E501
    "half": '{ name = "tanh.approx.f16", type = "f16", values = "exponent", operands = ["y", "x"] }',
    "a result of another type": '{ name = "popc.b64", type = "u32", types = { v = "b64" }, before = "pack.b64", operands = ["y", "v"] }',  # noqa: E501
    "a wide result": '{ name = "mul.wide.u32", type = "u32", types = { y = "u64" }, after = "cvt.u32.u64", operands = ["y", "x", "a"] }',  # noqa: E501
    "a predicate": '{ name = "setp.lt.s32", type = "s32", types = { y = "pred" }, after = "selp.b32", operands = ["y", "x", "b"] }',  # noqa: E501
    "two predicates": '{ name = "setp.lt.u32", type = "u32", types = { y = "pred", z = "pred" }, after = "selp.b32", operands = ["y|z", "x", "b"] }',  # noqa: E501
    "a chain of predicates": '{ name = "setp.lt.and.u32", type = "u32", family = "arithmetic", companions = 0, types = { x = "pred" }, operands = ["x", "a", "b", "x"] }',  # noqa: E501
    "a loaded predicate": '{ name = "selp.b32", type = "b32", types = { c = "pred" }, operands = ["y", "x", "b", "c"] }',  # noqa: E501
    "a conversion and back": '{ name = "cvt.rn.f16.f32", type = "f32", types = { y = "f16" }, companions = 0, after = "cvt.f32.f16", values = "cycle", operands = ["y", "x"] }',  # noqa: E501
    "a partner": '{ name = "add.u64", family = "arithmetic", companions = 0, type = "u64", operands = ["x", "x", "w"] }',  # noqa: E501
    "constants": '{ name = "bfi.b32", type = "b32", operands = ["y", "x", "b", 3, 0xF] }',
    "four operands": '{ name = "lop3.b32", type = "b32", operands = ["y", "x", "a", "c", 0x96] }',
    "a guard": '{ name = "add.s32", family = "arithmetic", companions = 0, type = "s32", guard = "p", operands = ["x", "x", "b"] }',  # noqa: E501
    "a divergent guard": '{ name = "sub.s32", family = "arithmetic", companions = 0, type = "s32", guard = "divergent", operands = ["x", "x", "d"] }',  # noqa: E501
    "another companion": '{ name = "not.b64", type = "b64", companion = "xor.b64", companions = 2, operands = ["y", "x"] }',  # noqa: E501
    "a late PTX version": '{ name = "add.f32x2", type = "u32", opcode = "add.u32", ptx_version = "8.6", operands = ["y", "x", "b"] }',  # noqa: E501
    "a float constant": '{ name = "mul.f64", type = "f64", values = "cycle", operands = ["y", "x", "0d3FF8000000000000"] }',  # noqa: E501
}


def row_of(text):
    (row,) = parse_rows(GROUP % text, "trial.toml")
    return row


@pytest.mark.parametrize("form", Form)
def test_rows_of_every_kind_are_accepted_by_ptxas(form):
    rows = [(row_of(text), form) for text in ROWS.values()]
    for row, _ in rows:
        assert operand_bytes(row, Pattern.RANDOM, 1).size
    ptx = render_batch(rows, HOPPER)
    assert ".version 8.6" in ptx
    for level in OptLevel:
        assert assemble_ptx(ptx, "sm_90a", level).image


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("form", Form)
def test_registers_are_declared_and_named(kind, form):
    text = re.sub(r"//.*", "", render_module(row_of(ROWS[kind]), HOPPER, form))
    body = re.search(r"\{\n(.*?)\n\}", text, re.DOTALL)[1]
    declared = set()
    for family, count in re.findall(r"(%\w+?)<(\d+)>", body):
        declared |= {f"{family}{number}" for number in range(int(count))}
    declared |= set(re.findall(r"%(?:p|word|divergent)\b", " ".join(re.findall(r"\.reg.*", body))))
    code = re.sub(r"\.reg.*", "", body)
    assert all(re.search(rf"{name}\b", code) for name in declared)


def test_a_partner_takes_turns_with_its_chain():
    lines = render_module(row_of(ROWS["a partner"]), HOPPER, Form.LATENCY).splitlines()
    copies = [line.split(maxsplit=1)[1] for line in lines if line.startswith("    add.u64 ")][:3]
    assert copies == ["%x0, %x0, %w0;", "%w0, %w0, %x0;", "%x0, %x0, %w0;"]


def test_a_row_that_is_refused_or_absent_renders_nothing():
    row = row_of('{ name = "add.u32", type = "u32", operands = [], refused = "it is too tall" }')
    with pytest.raises(NotMeasurableError, match=r"add\.u32 cannot be measured: it is too tall"):
        render_module(row, HOPPER, Form.LATENCY)
    row = row_of('{ name = "add.u32", type = "u32", operands = ["y", "x", "b"], targets = ["sm_100a"] }')
    with pytest.raises(NotMeasurableError, match=r"add\.u32 needs sm_100a; sm_90a does not have it"):
        render_module(row, HOPPER, Form.LATENCY)
    row = row_of('{ name = "add.u32", type = "u32", operands = ["y", "x", "b"], max_target = 80 }')
    with pytest.raises(NotMeasurableError, match=r"capability 8\.0 or older; sm_90a is newer"):
        render_module(row, HOPPER, Form.LATENCY)


@pytest.mark.parametrize("name", TYPES)
def test_every_generator_fits_every_type(name):
    kind = TYPES[name]
    for values in GENERATORS:
        if values == "quotient" and (kind.name == "pred" or kind.lanes == 2):
            continue
        row = row_of(
            f'{{ name = "mov.b32", type = "{name}", family = "arithmetic", companions = 0, '
            f'values = "{values}", operands = ["x", "b"] }}'
        )
        slots = operand_bytes(row, Pattern.RANDOM, 1).view(np.uint64).reshape(RECORDS, SLOTS)
        if kind.bits < 64 and kind.name != "pred":
            assert (slots[:, slot_of("b", 0, 0)] >> np.uint64(kind.bits) == 0).all(), values


def test_bf16_is_rounded_to_nearest_and_halves_keep_their_places():
    values = np.array([1.0, -2.5, 1.00390625, 1.01171875])
    assert [hex(v) for v in encode(values, "bf16")] == ["0x3f80", "0xc020", "0x3f80", "0x3f82"]
    assert [hex(v) for v in encode(values[:2], "f16x2", values[1::-1])] == ["0xc1003c00", "0x3c00c100"]
