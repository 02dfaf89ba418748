"""Change one thing of the code at a time, and list the changes that no test notices.

    python runners/mutants.py --count 40 --seed 1 [ptxbench/energy/window.py ...]

Each change (a mutant) is a common slip: a bound that is off by one, another operator, a condition turned
around, a call left out. It is made in a scratch copy, and the tests of the module's package that run its
line must then fail. One that survives is either a missing test, or no change of what the code does.

mutmut 3 first runs all tests in a copy of its own layout, and cosmic-ray has one test command for all
modules. Here a mutant costs the tests of its line alone, in a process that has imported what they need of
others.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
# Where a wrong number would not be seen by its reader.
MODULES = (
    *("ptxbench/energy", "ptxbench/analysis", "ptxbench/sass", "ptxbench/model", "ptxbench/meter"),
    *("ptxbench/attribute", "ptxbench/tune", "ptxbench/audit", "ptxbench/sensors"),
    *("ptxbench/emulator", "ptxbench/storage", "ptxbench/api", "ptxbench/experiment/calibrate.py"),
)
_COMPARED = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_COMPUTED = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div},
    **{ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "argmin": "argmax", "argmax": "argmin"}
# Nodes that have a place in the text.
_Placed = ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern
_NOT_COMPUTED = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Raise)
# One more of these is hardly another number.
_LARGE = 1000


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    Attributes:
        module: The file, from the root of the repository.
        begin: Where the changed text begins, as an offset in bytes.
        end: Where it ends.
        text: What takes its place.
        lines: First and last line of the statement that holds it.
        kind: What kind of slip it is.
    """

    module: str
    begin: int
    end: int
    text: str
    lines: tuple[int, int]
    kind: str

    def applied_to(self, source: bytes) -> bytes:
        """Return the module's text with the change."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """Return place, kind and the change, in a line."""
        number = source[: self.begin].count(b"\n") + 1
        before = " ".join(source[self.begin : self.end].decode().split())
        return f"{self.module}:{number}: {self.kind}: {before}  ->  {self.text}"


def mutants_of(module: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a module; annotations, messages of errors and docstrings are left alone."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for statement, node in _computed(ast.parse(source)):
        begin, end = (starts[line - 1] + column for line, column in _ends(node))
        body = getattr(statement, "body", None)
        (first, _), (last, _) = _ends(statement)
        last = body[0].lineno - 1 if isinstance(body, list) and body else last
        lines = first, max(last, first)
        found += [Mutant(module, begin, end, text, lines, kind) for kind, text in _changes(node)]
    return found


def _ends(node: _Placed) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return line and column of the begin and of the end of a node of parsed code."""
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


def _computed(node: ast.AST, statement: ast.stmt | None = None) -> Iterator[tuple[ast.stmt, _Placed]]:
    """Yield each node that is computed, with the statement that it stands in."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _NOT_COMPUTED) or _is_guard(child):
                continue
            within = child if isinstance(child, ast.stmt) else statement
            if within is not None and isinstance(child, _Placed):
                yield within, child
            yield from _computed(child, within)


def _is_guard(node: ast.AST) -> bool:
    """Tell whether a node is the `strict=True` of a zip, which shows slips and is none."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kind and the new text of each change of one node."""
    match node:
        case ast.Compare(left, [operator], [right]):
            yield "comparison", _text(ast.Compare(left, [_COMPARED[type(operator)]()], [right]))
        case ast.BinOp(left, operator, right) if type(operator) in _COMPUTED:
            yield "arithmetic", _text(ast.BinOp(left, _COMPUTED[type(operator)](), right))
        case ast.BoolOp(operator, values):
            yield (
                "and/or",
                _text(ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)),
            )
        case ast.UnaryOp(ast.Not() | ast.USub() as operator, operand):
            yield f"dropped {'not' if isinstance(operator, ast.Not) else 'minus'}", _text(operand)
        case ast.IfExp(test, body, orelse):
            yield "branches swapped", _text(ast.IfExp(test, orelse, body))
        case ast.Constant(bool() | int() | float() as value):
            yield "constant", _beside(value)
        case ast.expr():
            yield from _swaps(node)
        case ast.stmt():
            yield from _drops(node)


def _beside(value: float) -> str:
    """Return another number near one, or the other truth."""
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1 if value < _LARGE else value * 3 // 2)
    return repr(value * 1.5 if value else 1.0)


