"""Build the documentation as a site: put its pages together, then let Zensical make HTML of them.

    python runners/build_site.py [--out site]

Pages are those of docs/, and Markdown of other folders (`TAKEN`). Links between files of the repository
become links between pages. The command line's reference is made from the program, and the tables and
rooflines are pages of their own. All of it happens in a folder of its own, so that builds at one time do not
meet; what comes out is whole, with every link leading somewhere, or it is built again.
"""

from __future__ import annotations

import argparse
import filecmp
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ptxbench.cli.described import described
from ptxbench.cli.main import group
from ptxbench.model.atlas import open_atlas
from ptxbench.report.formats import RunReport, render_report
from ptxbench.report.operations_page import render_operations
from ptxbench.report.roofline_page import read_roofline, render_rooflines
from ptxbench.report.row_trials import row_trials
from ptxbench.storage.operations_file import SHIPPED_FILE, read_operations
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.shipped import SHIPPED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = "zensical.toml"
# As in CONFIG.
PAGES, SITE = "pages", "site"
# What the site holds beside docs/, by path in the repository.
TAKEN = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("hw_validation/README.md", "ptxbench/catalogue/data/README.md"),
    *("results/README.md", "results/nvidia-h100/README.md", "results/nvidia-h200/README.md"),
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("studies/**/*.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("studies/**/*.png"))),
)
# The page of each table that comes with ptxbench, in place of the table's folder, and that of all of them.
TABLES = {folder: f"tables/{name}.html" for name, folder in SHIPPED.items()}
ALL_TABLES = "tables/all.html"
# The page of all kept rooflines, in place of their folders.
ROOFLINES = sorted(ROOT.glob("results/*/roofline"))
ROOFLINE_PAGE = "tables/rooflines.html"
# The page of what operations of libraries cost, in place of its tables.
OPERATIONS = [table for folder in SHIPPED.values() if (table := folder / SHIPPED_FILE).exists()]
OPERATIONS_PAGE = "tables/operations.html"
TABLES_FOLDER = ROOT / "ptxbench" / "tables"
# Kinds of files that the site takes.
_KINDS = {".md", ".png", ".svg", ".txt", ".js", ".css"}
# On a busy machine Zensical was seen to end before all of its pages had all of their links.
_TRIES = 3
_ID = re.compile(r'\s(?:id|name)="([^"]*)"')
_HREF = re.compile(r'<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]*)"')
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_COMMANDS = "<!-- commands -->\n"
# Indented lines between empty ones, and what tells the language of their first line.
_CODE = re.compile(r"(?<=\n\n)(?:    [^\n]*\n|\n(?=    ))+")
_OF_LIST = re.compile(r"\s|[-*] |\d+\. ")
_LANGUAGES = {
    "console": re.compile(r"\$ "),
    "sh": re.compile(r"(ptxbench|pip|python3?|make|git|nvcc|srun|torchrun|eval|docker|\. |#!/|[A-Z_]+=)"),
    "python": re.compile(r"(import|from|with|for|def|class|@|[a-z_][\w., ]* = |ptxbench\.|print\()"),
    "toml": re.compile(r"\[+[\w.]+\]+$"),
    "bibtex": re.compile(r"@\w+\{"),
}


