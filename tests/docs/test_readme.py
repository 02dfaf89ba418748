"""What the README shows is what was measured."""

from pathlib import Path

from ptxbench.gpu.protocol import GpuKind
from ptxbench.report.summary import summary_table
from ptxbench.store.run_folder import RunFolder

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_readme_is_that_of_the_committed_run():
    readme = (ROOT / "README.md").read_text()
    block = readme.partition("<!-- results:begin -->\n")[2].partition("<!-- results:end -->")[0]
    with RunFolder.open(ROOT / "results/nvidia-h200/starters") as run:
        assert run.manifest.kind is GpuKind.REAL
        assert block == summary_table(run.rows())


def test_every_file_that_the_documents_link_to_is_there():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for part in document.read_text().split("](")[1:]:
            target = part.partition(")")[0].partition("#")[0]
            if target and "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
