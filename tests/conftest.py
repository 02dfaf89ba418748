"""Puts this folder on the import path, so that tests share `fakes`, sets up hypothesis, and saves time.

What ptxas and nvdisasm made of the same input before is read back, also what they made for other workers of
pytest-xdist and for earlier runs, a module that a run checked is checked, nothing waits for the disk: no test
pulls the plug, and readings are packed as fast as can be.
"""

import functools
import gc
import os
import signal

# Each worker has a core: threads of its own matrices would wait for each other, which counts as work. It must
# be said before numpy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from fakes.checked_modules import checked_once
from fakes.tool_cache import ToolCache
from hypothesis import settings

from ptxbench.attribute import injector
from ptxbench.catalogue.own_files import own_instructions
from ptxbench.codegen import assemble
from ptxbench.core.cache import base_folder
from ptxbench.core.version import CHECKOUT
from ptxbench.sass import listing
from ptxbench.storage import traces
from ptxbench.storage.commit import git_commit

# A busy machine makes one example slow, which says nothing about the code. The same commit is judged by the
# same examples everywhere; `make fuzz` looks for others.
settings.register_profile("ptxbench", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("fuzz", deadline=None, max_examples=2000)
settings.load_profile("ptxbench")
# A job in the background ignores the keyboard, and under nohup the end of its terminal: tests send all three.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ignored in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(_ignored, signal.SIG_DFL)


def pytest_collection_finish():
    """What was collected stays to the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _tools_are_cached():
    cache = ToolCache(base_folder("XDG_CACHE_HOME", ".cache") / "ptxbench-tests" / "tools")
    with pytest.MonkeyPatch.context() as patch:
        for runs_them in (assemble, listing):
            patch.setattr(runs_them, "run_tool", cache.run_tool)
        yield


@pytest.fixture(scope="session", autouse=True)
def _boards_are_set_apart_from_other_runs(tmp_path_factory):
    """A lock of a simulated board is this run's: another run of the tests, or a command, may set one now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _modules_are_checked_once():
    with checked_once():
        yield


@pytest.fixture(scope="module", autouse=True)
def _rows_that_a_run_brought_are_forgotten():
    with own_instructions():
        yield


@pytest.fixture(scope="session", autouse=True)
def _the_injector_is_compiled_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(injector, "compiled", functools.cache(injector.compiled))
        yield


@pytest.fixture(scope="session", autouse=True)
def _git_is_asked_once():
    commit = git_commit(CHECKOUT)
    with pytest.MonkeyPatch.context() as patch:
        if commit is not None:
            patch.setenv("PTXBENCH_COMMIT", commit)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _readings_are_packed_in_a_hurry():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces, "_FINAL_LEVEL", traces.QUICK_LEVEL)
        yield


@pytest.fixture(scope="session", autouse=True)
def lacking_pandas(tmp_path_factory):
    """Processes of the tests are as without it: PyArrow imports it where it can, for 0.4 s.

    Returns the environment before.
    """
    before, folder = dict(os.environ), tmp_path_factory.mktemp("lacking")
    (folder / "pandas.py").write_text("raise ModuleNotFoundError('no pandas', name='pandas')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), before.get("PYTHONPATH")))))
        yield before
