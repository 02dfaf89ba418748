"""The page for a browser: whole, closed to the network, and safe whatever a run's texts say."""

import html.parser
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import run as fake

from ptxbench.cli.main import run
from ptxbench.core.condition import OptLevel
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.printable import printable
from ptxbench.core.status import Status
from ptxbench.report.formats import RunReport, render_report
from ptxbench.report.row_trials import row_trials
from ptxbench.storage.board_spread import BoardSpread, RowSpread, with_other_boards
from ptxbench.storage.kernels import KernelStore
from ptxbench.storage.run_folder import RunFolder

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 @@data@@ & 'x' \"y\""


class Elements(html.parser.HTMLParser):
    """Every element of a page with its attributes, and the texts of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.scripts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data


def page(*reports):
    return render_report("html", reports, None)


def report(rows, gpu=fake.GPU, path="run", **more):
    return RunReport(path, gpu, tuple(rows), **more)


def data_of(text):
    return json.loads(Elements(text).scripts[0])


def rows_of(text):
    return unpacked(data_of(text)["columns"])


def unpacked(columns):
    """Return rows of columns: lists of all values, or of those that there are and each row's place."""
    lengths = [len(column["at"] if isinstance(column, dict) else column) for column in columns.values()]
    count = max(lengths, default=0)
    whole = {
        name: [column["of"][place] for place in column["at"] or [0] * count]
        if isinstance(column, dict)
        else column
        for name, column in columns.items()
    }
    return [{name: values[i] for name, values in whole.items()} for i in range(count)]


def test_the_page_holds_every_shown_row_with_what_the_catalogue_knows_of_it():
    text = page(report([fake.row("fma.rn.f32"), replace(fake.row("add.f32"), status=Status.NOT_REACHED)]))
    (row,) = rows_of(text)
    assert (row["instruction"], row["type"], row["unit"], row["status"]) == (
        "fma.rn.f32",
        "f32",
        "thread",
        "ok",
    )
    assert row["pj_per_flop"] == row["energy_pj"] / 2
    (about,) = unpacked(data_of(text)["instructions"])
    assert (about["name"], about["opcode"], about["family"]) == ("fma.rn.f32", "fma.rn.f32", "arithmetic")
    assert data_of(text)["runs"][0]["left_out"] == 1


def test_a_row_that_other_boards_reached_is_shown():
    missed = replace(fake.row("add.f32"), status=Status.NOT_REACHED, dynamic_pj=math.nan)
    spread = BoardSpread("run", (), (RowSpread(*missed.key, "FADD", 1.0, 3, 10.5, 0.1, 0.002),))
    (row,) = rows_of(page(report(with_other_boards([missed], spread), spread=spread)))
    assert (row["energy_pj"], row["ci95_pj"], row["boards"], row["sass"]) == (10.5, 0.1, 3, "FADD")
    assert (row["status"], row["reason"]) == ("ok", "measured on 3 other boards")


def test_an_imprecise_row_has_the_mean_of_other_boards_where_that_is_better():
    poor = replace(fake.row("add.f32"), status=Status.IMPRECISE, dynamic_pj=12.0, dynamic_ci95_pj=3.0)
    better, no_better = (10.5, "ok", "measured on 3 other boards"), (12.0, "imprecise", "")
    for ci95_pj, expected in ((0.1, better), (2.0, no_better)):
        spread = BoardSpread("run", (), (RowSpread(*poor.key, "FADD", 1.0, 3, 10.5, ci95_pj, 0.002),))
        (row,) = rows_of(page(report(with_other_boards([poor], spread), spread=spread)))
        assert (row["energy_pj"], row["status"], row["reason"]) == expected


def test_nothing_is_loaded_and_only_the_page_s_own_script_may_run():
    elements = Elements(page(report([fake.row()])))
    assert not [tag for tag, _ in elements.found if tag in ("link", "img", "iframe", "object", "base")]
    assert not any(
        "src" in attributes or ("href" in attributes and attributes["href"] != "#table")
        for _, attributes in elements.found
    )
    assert not any(name.startswith("on") for _, attributes in elements.found for name in attributes)
    (policy,) = [a["content"] for t, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}=';", policy)


def test_what_a_hostile_run_says_stays_text():
    plain = page(report([fake.row()]))
    row = replace(
        fake.row(HOSTILE), category=HOSTILE, sass=HOSTILE, reason=HOSTILE, status=Status.GATE_FAILED
    )
    gpu = replace(fake.GPU, name=HOSTILE, driver=HOSTILE, target=HOSTILE)
    text = page(report([row], gpu, HOSTILE))
    assert [tag for tag, _ in Elements(text).found] == [tag for tag, _ in Elements(plain).found]
    assert Elements(text).scripts[1] == Elements(plain).scripts[1]
    (shown,) = rows_of(text)
    assert (shown["instruction"], shown["reason"]) == (printable(HOSTILE), printable(HOSTILE))
    assert data_of(text)["runs"][0]["name"] == printable(HOSTILE)


