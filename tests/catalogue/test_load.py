import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.catalogue.arafa import arafa_rows, load_arafa_table
from ptxbench.catalogue.load import (
    _OPTIONAL,
    _REQUIRED,
    check_unique,
    find_instruction,
    load_catalogue,
    parse_rows,
)
from ptxbench.catalogue.model import Unit
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import InputError

ROW = {
    "name": '"fma.rn.f32"',
    "category": '"floating-point"',
    "family": '"arithmetic"',
    "type": '"f32"',
    "operands": '["x", "x", "a", "b"]',
    "values": '"cycle"',
    "alive": '"it stays finite"',
    "O0": "{ FFMA = 1 }",
    "O3": '{ "FFMA|FFMA32I" = 1 }',
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
    row = ", ".join(f"{key} = {value}" for key, value in fields.items())
    return f"[[group]]\nrows = [ {{ {row} }} ]"


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


def shapes(value: str) -> list[str]:
    """Put a text wherever a field may hold one: alone, in a list, as a table's value or key, deeper still."""
    text = json.dumps(value)
    return [
        text,
        f"[{text}]",
        f'["x", {text}]',
        f"{{ x = {text} }}",
        f"{{ O3 = {text} }}",
        f"{{ {text} = 1 }}",
        f"{{ O3 = {{ {text} = 1 }} }}",
        f"{{ sm_80 = {{ O3 = {text} }} }}",
        f"{{ sm_80 = {{ O3 = {{ {text} = 1 }} }} }}",
        f"{{ {text} = {{ O3 = {{ FFMA = 1 }} }} }}",
    ]


@pytest.mark.parametrize("key", sorted(_REQUIRED | _OPTIONAL))
def test_hostile_text_anywhere_in_any_field_is_refused_with_the_rows_name(key):
    for value, shape in ((v, shape) for v in HOSTILE if v for shape in shapes(v)):
        text = refusal(**{key: shape})
        named = repr(value) if key == "name" and shape == json.dumps(value) else "'fma.rn.f32'"
        assert key == "name" or f"row {named}: " in text, (shape, text)


@given(
    key=st.sampled_from(sorted((_REQUIRED | _OPTIONAL) - {"name"})),
    marks=st.text(st.sampled_from('"\n{}%$`\\#@'), min_size=1, max_size=3),
    text=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=8),
    shape=st.integers(0, 9),
)
def test_no_mark_of_a_template_or_of_ptx_passes_in_any_field(key, marks, text, shape):
    value = text[:4] + marks + text[4:]
    assert "row 'fma.rn.f32': " in refusal(**{key: shapes(value)[shape]})


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
        ({"operands": '"xxa"'}, "operands 'xxa' must be a list of x, w, y, z, v, a, b, c, d, p, "),
        ({"operands": '["x", "x;"]'}, "operands ['x', 'x;'] must be"),
        ({"operands": "[1.5]"}, "operands [1.5] must be"),
        ({"operands": '["%x0"]'}, "operands ['%x0'] must be"),
        ({"copies": "true"}, "copies True must be a whole number from 4 to 512"),
        ({"copies": "3"}, "copies 3 must be"),
        ({"copies": "64.0"}, "copies 64.0 must be"),
        ({"chains": '"4"'}, "chains '4' must be"),
        ({"companions": "true"}, "companions True must be"),
        ({"companions": "-1"}, "companions -1 must be"),
        ({"min_target": "[]"}, "min_target [] must be"),
        ({"type": "[1]"}, "type [1] is none of pred, b16"),
        ({"unit": '"block"'}, "unit 'block' is none of thread, warp, warpgroup"),
        ({"O0": "7"}, "O0 must be a table"),
        ({"O0": "{}"}, "O0 must be a table"),
        ({"O0": '{ "FFMA }" = 1 }'}, "O0 'FFMA }' is not of the form"),
        ({"O0": "{ FFMA = 0 }"}, "O0 FFMA 0 must be a number above 0"),
        ({"O0": "{ FFMA = nan }"}, "O0 FFMA nan must be"),
        ({"O0": "{ FFMA = inf }"}, "O0 FFMA inf must be"),
        ({"O4": "{ FFMA = 1 }"}, "unknown fields ['O4']"),
        ({"once": "{ O3 = { MOV = -257 } }"}, "once.O3 MOV -257 must be"),
        ({"once": "{ O3 = { MOV = 0.5 } }"}, "once.O3 MOV 0.5 must be a whole number"),
        ({"once": "{ O3 = 4 }"}, "once.O3 must be a table of opcodes"),
        ({"once": '{ O3 = { "MOV }" = 4 } }'}, "once.O3 'MOV }' is not of the form"),
        ({"once": "{ O9 = { MOV = 1 } }"}, "once must be a table of O0 and O3"),
        ({"guarded": "{ O3 = 33 }"}, "guarded.O3 33 must be a whole number"),
        ({"guarded": "{ O3 = -1 }"}, "guarded.O3 -1 must be a whole number"),
        ({"guarded": "{ O3 = { MOV = 1 } }"}, "guarded.O3 {'MOV': 1} must be a whole number"),
        ({"guarded": "2"}, "guarded must be a table of O0 and O3"),
        ({"colour": '"red"'}, "unknown fields ['colour']"),
    ],
)
def test_a_wrong_value_is_refused_with_the_rows_name(changes, complaint):
    assert f"catalogue float.toml, row 'fma.rn.f32': {complaint}" in refusal(**changes)


