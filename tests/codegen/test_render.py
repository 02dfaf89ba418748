import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.sample import SAMPLE
from hypothesis import given, settings
from hypothesis import strategies as st

import ptx_templates
import ptxbench
from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.codegen import render
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.render import batch_prefix, render_batch, render_module, render_sleep
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import InputError, NotMeasurableError
from ptxbench.core.target import TARGETS, find_target

HOPPER = find_target("sm_90a")
MEASURABLE = tuple(row for row in SAMPLE if not row.refused)
LEGAL = tuple((row, t) for row in load_catalogue() if not row.refused for t in TARGETS if row.exists_on(t))
# The registers of PTX itself; clocks and the numbers of a thread's places are what some rows read.
SPECIAL = {
    "%tid",
    "%ntid",
    "%ctaid",
    "%globaltimer",
    "%globaltimer_lo",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%smid",
    "%laneid",
}


def bodies(ptx):
    """Split a module into its entries' bodies, comments dropped."""
    text = re.sub(r"//.*", "", ptx)
    return dict(re.findall(r"\.visible \.entry (\w+)\([^)]*\)[^{]*\{(.*?)\n\}", text, re.DOTALL))


def declared(body):
    names = set()
    for line in re.findall(r"\.reg\s+\.\w+\s+([^;]*);", body):
        for name in (part.strip() for part in line.split(",")):
            family = re.fullmatch(r"(%\w+?)<(\d+)>", name)
            names |= {f"{family[1]}{i}" for i in range(int(family[2]))} if family else {name}
    return names


def named(body):
    return set(re.findall(r"%[a-z_]\w*", re.sub(r"\.reg[^;]*;", "", body))) - SPECIAL


def assert_names_its_registers_and_holds_its_copies(row, target, form):
    kernels = bodies(render_module(row, target, form))
    for name, body in kernels.items():
        assert named(body) <= declared(body), (row.name, name)
    assert named(kernels["target"]) >= declared(kernels["target"]), f"{row.name} declares what it never uses"
    counts = {
        name: len(re.findall(rf"^ +(?:@!?%\w+ +)?{re.escape(row.opcode)}[ ;]", body, re.M))
        for name, body in kernels.items()
    }
    # The frame and the companions may be of the same opcode.
    assert counts["target"] - counts["overhead"] == row.copies, row.name
    assert counts["target_2n"] - counts.get("overhead_2n", counts["overhead"]) == 2 * row.copies, row.name
    assert ("overhead_2n" in kernels) == bool(row.companions), row.name


# A row of each template, and of each kind that a template tells apart.
KINDS = {(row.family, dict(row.params).get("does")): row for row, target in LEGAL if target == HOPPER}


def test_rows_name_their_declared_registers_and_hold_their_copies():
    """A row of each kind and every tenth other one; PTXBENCH_TEST_ALL=1 takes all."""
    legal = [row for row, target in LEGAL if target == HOPPER]
    step = 1 if os.environ.get("PTXBENCH_TEST_ALL") else 10
    for row in (*KINDS.values(), *legal[::step]):
        # Sixteen copies meet every chain and every set of operands.
        short = replace(row, copies=min(row.copies, 16))
        assert_names_its_registers_and_holds_its_copies(short, HOPPER, Form.THROUGHPUT)


@pytest.mark.parametrize("form", Form)
def test_copies_that_come_again_are_as_each_rendered_for_itself(form):
    for legal in KINDS.values():
        row = replace(legal, copies=9 * legal.chains_of(form) + 1)
        text = render_module(row, HOPPER, form)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(render._environment().globals, "copies_differ", True)
            assert render_module(row, HOPPER, form) == text, row.name


@given(
    row_and_target=st.sampled_from(LEGAL),
    form=st.sampled_from(Form),
    copies=st.integers(4, 96),
    chains=st.integers(1, 4),
    extra=st.integers(0, 3),
)
def test_any_legal_row_names_its_declared_registers_and_holds_its_copies(
    row_and_target, form, copies, chains, extra
):
    row, target = row_and_target
    # Families of other companions than multiply-adds have a fixed number of them.
    companions = row.companions + extra if row.companions and row.family == "mixed" else row.companions
    row = replace(row, copies=copies, chains=min(chains, row.chains), companions=companions)
    assert_names_its_registers_and_holds_its_copies(row, target, form)


