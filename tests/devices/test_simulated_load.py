"""A simulated GPU is a TOML file: those that come with ptxbench, and a user's own."""

import json
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import get_args

import pytest

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.ground_truth import opcode_energy_pj
from ptxbench.devices.simulated.load import H200, find_board, find_profile, profile_names, read_profile
from ptxbench.devices.simulated.profile import Profile
from ptxbench.storage.codec import type_hints

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "simulate.md"
OWN = """
base = "h200"
title = "A card of mine"
[chip]
target = "sm_86"
sm_count = 28
[memory]
dram_bytes_per_s = 3e11
l2_bytes_per_s = 1e12
sm_bytes_per_cycle = 64
dram_pj_per_byte = 150
l2_pj_per_byte = 30
l1_bytes = 98_304
l1_bytes_per_cycle = 128
l1_pj_per_byte = 5
[energy_pj]
FFMA = 33
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    return path


def test_a_file_says_what_differs_from_its_base(own):
    profile = read_profile(own)
    assert (profile.name, profile.title) == ("mine", "A card of mine")
    assert (profile.chip.sm_count, profile.chip.clock_mhz) == (28, H200.chip.clock_mhz)
    assert profile.board == H200.board
    assert profile.memory.l2_pj_per_byte == 30
    assert opcode_energy_pj("FFMA", "random", profile) == 33
    assert opcode_energy_pj("FADD", "random", profile) == opcode_energy_pj("FADD", "random", H200)


def test_sensors_and_steps_of_a_file_take_the_place_of_its_bases():
    slow, warm, steps = map(find_profile, ("slow-sensor", "h200-warm", "h200-steps"))
    assert [one.source for one in slow.sensors] == ["usage"]
    assert warm.board == steps.board
    assert not hasattr(warm.voltage_steps, "hold_s")


def test_a_table_is_measured_on_a_users_own_gpu(own, tmp_path, capsys):
    few = ["--protocol", "dynamic", "--opt-level", "O3", "--max-repeats", "3", "--window", "0.3", "--json"]
    arguments = ["--gpu", f"simulated:{own}", "--out", str(tmp_path / "run")]
    assert run(["table", "fma.rn.f32", *arguments, *few]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["gpu"] == "A card of mine (simulated)"
    assert document["rows"][0]["dynamic_pj"] == pytest.approx(33, rel=0.02)


@pytest.mark.parametrize("board", [0, 3])
def test_a_file_has_boards_whatever_its_folder_is_called(board, tmp_path):
    path = tmp_path / "h200@home" / "mine.toml"
    path.parent.mkdir()
    path.write_text(OWN)
    profile, number = find_board(f"{path}@{board}" if board else str(path))
    assert number == board
    assert (profile.board.static_w == H200.board.static_w) == (board == 0)


def changed(key, value):
    return OWN.replace(f"{key} = ", f"{key} = {value} # ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base = ", "is not TOML"),
        ('base = "h300"', r"base must be a profile that comes with ptxbench \(a100, .*\), not 'h300'"),
        ("base = 3", "base must be a profile that comes with ptxbench .* not 3"),
        ('title = "x"', "chip is missing"),
        (OWN + "[bord]\nstatic_w = 3", "bord is no key of a profile; here it may have name, title, chip,"),
        (
            OWN.replace("sm_count", "sms"),
            "chip.sms is no key of a profile; here it may have target, sm_count",
        ),
        (OWN.replace("l1_bytes =", "l1 ="), "memory.l1_bytes is missing"),
        (changed("sm_count", '"many"'), "chip.sm_count must be a whole number, not 'many'"),
        (changed("sm_count", 0), "chip has sm_count = 0: give a number from 1 to "),
        (changed("target", '"sm_1"'), "chip has target = sm_1: give one of sm_75, "),
        (changed("l2_pj_per_byte", "nan"), "memory has l2_pj_per_byte = nan: give a number from 1e-06 to "),
        (changed("FFMA", "-1"), "the file has energy_pj.FFMA = -1: give a number from 1e-06 to "),
        (changed("FFMA", '"much"'), "energy_pj.FFMA must be a number"),
        (OWN + "[board]\nstatic_w = 900", "board has static_w = 900: give less than power_cap_w, 700"),
        (changed("l1_bytes", 10**15), "memory has l1_bytes = 1e.15: give a number from 1 to 1e.12"),
        (OWN + "[board]\ncoolant_c = -1e300", "board has coolant_c = -1e.300: give a number from -1e.06 to"),
        (
            'sensors = [{source = "usage", refresh_s = 1e-9}]\n' + OWN,
            "refresh_s = 1e-09: give a number from 0.0001",
        ),
        (
            'sensors = [{source = "usage", refresh_s = 1, lag_s = -1}]\n' + OWN,
            "lag_s = -1: give 0 or a number from 0.0001 to 1000",
        ),
        ("chip = 3\n" + OWN.replace("[chip]", "[energy]"), "chip must be an object"),
        ("sensors = []\n" + OWN, r"has sensors = \[\]: give one at least"),
        (
            'sensors = [{source = "clock", refresh_s = 1}]\n' + OWN,
            r"sensors\[0\] has source = clock: give one of",
        ),
        ('sensors = [{source = "usage", refresh = 1}]\n' + OWN, r"sensors\[0\].refresh_s is missing"),
        (OWN + "[voltage_steps]\nfactors = []\nhold_s = 1\nchange_s = 0\nchange_mhz = 0", "has factors ="),
        (
            OWN + "[voltage_steps]\nfactors = [1, 1]\nup_c = [50]\ndown_c = [40, 1]\nlook_s = 1\n"
            "change_s = 0\nchange_mhz = 0",
            "voltage_steps has 1 numbers in up_c: give two",
        ),
    ],
)
def test_a_bad_file_is_one_line_that_names_file_and_key(text, words, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"mine.toml: .*{words}"):
        read_profile(path)
    assert run(["table", "fma.rn.f32", "--gpu", f"simulated:{path}", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(path) in error


def test_a_file_that_is_not_there_or_a_name_that_nothing_has_is_said(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*none.toml: No such file"):
        find_board(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"no simulated GPU is called 'h300'; there are a100, .* files"):
        find_board("h300")
    with pytest.raises(InputError, match="'x' is no board"):
        find_board("h200@x")


@pytest.mark.parametrize("name", profile_names())
def test_each_profile_has_a_file_with_a_name_of_its_own_and_two_boards(name):
    profile, _ = find_board(f"{name}@1")
    assert profile.name == name
    assert profile.chip.energy_scale != find_profile(name).chip.energy_scale


def keys_of(kind):
    for key, hint in type_hints(kind).items():
        yield key
        for part in (hint, *get_args(hint), *(a for one in get_args(hint) for a in get_args(one))):
            if is_dataclass(part):
                yield from keys_of(part)


def test_the_page_names_every_key():
    page = PAGE.read_text()
    keys = set(keys_of(Profile))
    assert {"sm_count", "hold_s", "up_c", "l2_pj_per_byte", "refresh_s"} <= keys
    assert {key for key in keys if not re.search(rf"`[^`\n]*\b{key}\b", page)} == set()
