"""What an installation holds is what its commands need."""

import re
import tomllib
from pathlib import Path

from ptxbench.core.toolchain import _WHEELS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_a_plain_installation_assembles_and_disassembles():
    names = {re.split(r"[<>=; ]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert names >= set(_WHEELS.values())


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
