"""Eq. 6 beside MTSM corrected on a simulated slow sensor."""

import sys

from fakes.script import load_script


def test_the_table_has_every_method_and_says_that_it_is_simulated(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["capacitance.py", "--seeds", "2"])
    load_script("benchmarks/capacitance.py").main()
    first, _, _, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("SIMULATED")
    errors = {
        cells[1].strip(): [float(cell.split()[0]) for cell in cells[2:-1]]
        for cells in (r.split("|") for r in rows)
    }
    assert len(errors) == 5
    assert max(map(abs, errors["MTSM corrected"])) < 3
    # A kernel as long as the sensor's second of averaging, or longer.
    assert max(map(abs, errors["Eq. 6, C of the description"][2:])) < 5
    assert errors["Eq. 6, C of the description"][0] < -30
    assert errors["MTSM, Eq. 2 of Arafa et al."][0] < -60
