"""What commands print in terminals of 80 and 120 columns: no line is wider, and no word is broken."""

import io
import re
import sys
from pathlib import Path

import pytest

from ptxbench.api import kernel
from ptxbench.cli import roofline
from ptxbench.cli.main import run
from ptxbench.cli.terminal import HarmlessText
from ptxbench.meter import validation
from ptxbench.storage.document import read_document
from ptxbench.storage.methods_file import METHODS_FILE, MethodsFile
from ptxbench.storage.sensor_file import read_sensor_file

# What a reader of the field would have to look up here.
DIALECT = r"set aside|level of the supply voltage|beside the factor|share one factor|NOT one|marginal:"
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "nvidia-h200"
CAPTURE = ROOT / "hw_validation" / "captures" / "rtx3090_step_6s"
COMMANDS = (
    "cost mma.m16n8k16.f32.f16.f16.f32 ld.global.u32 fma.rn.f32",
    "cost mma --table h200",
    "cost mma xor.b32 --table h200 --why",
    "cost --list mma",
    "show fma.rn.f32 --part verdict",
    "verify fma.rn.f32",
    "report h200",
    "report --opcodes h200",
    "diff h100 h200",
    "gpus",
    "doctor",
    f"doctor sensor --gpu replay:{RESULTS / 'sensor'}",
    f"doctor methods --gpu replay:{RESULTS / 'methods'}",
    f"roofline show {RESULTS / 'roofline' / 'f32'}",
    "estimate tests/model/kernels/elementwise.ptx --grid=1056 --block=256 --trips=0=4096 --table=h200"
    " --explain",
    "occupancy tests/model/kernels/elementwise.ptx",
    f"tune report {RESULTS / 'gemm' / 'f32'}",
    f"tune study difficulty {RESULTS / 'gemm' / 'f32'}",
    f"clocks ridge --run {RESULTS / 'levels'}",
    f"meter validate --meter {CAPTURE / 'meter.csv.gz'} --nvml {CAPTURE / 'nvml.csv'}"
    f" --windows {CAPTURE / 'windows.csv'}",
)


@pytest.fixture
def said(capsys, monkeypatch, tmp_path):
    """Runs a command in a terminal of so many columns, or in a pipe, and returns what it prints."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # What takes long to work out again is read, or worked out once.
    monkeypatch.setattr(
        "ptxbench.experiment.sensor_study.describe", lambda folder: read_sensor_file(folder.path)
    )
    monkeypatch.setattr(
        "ptxbench.experiment.sampling.again",
        lambda folder, *_: (
            read_document(folder.path / METHODS_FILE, MethodsFile, "methods_version"),
            folder,
        ),
    )
    for module, name in ((validation, "validate"), (roofline, "_results"), (kernel, "estimate_of")):
        monkeypatch.setattr(module, name, once(getattr(module, name)))

    def call(words, width=None):
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", str(width or 80))
            patch.setenv("NO_COLOR", "1")
            patch.setattr(sys.stdout, "isatty", lambda: width is not None)
            run(words.split())
        return capsys.readouterr().out

    return call


def once(function):
    found = []

    def call(*arguments):
        if not found:
            found.append(function(*arguments))
        return found[0]

    return call


def words_of(text):
    """Return the words of a text, as blanks, bars between opcodes, and marks of sentences part them."""
    return set(re.findall(r"[^\s|:;,()]+", text))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words.split()[:2]))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(said, words):
    whole = said(words)
    assert not re.findall(DIALECT, whole)
    for width in (80, 120):
        text = said(words, width)
        assert "\x1b" not in text
        wide = [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]
        assert not wide, wide[0]
        assert not re.search(r"^[ -]*-\n[ -]*-$", text, re.MULTILINE), "the rule of a table is broken"
        own = set(f"in every row not shown at {width} columns".split())
        rules = {word for word in words_of(text) if not word.strip("-") or re.fullmatch(r"\[\d+\]", word)}
        assert words_of(text) - words_of(whole) - own - rules == set()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("short", ["short"]),
        ("  - one two three four", ["  - one two", "    three four"]),
        ("ok    driver  580.159 of it", ["ok    driver", "      580.159 of", "      it"]),
        ("see /a/path/that/is/longer/than/it here", ["see", "  /a/path/that/is/longer/than/it", "  here"]),
        ("give --check-linearity now", ["give", "  --check-linearity", "  now"]),
    ],
)
def test_a_long_line_goes_on_below_its_text_and_no_word_is_broken(monkeypatch, line, shown):
    monkeypatch.setenv("COLUMNS", "16")
    terminal = Terminal()
    HarmlessText(terminal).write(line + "\n")
    assert terminal.getvalue().splitlines() == shown
    HarmlessText(terminal, wraps=False).write(line)
    assert terminal.getvalue().endswith(line)


def test_data_for_a_program_is_not_wrapped(said):
    assert said("cost mma --json", 80) == said("cost mma --json")