@settings(max_examples=settings.default.max_examples // 10)
@given(
    row_and_target=st.sampled_from(LEGAL),
    form=st.sampled_from(Form),
    copies=st.integers(4, 40),
    level=st.sampled_from(OptLevel),
)
def test_ptxas_accepts_any_number_of_copies_of_any_row(row_and_target, form, copies, level):
    row, target = row_and_target
    ptx = render_module(replace(row, copies=copies), target, form)
    assert assemble_ptx(ptx, target.name, level).image.startswith(b"\x7fELF")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_row_is_accepted_by_ptxas_for_every_target_that_has_it(target):
    # Of what Hopper has, every target has other rows: some tell whether ptxas takes them there.
    some = MEASURABLE[TARGETS.index(target) % 8 :: 8]
    if not target.like:
        some = [row for row in MEASURABLE if target == HOPPER or not row.exists_on(HOPPER) or row in some]
    rows = [(row, form) for row in some if row.exists_on(target) for form in Form]
    assert assemble_ptx(render_batch(rows, target), target.name, OptLevel.O0).image.startswith(b"\x7fELF")


def test_a_batch_holds_the_same_code_as_its_modules():
    rows = [(find_instruction(name), Form.LATENCY) for name in ("add.f32", "add.u32")]
    batch = bodies(render_batch(rows, HOPPER))
    for number, (row, form) in enumerate(rows):
        for name, body in bodies(render_module(row, HOPPER, form)).items():
            assert batch.pop(batch_prefix(number) + name) == body
    assert not batch


def test_the_sleeping_kernel_is_accepted_by_ptxas():
    ptx = render_sleep(HOPPER)
    assert named(bodies(ptx)["static"]) == declared(bodies(ptx)["static"])
    assert assemble_ptx(ptx, "sm_90a", OptLevel.O3).image


@pytest.mark.parametrize("row", [r for r in MEASURABLE if r.exists_on(HOPPER)], ids=lambda row: row.name)
def test_the_text_looks_as_a_person_would_write_it(row):
    ptx = render_module(row, HOPPER, Form.THROUGHPUT)
    lines = ptx.splitlines()
    assert ptx.endswith("}\n")
    assert "\n\n\n" not in ptx
    assert all(line == line.rstrip() and "\t" not in line for line in lines)
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        assert line or (before != "{" and after != "}"), "no blank line next to a brace"
    code = [line for line in lines if re.match(r" {4}[a-z@]", line)]
    short = [line for line in code if len(line.split()[0]) < 18 and not line.lstrip().startswith("@")]
    columns = {re.match(r" {4}[A-Za-z0-9_.:]+ +", line).end() for line in short if " " in line.strip()}
    assert len(columns) == 1, "operands begin in one column"


def test_a_target_that_lacks_the_instruction_is_refused_by_name():
    row = replace(find_instruction("fma.rn.f32"), min_target=90)
    with pytest.raises(
        NotMeasurableError, match=r"fma\.rn\.f32 needs compute capability 9\.0 .*sm_89 is older"
    ):
        render_module(row, find_target("sm_89"), Form.LATENCY)


def test_a_family_without_a_template_is_refused_by_name():
    row = replace(find_instruction("fma.rn.f32"), family="nowhere")
    with pytest.raises(InputError, match=r"no template nowhere\.ptx\.j2"):
        render_module(row, HOPPER, Form.LATENCY)


def test_everything_is_read_from_a_zip(tmp_path):
    archive = tmp_path / "ptxbench.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for package in (ptxbench, ptx_templates):
            root = Path(package.__file__).parent
            for path in root.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    file.write(path, path.relative_to(root.parent))
    code = """
import json, ptxbench
from ptxbench.catalogue.load import load_catalogue
from ptxbench.core.condition import Form, OptLevel
from ptxbench.codegen.render import render_module
from ptxbench.core.target import find_target
from ptxbench.sass.verdict_cache import verdict_key
hopper = find_target("sm_90a")
rows = [row for row in load_catalogue() if row.name in NAMES]
texts = [render_module(row, hopper, Form.LATENCY) for row in rows]
key = verdict_key(rows[0], hopper, OptLevel.O3, Form.LATENCY)
print(json.dumps([ptxbench.__file__, texts, key]))
"""
    rows = [row for row in MEASURABLE if row.exists_on(HOPPER)][::25]
    done = subprocess.run(
        [sys.executable, "-c", f"NAMES = {[row.name for row in rows]!r}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(archive)},
    )
    origin, texts, key = json.loads(done.stdout)
    assert str(archive) in origin
    assert sorted(texts) == sorted(render_module(row, HOPPER, Form.LATENCY) for row in rows)
    assert len(key) == 64
