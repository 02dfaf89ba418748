from dataclasses import replace

import pytest

from ptxbench.catalogue import select
from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.core.errors import InputError
from ptxbench.core.target import find_target


def names(rows):
    return {row.name for row in rows}


def test_names_and_globs_give_rows_in_catalogue_order_and_once():
    chosen = select.named_instructions(["fma.rn.f64", "fma.*", "fma.rn.f64"])
    assert [row.name for row in chosen] == [
        row.name for row in load_catalogue() if row.name.startswith("fma.")
    ]


def test_no_name_gives_every_row():
    assert select.named_instructions([]) == load_catalogue()


def test_a_glob_that_fits_nothing_is_an_error():
    with pytest.raises(InputError, match=r"no instruction fits 'zz\*'"):
        select.named_instructions(["fma.*", "zz*"])


def test_text_is_part_of_a_name_and_a_glob_is_all_of_it():
    assert {"fma.rn.f32", "fma.rn.f64"} <= names(select.matching_instructions("rn.f"))
    assert select.matching_instructions("rn.f*") == ()
    assert "fma.rn.f32" in names(select.matching_instructions("*.f32"))


def test_a_sass_opcode_is_found_at_either_level_with_any_modifiers():
    # mad.lo is IMAD.U32 at O0 and IMAD at O3; popc needs LOP3.LUT at O0 only.
    assert "mad.lo.u32" in names(select.matching_instructions("mad", opcode="imad.u32"))
    assert "fma.rn.f32" not in names(select.matching_instructions(opcode="imad.u32"))
    assert "popc.b32" in names(select.matching_instructions(opcode="LOP3"))
    assert "fma.rn.f16x2" in names(select.matching_instructions(opcode="HFMA2.MMA"))
    assert select.matching_instructions(opcode="LOP") == ()


def test_conditions_are_joined():
    rows = select.matching_instructions(category="floating-point", ptx_type="f64")
    assert names(rows) == {
        row.name for row in load_catalogue() if (row.category, row.type) == ("floating-point", "f64")
    }


@pytest.mark.parametrize("condition", [{"category": "poetry"}, {"ptx_type": "f31"}])
def test_an_unknown_category_or_type_lists_the_known_ones(condition):
    with pytest.raises(InputError, match=r"the catalogue has .*f"):
        select.matching_instructions(**condition)


def test_a_target_leaves_out_what_it_does_not_have(monkeypatch):
    newer = replace(find_instruction("fma.rn.f32"), name="newer", min_target=90)
    monkeypatch.setattr(select, "load_catalogue", lambda: (*load_catalogue(), newer))
    assert "newer" not in names(select.matching_instructions(target=find_target("sm_89")))
    assert "newer" in names(select.matching_instructions(target=find_target("sm_90a")))
