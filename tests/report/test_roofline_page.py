"""The page of rooflines: its data, what it says without a fit or a limit, and in real Chromium."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.browser import CHROMIUM, Page, data_of

from ptxbench.cli.main import run
from ptxbench.devices.simulated import SimulatedGpu, find_profile
from ptxbench.experiment.roofline.measure import measure
from ptxbench.experiment.roofline.options import RooflineOptions
from ptxbench.experiment.roofline.result import fitted_machine
from ptxbench.model.roofline.tradeoff import TradeOff
from ptxbench.report.roofline_kernels import PlacedKernel
from ptxbench.report.roofline_page import PatternFit, read_roofline, render_rooflines
from ptxbench.report.roofline_plot import gaining_factors

KEPT = Path(__file__).parents[2] / "results"
H100, H200 = KEPT / "nvidia-h100" / "roofline" / "f32-levels", KEPT / "nvidia-h200" / "roofline" / "f32"
HOSTILE = "</script><img src=x onerror=document.title=1><script>document.title='taken'</script>"
browser = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)"),
]


@pytest.fixture(scope="module")
def reports():
    return [read_roofline(H100), read_roofline(H200)]


def test_kernels_of_others_are_stars_on_the_first_run(reports):
    mine = PlacedKernel("mine", "f32", 4.0, 8000.0, 400.0, 20.0, 30.0, capped=True)
    other_kind = replace(mine, name="half", kind="f16x2")
    data = data_of(render_rooflines(reports, [mine, other_kind]))
    rows = [dict(zip(data["point_columns"], cells, strict=True)) for cells in data["points"]]
    (row,) = [row for row in rows if row["status"].startswith("of others")]
    assert data["series"][row["series"]]["run"] == 0
    assert data["series"][row["series"]]["level"] == "dram"
    assert (row["kernel"], row["gbyte_per_s"], row["time_ms"]) == ("mine", 2000, None)
    assert row["sms"] == data["series"][row["series"]]["sms"]


def test_the_page_has_what_the_fit_says_and_lines_that_agree_with_it(reports):
    data = data_of(render_rooflines(reports))
    assert [(s["kind"], s["level"]) for s in data["series"]] == [
        *(("f32", level) for level in ("dram", "l1", "shared", "l2")),
        ("f32", "dram"),
    ]
    dram = data["series"][0]
    assert dram["quantities"]["time_balance_flop_per_byte"][0] == pytest.approx(21.36, abs=0.01)
    assert dram["races_to_halt"] is True
    lines = dram["lines"]
    for intensity, speed, pj in zip(
        lines["flop_per_byte"], lines["gflop_per_s"], lines["pj_per_flop"], strict=True
    ):
        time_s = max(intensity / dram["flops_per_s"], 1 / dram["bytes_per_s"])
        assert speed == pytest.approx(intensity / time_s / 1e9, rel=1e-4)
        share = 1 / dram["bytes_per_s"] / time_s
        static_w = dram["constant_w"] + dram["memory_w"] * (1 - math.exp(-share / 0.1))
        energy_pj = dram["flop_pj"] + (dram["byte_pj"] + 1e12 * static_w * time_s) / intensity
        assert pj == pytest.approx(energy_pj, rel=1e-3)
    assert dram["constant_w"] == pytest.approx(121.5, abs=0.1)
    assert dram["memory_w"] == pytest.approx(20.8, abs=0.1)
    assert dram["average_byte_pj"] == pytest.approx(119.3, abs=0.1)
    assert max(lines["limited_w"]) == 700
    (fitted,) = [one for one in data["energies"] if (one["run"], one["name"]) == (0, "dram")]
    assert (fitted["value"], fitted["table"]) == (pytest.approx(112.6, abs=0.1), "h100")
    assert fitted["table_value"] == pytest.approx(131.9, abs=0.1)
    columns = data["point_columns"]
    point = dict(zip(columns, data["points"][0], strict=True))
    assert point["energy_j"] == pytest.approx(point["power_w"] * point["time_ms"] / 1e3, rel=1e-4)
    assert "FFMA" in data["sass"][point["sass"]]
    assert all(data["sass"][cells[columns.index("sass")]] for cells in data["points"])


@pytest.mark.parametrize("m", [1.0, 1.5, 4.0, 16.0])
def test_trades_that_gain_are_those_with_the_least_flops(reports, m):
    factors = [2 ** (n / 8) for n in range(33)]
    for fit in (fit for report in reports for fit in report.fits):
        machine, _ = fitted_machine(fit.result, *fit.pairs[0])
        for intensity in (machine.time_balance / 2, 2 * machine.time_balance):
            trades = [TradeOff(machine, intensity, f, m) for f in factors]
            assert gaining_factors(machine, intensity, m, factors) == (
                sum(trade.speedup > 1 for trade in trades),
                sum(trade.greenup > 1 for trade in trades),
            )


def test_a_board_without_a_limit_has_no_line_of_it(reports):
    report = reports[1]
    gpu = replace(report.manifest.gpu, power_limit_w=math.nan)
    (fit,) = report.fits
    free = replace(
        report,
        manifest=replace(report.manifest, gpus=(gpu,)),
        fits=(replace(fit, result=replace(fit.result, gpu=gpu)),),
    )
    (series,) = data_of(render_rooflines([free]))["series"]
    assert series["cap_w"] is None
    assert set(series["lines"]["limited_w"]) == {None}


def test_a_run_with_too_few_kernels_has_its_points_and_the_reason(tmp_path, capsys):
    few = RooflineOptions(kinds=("f32",), intensities=(1, 64), sms=(16,))
    measure(SimulatedGpu(find_profile("h200-memory")), few, tmp_path / "few", peaks=False)
    out = tmp_path / "page.html"
    assert run(["report", str(tmp_path / "few"), "--format", "html", "--out", str(out)]) == 1
    assert "no line: 2 points are too few for 3 energies" in capsys.readouterr().err
    data = data_of(out.read_text())
    (series,) = data["series"]
    assert "2 points are too few" in series["reason"]
    assert "lines" not in series
    assert len(data["points"]) == 2
    assert "no measurement" in data["runs"][0]["title"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([str(H200), "h200", "--format", "html"], "is a roofline and h200 is none"),
        ([str(H200)], "--format html makes its page"),
        ([str(H200), "--json"], "--format html makes its page"),
    ],
)
def test_what_has_no_page_is_one_line(arguments, said, capsys):
    assert run(["report", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


class TestBrowser:
    pytestmark = browser

    @pytest.fixture
    def write(self, tmp_path):
        def written(*reports):
            path = tmp_path / "page.html"
            path.write_text(render_rooflines(reports), encoding="utf-8")
            assert path.stat().st_size < 3_000_000
            return path.as_uri()

        return written

    @pytest.fixture
    def tab(self, tmp_path):
        with Page(tmp_path / "browser") as page:
            yield page
            assert page.errors == []
            assert all(address.startswith(("file:", "blob:", "about:")) for address in page.requests)

    def test_boxes_choose_series_and_the_address_and_exports_keep_the_choice(self, tab, write, reports):
        address = write(*reports)
        tab.open(address)
        tab.settle()
        assert tab.run("document.getElementById('count').textContent").startswith("2 of 5 series")
        assert tab.run("performance.timing.loadEventEnd - performance.timing.navigationStart") < 2000
        tab.run("document.querySelector('input[value=l2]').click()")
        tab.run("document.querySelector('input[value=relative]').click()")
        link = tab.run("location.hash")
        tab.open("about:blank")
        tab.open(address + link)
        tab.settle()
        assert tab.run("document.getElementById('count').textContent").startswith("3 of 5 series")
        titles = tab.run("[...document.querySelectorAll('figcaption')].map(e => e.firstChild.textContent)")
        assert titles[:3] == ["Roofline and arch line", "Power", "Balance points: is race to halt sound?"]
        assert titles[3:] == ["Energy by component"] * 3 + ["Where a trade pays"]
        rows = tab.run("[...document.querySelectorAll('#balances tbody tr')].map(e => e.textContent)")
        assert len(rows) == 3
        assert "14.66 (14.2 to 15.1)" in rows[0]
        assert rows[0].endswith("sound")
        exported = list(csv.DictReader(io.StringIO(tab.run("csvText()"))))
        assert {row["level"] for row in exported} == {"dram", "l2"}
        assert len(json.loads(tab.run("jsonText()"))["points"]) == len(exported)

    def test_a_trade_of_flops_for_bytes_is_that_of_the_command(self, tab, write, reports):
        tab.open(write(reports[1]) + "#f=3&m=4&at=1")
        tab.settle()
        machine, _ = fitted_machine(reports[1].fits[0].result, "f32", "dram")
        wanted = TradeOff(machine, 1.0, 3.0, 4.0)
        found = tab.run("trade(visible()[0], state.at, state.f, state.m)")
        for name, value in {"speedup": wanted.speedup, "greenup": wanted.greenup}.items():
            assert found[name] == pytest.approx(value, rel=1e-4), name
        assert TradeOff(machine, 1.0, found["greenest"], 4.0).greenup == pytest.approx(1, rel=1e-4)
        assert TradeOff(machine, 1.0, found["fastest"], 4.0).speedup == pytest.approx(1, rel=1e-4)
        assert tab.run("document.querySelector('#trade tbody tr').textContent").endswith(wanted.verdict)
        assert tab.run("document.querySelectorAll('#trade-figure path.line').length") == 2
        tab.run("$('f').value = 0.5; $('f').dispatchEvent(new Event('input'))")
        assert tab.run("state.f") == 3, "fewer flops for fewer bytes are no trade"

    def test_a_point_says_its_numbers_to_pointer_and_keyboard(self, tab, write, reports):
        tab.open(write(reports[1]))
        tab.settle()
        first = "document.querySelectorAll('figure')[1].querySelector('.point')"
        box = "document.querySelectorAll('figure')[1].querySelector('.tip')"
        tip = f"(e => e.hidden ? '' : e.textContent)({box})"
        assert tab.run(tip) == ""
        tab.run(f"{first}.focus()")
        assert "Intensity0.125 flop/byte" in tab.run(tip)
        for name in ("Power", "Gflop/J", "GB/s", "SMs132", "Statusok", "FFMA"):
            assert name in tab.run(tip), name
        assert "Intensity: 0.125 flop/byte" in tab.run("document.activeElement.getAttribute('aria-label')")
        key = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"
        tab.run(key % "ArrowRight")
        assert "Intensity0.1719 flop/byte" in tab.run(tip)
        tab.run(key % "Escape")
        assert tab.run(tip) == ""
        tab.run("document.querySelectorAll('figure')[1].scrollIntoView()")
        place = tab.run(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({first}.getBoundingClientRect())")
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        tab.settle()
        assert "Intensity0.125 flop/byte" in tab.run(tip)

    def test_without_a_fit_points_and_the_reason_are_there_and_texts_stay_texts(self, tab, write, reports):
        report = reports[1]
        gpu = replace(report.manifest.gpu, name=HOSTILE, driver=HOSTILE)
        fit = PatternFit("random", report.fits[0].points, None, HOSTILE)
        sass = dict.fromkeys(report.sass, HOSTILE)
        hostile = replace(
            report,
            path=HOSTILE,
            manifest=replace(report.manifest, gpus=(gpu,)),
            fits=(fit,),
            sass=sass,
        )
        tab.open(write(hostile))
        tab.settle()
        assert tab.run("document.querySelectorAll('img').length") == 0
        assert tab.run("document.title").startswith("Energy rooflines")
        assert HOSTILE in tab.run("document.querySelector('.reason').textContent")
        assert tab.run("document.querySelectorAll('.point').length") > 50
        assert tab.run("document.querySelectorAll('path.line').length") == 0

    def test_a_phone_needs_no_scrolling_sideways(self, tmp_path, write, reports):
        with Page(tmp_path / "phone", 390, dark=True) as tab:
            tab.open(write(*reports))
            tab.settle()
            assert tab.run("document.documentElement.scrollWidth") == 390
            assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
            assert tab.errors == []
