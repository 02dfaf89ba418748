"""What people type for an instruction, and the rows that it finds."""

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ptxbench.catalogue import search as module
from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.search import find, nothing_fits, search
from ptxbench.core.errors import InputError

NAMES = [row.name for row in load_catalogue()]
MMA = "mma.m16n8k16.f32.f16.f16.f32"
MMA_PTX = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
SYNONYMS = tomllib.loads(Path(module.__file__).with_name("synonyms.toml").read_text(encoding="utf-8"))


def found(*patterns):
    return [row.name for row in find(patterns).rows]


def by(pattern):
    return find([pattern]).found[0].by


def like(*globs):
    return [name for name in NAMES if any(fnmatchcase(name, glob) for glob in globs)]


def test_a_whole_name_goes_before_all_that_begins_with_it():
    assert found("fma.rn.f32") == ["fma.rn.f32"]
    assert find(["fma.rn.f32"]).is_exact
    assert found("fma.rn") == like("fma.rn.*")


def test_every_row_is_found_by_its_own_ptx():
    missed = [row.name for row in load_catalogue() if row.name not in found(f"{row.opcode} %r1, [%rd1];")]
    # Where the PTX is the whole name of another row, it is that row alone.
    assert all(name.partition(":")[0] in NAMES for name in missed)
    assert MMA not in missed


@pytest.mark.parametrize(
    ("ptx", "names"),
    [
        (MMA_PTX, [MMA]),
        (f"\t@%p1 {MMA_PTX} {{%f1, %f2}}, {{%r1}};", [MMA]),
        ("fma.rn.f32 %f1, %f2, %f3, %f4;", ["fma.rn.f32"]),
        ("min.NaN.f16", ["min.nan.f16"]),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];", ["ldmatrix.x4"]),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", like("wgmma.m64n256k16.f32.f16.f16*")),
        ("wgmma.mma_async", like("wgmma.*")),
        ("prefetch.global.L2::evict_last [%rd1];", ["prefetch.global.l2:evict_last"]),
    ],
)
def test_ptx_is_found_as_it_stands_in_a_file(ptx, names):
    assert found(ptx) == names


def test_capitals_of_ptx_are_not_compared():
    assert by("prefetch.global.L2::evict_last") == "PTX"


def test_a_load_of_another_type_moves_the_same_bits():
    assert found("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];") == like(
        "ld.global.v4.b32", "ld.global.v4.b32:*"
    )
    assert by("ld.global.v4.f32") == "PTX"
    with pytest.raises(InputError, match="did you mean"):
        find(["add.b32"])


def test_sass_finds_the_rows_that_mostly_are_it_with_any_modifiers_and_in_any_case():
    assert found("FFMA") == found("ffma") == like("fma.r?.f32", "fma.rn*.f32", "fma.rn.f32:shared")
    assert "div.rn.f32" not in found("FFMA")
    assert found("HMMA.16816.F32") == like("mma.m16n8k16.f32.*f16.f32")
    assert "ld.global.v4.b32:hbm" in found("LDG.E")
    assert by("LDG.E") == "SASS"
    assert set(found("HMMA*")) == set(found("HMMA"))


def test_sass_that_is_never_most_of_a_copy_finds_the_rows_that_have_it():
    assert MMA in found("WARPSYNC.ALL")


def test_a_word_in_capitals_is_sass_first():
    assert found("bar") == like("bar.*")
    assert by("BAR") == "SASS"
    # No copy is mostly BRA.
    assert found("BRA") == like("bra.*", "bra:*")


