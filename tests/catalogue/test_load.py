import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.catalogue.load import check_unique, find_instruction, load_catalogue, parse_rows
from ptxbench.catalogue.model import Unit
from ptxbench.errors import InputError
from ptxbench.gpu.protocol import OptLevel

ROW = {
    "name": '"fma.rn.f32"',
    "category": '"floating-point"',
    "family": '"arithmetic"',
    "type": '"f32"',
    "operands": '["x", "x", "a", "b"]',
    "values": '"cycle"',
    "alive": '"it stays finite"',
    "sass.O0": "{ FFMA = 1 }",
    "sass.O3": '{ "FFMA|FFMA32I" = 1 }',
}
TEXTS = ("name", "opcode", "category", "family", "type", "values", "alive", "note", "unit")
HOSTILE = (
    'fma"; ret',
    "fma\nret",
    "fma.rn.f32\n",
    "fma { ret }",
    "{{ 7 * 7 }}",
    "{% include 'x' %}",
    "fma\\nret",
    "fma\tret",
    "fma\u2028ret",
    "FMA`id`",
    "$(id)",
    "",
)


def toml(**changes: str) -> str:
    fields = ROW | {key.replace("__", "."): value for key, value in changes.items()}
    return "[[instruction]]\n" + "\n".join(f"{key} = {value}" for key, value in fields.items())


def refusal(**changes: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_rows(toml(**changes), "float.toml")
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_row_becomes_an_instruction_with_its_defaults():
    (row,) = parse_rows(toml(), "float.toml")
    assert (row.name, row.opcode, row.unit, row.min_target) == ("fma.rn.f32", "fma.rn.f32", Unit.THREAD, 75)
    assert row.operands == ("x", "x", "a", "b")
    assert row.expected(OptLevel.O3).counts == (("FFMA|FFMA32I", 1.0),)


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_text_is_refused_with_the_rows_name(key, value):
    text = refusal(**{key: json.dumps(value)})
    assert f"row {value if key == 'name' else 'fma.rn.f32'!r}: {key} " in text


@given(key=st.sampled_from(TEXTS), value=st.text(st.characters(max_codepoint=0x7E), max_size=12))
def test_no_text_that_passes_can_leave_its_place_in_a_template(key, value):
    rows = ()
    with suppress(InputError):
        rows = parse_rows(toml(**{key: json.dumps(value)}), "float.toml")
    for row in rows:
        assert not set(getattr(row, key)) & set('\n\r"{}\\`$%#')


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"operands": '"xxa"'}, "operands 'xxa' must be a list of x, y, a, b, c"),
        ({"operands": '["x", "x;"]'}, "operands ['x', 'x;'] must be"),
        ({"operands": "[1]"}, "operands [1] must be"),
        ({"copies": "true"}, "copies True must be a whole number from 4 to 512"),
        ({"copies": "3"}, "copies 3 must be"),
        ({"copies": "64.0"}, "copies 64.0 must be"),
        ({"chains": '"4"'}, "chains '4' must be"),
        ({"companions": "true"}, "companions True must be"),
        ({"companions": "-1"}, "companions -1 must be"),
        ({"min_target": "[]"}, "min_target [] must be"),
        ({"type": "[1]"}, "type [1] is none of u32"),
        ({"unit": '"block"'}, "unit 'block' is none of thread, warp"),
        ({"sass__O0": "7"}, "sass.O0 must be a table"),
        ({"sass__O0": "{}"}, "sass.O0 must be a table"),
        ({"sass__O0": '{ "FFMA }" = 1 }'}, "sass.O0 'FFMA }' is not of the form"),
        ({"sass__O0": "{ FFMA = 0 }"}, "sass.O0 FFMA 0 must be a number above 0"),
        ({"sass__O0": "{ FFMA = nan }"}, "sass.O0 FFMA nan must be"),
        ({"sass__O0": "{ FFMA = inf }"}, "sass.O0 FFMA inf must be"),
        ({"sass__O4": "{ FFMA = 1 }"}, "sass must name O0 and O3"),
        ({"loop_moves": "{ O3 = -1 }"}, "loop_moves.O3 -1 must be"),
        ({"loop_moves": "{ O9 = 1 }"}, "loop_moves must be a table of O0 and O3"),
        ({"tolerance": "0.5"}, "tolerance must be a table of O0 and O3"),
        (
            {"tolerance__O0": "{ FMUL = 0.5 }"},
            "tolerance.O0 must be a table of opcodes that stand in sass.O0",
        ),
        ({"colour": '"red"'}, "unknown fields ['colour']"),
    ],
)
def test_a_wrong_value_is_refused_with_the_rows_name(changes, complaint):
    assert f"catalogue float.toml, row 'fma.rn.f32': {complaint}" in refusal(**changes)


def test_a_missing_field_is_named():
    text = re.sub(r"alive = .*", "", toml())
    with pytest.raises(InputError, match=r"row 'fma.rn.f32': missing fields \['alive'\]"):
        parse_rows(text, "float.toml")


@pytest.mark.parametrize(
    "text", ["instruction = 3", "instruction = [3]", "[instruction]\nname = 'x'", "[[instructions]]", "a ="]
)
def test_a_file_that_is_no_list_of_rows_is_refused(text):
    with pytest.raises(InputError, match=r"catalogue float\.toml"):
        parse_rows(text, "float.toml")


def test_two_rows_of_one_name_are_refused():
    with pytest.raises(InputError, match=r"two rows are called 'fma\.rn\.f32'"):
        check_unique(parse_rows(toml() + "\n" + toml(), "float.toml"))


def test_an_unknown_name_gets_the_nearest_ones():
    with pytest.raises(InputError, match=r"unknown instruction 'fma\.rn\.f23'; did you mean fma\.rn\.f32"):
        find_instruction("fma.rn.f23")


def test_every_shipped_row_says_how_its_chain_stays_alive_and_what_is_surprising():
    for row in load_catalogue():
        assert len(row.alive.split()) > 3, row.name
        for expected in row.sass:
            assert len(expected.counts) == 1 or row.note, f"{row.name} expands and does not say why"
