"""Scripts of runners/, benchmarks/ and studies/, which are no modules of the package."""

import importlib.util
import io
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

ROOT = Path(__file__).parents[2]


def load_script(path: str) -> ModuleType:
    """Return a script as a module of its own name, loaded anew; it finds its neighbours as a script does.

    Args:
        path: From the root of the checkout, such as "runners/refresh_readme.py".
    """
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up
    with _beside(file):
        spec.loader.exec_module(module)
    return module


def run_script(path: str | Path, *arguments: object) -> CompletedProcess[str]:
    """Return what a script does that is called with some words: in this process, which has imported the rest.

    Args:
        path: As `load_script` takes it, or absolute.
        arguments: The words after its name.
    """
    file, words, code = ROOT / path, [*map(str, arguments)], 0
    before, sys.argv = sys.argv, [str(file), *words]
    out, err = io.StringIO(), io.StringIO()
    try:
        with _beside(file), redirect_stdout(out), redirect_stderr(err):
            runpy.run_path(str(file), run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())


@contextmanager
def _beside(file: Path) -> Iterator[None]:
    """Let a script find its neighbours."""
    sys.path.insert(0, str(file.parent))
    try:
        yield
    finally:
        sys.path.remove(str(file.parent))
