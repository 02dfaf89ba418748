"""`ptxbench clocks ridge`: ridge point and best clock of a file of clocks and powers, or one clear line."""

import json

import numpy as np
import pytest

from ptxbench.cli.main import run
from ptxbench.model.clocks.ridge import PowerCurve

CURVE = PowerCurve(80, 0.12, 1000, 1 / 1500)


def write_samples(path, curve=CURVE, scatter=0.001):
    rng = np.random.default_rng(1)
    lines = [
        f"{clock},{curve.power_w(clock) * (1 + scatter * rng.normal()):.3f},x"
        for clock in range(345, 1981, 60)
    ]
    path.write_text("\n".join(["clock_mhz, power_w,note", *lines]) + "\n")
    return path


def ridge_json(capsys, *arguments):
    assert run(["clocks", "ridge", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_hidden_parameters_come_back_within_their_intervals(tmp_path, capsys):
    found = ridge_json(capsys, "--samples", write_samples(tmp_path / "samples.csv"))
    truth = {"idle_w": 80, "alpha_w_per_mhz": 0.12, "beta_per_mhz": 1 / 1500, "ridge_mhz": 1000}
    for name, value in truth.items():
        assert abs(found[name]["value"] - value) <= found[name]["uncertainty"] < value / 5
    assert found["found"]
    assert found["voltage"] == "linear"
    assert found["linear_probability"] > 0.05


def test_the_text_has_every_quantity_and_the_search_range(tmp_path, capsys):
    words = ["--samples", str(write_samples(tmp_path / "s.csv")), "--cap-w", "300"]
    assert run(["clocks", "ridge", *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith("samples of s.csv\nthe voltage is flat and then rises: a ridge within [345, ")
    words = ("ridge point tau: 1", "best clock:", "worth trying:", "P_idle:", "alpha:", "beta:", "kappa:")
    for word in (*words, "voltage:         linear; F test of linear against quadratic: p = "):
        assert f"\n{word}" in out
    assert "P_max:           300 W (given)" in out
    assert " 0 left out" not in out


def test_no_ridge_is_an_answer_with_its_reason(tmp_path, capsys):
    straight = write_samples(tmp_path / "s.csv", PowerCurve(80, 0.12, 5000, 0))
    assert run(["clocks", "ridge", "--samples", str(straight)]) == 0
    out = capsys.readouterr().out
    assert "\nno ridge within [345, 1965] MHz: power is a straight line in the clock\n" in out
    assert "ridge point tau: -\n" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column clock_mhz"),
        ("clock,power_w\n1,2\n", "no column clock_mhz"),
        ("clock_mhz,power_w\n0.9,250\n1.98,400\n", "no clock_mhz above 1.98; give clocks in MHz"),
        ("clock_mhz,power_w,power_w\n1,2,3\n", "2 columns power_w"),
        ("clock_mhz,power_w\n900,200\n950,n/a\n", "line 3: power_w is 'n/a'"),
        ("clock_mhz,power_w\n900\n", "line 2: power_w is ''"),
        ("clock_mhz,power_w\n-5,100\n", "line 2: clock_mhz is '-5'"),
        ("clock_mhz,power_w\n900,1e300\n", "a positive number up to 100000"),
        ("clock_mhz,power_w\nnan,100\n", "line 2: clock_mhz is 'nan'"),
        ("clock_mhz,power_w\n900,200\n", "1 clocks below the power limit are too few"),
        ('clock_mhz,power_w\n"' + "9" * 200_000 + '",1\n', "bad.csv, line "),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, capsys, text, said):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert run(["clocks", "ridge", "--samples", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_file_that_is_missing_or_no_text_is_one_line(tmp_path, capsys):
    assert run(["clocks", "ridge", "--samples", str(tmp_path / "none.csv")]) == 2
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x80")
    assert run(["clocks", "ridge", "--samples", str(tmp_path / "binary.csv")]) == 2
    missing, binary = capsys.readouterr().err.splitlines()
    assert "cannot read" in missing
    assert "is not text in UTF-8" in binary


@pytest.mark.parametrize("voltages", [False, True])
def test_the_plot_is_written_with_voltages_where_they_are_known(tmp_path, voltages):
    samples, path = write_samples(tmp_path / "s.csv"), tmp_path / "ridge.svg"
    if voltages:
        samples.write_text(samples.read_text().replace(",note", ",voltage_mv").replace(",x", ",731.25"))
    assert run(["clocks", "ridge", "--samples", str(samples), "--plot", str(path)]) == 0
    assert ("core voltage, mV" in path.read_text()) is voltages


def test_the_power_limit_is_fitted_on_request(tmp_path, capsys):
    flat = write_samples(tmp_path / "flat.csv", PowerCurve(80, 0.12, 1000, 1 / 1500, cap_w=330))
    found = ridge_json(capsys, "--samples", flat, "--fit-cap")
    assert found["curve"]["cap_w"] == pytest.approx(330, rel=0.003)
    assert found["cap_fitted"]
    assert run(["clocks", "ridge", "--samples", str(write_samples(tmp_path / "s.csv")), "--fit-cap"]) == 0
    assert "P_max:           none: power rises" in capsys.readouterr().out
    assert run(["clocks", "ridge", "--samples", str(flat), "--fit-cap", "--cap-w", "300"]) == 2
