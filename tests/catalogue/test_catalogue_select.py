from dataclasses import replace

import pytest

from ptxbench.catalogue import select
from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.catalogue.search import Selection, search
from ptxbench.core.errors import InputError
from ptxbench.core.target import find_target

EVERY = Selection(())


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


def test_what_is_measured_keeps_the_order_given():
    assert select.chosen(["fma.rn.f64", "DADD", "fma.rn.f64"]).names[:2] == ("fma.rn.f64", "add.f64")
    assert select.chosen([]).names == ()


def test_a_word_for_very_many_rows_is_refused_with_the_pattern_that_gives_them():
    every = [row.name for row in load_catalogue() if row.name.startswith("wgmma.")]
    with pytest.raises(InputError, match=rf"'wgmma' stands for {len(every)} .*; give 'wgmma\.\*' for all"):
        select.chosen(["wgmma"])
    assert list(select.chosen(["wgmma.*"]).names) == every


def test_a_category_counts_before_a_word_is_called_vague():
    assert len(names(search(["f64"]).rows)) > select.MOST_FOR_A_WORD
    chosen = select.chosen(["f64"], "matrix").names
    assert {find_instruction(name).category for name in chosen} == {"matrix"}


@pytest.mark.parametrize(
    "word", ["f32", "cvt", "tensor", "atomic", "IMAD", "b32", "matrix", "integer", "mixed", "wgmma.mma_async"]
)
def test_the_pattern_that_a_refusal_gives_has_all_that_the_word_has(word):
    with pytest.raises(InputError) as refusal:
        select.chosen([word])
    given = str(refusal.value).partition("give ")[2].partition(" for all")[0].replace("'", "").split()
    assert set(select.chosen(given).names) >= names(search([word]).rows)


def test_a_sass_opcode_is_found_at_either_level_with_any_modifiers():
    # mad.lo is IMAD.U32 at O0 and IMAD at O3; popc needs LOP3.LUT at O0 only.
    assert "mad.lo.u32" in names(select.matching_instructions(search(["mad"]), opcode="imad.u32"))
    assert "fma.rn.f32" not in names(select.matching_instructions(EVERY, opcode="imad.u32"))
    assert "popc.b32" in names(select.matching_instructions(EVERY, opcode="LOP3"))
    assert "fma.rn.f16x2" in names(select.matching_instructions(EVERY, opcode="HFMA2.MMA"))
    with pytest.raises(InputError, match="no instruction fits all of these conditions"):
        select.matching_instructions(EVERY, opcode="LOP")


def test_conditions_are_joined():
    rows = select.matching_instructions(EVERY, category="floating-point", ptx_type="f64")
    assert names(rows) == {
        row.name for row in load_catalogue() if (row.category, row.type) == ("floating-point", "f64")
    }


@pytest.mark.parametrize("condition", [{"category": "poetry"}, {"ptx_type": "f31"}])
def test_an_unknown_category_or_type_lists_the_known_ones(condition):
    with pytest.raises(InputError, match=r"the catalogue has .*f"):
        select.matching_instructions(EVERY, **condition)


def test_a_target_leaves_out_what_it_does_not_have(monkeypatch):
    newer = replace(find_instruction("fma.rn.f32"), name="newer", min_target=90)
    monkeypatch.setattr(select, "load_catalogue", lambda: (*load_catalogue(), newer))
    assert "newer" not in names(select.matching_instructions(EVERY, target=find_target("sm_89")))
    assert "newer" in names(select.matching_instructions(EVERY, target=find_target("sm_90a")))