@pytest.mark.parametrize(
    ("word", "names", "how"),
    [
        ("wgmma", like("wgmma.*"), ""),
        ("mma", like("mma.*"), ""),
        ("tensor", like("mma.*", "wgmma.*", "tcgen05.mma.*"), "names mma.* wgmma.* tcgen05.mma.*"),
        ("tcgen05", like("tcgen05.*"), ""),
        ("fp4", like("*e2m1*"), "names *e2m1*"),
        ("fp8", like("*e4m3*", "*e5m2*"), "names *e4m3* *e5m2*"),
        ("dram", like("*:hbm"), "names *:hbm"),
        ("DRAM", like("*:hbm"), "names *:hbm"),
        ("hbm", like("*:hbm"), "part of the name"),
        ("exp", like("ex2.*"), "names ex2.*"),
        ("bf16", like("*bf16*"), "names *bf16*"),
        ("atomic", [row.name for row in load_catalogue() if row.category == "atomic"], "category"),
        (
            "comparison and selection",
            [row.name for row in load_catalogue() if row.category == "comparison and selection"],
            "category",
        ),
        ("level", [row.name for row in load_catalogue() if row.family == "level"], "template"),
        ("fma.f32", like("fma.r?.f32*", "fma.r?.*.f32"), "parts of the name"),
        ("atom.add.f64", like("atom.*.add.f64", "atom.*.add.f64:*"), "parts of the name"),
        ("fmaf", like("fma.*f32*"), "names fma.*.f32*"),
        ("__syncthreads", like("bar.sync", "barrier.sync*"), "names bar.sync barrier.sync*"),
        ("k16.f32", like("*k16.f32*"), "a piece of the name or PTX"),
        ("HGMMA.64x256x16.F32", like("wgmma.m64n256k16.f32.*"), "SASS"),
        ("wgmma bf16", like("wgmma.*bf16*"), "name and names *bf16*"),
        ("atomic add f64", like("atom.*.add.f64*", "red.*.add.f64*"), "all words"),
        ("tensor core", found("tensor"), "names mma.* wgmma.* tcgen05.mma.*"),
    ],
)
def test_a_word_finds_what_it_stands_for(word, names, how):
    assert names
    assert (found(word), by(word)) == (names, how)


def test_a_type_finds_its_rows_and_the_names_that_have_it():
    assert set(found("f64")) == {
        row.name
        for row in load_catalogue()
        if row.type == "f64" or "f64" in row.name.replace(":", ".").split(".")
    }


@pytest.mark.parametrize("word", SYNONYMS)
def test_each_pattern_of_a_synonym_fits_names_and_its_word_is_no_name(word):
    assert all(like(glob) for glob in SYNONYMS[word])
    assert not like(word, f"{word}.*")


def test_several_patterns_give_their_rows_in_catalogue_order_and_say_how():
    selection = find(["FFMA", "ex2.*", "add.f32"])
    wanted = {*like("ex2.*"), "add.f32", *found("FFMA")}
    assert [row.name for row in selection.rows] == [name for name in NAMES if name in wanted]
    assert [found.by for found in selection.found] == ["SASS", "", ""]
    (sentence,) = selection.sentences
    assert sentence.startswith("found FFMA by SASS: fma.rn.f32, ")


def test_whole_names_keep_catalogue_order_without_the_whole_catalogue(monkeypatch):
    monkeypatch.setattr(module, "load_catalogue", lambda: pytest.fail("the whole catalogue was read"))
    given = ["st.global.b32", "add.f32", "fma.rn.f32"]
    assert [row.name for row in find(given).rows] == sorted(given, key=NAMES.index)


def test_a_name_that_only_a_table_has_is_chosen_as_it_is_given():
    assert search(["gone.f32"]).has("gone.f32")
    assert search(["gone.*"]).has("gone.f32")
    assert not search(["dram"]).has("dram.f32")


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("fma.rn.f23", "fma.rn.f32"),
        ("wgma", "wgmma"),
        ("hmna", "HMMA"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f23", MMA_PTX),
        ("tensr", "tensor"),
    ],
)
def test_what_nothing_fits_offers_what_is_near_over_names_ptx_sass_and_words(typed, near):
    with pytest.raises(InputError, match="did you mean ") as error:
        find([typed])
    assert near in str(error.value)
    assert found(near)


@pytest.mark.parametrize("typed", ["", "  ", ";"])
def test_nothing_typed_finds_nothing_and_offers_nothing(typed):
    with pytest.raises(InputError, match="see `ptxbench cost --list`"):
        find([typed])


def test_a_name_of_a_table_is_offered_too():
    assert "did you mean zzyyxx.f32, " in nothing_fits("zzyyx.f32", ("zzyyxx.f32",))


def test_a_word_that_nothing_has_needs_no_row(monkeypatch):
    nothing_fits("nonesuch")  # the words are kept from now on
    monkeypatch.setattr(module, "load_catalogue", lambda: pytest.fail("all rows were read"))
    for typed in ("nonesuch", "ld.nonesuch.u32", "NONESUCH"):
        assert not search([typed]).found[0].rows
        assert typed in nothing_fits(typed)
