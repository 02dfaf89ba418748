"""The picture of a table: readable for any number of rows, each unit on its own axis."""

import struct
from dataclasses import replace
from itertools import pairwise

from fakes import run as fake

from ptxbench.cli.main import run
from ptxbench.report.figure import title
from ptxbench.report.plot import layout, plot_energies
from ptxbench.storage.run_folder import RunFolder


def rows(count, unit="thread"):
    return [replace(fake.row(f"{unit}.{n}"), unit=unit, dynamic_pj=10.0 + n) for n in range(count)]


def pixels(path):
    return struct.unpack(">II", path.read_bytes()[16:24])


def labels(columns):
    return [name for column in columns for panel in column for name in panel.labels]


def test_each_unit_has_its_own_axis_and_no_row_is_lost():
    table = [*rows(130), *rows(5, "warp"), *rows(3, "warpgroup")]
    columns = layout(table, 60)
    assert sorted(labels(columns)) == sorted(row.instruction for row in table)
    for column in columns:
        for panel in column:
            assert all(name.startswith(f"{panel.unit}.") for name in panel.labels)
    assert [[(panel.unit, len(panel.labels)) for panel in column] for column in columns] == [
        [("thread", 44)],
        [("thread", 44)],
        [("thread", 42), ("warp", 5), ("warpgroup", 3)],
    ]


def test_two_operand_patterns_of_one_instruction_are_two_lines():
    table = [fake.row(), replace(fake.row(), operands="zeros", dynamic_pj=5.0)]
    assert labels(layout(table, 60)) == ["fma.rn.f32", "fma.rn.f32 (zeros)"]


def test_many_rows_are_pages_of_a_readable_size(tmp_path, monkeypatch):
    # Sixty rows in three columns take seconds to draw.
    monkeypatch.setattr("ptxbench.report.plot._ROWS", 8)
    paths = plot_energies(rows(26), fake.GPU, tmp_path / "all.png")
    assert [path.name for path in paths] == ["all.png", "all-2.png"]
    assert all(max(pixels(path)) < 3000 for path in paths)


def test_no_label_covers_another(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("ptxbench.report.plot.save_pages", lambda figures, _path: drawn.extend(figures) or ())
    table = [*rows(70), *[replace(row, dynamic_pj=row.dynamic_pj * 1e5) for row in rows(8, "warpgroup")]]
    plot_energies(table, fake.GPU, tmp_path / "all.png")
    for figure in drawn:
        figure.canvas.draw()
        for axes in figure.axes:
            assert (
                f"pJ a {axes.get_yticklabels()[0].get_text().split('.')[0]}-instruction" == axes.get_xlabel()
            )
            names = [text.get_window_extent() for text in axes.get_yticklabels()]
            assert not any(a.overlaps(b) for a, b in pairwise(names))
            ticks = [
                text.get_window_extent()
                for text in axes.get_xticklabels(which="both")
                if text.get_text() and axes.get_xlim()[0] <= text.get_position()[0] <= axes.get_xlim()[1]
            ]
            assert not any(a.overlaps(b) for i, a in enumerate(ticks) for b in ticks[i + 1 :])
            assert axes.xaxis.label.get_window_extent().x1 <= figure.bbox.x1
        assert title(fake.GPU) in figure.get_suptitle()


def test_the_command_draws_and_says_what_it_wrote(tmp_path, capsys):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        folder.finish(rows(3), fake.END)
    assert run(["report", str(tmp_path / "run"), "--plot", str(tmp_path / "p.svg")]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"ptxbench: wrote {tmp_path / 'p.svg'}"]
