"""The page of a profile: whole in one file, and in a browser searched, sorted and looked into."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.browser import CHROMIUM, Page, data_of

from ptxbench.attribute.page import step_page
from ptxbench.attribute.replay.profile import profile_of
from ptxbench.attribute.replay.replayed import ProfileFolder
from ptxbench.cli.main import run

DECODE = Path(__file__).parents[2] / "results" / "nvidia-h100" / "profiles" / "decode"
MIXED = DECODE.parents[1] / "programs" / "mixed"
HOSTILE = "</script><img src=x onerror=document.title=1><script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def measured():
    folder = ProfileFolder.open(DECODE)
    with folder.recordings:
        yield folder, profile_of(folder)


def test_it_has_every_row_the_tree_and_the_power(measured):
    folder, profile = measured
    data = data_of(step_page(folder, profile))
    (section,) = data["sections"]
    (table,), (plot,) = section["tables"], section["plots"]
    assert [row["name"] for row in table["rows"]] == [row.name for row in profile.rows]
    assert data["tree"]["energy"] == pytest.approx(profile.sum_j, rel=1e-4)
    assert sum(one["energy"] for one in data["tree"]["children"]) == pytest.approx(profile.sum_j, rel=1e-4)
    at_s, power_w = zip(*plot["points"], strict=True)
    assert at_s[0] == 0
    assert list(at_s) == sorted(at_s)
    assert 100 < min(power_w) < max(power_w) < 700
    assert any("98.2% of the step" in note for note in data["notes"])


def test_no_text_of_a_run_is_markup(measured):
    folder, profile = measured
    rows = (replace(profile.rows[0], name=HOSTILE, reason=HOSTILE), *profile.rows[1:])
    text = step_page(folder, replace(profile, rows=rows, gpu=HOSTILE))
    assert text.count("</script>") == 2
    assert "<img" not in text


def test_report_writes_it_by_the_ending(tmp_path, capsys):
    assert run(["report", str(DECODE), "--out", str(tmp_path / "decode.html")]) == 0
    assert (tmp_path / "decode.html").read_text().startswith("<!DOCTYPE html>")
    assert "wrote" in capsys.readouterr().err


@pytest.fixture
def opened(tmp_path, measured):
    def open_at(width, **changes):
        folder, profile = measured
        path = tmp_path / "page.html"
        path.write_text(step_page(folder, replace(profile, **changes)), encoding="utf-8")
        (tmp_path / "browser").mkdir()
        tab = Page(tmp_path / "browser", width)
        tab.open(path.as_uri())
        tab.settle()
        return tab

    return open_at


def in_first_row(tab):
    return tab.run("document.querySelector('#rows tbody tr').innerText")


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)")
@pytest.mark.parametrize("width", [1400, 390])
def test_it_fits_the_window_and_is_sorted_searched_and_zoomed(opened, measured, width):
    _, profile = measured
    largest_mj = f"{1e3 * max(row.energy_j for row in profile.rows):.4g}"
    powers_w = sorted(row.power_w for row in profile.rows if row.power_w is not None)
    found = sum("mulfunctor" in row.name.lower() for row in profile.rows)
    with opened(width) as tab:
        assert tab.errors == []
        assert tab.run("document.documentElement.scrollWidth <= window.innerWidth")
        assert tab.run("document.querySelectorAll('#rows tbody tr').length") == len(profile.rows)
        assert largest_mj in in_first_row(tab)
        tab.run("document.querySelectorAll('#rows thead button')[8].click()")
        assert f"{powers_w[-1]:.4g}" in in_first_row(tab)
        tab.run("document.querySelectorAll('#rows thead button')[8].click()")
        assert f"{powers_w[0]:.4g}" in in_first_row(tab)
        tab.run("document.querySelector('#search').value = 'mulfunctor'")
        tab.run("document.querySelector('#search').dispatchEvent(new Event('input'))")
        assert tab.run("document.querySelector('#count').textContent").startswith(
            f"{found} of {len(profile.rows)} rows"
        )
        boxes = tab.run("document.querySelectorAll('#flame g').length")
        tab.run("document.querySelectorAll('#flame g')[1].dispatchEvent(new Event('click'))")
        assert tab.run("document.querySelectorAll('#flame g').length") < boxes
        tab.run("document.querySelectorAll('#flame g')[0].dispatchEvent(new Event('click'))")
        assert tab.run("document.querySelectorAll('#flame g').length") == boxes
        tab.run("document.querySelectorAll('#flame g')[1].dispatchEvent(new Event('focus'))")
        assert f"{largest_mj} mJ" in tab.run("document.querySelector('#told').textContent")
        assert all(address.startswith(("file:", "about:")) for address in tab.requests)
        assert tab.errors == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)")
def test_hostile_names_are_text(opened, measured):
    _, profile = measured
    rows = (replace(profile.rows[0], name=HOSTILE, reason=HOSTILE), *profile.rows[1:])
    with opened(1000, rows=rows, notes=(HOSTILE,)) as tab:
        assert tab.run("document.title").startswith("The joules of a step")
        assert tab.run("document.querySelectorAll('img').length") == 0
        assert tab.errors == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)")
@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_of_a_program_is_the_same(tmp_path, width):
    assert run(["run", "--from", str(MIXED), "--html", str(tmp_path / "page.html")]) == 0
    (tmp_path / "browser").mkdir()
    with Page(tmp_path / "browser", width) as tab:
        tab.open((tmp_path / "page.html").as_uri())
        tab.settle()
        assert tab.run("document.documentElement.scrollWidth <= window.innerWidth")
        assert "copy_kernel" in in_first_row(tab)
        tab.run("document.querySelectorAll('#rows thead button')[4].click()")
        tab.run("document.querySelectorAll('#rows thead button')[4].click()")
        assert "(no kernel)" in in_first_row(tab)
        assert tab.run("document.querySelectorAll('#flame g').length") > 4
        assert "loop" in tab.run("document.querySelector('#rows-2 tbody').innerText")
        assert tab.errors == []
