"""What the README shows is what was measured."""

import importlib.util
from pathlib import Path

from ptxbench.gpu.protocol import GpuKind
from ptxbench.report.summary import summary_table

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_readme_is_that_of_the_committed_runs():
    readme = (ROOT / "README.md").read_text()
    block = readme.partition("<!-- results:begin -->\n")[2].partition("<!-- results:end -->")[0]
    spec = importlib.util.spec_from_file_location("refresh_readme", ROOT / "runners" / "refresh_readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows, gpu = module.readme_rows(ROOT / "results" / "nvidia-h200")
    assert gpu.kind is GpuKind.REAL
    assert block == summary_table(rows)


def test_every_file_that_the_documents_link_to_is_there():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for part in document.read_text().split("](")[1:]:
            target = part.partition(")")[0].partition("#")[0]
            if target and "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
