"""What is solved of a run is kept beside it and read again, and only where it is of this run and solver."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from fakes.measuring import asked

from ptxbench.cli.report import command
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.model.atlas import open_atlas
from ptxbench.model.solve_run import solve_run
from ptxbench.model.solved import FILE, SOLVER_VERSION, read_solved
from ptxbench.storage import codec
from ptxbench.storage.run_folder import RunFolder

RESULTS = Path(__file__).parents[2] / "results" / "nvidia-h200"


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    what = asked(
        "fma.rn.f32",
        "add.f32",
        opt_levels=(OptLevel.O3,),
        patterns=("random", "zeros"),
        min_repeats=3,
        max_repeats=3,
    )
    with start_run(SimulatedGpu(poll_interval_s=0.02), what, path) as folder:
        measure_table(SimulatedGpu(poll_interval_s=0.02), folder)
    return path


def no_solving(monkeypatch):
    def refuse(*_):
        raise AssertionError("solved again")

    monkeypatch.setattr("ptxbench.model.solve_run.solve_run", refuse)


def test_a_finished_run_keeps_what_is_solved_of_it_and_is_not_solved_again(run, monkeypatch):
    with RunFolder.open(run) as folder:
        again = solve_run(folder)
        rows = folder.rows()
    no_solving(monkeypatch)
    kept = read_solved(run)
    assert json.loads(codec.to_lines(kept)) == json.loads(codec.to_lines(again))
    assert {one.pattern for one in kept.opcodes} == {"random", "zeros"}
    assert codec.encode(kept.solution(rows)) == codec.encode(again.solution(rows))
    table = open_atlas(run)
    assert table.cycles["FFMA"] > 0
    assert (
        table.machine.opcode_energies.energy("FFMA", 1.0).energy_pj
        > table.machine.opcode_energies.energy("FFMA", 0.0).energy_pj
    )
    assert math.isfinite(table.machine.static.at(40.0))

    # A row that is known badly tells nothing beside the solution.
    poor = [replace(rows[0], status=Status.IMPRECISE), *rows[1:]]
    assert len(kept.solution(poor).compared) == len(kept.solution(rows).compared) - 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: (path / FILE).unlink(), f"has no {FILE}"),
        (
            lambda path: (path / FILE).write_text(
                (path / FILE)
                .read_text()
                .replace(f'"solver_version": {SOLVER_VERSION}', '"solver_version": 0')
            ),
            "of another solver (version 0",
        ),
        (
            lambda path: (path / "table.csv").write_text(
                (path / "table.csv").read_text().replace("ok", "ok")[:-1]
            ),
            "was made from another table.csv",
        ),
    ],
)
def test_what_is_missing_or_of_another_solver_or_other_files_is_solved_from_the_trials(
    run, caplog, change, said
):
    before = read_solved(run)
    change(run)
    held = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    found = read_solved(run)
    assert codec.encode(found.opcodes) == codec.encode(before.opcodes)
    (notice,) = caplog.messages
    assert said in notice
    assert f"ptxbench report --opcodes {run} --store" in notice
    # The folder was only given to be read.
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == held


def test_the_command_stores_what_the_next_one_reads(run, monkeypatch):
    stored = (run / FILE).read_text()
    (run / FILE).unlink()
    result = CliRunner().invoke(command, ["--opcodes", str(run), "--store", "--json"], catch_exceptions=False)
    assert (run / FILE).read_text() == stored
    no_solving(monkeypatch)
    again = CliRunner().invoke(command, ["--opcodes", str(run), "--json"], catch_exceptions=False)
    assert json.loads(again.stdout) == json.loads(result.stdout)
    assert not again.stderr


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{}", "solver"),
        (f'{{"solver_version": {SOLVER_VERSION}}}', "made_from is missing"),
        ("x", "not JSON"),
    ],
)
def test_a_file_that_does_not_fit_is_never_read_as_if_it_did(run, caplog, broken, said):
    (run / FILE).write_text(broken)
    if said == "solver":
        read_solved(run)
        assert "of another solver" in caplog.text
        return
    with pytest.raises(InputError, match=said):
        read_solved(run)


def test_what_is_solved_of_a_kept_run_is_what_its_file_says():
    """Fails where the solver has changed and `SOLVER_VERSION` has not."""
    run = RESULTS / "levels"
    with RunFolder.open(run) as folder:
        found = solve_run(folder)
    kept = codec.decode(type(found), codec.read_json(run / FILE), codec.Place(run / FILE))
    assert kept.solver_version == SOLVER_VERSION
    now, then = ({one.opcode: one for one in solved.opcodes} for solved in (found, kept))
    assert now.keys() == then.keys()
    # Of opcodes that always run together rounding decides how many have energy, so the degrees of freedom.
    for name, relative in (("energy", 1e-6), ("error", 0.15), ("estimate", 1e-6), ("estimate_error", 0.15)):
        assert [getattr(now[opcode], f"{name}_pj") for opcode in then] == pytest.approx(
            [getattr(one, f"{name}_pj") for one in then.values()], rel=relative, abs=1e-6, nan_ok=True
        )
    assert found.static.power_w == pytest.approx(kept.static.power_w, rel=1e-9)
    assert found.clock.gamma == pytest.approx(kept.clock.gamma, rel=1e-6)


def test_every_kept_file_is_read_by_this_solver(monkeypatch):
    """Fails where a kept field has another name, or a table was written anew without its solution."""
    no_solving(monkeypatch)
    kept = sorted(RESULTS.glob("*/solved.json"))
    assert len(kept) > 40
    for path in kept:
        assert read_solved(path.parent).solver_version == SOLVER_VERSION
