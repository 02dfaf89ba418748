"""The page in real Chromium, opened from a file: search, sort, filter, links, exports, 2,500 rows."""

import csv
import io
import json
from dataclasses import replace

import pytest
from fakes import run as fake
from fakes.browser import CHROMIUM, Page

from ptxbench.catalogue.load import load_catalogue
from ptxbench.core.condition import ARAFA, OptLevel
from ptxbench.core.status import Status
from ptxbench.report.formats import RunReport, render_report
from ptxbench.report.row_trials import RowTrials

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)"),
]
HOSTILE = "</script><img src=x onerror=document.title=1><script>document.title='taken'</script>"
DYNAMIC_ROWS = (
    replace(
        fake.row("fma.rn.f32"), dynamic_pj=14.4, dynamic_ci95_pj=0.02, opt_level=OptLevel.O3, sass="FFMA"
    ),
    replace(
        fake.row("fma.rn.f32"), dynamic_pj=16.8, dynamic_ci95_pj=0.02, opt_level=OptLevel.O0, sass="FFMA"
    ),
    replace(fake.row("fma.rn.f32"), dynamic_pj=5.0, opt_level=OptLevel.O3, operands="zeros", sass="FFMA"),
    replace(fake.row("add.u32"), dynamic_pj=7.5, opt_level=OptLevel.O3, sass="IADD3"),
    replace(fake.row("mma.m16n8k16.f32.f16.f16.f32"), dynamic_pj=7000.0, opt_level=OptLevel.O3, unit="warp"),
    replace(fake.row("div.rn.f32"), opt_level=OptLevel.O3, status=Status.GATE_FAILED, reason="=a call"),
)
LATENCY = replace(
    fake.row("fma.rn.f32"), protocol=ARAFA, opt_level=OptLevel.O3, mtsm_pj=500.0, latency_cycles=4.0
)


def report(rows, path="mine", gpu=fake.GPU):
    return RunReport(path, gpu, tuple(rows), all_rows=True)


@pytest.fixture
def write(tmp_path):
    def written(*reports):
        path = tmp_path / "page.html"
        path.write_text(render_report("html", reports, None), encoding="utf-8")
        return path.as_uri()

    return written


@pytest.fixture
def tab(tmp_path):
    with Page(tmp_path / "browser") as page:
        yield page
        assert page.errors == []
        assert all(address.startswith(("file:", "blob:", "about:")) for address in page.requests)


def names(tab):
    return tab.run("[...document.querySelectorAll('tr.row th button')].map(e => e.textContent)")


def enter(tab, place, value, event):
    control = f"document.getElementById('{place}')"
    tab.run(f"{control}.value = {value!r}; {control}.dispatchEvent(new Event('{event}'))")
    tab.settle()


def choose(tab, name, value):
    enter(tab, f"f-{name}", value, "change")


def search(tab, text):
    enter(tab, "q", text, "input")


def test_search_filter_and_sort(tab, write):
    tab.open(write(report([*DYNAMIC_ROWS, LATENCY])))
    assert len(names(tab)) == 7
    search(tab, "mma.*")
    assert names(tab) == ["mma.m16n8k16.f32.f16.f16.f32"]
    search(tab, "ffma")
    assert set(names(tab)) == {"fma.rn.f32"}
    assert tab.run("document.getElementById('count').textContent").startswith("3 of 7 rows")
    choose(tab, "operands", "zeros")
    assert len(names(tab)) == 1
    tab.run("document.querySelector('button[type=reset]').click()")
    assert len(names(tab)) == 7
    choose(tab, "protocol", "dynamic")
    tab.run("document.querySelector('th[data-id=energy0] button').click()")
    assert names(tab)[:2] == ["fma.rn.f32", "add.u32"]
    assert tab.run("document.querySelector('th[data-id=energy0]').getAttribute('aria-sort')") == "ascending"
    tab.run("document.querySelector('th[data-id=energy0] button').click()")
    assert names(tab)[0] == "mma.m16n8k16.f32.f16.f16.f32"
    assert names(tab)[-1] == "div.rn.f32", "what has no number stays at the end"
    assert tab.run("document.querySelector('th[data-id=energy0]').getAttribute('aria-sort')") == "descending"


