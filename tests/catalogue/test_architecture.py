"""What is true of one generation of GPUs."""

import pytest

from ptxbench.catalogue.architecture import architecture_of, load_architectures, parse_architecture, sm_facts
from ptxbench.core.errors import InputError
from ptxbench.core.target import TARGETS
from ptxbench.sensors.base import SourceName

GOOD = """
name = "future"
capabilities = [130]
assumed_from = "hopper"
[sm]
[drift_step]
value = 0.01
origin = "a test"
[regulation_s]
value = 0.1
origin = "a test"
[clock_exponent]
value = 1.5
error = 0.5
origin = "a test"
"""


def test_every_target_has_a_generation_of_its_own():
    named = [(t.name, architecture_of(t.name)) for t in TARGETS]
    assert all(t.capability in a.capabilities for t, (_, a) in zip(TARGETS, named, strict=True))
    assert {a.name for _, a in named} == {"turing", "ampere", "ada", "hopper", "blackwell"}
    capabilities = [c for a in load_architectures() for c in a.capabilities]
    assert len(set(capabilities)) == len(capabilities)


def test_a_figure_has_its_error():
    assert parse_architecture(GOOD, "future.toml").clock_exponent.error == 0.5
    with pytest.raises(InputError, match="clock_exponent: error -1 is no number"):
        parse_architecture(GOOD.replace("error = 0.5", "error = -1"), "future.toml")


def test_what_was_seen_on_hopper_is_of_hopper():
    hopper = architecture_of("sm_90a")
    assert (hopper.drift_step.value, hopper.regulation_s.value) == (0.012, 0.2)
    assert hopper.excursion_rise(SourceName.SAMPLES) == 0.013
    assert hopper.excursion_rise(SourceName.INSTANT) == 0.0
    assert architecture_of("sm_80").excursion_rise(SourceName.SAMPLES) == 0.0
    assert "assumed" in architecture_of("sm_80").drift_step.origin


def test_a_figure_that_was_not_measured_says_whose_it_is():
    ada, hopper = architecture_of("sm_89"), architecture_of("sm_90a")
    assert ada.unfed_share.value == hopper.unfed_share.value
    assert "Hopper is assumed" in ada.unfed_share.origin
    assert "Hopper is assumed" in ada.mixing_pj["random"].origin
    assert "assumed" not in ada.regulation_s.origin


def test_every_target_has_sms_and_another_says_where_to_add_them():
    assert {sm_facts(t.name).shared_unit_bytes for t in TARGETS} == {128, 256}
    assert sm_facts("sm_90a").wgmma_f16_per_cycle == 512
    with pytest.raises(InputError, match=r"SMs of sm_130 are not known: add \[sm.130\] to .*blackwell.toml"):
        sm_facts("sm_130")


def test_an_unknown_gpu_has_the_figures_of_the_nearest_older_one():
    assert architecture_of("sm_130").name == "blackwell"
    assert architecture_of("sm_61").name == "turing"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("0.01", "-0.01"), "drift_step: value -0.01 is no number from 0 on"),
        (("0.01", "nan"), "drift_step: value nan"),
        (('"a test"', '""'), "does not say where the figure comes from"),
        (("[130]", "[]"), "no list of integers"),
        (("drift_step", "drift"), "drift: no such key; there are capabilities, clock_exponent, "),
        (('assumed_from = "hopper"', ""), "lacks counting_pj, level_creep, level_jump, "),
        (("hopper", "kepler"), "assumed_from 'kepler' is no generation that has a file"),
        (("[sm]", "[sm.130]\nmax_blocks = 32"), "sm.130: lacks "),
        (("[drift_step]", "[drift_step"), "is not TOML"),
    ],
)
def test_a_figure_without_sense_or_source_is_refused(change, complaint):
    assert parse_architecture(GOOD, "future.toml").name == "future"
    with pytest.raises(InputError, match=r"future\.toml") as error:
        parse_architecture(GOOD.replace(*change), "future.toml")
    assert complaint in str(error.value)
