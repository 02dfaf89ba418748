"""The registry of power sources: a file each."""

import subprocess
import sys

from ptxbench.cli.main import run
from ptxbench.sensors.base import POWER_SOURCES, SourceName, Unit, further_sources
from ptxbench.sensors.sources import best_first, source_of


def test_a_new_file_is_a_new_source(tmp_path):
    (tmp_path / "board_input.py").touch()
    (tmp_path / "usage.py").touch()
    assert further_sources(SourceName.__members__, tmp_path) == [("BOARD_INPUT", "board_input")]


def test_every_source_says_what_it_is():
    assert [name for name in SourceName if source_of(name).unit is Unit.JOULE] == [SourceName.COUNTER]
    assert [name for name in SourceName if source_of(name).unit is Unit.CELSIUS] == [SourceName.TEMPERATURE]
    assert [name for name in SourceName if not source_of(name).whole_board] == [SourceName.MEMORY]
    assert len({source_of(name).rank for name in SourceName}) == len(SourceName)
    assert best_first()[:3] == (SourceName.SAMPLES, SourceName.COUNTER, SourceName.INSTANT)
    assert best_first()[-2:] == (SourceName.TEMPERATURE, SourceName.CLOCK)


def test_the_command_line_offers_every_power_source(capsys):
    assert run(["table", "--source", "nothing"]) == 2
    said = capsys.readouterr().err
    assert all(f"'{name}'" in said for name in POWER_SOURCES)
    assert "temperature" not in said


def test_naming_the_sources_loads_neither_nvml_nor_numpy():
    code = (
        "import sys; import ptxbench.cli.table; "
        "print([m for m in ('pynvml', 'numpy', 'cuda') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
