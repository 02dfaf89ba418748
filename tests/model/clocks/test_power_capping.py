"""What trials under the power limit tell of lower clocks, and when they tell nothing."""

import json
import math

import pytest
from fakes import run as fake
from fakes.measuring import SMS, STATIC_W, hot_trial, trial

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.model.clocks.power_capping import fit_power_capping
from ptxbench.model.clocks.ridge import PowerCurve
from ptxbench.sensors.kernel_run import POWER_CAP
from ptxbench.sensors.trace import Trace
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role

PASS_PJ = 3000.0
FULL_MHZ = 1980.0


def at_clock(mhz, energy, number, **change):
    """A trial whose pass takes the same cycles and `energy` times the energy of the full clock."""
    return hot_trial(
        Role.TARGET, PASS_PJ * energy, number, sm_clock_mhz=mhz, elapsed_s=FULL_MHZ / mhz, **change
    )


def records(energy_at, *slowed_mhz, **change):
    sleeping = [trial(Role.STATIC, n) for n in range(3)]
    free = [at_clock(FULL_MHZ, 1.0, n, grid=SMS // 2) for n in range(3)]
    capped = {"status": Status.THROTTLED, "throttle_reasons": POWER_CAP, "reason": "SwPowerCap"} | change
    return [*sleeping, *free, *(at_clock(mhz, energy_at(mhz), 9 + mhz, **capped) for mhz in slowed_mhz)]


def power_law(mhz):
    return (mhz / FULL_MHZ) ** 2


def test_few_clocks_give_the_exponent_and_no_ridge():
    found = fit_power_capping(records(power_law, 1900, 1800, 1700))
    assert found.ridge is None
    assert (
        "no ridge can be told within [1700, 1980] MHz: no kernel ran at more than 4 clocks" in found.verdict
    )
    assert "the voltage is not flat there" in found.verdict
    assert found.gamma.value == pytest.approx(2)
    (kernel,) = found.kernels
    dynamic_w = PASS_PJ * 1e-12 * SMS * 1024 * 1e6
    assert {round(s.power_w - STATIC_W, 6) for s in kernel.samples if s.clock_mhz == FULL_MHZ} == {
        round(dynamic_w, 6)
    }
    # Static power is a third of the dynamic: least energy lies far below 1700 MHz.
    assert kernel.at_lowest
    assert kernel.best_mhz.value == pytest.approx(1700)
    ratio = 1700 / FULL_MHZ
    expected = 1 - (STATIC_W / ratio + dynamic_w * ratio**2) / (STATIC_W + dynamic_w)
    assert kernel.saved.value == pytest.approx(expected)


def test_seven_clocks_of_one_kernel_give_its_ridge():
    hidden = PowerCurve(0, 1, 1200, 1 / 1500)
    found = fit_power_capping(
        records(lambda mhz: (hidden.voltage(mhz) / hidden.voltage(FULL_MHZ)) ** 2, *range(800, 1951, 60))
    )
    assert found.ridge is not None
    assert found.ridge.found
    assert found.ridge.ridge_mhz.value == pytest.approx(1200, abs=15)
    assert found.ridge.curve.idle_w == pytest.approx(STATIC_W, rel=0.02)


def test_an_energy_that_stays_predicts_no_clock():
    scattered = {1900: 1.01, 1800: 0.99, 1700: 1.005}
    found = fit_power_capping(records(scattered.get, *scattered))
    assert "does not change with the clock beyond its interval" in found.verdict
    assert math.isnan(found.kernels[0].best_mhz.value)


@pytest.mark.parametrize(
    ("slowed_mhz", "change"),
    [
        ((), {}),
        ((1975, 1970, 1965), {}),
        ((1900, 1800), {}),
        ((1900, 1800, 1700), {"throttle_reasons": 0x20}),
        # The memory sets the time of this kernel, not the clock.
        ((1900, 1800, 1700), {"iterations": 500_000}),
    ],
)
def test_a_run_that_does_not_tell_is_refused(slowed_mhz, change):
    with pytest.raises(InputError, match="the run does not tell what a lower clock costs"):
        fit_power_capping(records(power_law, *slowed_mhz, **change))


def test_the_command_marks_what_is_predicted(tmp_path, capsys):
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        for one in records(power_law, 1900, 1800, 1700):
            folder.append(one, Trace(one.record_begin_ns, one.record_end_ns, ()))
    plot = tmp_path / "clocks.svg"
    assert run(["clocks", "ridge", "--run", str(tmp_path / "run"), "--plot", str(plot)]) == 0
    out = capsys.readouterr().out
    assert "no ridge can be told" in out
    assert "PREDICTED, NOT MEASURED" in out
    assert "<= 1700" in out
    assert "<svg" in plot.read_text()
    assert run(["clocks", "ridge", "--run", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ridge"] is None


@pytest.mark.parametrize(
    "words", [(), ("--samples", "a.csv", "--run", "b"), ("--run", "b", "--cap-w", "700")]
)
def test_options_that_do_not_go_together_are_one_line(capsys, words):
    assert run(["clocks", "ridge", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