def test_a_missing_field_is_named():
    text = re.sub(r"alive = [^,]*,", "", toml())
    with pytest.raises(InputError, match=r"row 'fma.rn.f32': missing fields \['alive'\]"):
        parse_rows(text, "float.toml")


@pytest.mark.parametrize(
    "text",
    ["group = 3", "group = [3]", "[group]\nname = 'x'", "[[groups]]", "[[group]]\nrows = 3", "a =", ""],
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
        if row.refused:
            continue
        assert len(row.alive.split()) > 3, row.name
        for expected in row.sass:
            # What differs on other targets is explained for all rows together, in the README beside them.
            assert len(expected.counts) <= 1 or expected.targets or row.note, row.name


# One kind of work, which the assembler puts on one pipe or another.
SAME_WORK = (
    {"IADD3", "VIADD", "IMAD.IADD", "IMAD.MOV"},  # IMAD.MOV: a negation, 0 - x
    {"IADD3.X", "IMAD.X"},
    {"MOV", "IMAD.MOV", "IMAD.MOV.U32", "IMAD.U32", "HFMA2.MMA", "HFMA2"},  # also of constants
    {"SHF.L.U32", "IMAD.SHL.U32", "IMAD.U32"},
    {"CALL.REL.NOINC", "CALL.ABS.NOINC"},
    {"HFMA2", "HADD2", "HMUL2"},  # sums and products on the half-precision or the matrix pipe
)


def test_alternatives_are_the_same_work_on_another_pipe():
    for row in load_catalogue():
        for expected in row.sass:
            for alternatives in {*dict(expected.counts), *dict(expected.once)}:
                options = alternatives.split("|")
                base = {re.sub(r"^(HFMA2|HADD2|HMUL2)(\.MMA)?\b.*", r"\1", o) for o in options}
                assert len(options) == 1 or any(set(options) <= s or base <= s for s in SAME_WORK), (
                    row.name,
                    alternatives,
                )


def test_a_group_gives_its_rows_what_they_do_not_say_themselves():
    shared = ROW | {"types": '{ a = "u32", b = "u32" }'}
    shared.pop("name")
    lines = "\n".join(f"{key} = {value}" for key, value in shared.items())
    own = '{ name = "second", O3 = { FADD = 2 }, types = { b = "f64" } }'
    first, second = parse_rows(f'[[group]]\n{lines}\nrows = [ {{ name = "first" }}, {own} ]', "float.toml")
    assert first.expected(OptLevel.O3).text == "FFMA|FFMA32I"
    assert second.expected(OptLevel.O3).text == "FADD*2"
    assert dict(second.types) == {"a": "u32", "b": "f64"}


def test_sass_differs_by_form_and_target_where_the_row_says_so():
    (row,) = parse_rows(
        toml(
            O3_throughput="{ FFMA = 2, FADD = 1 }",
            once="{ O3 = { MOV = 2 }, O0 = { PRMT = 4 } }",
            on='{ "sm_75 sm_80" = { O3 = { FMUL = 1 }, once = { O3 = { SEL = 1 } } }, '
            'sm_86 = { O0 = "it spills" }, '
            "sm_89 = { once = { O3 = { MOV = 3 } } } }",
        ),
        "float.toml",
    )
    throughput = row.expected(OptLevel.O3, "sm_90a", Form.THROUGHPUT)
    assert (throughput.text, throughput.once) == ("FFMA*2 FADD", (("MOV", 2),))
    assert row.expected(OptLevel.O3, "sm_90a").text == "FFMA|FFMA32I"
    for form in Form:
        older = row.expected(OptLevel.O3, "sm_80", form)
        assert (older.text, older.once) == ("FMUL", (("SEL", 1),)), "a level is described anew, or not at all"
    assert row.expected(OptLevel.O0, "sm_80").once == (("PRMT", 4),)
    assert row.refusal(OptLevel.O0, "sm_86", Form.LATENCY) == "it spills"
    assert row.refusal(OptLevel.O0, "sm_80", Form.LATENCY) == ""
    ada = row.expected(OptLevel.O3, "sm_89", Form.THROUGHPUT)
    assert (ada.text, ada.once) == ("FFMA*2 FADD", (("MOV", 3),)), "the same SASS, another constant"


def test_guards_hold_on_every_target_and_for_the_driver_where_these_say_nothing_else():
    (row,) = parse_rows(
        toml(
            guarded="{ O3 = 2 }",
            on="{ sm_80 = { O3 = { FMUL = 1 } }, sm_89 = { guarded = { O3 = 1 } } }",
            driver="{ O3 = { FADD = 1 } }",
        ),
        "float.toml",
    )
    guarded = {target: row.expected(OptLevel.O3, target).guarded for target in ("sm_90a", "sm_80", "sm_89")}
    assert guarded == {"sm_90a": 2, "sm_80": 2, "sm_89": 1}
    assert row.expected_of_driver(OptLevel.O3, Form.LATENCY).guarded == 2
    assert row.expected(OptLevel.O0).guarded == 0


def test_another_constant_a_pass_makes_a_form_of_its_own():
    (row,) = parse_rows(
        toml(once="{ O3 = { MOV = 2 }, O3_throughput = { PRMT = 4, MOV = -1 } }"), "float.toml"
    )
    throughput = row.expected(OptLevel.O3, "sm_90a", Form.THROUGHPUT)
    assert (throughput.text, throughput.once) == ("FFMA|FFMA32I", (("PRMT", 4), ("MOV", -1)))
    assert row.expected(OptLevel.O3).once == (("MOV", 2),)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"on": "{ sm_1 = { O3 = { A = 1 } } }"}, "on 'sm_1' is no list of targets"),
        ({"on": "{ sm_80 = { O4 = { A = 1 } } }"}, "on.sm_80. must be a table of O0"),
        ({"O3": '"{{ 7 }}"'}, "O3 '{{ 7 }}' is not of the form"),
        ({"types": '{ q = "b32" }'}, "types must be a table of x"),
        ({"types": '{ a = "b7" }'}, "types.a 'b7' is none of"),
        ({"companion": '"trap"'}, "companion 'trap' is none of"),
        ({"before": '"mov.b32 %x, 1; trap"'}, "before 'mov.b32 %x, 1; trap' is not of the form"),
        ({"guard": '"q"'}, "guard 'q' is none of p, never, divergent"),
        ({"params": '{ level = "L2 }}" }'}, "params.level 'L2 }}' is not of the form"),
        ({"params": '{ "a b" = 1 }'}, "params 'a b' is not of the form"),
        ({"targets": '["sm_1"]'}, "targets 'sm_1' is none of"),
        ({"paper": '"Poetry: ode"'}, "paper 'Poetry: ode' is none of"),
        ({"ptx_version": '"8"'}, "ptx_version '8' is not of the form"),
        ({"operands": '["y", "v"]'}, "before and the operand v go together"),
        ({"family": '"mixed"'}, "family mixed needs companions or after"),
    ],
)
def test_a_wrong_value_of_the_wider_schema_is_refused(changes, complaint):
    assert f"catalogue float.toml, row 'fma.rn.f32': {complaint}" in refusal(**changes)


def test_a_refused_row_needs_no_more_than_its_reason():
    (row,) = parse_rows(
        '[[group]]\nrows = [ { name = "brkpt", category = "misc", type = "b32", refused = "it stops" } ]',
        "misc.toml",
    )
    assert (row.refused, row.sass) == ("it stops", ())


def test_table_1_of_the_paper_is_shipped_whole():
    table = load_arafa_table()
    assert len(table) == 256
    assert {row.optimization for row in table} == {"O0", "O3"}
    volta = next(r for r in table if r.architecture == "volta" and r.row.endswith("Arithmetic: abs"))
    assert volta.papi_uj > volta.mtsm_uj > 0
    assert {row.paper for row in load_catalogue() if row.paper} <= arafa_rows()
