"""The site in real Chromium, from a disk: at the width of a phone and of a desk, light and dark."""

import pytest
from fakes.browser import CHROMIUM, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)"),
]
PAGES = (
    *(
        "index.html",
        "jobs.html",
        "findings.html",
        "howto/run.html",
        "reference/cli.html",
        "reference/api.html",
    ),
    *("tables/index.html", "tables/h200.html", "tables/operations.html", "tables/rooflines.html"),
)
# Texts that stand out from their ground by less than WCAG AA asks for, each with its contrast.
FAINT = """(() => {
  const parts = (color) => [...color.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3]));
  const linear = (of255, v = of255 / 255) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (color) => 0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
  const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), element = walker.currentNode.parentElement;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (!text || !box.width || !box.height || /SCRIPT|STYLE/.test(element.tagName)) continue;
    if (style.visibility === "hidden" || box.right < 0 || box.left > innerWidth) continue;
    const above = [];
    for (let one = element; one; one = one.parentElement) above.unshift(getComputedStyle(one));
    const opacity = above.reduce((all, one) => all * one.opacity, 1);
    if (opacity < 0.05) continue;
    const back = above.reduce((under, one) => over(parts(one.backgroundColor), under), [255, 255, 255]);
    const front = parts(style.color);
    front[3] *= opacity;
    const [dark, bright] = [light(back), light(over(front, back))].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize), contrast = (bright + 0.05) / (dark + 0.05);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (contrast < least) faint.push(`${contrast.toFixed(2)} ${element.className} ${text.slice(0, 40)}`);
  }
  return faint;
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_pages_fit_the_window_and_every_text_stands_out(site, tmp_path, width, dark):
    with Page(tmp_path, width, dark=dark) as tab:
        for page in PAGES:
            tab.open((site / page).as_uri())
            tab.settle()
            assert tab.run("document.documentElement.scrollWidth <= window.innerWidth"), page
            assert tab.run(FAINT) == [], page
        assert tab.errors == []
        assert [
            one for one in tab.requests if not one.startswith(("file:", "blob:", "data:", "about:"))
        ] == []


def test_the_search_finds_words_of_other_pages_from_a_disk(site, tmp_path):
    shadows = "[...document.querySelectorAll('*')].flatMap((one) => one.shadowRoot || [])"
    box = f"{shadows}.flatMap((one) => [...one.querySelectorAll('input')])[0]"
    typed = "box.value = 'wgmma'; box.dispatchEvent(new Event('input', { bubbles: true }))"
    with Page(tmp_path, 1400) as tab:
        tab.open((site / "howto" / "run.html").as_uri())
        tab.settle()
        tab.run("document.querySelector('.md-search__button').click()")
        tab.settle()
        tab.run(f"{{ const box = {box}; {typed} }}")
        for _ in range(50):
            tab.settle()
            found = tab.run(f"{shadows}.flatMap((one) => [...one.querySelectorAll('a')].map((a) => a.href))")
            if found:
                break
        assert any("accuracy.html" in one for one in found), found
        assert tab.errors == []
