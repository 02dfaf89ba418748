"""How often the algorithms come near the best of all runs, on kernels drawn at random."""

import sys

from fakes.script import load_script


def test_every_algorithm_makes_few_of_all_runs_and_saves_energy_by_the_clock(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["block_sizes.py", "--cases", "12"])
    load_script("benchmarks/block_sizes.py").main()
    first, _, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("SIMULATED")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[0], row[2]) for row in cells] == [
        *(("1", "time"), ("1", "energy"), ("2", "energy")),
        *(("3", "time"), ("3", "energy"), ("4", "energy")),
    ]
    for row in cells:
        assert float(row[8]) < 0.6 * float(row[9])
        assert float(row[5].rstrip("%")) <= float(row[6].rstrip("%")) + 1
    # A clock near the ridge saves what no block size does.
    for fixed, free in ((1, 2), (4, 5)):
        assert float(cells[free][10].rstrip("%")) > 3 + float(cells[fixed][10].rstrip("%"))
