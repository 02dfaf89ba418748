"""The documentation builds as a site without a warning, and needs nothing from elsewhere when it is read."""

import re
from pathlib import Path

import pytest
from fakes.script import load_script

import ptxbench
from ptxbench.cli.described import described
from ptxbench.cli.main import group
from ptxbench.core.status import Status

ROOT = Path(__file__).parents[2]


def test_a_folder_that_is_no_site_is_not_replaced(tmp_path, monkeypatch, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr("sys.argv", ["build_site.py", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        load_script("runners/build_site.py").main()
    assert ended.value.code == 2
    assert "holds no site" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_what_a_site_lacks_is_found(tmp_path):
    faults = load_script("runners/build_site.py").faults
    pages, made = tmp_path / "pages", tmp_path / "site"
    for folder in (pages, made):
        folder.mkdir()
        (folder / "picture.png").write_bytes(b"1")
    (pages / "index.md").touch()
    (pages / "other.md").touch()
    page = '<h1 id="top"><a href="#top">a</a><a href="other.html#b">b</a><a href="https://x.org/">c</a></h1>'
    (made / "index.html").write_text(page)
    (made / "other.html").write_text('<p id="b"><img src="picture.png">')
    assert list(faults(pages, made)) == []
    (made / "index.html").write_text(page.replace("#top", "#off").replace("other.html", "/other.html"))
    (made / "picture.png").write_bytes(b"2")
    assert set(faults(pages, made)) == {
        "picture.png: it was not copied",
        "index.html: its link to #off leads nowhere",
    }
    (made / "index.html").write_text('<a href="/there/other.html#b">b</a><a href="/there/none.html">c</a>')
    assert list(faults(pages, made, "/there/"))[1:] == [
        "index.html: its link to /there/none.html leads nowhere"
    ]
    (made / "index.html").write_text(page.replace("other.html", "/other.html"))
    (made / "other.html").unlink()
    assert {"other.md: no page was made of it", "index.html: its link to /other.html#b leads nowhere"} < set(
        faults(pages, made)
    )


def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = re.sub(r"<link rel=.canonical.[^>]*>", "", page.read_text())
        loaded = re.findall(r"""<(?:script|img|link|iframe)[^>]*(?:src|href)=["'](https?:[^"']*)""", text)
        assert not loaded, f"{page.name} loads {loaded[0]}"


def test_every_page_is_in_the_menu():
    menu = (ROOT / "zensical.toml").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "studies").rglob("*.md")}
    assert [page for page in sorted(pages) if f'"{page}"' not in menu] == []


def test_the_reference_has_every_command_with_its_options(site):
    text = (site / "reference" / "cli.html").read_text()
    for command in described(group)["commands"]:
        assert f">{command['name']}<" in text
        assert all(flag in text for option in command["options"] for flag in option["flags"])
    assert "UNSET" not in text


def test_the_card_for_agents_names_commands_options_and_pages_that_are_there(site):
    card = (site / "llms.txt").read_text()
    known = {
        one["name"]: {f for o in one["options"] for f in o["flags"]} for one in described(group)["commands"]
    }
    shown = [words.partition(" -- ")[0].split() for words in re.findall(r"`(ptxbench [^`]*)`", card)]
    assert len(shown) > 8
    for words in shown:
        name = max((one for one in known if " ".join(words).startswith(one)), key=len)
        flags = {word for word in words if word.startswith("--")}
        assert flags <= known[name], words
    assert all((site / page).exists() for page in re.findall(r"\]\(([^)]*)\)", card))


def test_search_works_from_a_disk(site):
    # A page that a browser opens from a disk may load scripts, but no JSON.
    index = (site / "search.js").read_text()
    assert all(word in index for word in ("Twenty jobs", "wgmma", "--budget-minutes"))


def test_the_reference_has_every_status_and_every_column(site):
    text = (site / "reference" / "files.html").read_text()
    assert all(f"<code>{status}</code>" in text for status in Status)
    for column in ("dynamic_ci95_pj", "sass_per_ptx", "steady_power_w"):
        assert column in text


def test_a_link_between_files_of_the_repository_is_one_between_pages(site):
    text = (site / "studies" / "h200" / "power.html").read_text()
    assert 'href="../../method.html"' in text
    assert "images/supply_levels.png" in text


@pytest.mark.parametrize(
    ("page", "boards"),
    [
        ("h100", {"57c3f0dca2b5"}),
        ("h200", {"6eda50547c2a"}),
        ("all", {"57c3f0dca2b5", "6eda50547c2a"}),
    ],
)
def test_the_pages_of_the_tables_are_there_and_linked(site, page, boards):
    assert f'href="../tables/{page}.html"' in (site / "howto" / "look_up.html").read_text()
    text = (site / "tables" / f"{page}.html").read_text()
    assert "fma.rn.f32" in text
    assert {board for board in ("57c3f0dca2b5", "6eda50547c2a") if board in text} == boards


def test_the_page_of_the_rooflines_is_there_and_linked(site):
    for page in ("roofline.html", "howto/look_up.html"):
        assert re.search(r'href="[./]*tables/rooflines.html"', (site / page).read_text()), page
    text = (site / "tables" / "rooflines.html").read_text()
    assert len(text) < 1_000_000
    assert all(f"results/nvidia-{run}" in text for run in ("h100/roofline/f32", "h200/roofline/"))


def test_the_page_of_operations_is_there_and_linked(site):
    for page in ("tables/index.html", "howto/operations.html"):
        assert re.search(r'href="[./]*operations.html"', (site / page).read_text()), page
    text = (site / "tables" / "operations.html").read_text()
    assert len(text) < 1_000_000
    assert "attention_decode" in text


def test_the_reference_has_every_public_name(site):
    text = (site / "reference" / "api.html").read_text()
    missing = [name for name in ptxbench.__all__ if name != "__version__" and f'.{name}"' not in text]
    assert missing == []


def test_functions_of_options_are_shown_with_their_arguments(site):
    page = (site / "reference" / "api.html").read_text()
    section = page[page.index('id="ptxbench.api.kernel.estimate_kernel"') :]
    for words in ("clock_samples", "Parameters:", "Passes of a loop, named by its number"):
        assert words in section[: section.index('id="ptxbench.model.estimate.KernelEstimate"')]


def test_indented_code_is_highlighted_and_what_stands_in_lists_stays():
    highlighted = load_script("runners/build_site.py").highlighted
    said = (
        "Say:\n\n    ptxbench gpus\n\n    ptxbench doctor\n\nand\n\n    x = f(1)\n\nor\n\n    E = m c^2\n\n"
    )
    listed = "- a\n\n      pip install .\n\n"
    assert highlighted(said + listed) == (
        "Say:\n\n```sh\nptxbench gpus\n\nptxbench doctor\n```\n\nand\n\n```python\nx = f(1)\n```\n\n"
        f"or\n\n```text\nE = m c^2\n```\n\n{listed}"
    )
    fenced = "```console\n$ ptxbench gpus\n\n    indented\n```\n"
    assert highlighted(fenced) == fenced
