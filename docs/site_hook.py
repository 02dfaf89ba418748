"""Takes Markdown from outside docs/ and the tables into the site; links of files become links of pages."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from ptxbench.report.formats import RunReport, render_report
from ptxbench.storage.board_spread import read_board_spread
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.shipped import SHIPPED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# What the site holds beside docs/, by path in the repository.
TAKEN = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "hw_validation/README.md", "ptxbench/catalogue/data/README.md"),
    *("results/README.md", "results/nvidia-h200/README.md", "results/nvidia-h200/methods/methods.png"),
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("studies/**/*.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("studies/**/*.png"))),
)
# The page of each table that comes with ptxbench, in place of the table's folder.
TABLES = {folder: f"tables/{name}.html" for name, folder in SHIPPED.items()}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures of `TAKEN`, and the page of each table."""
    for path in TAKEN:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for name, folder in SHIPPED.items():
        files.append(File.generated(config, TABLES[folder], content=_table_page(name, folder)))
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


def _table_page(name: str, folder: Path) -> str:
    spread = read_board_spread(folder)
    # The run itself, which has the kernels, too.
    measured = ROOT / "results" / folder.name / (spread.reference if spread else "")
    with RunFolder.open(measured) as run:
        report = RunReport(name, run.manifest.gpu, run.rows(), False, run.manifest, spread, run.kernels)
    return render_report("html", [report], None)


def _uri(path: Path) -> str:
    """Return what the site calls a file: by its path in docs/, or else in the repository."""
    if path in TABLES:
        return TABLES[path]
    if path.is_dir():
        path = path / "README.md"
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()
