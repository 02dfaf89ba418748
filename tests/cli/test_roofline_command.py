"""`ptxbench roofline`: trade-offs and fitted machines as text and JSON, or one clear line."""

import json

import pytest

from ptxbench.cli.main import run

# Tables 3 and 4 of Choi and Vuduc (2012): the GTX 580 in double precision.
GTX580 = ["--gflops=197.63", "--gbytes=192.4", "--flop-pj=212", "--byte-pj=513", "--constant-w=122"]


def tradeoff_json(capsys, *arguments):
    assert run(["roofline", "tradeoff", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_tradeoff_is_time_and_energy_of_the_old_over_the_new(capsys):
    found = tradeoff_json(capsys, "--f=2", "--m=4", "--intensity=0.25", *GTX580)
    # By hand: times of a flop of the old algorithm, energies of one byte of it.
    old_s, new_s = 4 / 192.4, max(2 / 197.63, 1 / 192.4)
    old_j, new_j = 0.212 + 4 * 0.513 + 122 * old_s, 2 * 0.212 + 0.513 + 122 * new_s
    assert found["speedup"]["value"] == pytest.approx(old_s / new_s)
    assert found["greenup"]["value"] == pytest.approx(old_j / new_j)
    assert found["verdict"] == "faster, and takes less energy"
    low, high = found["greenup_lower_bound"]["value"], found["greenup_upper_bound"]["value"]
    assert low <= found["greenup"]["value"] <= high
    assert found["greenup"]["low"] is None


def test_more_flops_than_the_limit_lose_energy(capsys):
    most = tradeoff_json(capsys, "--f=2", "--m=4", "--intensity=0.25", *GTX580)["most_f_without_bytes"][
        "value"
    ]
    beyond = tradeoff_json(capsys, f"--f={most * 1.01}", "--m=1e9", "--intensity=0.25", *GTX580)
    within = tradeoff_json(capsys, f"--f={most * 0.99}", "--m=1e9", "--intensity=0.25", *GTX580)
    assert beyond["greenup"]["value"] < 1 < within["greenup"]["value"]


def test_the_text_says_the_verdict_first(capsys):
    assert run(["roofline", "tradeoff", "--f=2", "--m=4", "--intensity=100", *GTX580]) == 0
    out = capsys.readouterr().out
    assert out.startswith("neither faster nor takes less energy: both are bound by compute\n")
    assert "\nspeed-up:        0.5\n" in out


def test_under_a_power_limit_the_verdict_is_that_at_the_clocks_it_leaves(capsys):
    arguments = ["--f=1.3", "--m=2", "--intensity=4", "--gflops=60000", "--gbytes=4000", "--flop-pj=7.2"]
    arguments += ["--byte-pj=130", "--constant-w=131"]
    free = tradeoff_json(capsys, *arguments)
    limited = tradeoff_json(capsys, *arguments, "--cap-w=500")
    assert free["limited_speedup"] == free["speedup"]
    assert limited["speedup"] == free["speedup"]
    assert limited["limited_speedup"]["value"] == pytest.approx(limited["limited_greenup"]["value"])
    assert limited["limited_speedup"]["value"] < free["speedup"]["value"]
    assert limited["free_w"][0] == pytest.approx((130 + 4 * 7.2) * 4 + 131)
    assert max(limited["clocks"]) < 1
    assert run(["roofline", "tradeoff", *arguments, "--cap-w=500"]) == 0
    said = capsys.readouterr().out
    assert "since it would draw 766.2 W of 500 W" in said
    assert "without the limit: faster, and takes less energy" in said
    assert run(["roofline", "tradeoff", *arguments, "--cap-w=100"]) == 2
    assert "a limit must lie above the constant power" in capsys.readouterr().err


@pytest.mark.parametrize("bad", ["--f=0.5", "--m=0", "--f=nan", "--intensity=0", "--gflops=-1"])
def test_a_number_out_of_range_is_one_line(capsys, bad):
    arguments = {"--f": "2", "--m": "4", "--intensity": "1"}
    given = [f"{k}={v}" for k, v in arguments.items()]
    assert run(["roofline", "tradeoff", *given, *GTX580, bad]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert bad.split("=")[0] in err


@pytest.mark.hostile
@pytest.mark.parametrize("bad", ["--gbytes=3e12", "--flop-pj=1e-11", "--byte-pj=1e-10", "--intensity=1e-300"])
def test_figures_of_another_unit_are_refused_by_their_bounds(bad, capsys):
    assert run(["roofline", "tradeoff", "--f=2", "--m=4", "--intensity=1", *GTX580, bad]) == 2
    assert "is not in the range" in capsys.readouterr().err
