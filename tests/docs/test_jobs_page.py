"""Pages show what their commands print; the page of jobs has twenty of them."""

import csv
import re
from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.core.errors import InputError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "jobs.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def module():
    return load_script("runners/refresh_console.py")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```console" in page.read_text()], ids=lambda page: page.stem
)
def test_commands_print_what_a_page_shows(module, page):
    shown = module.blocks(page.read_text())
    assert len(shown) > (10 if page == PAGE else 0)
    for command, output in shown:
        assert module.printed(command) == output, f"run runners/refresh_console.py --write {page}"


def test_the_jobs_say_the_errors_of_estimates_that_the_readme_says():
    readme = " ".join((ROOT / "README.md").read_text().partition("<!-- estimate:begin -->")[2].split())
    said = re.search(r"off by ([\d.]+) and ([\d.]+)% on an H200 .*?, ([\d.]+) and ([\d.]+)%", readme)
    assert said
    library, most, _, least = said.groups()
    jobs = " ".join(PAGE.read_text().split())
    assert f"off by {library}% on library kernels and by {least} to {most}% on kernels bound by" in jobs


def test_the_job_of_multiply_adds_says_how_many_boards_its_rows_have(module):
    command = "ptxbench cost fma.rn.f32 fma.rn.f64 fma.rn.f16x2 --table h200 --format csv"
    found = csv.DictReader(module.printed(command).splitlines())
    rows = [row for row in found if (row["operands"], row["lanes"]) == ("random", "32")]
    boards = [int(row["boards"]) for row in rows]
    scatter = [100 * float(row["boards_scatter"]) for row in rows]
    said = (
        f"{min(boards)} to {max(boards)} boards, which scatter by {min(scatter):.1f} to {max(scatter):.1f}%"
    )
    assert said in PAGE.read_text()


def test_the_job_of_a_tensor_row_says_what_accuracy_says_of_two_boards():
    kind = "| NVIDIA H100 80GB HBM3 | two boards, with a corrected clock |"
    (row,) = (one for one in (ROOT / "docs" / "accuracy.md").read_text().splitlines() if one.startswith(kind))
    assert f"Of such rows of two H100s {row.split('|')[-2].strip()} lie beyond" in PAGE.read_text()


def test_there_are_twenty_jobs_each_with_a_command(module):
    parts = PAGE.read_text().split("\n### ")[1:]
    assert [part.partition(".")[0] for part in parts] == [str(n) for n in range(1, 21)]
    assert all("ptxbench" in part.partition("\n")[2] for part in parts)
    assert [part.partition(".")[0] for part in parts if ".md" not in part] == []


def test_a_block_is_written_anew_and_what_stands_around_it_stays(module):
    command = "```console\n$ ptxbench \\\n  --version | head -1\n"
    page = f"a\n{command}old\nlines\n```\nb\n```sh\nptxbench gpus\n```\n"
    fresh = module.refreshed(page)
    assert fresh.startswith(f"a\n{command}ptxbench, version ")
    assert fresh.endswith("\n```\nb\n```sh\nptxbench gpus\n```\n")
    assert "old" not in fresh


@pytest.mark.parametrize("command", ["rm -rf x", "ptxbench cost no.such.row --table h200"])
def test_what_is_no_command_or_fails_is_refused(module, command):
    with pytest.raises(InputError):
        module.printed(command)