def test_search_finds_what_cost_finds(tab, write):
    more = ("ld.global.v4.b32:hbm", "ex2.approx.ftz.f32", "atom.global.add.f32")
    tab.open(write(report([*DYNAMIC_ROWS, *map(fake.row, more)])))
    tensor, load = "mma.m16n8k16.f32.f16.f16.f32", "ld.global.v4.b32:hbm"
    for typed, expected in {
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": {tensor},
        "tensor": {tensor},
        "matrix": {tensor},
        "m16n8k16": {tensor},
        "dram": {load},
        "ld.global.v4.f32 {%f1}, [%rd1];": {load},
        "exp": {"ex2.approx.ftz.f32"},
        "FFMA": {"fma.rn.f32"},
        "global add": {"atom.global.add.f32"},
        "a call": {"div.rn.f32"},
        "no.such": set(),
    }.items():
        search(tab, typed)
        found = names(tab)
        assert set(found) == expected, typed


def test_a_row_says_what_it_is_per_its_status_in_full_and_what_zeros_cost(tab, write):
    tab.open(write(report(DYNAMIC_ROWS)))
    cells = tab.run(
        "[...document.querySelectorAll('tr.row')].map(e => [...e.children].map(c => c.textContent))"
    )
    headings = tab.run("[...document.querySelectorAll('thead th')].map(e => e.textContent)")
    rows = [dict(zip(headings, one, strict=True)) for one in cells]
    fma = next(row for row in rows if row["On zeros, pJ mine"] == "5")
    assert (fma["Instruction"], fma["Opt"], fma["Operands"]) == ("fma.rn.f32random", "O3", "random")
    assert fma["pJ / flop mine"] == "7.2"
    assert {row["Per"] for row in rows if row["Instruction"].startswith("mma")} == {"warp"}
    assert (
        next(row["Status"] for row in rows if row["Instruction"].startswith("div")) == "gate_failed: =a call"
    )


def test_a_link_opens_its_row_and_keeps_the_filters(tab, write):
    address = write(report(DYNAMIC_ROWS))
    tab.open(address)
    search(tab, "add.u32")
    choose(tab, "opt_level", "O3")
    tab.run("document.querySelector('tr.row button').click()")
    assert tab.run("document.querySelector('tr.row button').getAttribute('aria-expanded')") == "true"
    link = tab.run("location.hash")
    tab.open("about:blank")
    tab.open(address + link)
    assert names(tab) == ["add.u32"]
    assert "PTX: add.u32" in tab.run("document.querySelector('tr.details').textContent")
    tab.open(address + "#row=div.rn.f32%2FO3%2Fdynamic%2Frandom&q=add.u32")
    tab.settle()
    opened = "document.activeElement.closest('tr').nextElementSibling.textContent"
    assert "refused: =a call" in tab.run(opened)
    assert tab.run("document.activeElement.textContent") == "div.rn.f32"


def test_the_exports_are_the_filtered_view(tab, write):
    tab.open(write(report(DYNAMIC_ROWS)))
    choose(tab, "status", "gate_failed")
    (row,) = csv.DictReader(io.StringIO(tab.run("csvText()")))
    assert (row["instruction"], row["energy_pj"], row["reason"]) == ("div.rn.f32", "", "'=a call")
    choose(tab, "status", "")
    search(tab, "add.u32")
    document = json.loads(tab.run("jsonText()"))
    assert [(row["instruction"], row["run"], row["energy_pj"]) for row in document["rows"]] == [
        ("add.u32", "mine", 7.5)
    ]
    tab.run("document.getElementById('csv').click()")
    for _ in range(100):
        tab.settle()
        found = list(tab.downloads.glob("*.csv")) if tab.downloads.exists() else []
        if found:
            break
    assert "add.u32" in found[0].read_text()