def main() -> int:
    """Build the site; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / SITE, help="where to put the site (default: site)")
    parser.add_argument(
        "--rooflines", type=int, default=None, help="take only so many of each GPU (default: all; for tests)"
    )
    arguments = parser.parse_args()
    out: Path = arguments.out
    # What stands there is replaced: only an older site may go.
    if out.exists() and not (out / "index.html").is_file() and (not out.is_dir() or any(out.iterdir())):
        parser.error(f"--out {out} holds no site; name a new folder")
    with tempfile.TemporaryDirectory(prefix="ptxbench-site-") as folder:
        said = build(Path(folder), arguments.rooflines)
        if said:
            print(said, file=sys.stderr)
            return 1
        if out.exists():
            shutil.rmtree(out)
        shutil.move(Path(folder) / SITE, out)
    return 0


def build(folder: Path, rooflines: int | None = None) -> str:
    """Build the site in a folder, which has it as `site` then.

    Args:
        folder: An empty folder.
        rooflines: So many of each GPU; None: all.

    Returns:
        What is wrong with it; "": nothing.
    """
    put_together(folder / PAGES, rooflines)
    shutil.copyfile(ROOT / CONFIG, folder / CONFIG)
    (folder / "runners").symlink_to(ROOT / "runners")
    said = ""
    for _ in range(_TRIES):
        if said:
            print(f"built again, since: {said.strip().splitlines()[0]}", file=sys.stderr)
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", folder / CONFIG],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        said = (
            done.stdout + done.stderr
            if done.returncode
            else "\n".join(faults(folder / PAGES, folder / SITE, _base()))
        )
        if not said:
            break
    return said


def _base() -> str:
    """Return where the site's root is on its host, by the address in its configuration."""
    address = tomllib.loads((ROOT / CONFIG).read_text("utf-8"))["project"].get("site_url", "/")
    return urlsplit(address).path or "/"


def faults(pages: Path, site: Path, base: str = "/") -> Iterator[str]:
    """Yield what a site lacks: pages, files as they were, and targets of links.

    Args:
        pages: What the site was built of.
        site: The site.
        base: Path of its root on the host.
    """
    for path in (one for one in pages.rglob("*") if one.is_file()):
        made = site / path.relative_to(pages)
        if path.suffix == ".md":
            page = made.with_name("index.html" if path.name == "README.md" else f"{path.stem}.html")
            if not page.exists():
                yield f"{path.relative_to(pages)}: no page was made of it"
        elif not made.exists() or not filecmp.cmp(path, made, shallow=False):
            yield f"{path.relative_to(pages)}: it was not copied"
    texts = {page: page.read_text("utf-8") for page in site.rglob("*.html")}
    ids = {page: {html.unescape(one) for one in _ID.findall(text)} for page, text in texts.items()}
    for page, text in texts.items():
        for link in map(html.unescape, _HREF.findall(text)):
            file, _, anchor = link.partition("#")
            # The page for what is not found has links from the root.
            where = site / file.removeprefix(base) if file.startswith(base) else page.parent / file
            target = Path(os.path.normpath(where)) if file else page
            if ":" in file or (target.is_dir() and not anchor):
                continue
            if not target.exists() or (anchor and target in ids and anchor not in ids[target]):
                yield f"{page.relative_to(site)}: its link to {link} leads nowhere"


def put_together(folder: Path, rooflines: int | None = None) -> None:
    """Write every page and picture of the site into a folder.

    Args:
        folder: The folder, new or empty.
        rooflines: So many of each GPU; None: all.
    """
    files = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*") if path.is_file()}
    files |= {name: ROOT / name for name in TAKEN}
    files = {name: path for name, path in files.items() if path.suffix in _KINDS}
    operations = render_operations([row for table in OPERATIONS for row in read_operations(table)])
    made = _tables() | {ROOFLINE_PAGE: _rooflines(rooflines), OPERATIONS_PAGE: operations}
    known = files.keys() | made.keys()
    for name, path in files.items():
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = highlighted(_with_commands(path.read_text("utf-8")))
            page.write_text(_with_links_of_pages(text, name, path, known))
        else:
            shutil.copyfile(path, page)
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def highlighted(markdown: str) -> str:
    """Return Markdown whose indented blocks of code are fenced, with their language where it is plain.

    Args:
        markdown: A page; fences that are there stay.
    """
    return _outside_fences(markdown, lambda text: _CODE.sub(_fenced, text))


def _outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    parts = _FENCED.split(markdown)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def _fenced(block: re.Match[str]) -> str:
    before = block.string[: block.start()].rstrip("\n").rpartition("\n")[2]
    if _OF_LIST.match(before):
        return block[0]
    text = textwrap.dedent(block[0]).strip("\n")
    languages = (name for name in ("bibtex", *_LANGUAGES) if _LANGUAGES[name].match(text.partition("\n")[0]))
    return f"```{next(languages, 'text')}\n{text}\n```\n"


