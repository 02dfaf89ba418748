import os
from dataclasses import replace

import pytest
from fakes.modules import built
from fakes.sample import STARTER_ROWS

from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.codegen import render
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import ToolError
from ptxbench.core.target import TARGETS, find_target
from ptxbench.sass import verify
from ptxbench.sass.loop_check import Verdict
from ptxbench.sass.verdict_cache import VerdictCache, verdict_key
from ptxbench.sass.verify import verify_instructions

HOPPER = find_target("sm_90a")
FMA = find_instruction("fma.rn.f32")
DIV = find_instruction("div.rn.f32")
FEW = (FMA, find_instruction("fma.rn.f16x2"), DIV)
O3 = (OptLevel.O3,)


@pytest.fixture
def no_tools(monkeypatch):
    """From here on nothing can be assembled."""

    def refuse(*_arguments):
        raise AssertionError("assembled again")

    monkeypatch.setattr(verify, "assemble_ptx", refuse)


def test_rows_of_a_batch_get_the_verdicts_of_modules_built_alone():
    rows = verify_instructions(FEW, [HOPPER], O3)
    assert [(row.instruction, row.form) for row in rows] == [
        (i.name, form) for i in FEW for form in i.forms(OptLevel.O3)
    ]
    for row in rows:
        alone = built(row.instruction, row.opt_level, row.form).loop_check
        assert (row.verdict, row.sass, row.reason) == (alone.verdict, alone.sass_text, alone.reason)
        assert row.sass_per_ptx == alone.sass_per_ptx


def test_a_module_that_ptxas_refuses_takes_no_other_with_it():
    bad = replace(FMA, name="bad", opcode="fma.rn.f99")
    wrong = replace(FMA, name="wrong", sass=tuple(replace(e, counts=(("DFMA", 1.0),)) for e in FMA.sass))
    rows = {
        row.instruction: row for row in verify_instructions((FMA, bad, wrong, DIV), [HOPPER], (OptLevel.O0,))
    }
    assert {name: row.verdict for name, row in rows.items()} == {
        "fma.rn.f32": Verdict.EXACT,
        "bad": Verdict.REFUSED,
        "wrong": Verdict.REFUSED,
        "div.rn.f32": Verdict.CALLS,
    }
    line = 1 + render_module(bad, HOPPER, Form.LATENCY).splitlines().index(
        next(
            text
            for text in render_module(bad, HOPPER, Form.LATENCY).splitlines()
            if text.lstrip().startswith("fma.rn.f99")
        )
    )
    assert rows["bad"].reason.startswith(f"ptxas failed: ptxas module.ptx, line {line}; ")
    assert rows["bad"].sass_per_ptx is None
    assert "0 DFMA where 64 copies make 64" in rows["wrong"].reason
    assert rows["wrong"].sass == "FFMA"


def test_a_target_without_the_instruction_is_absent_with_the_reason(no_tools):
    newer = replace(FMA, name="newer", min_target=90)
    (row,) = verify_instructions([newer], [find_target("sm_80")], (OptLevel.O0,))
    assert row.verdict is Verdict.ABSENT
    assert "newer needs compute capability 9.0" in row.reason
    assert row.sass_per_ptx is None


def test_progress_counts_every_row_once():
    seen = []
    rows = verify_instructions(FEW, [HOPPER], O3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n + 1, len(rows)) for n in range(len(rows))]


def test_a_second_run_assembles_nothing_and_says_the_same(tmp_path, monkeypatch):
    cache = VerdictCache(tmp_path)
    first = verify_instructions(FEW, [HOPPER], O3, cache)
    monkeypatch.setattr(verify, "assemble_ptx", lambda *_: pytest.fail("assembled again"))
    assert verify_instructions(FEW, [HOPPER], O3, VerdictCache(tmp_path)) == first
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"verdict": "splendid"}', b'{"verdict": "exact", "sass": 3}', b"\xff", b"[" * 10**5],
)
def test_a_damaged_entry_is_a_miss_and_is_written_anew(tmp_path, damage):
    cache, loop_check = VerdictCache(tmp_path), built("fma.rn.f32").loop_check
    cache.put("abc", loop_check)
    (entry,) = tmp_path.rglob("*.json")
    entry.write_bytes(damage)
    assert cache.get("abc") is None
    cache.put("abc", loop_check)
    assert cache.get("abc") == loop_check


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path):
    (tmp_path / "file").write_text("")
    (row,) = verify_instructions([FMA], [HOPPER], (OptLevel.O0,), VerdictCache(tmp_path / "file"))
    assert row.verdict is Verdict.EXACT


def test_what_a_tool_refused_is_not_kept(tmp_path):
    bad = replace(FMA, name="bad", opcode="fma.rn.f99")
    verify_instructions([bad], [HOPPER], (OptLevel.O0,), VerdictCache(tmp_path))
    assert not list(tmp_path.rglob("*.json"))


