"""Every page at the width of a phone and of a desk: nothing small, nothing cut, light and dark."""

import json
from pathlib import Path

import pytest
from fakes.browser import CHROMIUM, Page

from ptxbench.cli.main import run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)"),
]
RESULTS = Path(__file__).parents[2] / "results"
KERNELS = Path(__file__).parents[1] / "model" / "kernels"
H100 = RESULTS / "nvidia-h100"
ROOFLINES = [str(RESULTS / f"nvidia-{gpu}" / "roofline" / "f32-levels") for gpu in ("h100", "h200")]
PAGES = {
    "tables": ["report", "h100", "h200", "--format", "html", "--out"],
    "rooflines": ["report", *ROOFLINES, "--format", "html", "--out"],
    "program": ["run", "--from", str(H100 / "programs" / "fma"), "--html"],
    "tuning": ["tune", "report", str(H100 / "tunings" / "gemm-f16-mma"), "--out"],
    "estimate": [
        *("estimate", str(KERNELS / "library.ptx"), "--entry", "adamw", "--grid", "65536", "--block", "256"),
        *("--table", "h200", "--html"),
    ],
    "profile": ["report", str(H100 / "profiles" / "decode"), "--format", "html", "--out"],
}
# Texts that are drawn at less than 11 px, with those of a plot as large as its drawing makes them.
SMALL = """(() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    const box = element.getBoundingClientRect();
    if (!text || ["SCRIPT", "STYLE"].includes(element.tagName) || !box.width) continue;
    let size = parseFloat(getComputedStyle(element).fontSize);
    const svg = element.closest("svg");
    if (svg && svg.viewBox.baseVal && svg.viewBox.baseVal.width) {
      size *= svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    }
    if (size < 10.99) found.push(`${size.toFixed(1)}: ${text.slice(0, 40)}`);
  }
  return JSON.stringify(found);
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, words in PAGES.items():
        assert run([*words, str(folder / f"{name}.html")]) in (0, 1)
    return folder


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_small_text_and_does_not_scroll_sideways(tmp_path, pages, name, width, dark):
    with Page(tmp_path / "browser", width, dark=dark) as tab:
        tab.open((pages / f"{name}.html").as_uri())
        tab.settle()
        assert json.loads(tab.run(SMALL)) == []
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run("getComputedStyle(document.body).backgroundColor") == (
            "rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)"
        )
        assert "docs/" in tab.run("document.querySelector('footer').textContent")
        assert tab.errors == []


@pytest.mark.parametrize("name", PAGES)
def test_what_scrolls_or_acts_is_reached_by_the_keyboard(tmp_path, pages, name):
    with Page(tmp_path / "browser", 390) as tab:
        tab.open((pages / f"{name}.html").as_uri())
        tab.settle()
        beyond = (
            "[...document.querySelectorAll('.scroll, figure.timeline')]"
            ".filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0"
            " && !e.querySelector('a, button, input, summary')).length"
        )
        assert tab.run(beyond) == 0