def command_reference() -> str:
    """Return the reference of the command line as Markdown, a section a command."""
    return "\n".join(_section(one) for one in described(group)["commands"])


def _section(command: Mapping[str, Any]) -> str:
    head = [f"## {command['name']}", "", command["help"].replace("<", "&lt;"), ""]
    head += ["```text", command["usage"], "```", ""]
    if not command["options"]:
        return "\n".join(head)
    rows = [f"| {_flags(one)} | {_cell(one['help'])} | {_values(one)} |" for one in command["options"]]
    return "\n".join([*head, "| option | what it does | values |", "| --- | --- | --- |", *rows, ""])


def _flags(option: Mapping[str, Any]) -> str:
    return ", ".join(f"`{flag}`" for flag in option["flags"])


def _values(option: Mapping[str, Any]) -> str:
    """Return what an option takes: choices, or its type with its bounds; and its default."""
    if option["type"] == "flag":
        return ""
    said = ", ".join(f"`{one}`" for one in option.get("choices", ())) or option["type"]
    low, high = option.get("low"), option.get("high")
    if low is not None:
        said += f" from {low:g}"
    if high is not None:
        said += f" to {high:g}"
    said += ", may be repeated" if option["multiple"] else ""
    said += f"; default `{_cell(str(option['default']))}`" if "default" in option else ""
    return said + ("; required" if option["required"] else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _with_commands(markdown: str) -> str:
    before, mark, after = markdown.partition(_COMMANDS)
    return before + command_reference() + after if mark else markdown


def _with_links_of_pages(markdown: str, name: str, path: Path, known: set[str]) -> str:
    """Return the Markdown with links as the site has them; of a link to no page its text stays.

    Args:
        markdown: The page.
        name: What the site calls it.
        path: Its file in the repository.
        known: What the site holds, by name.
    """

    def of_site(link: re.Match[str]) -> str:
        text, target = link.groups()
        file, hash_, anchor = target.partition("#")
        if "://" in target or not file:
            return link.group()
        found = _name(Path(os.path.normpath(path.parent / file)))
        if found not in known:
            return text
        return f"[{text}]({os.path.relpath(found, Path(name).parent)}{hash_}{anchor})"

    return _outside_fences(markdown, lambda part: _LINK.sub(of_site, part))


def _name(path: Path) -> str:
    """Return what the site calls a file: by its path in docs/, or else in the repository."""
    if path in TABLES:
        return TABLES[path]
    if path in OPERATIONS:
        return OPERATIONS_PAGE
    if path in ROOFLINES:
        return ROOFLINE_PAGE
    if path == TABLES_FOLDER:
        return ALL_TABLES
    if path.is_dir():
        path = path / "README.md"
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def _tables() -> dict[str, str]:
    """Return the page of each table that comes with ptxbench, and that of all, by name."""
    with ExitStack() as stack:
        reports = {folder: _report(name, folder, stack) for name, folder in SHIPPED.items()}
        pages = {TABLES[folder]: render_report("html", [one], None) for folder, one in reports.items()}
        return {**pages, ALL_TABLES: render_report("html", list(reports.values()), None)}


def _report(name: str, folder: Path, stack: ExitStack) -> RunReport:
    atlas = open_atlas(folder, name=name)
    # The run itself, which has the kernels and trials, too.
    run = stack.enter_context(RunFolder.open(ROOT / "results" / folder.name / atlas.run))
    return RunReport.of(atlas, kernels=run.kernels, trials=row_trials(run))


def _rooflines(most: int | None) -> str:
    """Return the page of the rooflines that are kept with their kernels, side by side."""
    runs = [
        run
        for folder in ROOFLINES
        for run in sorted(one for one in folder.iterdir() if (one / "kernels.zip").exists())[:most]
    ]
    return render_rooflines([read_roofline(run, run.relative_to(ROOT).as_posix()) for run in runs])


if __name__ == "__main__":
    sys.exit(main())
