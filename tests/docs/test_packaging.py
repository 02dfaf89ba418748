"""What an installation holds is what its commands need."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import types
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
import yaml
from fakes.script import load_script

from ptxbench.attribute.injector_source import library_name, source
from ptxbench.core.errors import InputError

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_a_plain_installation_assembles_and_disassembles():
    names = {re.split(r"[<>=; ]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert names >= {"nvidia-nvjitlink", "nvidia-cuda-nvdisasm"}
    assert names.isdisjoint({"scipy", "pandas", "matplotlib", "nvidia-cuda-nvcc"}), "over 400 MB"


KERNEL = ("tests/model/kernels/elementwise.ptx", "--grid", "1056", "--block", "256", "--trips", "0=4096")
LOOK_UPS = (
    ("cost", "fma.rn.f32"),
    ("cost", "add 50000000 f32"),  # between rows: Student's t without SciPy
    ("show", "fma.rn.f32"),
    ("verify", "fma.rn.f32", "--target", "sm_90a"),
    ("estimate", *KERNEL, "--table", "h200"),
    ("report", "--opcodes", "h200"),
    ("roofline", "show", "results/nvidia-h100/roofline/f32-levels"),
)
MEASURES = ("table", "fma.rn.f32", "--gpu", "simulated", "--opt-level", "O3", "--out")
NEEDS_MORE = ("doctor", "--gpu", "simulated")
# Runs commands one after the other; says of each its exit code and what it wrote on the standard error.
RUNS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from ptxbench.cli.main import run
done = []
for words in json.loads(sys.argv[1]):
    error = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(error):
        done.append((run(words), error))
print(json.dumps([(code, error.getvalue()) for code, error in done]))
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What commands say in a plain installation, without SciPy and pandas."""
    path = tmp_path_factory.mktemp("plain")
    for name in ("scipy", "pandas"):
        (path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name={name!r})\n")
    commands = [*LOOK_UPS, (*MEASURES, str(path / "run")), NEEDS_MORE]
    done = subprocess.run(
        [sys.executable, "-c", RUNS, json.dumps(commands)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return path, dict(zip(commands, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("words", LOOK_UPS, ids=lambda words: "-".join(words[:2]))
def test_a_plain_installation_looks_up(plain, words):
    code, error = plain[1][words]
    assert (code, error.count("scipy")) == (0, 0), error


def test_a_plain_installation_measures_on_the_simulated_gpu(plain):
    path, said = plain
    assert said[(*MEASURES, str(path / "run"))][0] == 0
    assert (path / "run" / "table.csv").exists()


def test_what_needs_more_says_so_in_one_line(plain):
    code, error = plain[1][NEEDS_MORE]
    assert code == 2
    assert re.fullmatch(r"ptxbench: error: this needs scipy, .*-m pip install scipy'\n", error)


def test_make_table_installs_what_the_plots_of_the_readme_need():
    (extras,) = re.findall(r"-e '\.\[(cuda,.*)\]'", (ROOT / "Makefile").read_text())
    assert "plot" in extras.split(",")


def test_no_hint_names_an_extra_that_pip_would_look_for_on_pypi():
    hints = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "ptxbench").rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"ptxbench\[\w+\]", line)
    ]
    assert hints == []


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """The hook by which a wheel gets the injected library; a shell script stands for the compiler."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nprintf library > injector.so\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    warned = []

    def built(version="standard"):
        app = types.SimpleNamespace(display_warning=warned.append)
        made = module.InjectorHook(str(ROOT), {}, None, None, str(tmp_path), "wheel", app)
        data = {"force_include": {}}
        made.initialize(version, data)
        inside = {to: Path(of).read_bytes() for of, to in data.pop("force_include").items()}
        made.finalize(version, data, "")
        return data, inside, warned

    built.compiler = compiler
    return built


def test_a_wheel_has_the_injected_library_and_its_checksum(hook):
    data, inside, warned = hook()
    assert data == {"pure_python": False, "tag": f"py3-none-linux_{os.uname().machine}"}
    name = f"ptxbench/attribute/native/{library_name(source())}"
    digest = hashlib.sha256(b"library").hexdigest()
    checksum = f"{digest}  {library_name(source())}\n".encode()
    assert inside == {name: b"library", "ptxbench/attribute/native/injector.sha256": checksum}
    assert not warned
    # An editable installation builds it when it is needed.
    assert hook("editable")[:2] == ({}, {})


def test_without_a_compiler_a_wheel_is_for_all_machines_unless_it_is_required(hook, monkeypatch):
    hook.compiler.write_text("#!/bin/sh\nexit 1\n")
    data, inside, warned = hook()
    assert (data, inside) == ({}, {})
    assert "refused the injector: exit code 1: it is built at the first run" in warned[0]
    monkeypatch.setenv("PTXBENCH_INJECTOR", "required")
    with pytest.raises(RuntimeError, match="refused the injector"):
        hook()
    monkeypatch.setenv("PTXBENCH_INJECTOR", "none")
    assert hook()[:2] == ({}, {})


def test_wheels_of_a_release_must_have_the_library():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert project["cibuildwheel"]["environment"] == {"PTXBENCH_INJECTOR": "required"}
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "pypa/cibuildwheel@" in workflow
    assert "ubuntu-24.04-arm" in workflow


def test_the_version_is_the_same_wherever_it_is_said():
    said = load_script("runners/set_version.py").said(ROOT)
    version, _, rest = said["code"].partition(".dev")
    # Between releases the next version is at work, and the last one is cited.
    assert said["changes"] == (f"{version} (unreleased)" if rest else f"{version} ({said['dated']})")
    assert f"\n## {said['cited']} ({said['dated']})\n" in (ROOT / "CHANGELOG.md").read_text()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert f"{{{citation['title']}}}" in (ROOT / "docs/howto/cite.md").read_text()


def test_a_release_is_named_in_one_go_and_what_follows_leaves_the_citation(tmp_path):
    module = load_script("runners/set_version.py")
    for name in ("ptxbench/core/version.py", "CHANGELOG.md", "CITATION.cff", "docs/howto/cite.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    version = module.said(tmp_path)["changes"].partition(" ")[0]
    with pytest.raises(InputError, match="and its date"):
        module.changed(tmp_path, version, None)
    with pytest.raises(InputError, match="begins with"):
        module.changed(tmp_path, "99.0.0", date(2026, 12, 1))
    for said, day in (("7.0.0.dev0", None), ("7.0.0", date(2026, 12, 1)), ("7.1.0.dev0", None)):
        for path, text in module.changed(tmp_path, said, day).items():
            path.write_text(text)
    assert module.said(tmp_path) == {
        "code": "7.1.0.dev0",
        "changes": "7.1.0 (unreleased)",
        "cited": "7.0.0",
        "dated": "2026-12-01",
    }
    assert (tmp_path / "CHANGELOG.md").read_text().count("\n## 7.") == 2


def test_actions_are_named_by_their_hash_and_version():
    for path in (ROOT / ".github" / "workflows").iterdir():
        used = re.findall(r"uses: (.*)", path.read_text())
        assert used
        assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", one)] == []


def test_no_two_files_of_tests_have_one_name():
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    twice = [name for name, times in names.items() if times > 1]
    assert twice == [], "pytest imports them as one module, and stops"
