"""What a command is told to read and what is no file, or has no end: one line and exit code 2."""

import pytest
from fakes.no_files import MAKERS, not_hanging
from fakes.reader_fuzz import LOG, ROOT

from ptxbench.cli.main import run

pytestmark = pytest.mark.hostile

METER, NVML, WINDOWS = LOG / "meter.csv.gz", LOG / "nvml.csv", LOG / "windows.csv"
SPEC = ROOT / "examples" / "tune" / "nbody.toml"
# FILE is the one in question.
COMMANDS = (
    "occupancy FILE",
    "estimate FILE --grid 8 --block 32 --time-s 1 --table h200",
    "estimate kernel --ncu FILE --table h200",
    f"estimate {SPEC} --grid 8 --block 32 --time-s 1 --table h200 --set-limit-w 400 --clock-samples FILE",
    "clocks ridge --samples FILE",
    "tune kernel FILE --gpu simulated --out OUT",
    f"tune kernel {SPEC} --clock-samples FILE --table h200 --gpu simulated --out OUT",
    "tune gemm --space FILE --gpu simulated --out OUT",
    "tune concurrent FILE FILE --gpu simulated --out OUT",
    f"meter validate --meter FILE --nvml {NVML} --windows {WINDOWS}",
    f"meter validate --meter {METER} --nvml FILE --windows {WINDOWS}",
    f"meter validate --meter {METER} --nvml {NVML} --windows FILE",
    f"meter validate --meter {METER} --nvml {NVML} --windows {WINDOWS} --mapping FILE",
    "run --baseline FILE --fail-over 3% -- touch OUT",
    "run --table h200 --ncu FILE -- touch OUT",
    "run --from FILE",
    "table fma.rn.f32 --gpu simulated --sensor FILE --out OUT",
    "table fma.rn.f32 --gpu replay:FILE --out OUT",
    *(f"report{option} FILE" for option in ("", " --opcodes", " --boards")),
    *(f"{words} FILE" for words in ("roofline show", "cost x --table")),
    *(f"tune {words} FILE" for words in ("report", "study strategies", "study difficulty")),
    "diff FILE FILE",
)


@pytest.fixture
def refused(tmp_path, capsys):
    """Runs a command on a file, and looks at how it was refused."""

    def call(words):
        places = {"FILE": str(tmp_path / "file"), "OUT": str(tmp_path / "out"), "replay:FILE": ""}
        places["replay:FILE"] = f"replay:{places['FILE']}"
        with not_hanging():
            assert run([places.get(word, word) for word in words.split()]) == 2
        said = capsys.readouterr().err
        assert said.startswith("ptxbench: error: ")
        assert said.count("\n") == 1
        assert not (tmp_path / "out").exists()
        return said

    return call


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "link to an endless device"])
def test_what_is_no_file_is_one_line(tmp_path, refused, kind, words):
    MAKERS[kind](tmp_path / "file")
    refused(words)


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("text", ["[" * 10**5, "a = " + "[" * 10**5], ids=["json", "toml"])
def test_what_is_nested_without_an_end_is_one_line(tmp_path, refused, text, words):
    (tmp_path / "file").write_text(text)
    refused(words)