def test_runs_side_by_side_have_a_ratio(tab, write):
    other = [replace(row, dynamic_pj=2 * row.dynamic_pj) for row in DYNAMIC_ROWS[:4]]
    gpu = replace(fake.GPU, name="NVIDIA H100")
    tab.open(write(report(DYNAMIC_ROWS), report(other, "other", gpu)))
    assert len(names(tab)) == 6
    headings = tab.run("[...document.querySelectorAll('thead th')].map(e => e.textContent)")
    assert "Energy, pJ other" in headings
    column = headings.index("other / mine")
    assert tab.run(f"document.querySelector('tr.row').children[{column}].textContent") == "2"


def test_the_plots_show_the_rows(tab, write):
    tab.open(write(report([*DYNAMIC_ROWS, LATENCY])))
    tab.settle()
    figures = tab.run(
        "[...document.querySelectorAll('figure')].map(e => [e.querySelector('figcaption').textContent,"
        " e.querySelectorAll('circle').length])"
    )
    counts = dict(figures)
    by_category = "Energy by categorypJ a {}, on a logarithmic axis"
    assert counts[by_category.format("thread")] == 4, "Eq. 1 is apart"
    assert counts[by_category.format("warp")] == 1, "a warp's product has an axis of its own"
    assert [
        next(count for title, count in counts.items() if title.startswith(start))
        for start in ("-O0 against", "Zeros against", "Energy against latency")
    ] == [1, 1, 1]


def test_hostile_texts_are_shown_as_they_are(tab, write):
    row = replace(
        fake.row(HOSTILE), category=HOSTILE, sass=HOSTILE, status=Status.GATE_FAILED, reason=HOSTILE
    )
    gpu = replace(fake.GPU, name=HOSTILE, driver=HOSTILE)
    tab.open(write(report([row, *DYNAMIC_ROWS], HOSTILE, gpu)))
    tab.run("document.querySelectorAll('tr.row button').forEach(e => e.click())")
    tab.settle()
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert HOSTILE in names(tab)
    assert tab.run("document.title").startswith("Energy of PTX instructions")


def test_2500_rows_open_in_two_seconds_and_below_600_kilobytes(tab, write, tmp_path):
    rows = [
        replace(fake.row(instruction.name), opt_level=level, sass="MOV*8 R2UR*2 IADD3 IADD3.X LDG.E")
        for instruction in load_catalogue()
        for level in OptLevel
    ]
    address = write(report(rows))
    assert (tmp_path / "page.html").stat().st_size < 600_000
    tab.open(address)
    tab.settle()
    assert tab.run("view.length") == len(rows) > 2400
    assert tab.run("performance.timing.loadEventEnd - performance.timing.navigationStart") < 2000
    tab.run("document.getElementById('more').click()")
    assert len(names(tab)) == len(rows)


def test_a_phone_needs_no_scrolling_sideways_and_every_control_has_a_name(tmp_path, write):
    with Page(tmp_path / "phone", 390, dark=True) as tab:
        tab.open(write(report(DYNAMIC_ROWS)))
        assert tab.run("document.documentElement.scrollWidth") == 390
        assert tab.run("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.scroll'))")
        assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
        nameless = (
            "[...document.querySelectorAll('input,select,button')]"
            ".filter(e => !e.hidden && !(e.labels && e.labels.length) && !e.textContent.trim()).length"
        )
        assert tab.run(nameless) == 0
        assert tab.errors == []


def test_the_details_draw_the_power_of_the_last_launch_with_its_window(tab, write):
    trials = RowTrials(
        (500.0, 501.0),
        "samples",
        340.0,
        (-40.0, 0.0, 100.0, 200.0, 340.0),
        (120.0, 130.0, 500.0, 501.0, 499.0),
        {"MTSM": 160.5, "counter": 170.28},
    )
    tab.open(write(replace(report(DYNAMIC_ROWS[:1]), trials={DYNAMIC_ROWS[0].subject: trials})))
    tab.run("document.querySelector('tr.row th button').click()")
    text = tab.run("document.querySelector('.trials').textContent")
    assert "500, 501" in text
    assert "MTSM 160.5, counter 170.3" in text
    assert tab.run("document.querySelectorAll('.trials circle').length") == 5
    window = tab.run("Number(document.querySelector('.trials rect').getAttribute('width'))")
    assert 300 < window < 400
