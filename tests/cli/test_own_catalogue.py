"""Instructions that a user adds: shown, measured, gone on with and reported as those that ptxbench ships."""

import json
from functools import partial

import pytest

from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.own import add_own
from ptxbench.catalogue.own_files import own_instructions
from ptxbench.cli.main import run
from ptxbench.storage.run_folder import RunFolder

ROWS = """
[[group]]
category = "integer"
family = "{family}"
type = "u32"
values = "integer"
operands = ["x", "x", "a", "b"]
alive = "odd factors make x a linear congruential sequence"
rows = [
  {{ name = "{name}", opcode = "{opcode}", O0 = {{ "IMAD.U32" = 1 }}, O3 = {{ IMAD = 1 }} }},
]
"""
# As the shipped template of chains, with a line of its own.
TEMPLATE = """{% extends "arithmetic.ptx.j2" %}
{% block copy %}
{{ operand.instruction_of(copy) }}
{% endblock %}
"""
QUICK = ["--gpu", "simulated", "--opt-level", "O3", "--min-repeats", "2", "--max-repeats", "2"]


@pytest.fixture(autouse=True)
def plain():
    """Leave the catalogue as it was."""
    with own_instructions():
        yield


@pytest.fixture
def write(tmp_path):
    return partial(written, tmp_path)


def written(folder, name="mine.mad", file="mine.toml", family="arithmetic", opcode="mad.lo.u32"):
    path = folder / file
    path.write_text(ROWS.format(name=name, family=family, opcode=opcode))
    return path


def test_show_builds_and_checks_it(write, capsys):
    assert run(["show", "--catalogue", str(write()), "--part", "verdict"]) == 0
    assert "mine.mad at O3 for sm_90a: exact" in capsys.readouterr().out


def test_what_the_loop_check_refuses_is_said_with_what_was_found(write, capsys):
    path = write(opcode="mad.hi.u32")
    assert run(["show", "--catalogue", str(path), "--part", "verdict"]) == 1
    assert "IMAD.HI.U32" in capsys.readouterr().out


def test_it_is_measured_gone_on_with_and_reported_by_a_process_that_does_not_know_it(write, tmp_path, capsys):
    path, out = write(), tmp_path / "run"
    assert run(["table", "--catalogue", str(path), "--out", str(out), *QUICK]) == 0
    capsys.readouterr()
    path.unlink()
    assert "mine.mad" not in {row.name for row in load_catalogue()}
    assert run(["table", "--resume", "--out", str(out), "--gpu", "simulated"]) == 0
    capsys.readouterr()
    assert run(["report", str(out), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["instruction"], row["status"]) == ("mine.mad", "ok")
    assert row["dynamic_pj"] == pytest.approx(15.9, rel=0.05)


def test_a_template_beside_the_file_serves_its_rows_and_stays_with_the_run(write, tmp_path):
    path, out = write(family="chain_of_mine"), tmp_path / "run"
    (tmp_path / "chain_of_mine.ptx.j2").write_text(TEMPLATE)
    assert run(["table", "--catalogue", str(path), "--out", str(out), *QUICK]) == 0
    with RunFolder.open(out) as folder:
        assert dict(folder.manifest.part.catalogue) == {
            "mine.toml": path.read_text(),
            "chain_of_mine.ptx.j2": TEMPLATE,
        }


def test_runs_of_shipped_instructions_keep_no_catalogue(write, tmp_path):
    assert run(["show", "--catalogue", str(write()), "--part", "verdict"]) == 0
    assert run(["table", "mad.lo.u32", "--out", str(tmp_path / "run"), *QUICK]) == 0
    with RunFolder.open(tmp_path / "run") as folder:
        assert folder.manifest.part.catalogue == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "mad.lo.u32"}, "two rows are called 'mad.lo.u32'"),
        ({"opcode": "mad; exit"}, "opcode"),
        ({"family": "nothing_of_mine"}, "no template nothing_of_mine.ptx.j2"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(write, capsys, change, said):
    assert run(["show", "--catalogue", str(write(**change))]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("unknown", "{{ nothing.at.all }}"),
        ("unsafe", "{{ ''.__class__.__mro__ }}"),
        ("broken", "{% block %}"),
    ],
)
def test_a_template_that_asks_for_what_it_is_not_given_is_named(write, tmp_path, capsys, family, text):
    (tmp_path / f"{family}.ptx.j2").write_text(text)
    assert run(["show", "--catalogue", str(write(family=family))]) == 2
    assert f"template {family}.ptx.j2: " in capsys.readouterr().err


def test_a_template_includes_no_other_file(write, tmp_path, capsys):
    secret = tmp_path / "secret.ptx.j2"
    secret.write_text("a secret")
    (tmp_path / "curious.ptx.j2").write_text(f'{{% include "{secret}" %}}')
    assert run(["show", "--catalogue", str(write(family="curious"))]) == 2
    said = capsys.readouterr()
    assert f"no template {secret}" in said.err
    assert "a secret" not in said.out


def test_two_files_of_one_name_that_are_not_alike_are_refused(write, capsys):
    add_own([("mine.toml", write().read_text())])
    other = write(name="mine.other")
    assert run(["show", "--catalogue", str(other)]) == 2
    assert "mine.toml" in capsys.readouterr().err


def test_a_command_knows_nothing_of_the_file_of_the_one_before(write, tmp_path):
    assert run(["show", "--catalogue", str(write()), "--part", "verdict"]) == 0
    assert run(["show", "mine.mad"]) == 2
    assert run(["show", "--catalogue", str(write(name="mine.other")), "--part", "verdict"]) == 0
    assert run(["show", "--catalogue", str(tmp_path / "none.toml")]) == 2
    assert run(["show"]) == 2


def test_a_template_that_was_changed_is_read_again(write, tmp_path, capsys):
    path, template = write(family="chain_of_mine"), tmp_path / "chain_of_mine.ptx.j2"
    for comment in ("// first", "// second"):
        template.write_text(TEMPLATE.replace("{% block copy %}", f"{{% block copy %}}\n{comment}"))
        assert run(["show", "--catalogue", str(path), "--part", "ptx"]) == 0
        assert comment in capsys.readouterr().out
