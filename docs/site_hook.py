"""Takes Markdown from outside docs/ and the tables into the site; links of files become links of pages."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from ptxbench.model.atlas import open_atlas
from ptxbench.report.formats import RunReport, render_report
from ptxbench.report.roofline_page import read_roofline, render_rooflines
from ptxbench.report.row_trials import row_trials
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.shipped import SHIPPED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# What the site holds beside docs/, by path in the repository.
TAKEN = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "hw_validation/README.md", "ptxbench/catalogue/data/README.md"),
    *("results/README.md", "results/nvidia-h100/README.md", "results/nvidia-h200/README.md"),
    "results/nvidia-h200/methods/methods.png",
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("studies/**/*.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("studies/**/*.png"))),
)
# The page of each table that comes with ptxbench, in place of the table's folder, and that of all of them.
TABLES = {folder: f"tables/{name}.html" for name, folder in SHIPPED.items()}
ALL_TABLES = "tables/all.html"
# The page of all kept rooflines, in place of their folders.
ROOFLINES = sorted(ROOT.glob("results/*/roofline"))
ROOFLINE_PAGE = "tables/rooflines.html"
TABLES_FOLDER = ROOT / "ptxbench" / "tables"
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures of `TAKEN`, the page of each table, and that of the rooflines."""
    for path in TAKEN:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    with ExitStack() as stack:
        reports = {folder: _report(name, folder, stack) for name, folder in SHIPPED.items()}
        for folder, report in reports.items():
            files.append(
                File.generated(config, TABLES[folder], content=render_report("html", [report], None))
            )
        every = render_report("html", list(reports.values()), None)
    files.append(File.generated(config, ALL_TABLES, content=every))
    files.append(File.generated(config, ROOFLINE_PAGE, content=_roofline_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the Markdown with links as the site has them; of a link to no page its text stays."""
    del config
    uri = page.file.src_uri
    here = (ROOT if uri in TAKEN else DOCS) / Path(uri).parent

    def of_site(link: re.Match[str]) -> str:
        text, target = link.groups()
        path, hash_, anchor = target.partition("#")
        if "://" in target or not path:
            return link.group()
        found = _uri(Path(os.path.normpath(here / path)))
        if files.get_file_from_path(found) is None:
            return text
        return f"[{text}]({os.path.relpath(found, Path(uri).parent)}{hash_}{anchor})"

    return _LINK.sub(of_site, markdown)


def _roofline_page() -> str:
    """Return the page of all rooflines that are kept with their kernels, side by side."""
    runs = sorted(run for folder in ROOFLINES for run in folder.iterdir() if (run / "kernels.zip").exists())
    return render_rooflines([read_roofline(run, run.relative_to(ROOT).as_posix()) for run in runs])


def _report(name: str, folder: Path, stack: ExitStack) -> RunReport:
    atlas = open_atlas(folder, name=name)
    # The run itself, which has the kernels and trials, too.
    run = stack.enter_context(RunFolder.open(ROOT / "results" / folder.name / atlas.run))
    return RunReport.of(atlas, kernels=run.kernels, trials=row_trials(run))


def _uri(path: Path) -> str:
    """Return what the site calls a file: by its path in docs/, or else in the repository."""
    if path in TABLES:
        return TABLES[path]
    if path in ROOFLINES:
        return ROOFLINE_PAGE
    if path == TABLES_FOLDER:
        return ALL_TABLES
    if path.is_dir():
        path = path / "README.md"
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()
