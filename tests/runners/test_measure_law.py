"""The runner of the law of operands: what it asks for exists, and what was measured is not measured again."""

from fakes.script import load_script

from ptxbench.catalogue.load import find_instruction, parse_rows
from ptxbench.codegen.alike import refuse_alike
from ptxbench.core.condition import OptLevel, Pattern

law = load_script("runners/measure_law.py")


def test_every_row_has_the_patterns_and_lanes_that_are_asked_for():
    own = {row.name: row for row in parse_rows(law.ROWS_FILE.read_text(), law.ROWS_FILE.name)}
    for part in law.PARTS:
        for name in part.rows:
            row = own.get(name) or find_instruction(name)
            for pattern in part.patterns:
                refuse_alike(row, Pattern(pattern))
            assert not any(row.refusal_of_lanes(lanes) for lanes in part.lanes)
            assert row.forms(OptLevel.O3)


def test_it_takes_rows_in_order_and_goes_on(tmp_path, monkeypatch, capsys):
    commands = []

    def run(command, *, check):
        commands.append(command)
        folder = next(word for word in command if word.startswith("--out=")).removeprefix("--out=")
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "manifest.json").touch()
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(law.subprocess, "run", run)
    words = ["measure_law.py", "--gpu=3", f"--out={tmp_path}", "--only=odd", "--only=core", "--rows=1"]
    monkeypatch.setattr("sys.argv", words)
    assert law.main() == 0
    core, odd = commands
    assert core[-2:] == ["--", "xor.b32"]
    assert odd[-2:] == ["--", "law.fma.rn.f32:odd"]
    assert "--gpu=3" in core
    assert law.main() == 2, "what is measured is kept"
    assert "core is there" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", [*words, "--resume"])
    assert law.main() == 0
    assert all("--resume" in command for command in commands[2:])
    monkeypatch.setattr("sys.argv", [*words, "--resume", "--limit-s=1"])
    assert law.main() == 1
    assert len(commands) == 4