def test_the_key_follows_all_that_a_verdict_follows_from(monkeypatch):
    def key(row=FMA, target=HOPPER, level=OptLevel.O3, form=Form.LATENCY):
        return verdict_key(row, target, level, form)

    expects_more = replace(FMA, sass=tuple(replace(e, counts=(("FFMA", 2.0),)) for e in FMA.sass))
    keys = {
        key(),
        key(row=replace(FMA, copies=32)),
        key(row=expects_more),
        key(target=find_target("sm_80")),
        key(level=OptLevel.O0),
        key(form=Form.THROUGHPUT),
    }
    cache = "ptxbench.sass.verdict_cache."
    for tool in ("ptxas", "nvdisasm"):
        monkeypatch.setattr(cache + "tool_version", lambda t, tool=tool: "99" if t == tool else "1")
        keys.add(key())
    monkeypatch.setattr(cache + "_code_digest", lambda: "another loop check")
    keys.add(key())
    monkeypatch.setattr(cache + "_family_digest", lambda family, own: "another template")
    keys.add(key())
    assert len(keys) == 10


def test_the_texts_of_a_family_are_all_that_its_rendering_reads(monkeypatch):
    read = set()

    def watched(name):
        text = template_text(name)
        read.add(text)
        return text

    template_text = render._template_text
    monkeypatch.setattr(render, "_template_text", watched)
    render._environment.cache_clear()
    try:
        render_module(FMA, HOPPER, Form.LATENCY)
    finally:
        render._environment.cache_clear()
    assert len(read) > 2
    assert read == set(render.template_texts(FMA.family))


def test_a_tool_that_was_stopped_ends_the_run_and_refuses_no_row(monkeypatch):
    def stopped(*_arguments):
        raise ToolError("ptxas was stopped by SIGKILL")

    monkeypatch.setattr(verify, "assemble_ptx", stopped)
    with pytest.raises(ToolError, match="SIGKILL"):
        verify_instructions(FEW, [HOPPER], O3)


def test_a_row_that_the_catalogue_gives_up_is_refused_with_its_reason(no_tools):
    whole = replace(FMA, name="whole", sass=(), refused="it stops the kernel")
    spilt = tuple(replace(e, refused="it spills") if e.opt_level is OptLevel.O0 else e for e in FMA.sass)
    rows = verify_instructions([whole, replace(FMA, name="spilt", sass=spilt)], [HOPPER], (OptLevel.O0,))
    assert [(row.verdict, row.reason, row.declared) for row in rows] == [
        (Verdict.REFUSED, "it stops the kernel", True),
        (Verdict.REFUSED, "it spills", True),
    ]


def test_products_of_blackwell_hold_their_copies():
    names = {
        "tcgen05.mma.m128n256k16.f32.f16.f16": "UTCHMMA",
        "tcgen05.mma.mxf4nvf4.m128n256k64.f32.e2m1.e2m1.ue4m3": "UTCOMMA.4X",
        "tcgen05.ld.32x32b.x8": "LDTM.x8",
        "tcgen05.st.32x32b.x8": "STTM.x8",
        "tcgen05.cp.128x256b": "UTCCP.T.S",
    }
    rows = [find_instruction(name) for name in names]
    for row in verify_instructions(rows, [find_target("sm_100a")], [OptLevel.O3]):
        assert not _is_surprise(row), row
        assert names[row.instruction] in row.sass
    products = [find_instruction("mma.mxf4nvf4.m16n8k64.f32.e2m1.e2m1.f32.ue4m3")]
    for row in verify_instructions(products, [find_target("sm_120a")], [OptLevel.O3]):
        assert not _is_surprise(row), row
        assert "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X" in row.sass
    (absent,) = verify_instructions(rows[:1], [find_target("sm_90a")], [OptLevel.O3])
    assert absent.verdict == "absent"


def test_a_target_like_another_has_its_rows_and_differs_where_the_catalogue_says_so():
    ultra = find_target("sm_103a")
    names = ("tcgen05.mma.m128n64k16.f32.f16.f16", "ex2.approx.f16x2", "tcgen05.mma.m128n64k32.s32.s8.s8")
    rows = verify_instructions(map(find_instruction, names), [ultra], [OptLevel.O3])
    like, other, lacking = ({row.instruction: row for row in rows}[name] for name in names)
    assert not any(map(_is_surprise, rows))
    assert "UTCHMMA" in like.sass
    assert "MUFU.EX2.F16x2" in other.sass
    assert lacking.verdict == "absent"


@pytest.mark.parametrize("target", [one for one in TARGETS if not one.like], ids=lambda target: target.name)
def test_no_target_refuses_a_row_that_the_catalogue_does_not_give_up(target):
    """A fourth of the starters and a slice of Table I, others for each target; PTXBENCH_TEST_ALL=1: all."""
    published = [row for row in load_catalogue() if row.paper and row not in STARTER_ROWS]
    step = 1 if os.environ.get("PTXBENCH_TEST_ALL") else 5 * len(TARGETS)
    number = TARGETS.index(target)
    sample = (*STARTER_ROWS[number % min(step, 4) :: min(step, 4)], *published[number % step :: step])
    levels = tuple(OptLevel) if step == 1 or target == HOPPER else (tuple(OptLevel)[number % 2],)
    rows = verify_instructions(sample, [target], levels)
    assert not [(row.instruction, row.opt_level, row.form, row.reason) for row in rows if _is_surprise(row)]
    assert sum(row.verdict is Verdict.REFUSED for row in rows) <= len(rows) / 10


def _is_surprise(row):
    return row.verdict is Verdict.REFUSED and not row.declared
