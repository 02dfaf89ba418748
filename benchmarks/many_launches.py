"""How long `run` works out a program of many launches, and how much memory that takes.

    python benchmarks/many_launches.py --names 200 --launches 10000
    python benchmarks/many_launches.py --names 50 --launches 10000000

The board is modelled and draws an even power for 20 s; a log says which launches filled that time, back to
back. It prints, after each step, the seconds of that step and the most memory until then; the first line has
what the interpreter and its libraries take.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from modelled_board import ModelledBoard, Nature

from ptxbench.attribute.launches import read_launches
from ptxbench.attribute.program import energy_of, recorded_board, recording
from ptxbench.attribute.recorded import RecordedProgram, keep, load, program_manifest
from ptxbench.sensors.base import SourceName

_SOURCES = (SourceName.SAMPLES, SourceName.COUNTER)
_LAUNCH = np.dtype([("start", "<u8"), ("end", "<u8"), ("rest", "<u4", (4,))])
_BEGIN_S, _LENGTH_S, _POWER_W = 2.0, 20.0, 300.0
_AT_ONCE = 1 << 18


class Steps:
    """Prints what each step took."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def done(self, name: str) -> None:
        """Print a line for the step that ends now."""
        now_s, most_kib = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{name:12}{now_s - self._began_s:9.2f} s{most_kib / 1024:9.0f} MiB", flush=True)
        self._began_s = time.monotonic()


def main() -> int:
    """Make a log and work it out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", type=int, default=200, help="kernel names")
    parser.add_argument("--launches", type=int, default=10_000, help="launches of all of them")
    chosen = parser.parse_args()
    steps = Steps()
    parts = [(_BEGIN_S, 0.0), (_LENGTH_S, _POWER_W), (3.0, 0.0)]
    board = ModelledBoard(parts, _SOURCES, 1, Nature.by_chance(np.random.default_rng(1)))
    with recording([board.board()]) as recordings:
        board.sleep_until(_BEGIN_S + _LENGTH_S + 2)
    drawn = recorded_board(recordings[0])
    times_ns = board.at_ns(_BEGIN_S), board.at_ns(_BEGIN_S + _LENGTH_S)
    with tempfile.TemporaryDirectory() as place:
        log_folder, folder = Path(place, "log"), Path(place, "run")
        log_folder.mkdir()
        folder.mkdir()
        _write_log(log_folder, chosen.names, chosen.launches, times_ns, drawn.facts.uuid)
        steps.done("made")
        log = read_launches(log_folder, times_ns[1])
        steps.done("read")
        manifest = program_manifest(("benchmark",), 0, times_ns, [drawn.facts], log)
        keep(RecordedProgram(manifest, (drawn,), log), folder)
        steps.done("kept")
        del log
        again = load(folder)
        steps.done("loaded")
        (gpu,) = energy_of(again).gpus
        steps.done("worked out")
    print(f"{len(gpu.kernels)} kernels or groups, {sum(one.calls for one in gpu.kernels):.0f} calls")
    return 0


def _write_log(folder: Path, names: int, launches: int, times_ns: tuple[int, int], uuid: str) -> None:
    """Write a log as the injector does: launches of names by chance, some streams, back to back."""
    rng = np.random.default_rng(2)
    said = ["cupti 1", f"device 0 {uuid}", *(f"name {i} kernel_{i:04}" for i in range(names)), "end"]
    (folder / "1-1.txt").write_text("\n".join(said) + "\n")
    with (folder / "1-1.bin").open("wb") as file:
        for at in range(0, launches, _AT_ONCE):
            count = min(_AT_ONCE, launches - at)
            edges_ns = np.linspace(*times_ns, launches + 1)[at : at + count + 1].astype(np.uint64)
            rows = np.zeros(count, dtype=_LAUNCH)
            rows["start"], rows["end"] = edges_ns[:-1], edges_ns[1:]
            rows["rest"][:, 0], rows["rest"][:, 2] = rng.integers(names, size=count), at % 4
            file.write(rows.tobytes())


if __name__ == "__main__":
    sys.exit(main())