def _swaps(node: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield the change of a name to that of its opposite."""
    match node:
        case ast.Name(name) if name in _SWAPPED:
            yield "min/max", _SWAPPED[name]
        case ast.Attribute(value, name) if name in _SWAPPED:
            yield "min/max", _text(ast.Attribute(value, _SWAPPED[name]))


def _drops(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield what leaves a statement out, and what turns the condition of one around."""
    match node:
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield "dropped statement", "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript()], _):
            yield "dropped statement", "pass"


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


@dataclass(frozen=True)
class Copy:
    """A scratch copy of the repository, in which one mutant at a time is tried.

    Attributes:
        root: The copy.
        cache: In place of the user's cache, which what a mutant keeps must not reach.
    """

    root: Path
    cache: Path

    @property
    def printed(self) -> Path:
        """What the tests printed."""
        return self.cache.with_name("printed.txt")

    @property
    def took(self) -> Path:
        """How long each test of the last run took."""
        return self.cache.with_name("took.json")

    @classmethod
    def into(cls, folder: Path) -> Copy:
        """Copy what git knows of, or would take; ptxas and nvdisasm need not run again for the same input."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        copy = cls(folder / "repository", folder / "cache")
        for name in listed.stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (copy.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, copy.root / name)
        copy.cache.mkdir(mode=0o700)
        made = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ptxbench-tests"
        made.mkdir(parents=True, exist_ok=True, mode=0o700)
        (copy.cache / made.name).symlink_to(made)
        return copy

    def run(self, arguments: Sequence[str], limit_s: float | None = None) -> int | None:
        """Run pytest here; return its exit code, None where it took too long."""
        process = _FORKED.Process(target=_tested, args=(self, arguments))
        process.start()
        process.join(limit_s)
        if process.is_alive() and process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return None
        return process.exitcode

    def survives(self, mutant: Mutant, groups: Mapping[tuple[str, ...], float]) -> bool:
        """Tell whether each group of tests passes with a mutant within its time, s; without any they do."""
        path = self.root / mutant.module
        source = path.read_bytes()
        try:
            _write(path, mutant.applied_to(source))
            return all(self.run(tests, limit_s) == 0 for tests, limit_s in groups.items())
        finally:
            _write(path, source)


# Each run begins as a copy of a process that has imported what others wrote, and nothing of ptxbench.
_FORKED = multiprocessing.get_context("forkserver")
_OF_OTHERS = ["hypothesis", "numpy", "pyarrow.parquet", "rich.table", "scipy.stats", "scipy.optimize"]


def _tested(copy: Copy, arguments: Sequence[str]) -> None:
    """Run pytest in a copy, keep how long each test took, and end with pytest's exit code."""
    os.setsid()
    os.chdir(copy.root)
    os.environ.update(PYTHONPATH=str(copy.root), XDG_CACHE_HOME=str(copy.cache))
    sys.path.insert(0, str(copy.root))
    for descriptor in (1, 2):
        os.dup2(os.open(copy.printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    took = Took()
    known = "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning"
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", known, *arguments], plugins=[took])
    by_test_s = {test: took_s for test, took_s in took.by_test_s.items() if test not in took.failed}
    copy.took.write_text(json.dumps(by_test_s))
    sys.exit(int(code))


class Took:
    """How long each test took, in seconds, with what it set up, and which failed."""

    def __init__(self) -> None:
        self.by_test_s: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a part of a test."""
        self.by_test_s[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)


def _write(path: Path, source: bytes) -> None:
    """Write a module; what was compiled of it may look as new as this."""
    path.write_bytes(source)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


class Tests:
    """The tests of a package, how long each takes, and the lines that it runs."""

    def __init__(self, copy: Copy, package: str) -> None:
        """Run them once, unchanged; one that fails is left out, and is said to.

        Raises:
            SystemExit: They cannot be run.
        """
        folder = Path(package).parent if package.endswith(".py") else package
        copy.printed.unlink(missing_ok=True)  # it may hold what failed of mutants of another package
        measured = (
            f"--cov={folder}",
            "--cov-context=test",
            "--cov-report=",
            "--cov-fail-under=0",
            "--maxfail=1000000",
        )
        code = copy.run([*_tests_of(package), *measured])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise SystemExit(f"mutants: pytest fails for {package}:\n{copy.printed.read_text()[-2000:]}")
        if code:
            left_out = [line for line in copy.printed.read_text().splitlines() if line.startswith("FAILED ")]
            print(*left_out, "left out: it fails without any mutant", sep="\n", flush=True)
        self._took_s: dict[str, float] = json.loads(copy.took.read_text())
        # The next package's run would write over it.
        data = (copy.root / ".coverage").rename(copy.root / f".coverage-{package.replace('/', '-')}")
        self._data = CoverageData(str(data))
        self._data.read()
        self._root = copy.root

    def of(self, mutant: Mutant) -> dict[tuple[str, ...], float]:
        """Return the tests that run a mutant's lines, and others that it may concern, with limits of time, s.

        A line may run once for several tests, as it sets up what they share or as its result is kept: others
        are those of the same files, and all that run any line of the module.
        """
        by_line = self._data.contexts_by_lineno(str(self._root / mutant.module))
        first, last = mutant.lines
        near = _tests_in(context for line in range(first, last + 1) for context in by_line.get(line, ()))
        files = {_file_of(test) for test in near}
        far = _tests_in(context for contexts in by_line.values() for context in contexts)
        far |= {test for test in self._took_s if _file_of(test) in files}
        near, far = near & self._took_s.keys(), far & self._took_s.keys()
        return {self._sorted(tests): self._limit_s(tests) for tests in (near, far - near) if tests}

    def _sorted(self, tests: set[str]) -> tuple[str, ...]:
        """Return tests, the fastest first."""
        return tuple(sorted(tests, key=lambda test: (self._took_s[test], test)))

    def _limit_s(self, tests: set[str]) -> float:
        """Return a time after which tests hang, though others use the machine, too."""
        return 60 + 4 * sum(self._took_s[test] for test in tests)


def _tests_in(contexts: Iterable[str]) -> set[str]:
    """Return the tests of contexts of coverage, such as "tests/test_a.py::test|run"; "" is an import."""
    return {context.rpartition("|")[0] for context in contexts if context}


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _tests_of(package: str) -> list[str]:
    """Return the tests that mirror a package, or a single module, and what else imports of it."""
    path = Path("tests", *Path(package).parts[1:])
    mirror = path.with_name(f"test_{path.name}") if path.suffix else path
    name = ".".join(Path(package).with_suffix("").parts)
    every = (path.relative_to(ROOT) for path in sorted((ROOT / "tests").rglob("test_*.py")))
    elsewhere = [path for path in every if not path.is_relative_to(mirror)]
    return [str(mirror), *(str(path) for path in elsewhere if f"from {name}" in (ROOT / path).read_text())]


def modules_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the modules by the tested package that they are in."""
    found = defaultdict(list)
    for name in names:
        path = ROOT / name
        package = next((one for one in MODULES if Path(name).is_relative_to(one)), None)
        if package is None or not path.exists():
            raise SystemExit(f"mutants: {name} is no module or folder below {', '.join(MODULES)}")
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found[package].append(module.relative_to(ROOT).as_posix())
    return found


def main() -> int:
    """Try the sample, and list what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES, help="files or folders; all by default")
    parser.add_argument("--count", type=int, default=40, help="how many mutants (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    arguments = parser.parse_args()
    _FORKED.set_forkserver_preload(["__main__", *_OF_OTHERS])
    packages = {module: name for name, found in modules_of(arguments.modules).items() for module in found}
    sources = {module: (ROOT / module).read_bytes() for module in packages}
    every = [mutant for module, source in sources.items() for mutant in mutants_of(module, source)]
    sample = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))  # noqa: S311
    print(f"{len(sample)} of {len(every)} mutants, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ptxbench-mutants-") as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for job in range(arguments.jobs):
            copies.put(Copy.into(Path(folder, str(job))))

        def tried(mutant: Mutant, tests: Tests) -> bool:
            copy, begin_s = copies.get(), time.monotonic()
            groups = tests.of(mutant)
            try:
                survives = copy.survives(mutant, groups)
            finally:
                copies.put(copy)
            word = ("SURVIVED" if groups else "UNTESTED") if survives else "killed"
            took_s = time.monotonic() - begin_s
            print(f"{word:8} {took_s:4.0f} s  {mutant.shown(sources[mutant.module])}", flush=True)
            return survives

        with ThreadPoolExecutor(arguments.jobs) as pool:
            first = copies.get()
            tests = {package: Tests(first, package) for package in {packages[m.module] for m in sample}}
            copies.put(first)
            survived = list(pool.map(lambda mutant: tried(mutant, tests[packages[mutant.module]]), sample))
    by_package = Counter(packages[mutant.module] for mutant in sample)
    left = Counter(packages[m.module] for m, survives in zip(sample, survived, strict=True) if survives)
    for package, count in sorted(by_package.items()):
        print(f"{package}: {count - left[package]} of {count} killed")
    print(f"{len(sample) - sum(survived)} of {len(sample)} killed; each survivor is listed above")
    return 0


if __name__ == "__main__":
    sys.exit(main())