def test_no_number_is_written_that_json_does_not_have():
    row = replace(fake.row(), power_w=math.inf, issue_cycles=math.nan)
    (shown,) = rows_of(page(report([row])))
    assert (shown["power_w"], shown["issue_cycles"]) == (None, None)


def test_a_simulated_gpu_says_so():
    gpu = replace(fake.GPU, kind=GpuKind.SIMULATED)
    text = page(report([fake.row()], gpu))
    assert "(SIMULATED, no measurement)" in re.search("<title>(.*)</title>", text).group(1)
    assert data_of(text)["runs"][0]["title"].endswith("(SIMULATED, no measurement)")


def test_the_command_writes_the_page_of_the_h200_with_its_origin(tmp_path, capsys):
    out = tmp_path / "h200.html"
    assert run(["report", "h200", "--format", "html", "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    text = out.read_text()
    assert len(text) < 1_000_000
    (about,) = data_of(text)["runs"]
    assert (about["board"], about["created"]) == ("6eda50547c2a", "2026-11-22")
    assert len(about["boards"]) >= 34
    assert sum(row["status"] in ("ok", "imprecise") for row in rows_of(text)) == 2884


def test_out_is_checked_before_anything_is_read(tmp_path, capsys):
    assert run(["report", str(tmp_path / "none"), "--format", "html", "--out", str(tmp_path)]) == 2
    assert "it is a folder; name a file" in capsys.readouterr().err


def test_the_loop_that_ran_is_shown_where_the_run_holds_it():
    results = Path(__file__).parents[2] / "results" / "nvidia-h200"
    with RunFolder.open(results / "table-6eda-repeat") as folder:
        rows = [row for row in folder.rows() if row.instruction == "fma.rn.f32"]
        text = page(report(rows, kernels=folder.kernels))
    loops = data_of(text)["loops"]
    for row in rows_of(text):
        loop = loops[row["loop"]]
        assert "fma.rn.f32         %x0, %x0, %a0, %b0;" in loop["ptx"]
        assert "FFMA R" in loop["sass"]
        assert "BRA" in loop["sass"].splitlines()[-1]
    assert len(loops) == 2, "one for each optimization level"


def test_sass_that_does_not_parse_is_left_out(tmp_path):
    store = KernelStore(tmp_path)
    store.add("fma.rn.f32/throughput", fake.PTX, HOSTILE, fake.CUBIN)
    (row,) = rows_of(page(report([replace(fake.row("fma.rn.f32"), opt_level=OptLevel.O3)], kernels=store)))
    assert row["loop"] is None


def test_a_row_has_the_power_of_its_last_launch_and_every_repeat():
    with RunFolder.open(Path(__file__).parents[2] / "results/nvidia-h200/operands") as folder:
        trials = row_trials(folder)
        rows = folder.rows()
        text = page(report(rows, folder.manifest.gpu, trials=trials))
        last = max(
            (r for r in folder.records() if r.subject == rows[0].subject and r.role == "target"),
            key=lambda one: one.order,
        )
    (shown,) = (row for row in rows_of(text) if row["trials"] and row_key(row) == row_key(vars_of(rows[0])))
    found = shown["trials"]
    assert len(found["powers_w"]) == rows[0].repeats
    assert found["duration_ms"] == pytest.approx((last.end_ns - last.start_ns) / 1e6, rel=1e-3)
    inside = [w for at, w in found["trace"] if 100 < at < found["duration_ms"]]
    assert inside
    assert max(inside) == pytest.approx(last.steady_power_w, rel=0.05)
    assert dict(found["energies_j"])["steady power"] == pytest.approx(
        last.steady_power_w * last.elapsed_s, rel=1e-3
    )


def test_without_readings_no_row_has_a_trace(tmp_path):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        folder.finish([fake.row()], fake.END)
    with RunFolder.open(Path(__file__).parents[2] / "results/nvidia-h100/table-57c3") as folder:
        assert row_trials(folder) == {}
    assert rows_of(page(report([fake.row()])))[0]["trials"] is None


def vars_of(row):
    return {name: getattr(row, name) for name in ("instruction", "opt_level", "protocol", "operands")}


def row_key(row):
    return tuple(str(row[name]) for name in ("instruction", "opt_level", "protocol", "operands"))
