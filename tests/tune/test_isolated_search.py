"""A search in a process of its own: one that hangs or breaks is ended, and the rest goes on."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from tune.fakes_kernel import AddingGpu
from tune.fakes_tune import trial

from ptxbench.core.errors import InputError
from ptxbench.experiment.supervise import supervise
from ptxbench.tune.candidate import Candidate
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.folder import TuningFolder, tuning_manifest
from ptxbench.tune.isolate import _plain, _read, search_work
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.variant_runner import TrialOptions

HANG = "import time; time.sleep(600)"
BREAK = "import os; os.abort()"
LOSE = "raise SystemExit(3)"
END = "raise SystemExit(0)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    problem = KernelProblem("twice", ("BLOCK",), "0")
    made = TuningFolder.create(tmp_path / "t", tuning_manifest(AddingGpu(), problem, TrialOptions(), ""))
    made.add(trial(1, variant=Configuration.of({"BLOCK": 1})))
    made.close()
    return made.path


def run(folder: Path, *programs: str, in_progress: bool = True) -> tuple[int, list[str]]:
    said: list[str] = []
    todo = list(programs)

    def command(begun: bool) -> list[str]:
        assert begun
        if in_progress:
            begun = TuningFolder.reopen(folder)
            begun.begin(Candidate(Configuration.of({"BLOCK": 100 + len(todo)})))
            begun._lines.close()
        return [sys.executable, "-c", todo.pop(0)]

    (ended,) = supervise([search_work(command, folder, 0.4)], said.append)
    return ended.code, said


def test_a_variant_that_hangs_is_ended_and_the_next_process_goes_on(folder: Path) -> None:
    code, said = run(folder, HANG, END)
    assert (code, said) == (0, ["BLOCK=102 took longer than 0.4 s; going on without"])
    last = list(TuningFolder.read(folder).trials.values())[-1]
    assert (last.name, last.status) == ("BLOCK=102", TrialStatus.HUNG)


def test_a_variant_that_hangs_when_it_is_measured_again_counts_no_longer(folder: Path) -> None:
    kept = Configuration.of({"BLOCK": 1})
    begun = TuningFolder.reopen(folder)
    begun.begin(Candidate(kept), before=1)
    begun._lines.close()
    assert run(folder, HANG, END, in_progress=False)[0] == 0
    assert TuningFolder.read(folder).trials["BLOCK=1"].status is TrialStatus.HUNG


@pytest.mark.parametrize("program", [BREAK, LOSE])
def test_a_variant_that_breaks_its_process_is_blamed(folder: Path, program: str) -> None:
    code, said = run(folder, program, END)
    assert (code, said) == (0, ["BLOCK=102 broke the process; going on without"])
    last = list(TuningFolder.read(folder).trials.values())[-1]
    assert last.status is TrialStatus.LAUNCH_FAILED


def test_a_gpu_that_is_missing_is_not_tried_for_ever(folder: Path) -> None:
    (folder / "in_progress.json").unlink(missing_ok=True)
    assert run(folder, LOSE, in_progress=False) == (3, [])


def test_other_ends_are_the_search_s_own(folder: Path) -> None:
    assert run(folder, "raise SystemExit(2)")[0] == 2


def test_building_between_two_variants_is_no_hang(folder: Path) -> None:
    held = TuningFolder.reopen(folder)
    variant = Configuration.of({"BLOCK": 7})
    held.begin(Candidate(variant))
    assert (folder / "in_progress.json").exists()
    held.add(trial(1, variant=variant))
    assert not (folder / "in_progress.json").exists()
    held._lines.close()
    assert run(folder, "import time; time.sleep(1.0)", in_progress=False) == (0, [])


def test_a_process_that_ended_after_its_variant_was_kept_is_followed_by_another(folder: Path) -> None:
    keep = (
        "from pathlib import Path; from ptxbench.tune.folder import TuningFolder;"
        "from ptxbench.tune.configuration import Configuration; from ptxbench.tune.check import Correct;"
        "from ptxbench.tune.candidate import Candidate;"
        "from ptxbench.tune.outcome import TrialStatus; from ptxbench.tune.trial import Trial;"
        f"held = TuningFolder.reopen(Path({str(folder)!r})); v = Configuration.of({{'BLOCK': 9}});"
        "held.add(Trial(variant=v, status=TrialStatus.OK, correct=Correct.YES));"
        "held.begin(Candidate(v)); import os; os.abort()"
    )
    code, said = run(folder, keep, END, in_progress=False)
    assert (code, said) == (0, ["the process ended; going on"])
    assert len(TuningFolder.read(folder).trials) == 2


def test_what_another_process_is_asked_holds_arrays_and_numbers_and_nothing_that_runs(tmp_path: Path) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    asked = {
        "arguments": [{"data": data, "value": np.int32(7)}],
        "axes": MappingProxyType({"BLOCK": range(32, 128, 32)}),
        "include": [Path("a")],
    }
    text = json.dumps(asked, default=partial(_plain, tmp_path, "here"))
    found = json.loads(text, object_hook=partial(_read, tmp_path))
    (argument,) = found.pop("arguments")
    assert argument["data"].dtype == data.dtype
    assert np.array_equal(argument["data"], data)
    assert argument["value"] == 7
    assert found == {"axes": {"BLOCK": [32, 64, 96]}, "include": ["a"]}
    with pytest.raises(InputError, match="here: function cannot be given to another process"):
        json.dumps({"filters": run}, default=partial(_plain, tmp_path, "here"))
