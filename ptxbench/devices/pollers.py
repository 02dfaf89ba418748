"""Programs beside this one that read the GPUs again and again, and so make them draw more, or run slower."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ptxbench.core.printable import printable
from ptxbench.storage.doctor_file import State, Verdict

# At 100 ms dcgm-exporter cost 2% of a decoding's speed on GB300s, at 5 s nothing (NVIDIA/srt-slurm pull
# request 401); it also keeps a GPU from idling (NVIDIA/dcgm-exporter issue 464).
_SAFE_S = 1.0
_MS = 1e-3
_MOST_WORDS = 200


def poller_verdicts(processes: Path = Path("/proc")) -> Iterator[Verdict]:
    """Yield a line for each program that reads the GPUs, with how often where its command line says it.

    Args:
        processes: Folder with the command lines of all processes, as Linux has it.
    """
    seen: set[tuple[str, float | None]] = set()
    for path in sorted(processes.glob("[0-9]*/cmdline")):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")[:_MOST_WORDS]
        except OSError:
            continue  # it has ended, or is not ours to see
        found = _polls(Path(words[0]).name, words[1:])
        if found is None or found in seen:
            continue
        seen.add(found)
        yield _verdict(*found)


def _verdict(program: str, period_s: float | None) -> Verdict:
    if period_s is None:
        return Verdict("pollers", State.NOTE, f"{program} runs here, nobody knows how often it reads: ask it")
    if period_s >= _SAFE_S:
        return Verdict("pollers", State.OK, f"{program} reads every {period_s:g} s")
    text = (
        f"{program} reads every {period_s:g} s: that makes a GPU draw more when idle (NVIDIA/dcgm-exporter"
        " issue 464) and takes time of others' work; let it read every second at most while you measure"
    )
    return Verdict("pollers", State.NOTE, text)


def _polls(program: str, words: Sequence[str]) -> tuple[str, float | None] | None:
    """Return the name of a program that polls GPUs and its period, None where it is none."""
    name = printable(program)
    if program == "dcgm-exporter":
        return name, _after(words, ("-c", "--collect-interval"), _MS)
    if program == "dcgmi" and "dmon" in words:
        return f"{name} dmon", _after(words, ("-d", "--delay"), _MS) or 1.0
    if program == "nvidia-smi":
        in_ms = _after(words, ("-lms", "--loop-ms"), _MS)
        in_s = _after(words, ("-l", "--loop", *(("-d", "--delay") if "dmon" in words else ())), 1.0)
        if in_ms is not None or in_s is not None:
            return name, in_ms if in_ms is not None else in_s
        return (f"{name} dmon", 1.0) if "dmon" in words else None
    return (name, None) if program in ("nv-hostengine", "nvidia_gpu_exporter", "nvtop") else None


def _after(words: Sequence[str], flags: Sequence[str], unit_s: float) -> float | None:
    """Return the number behind one of some options, "-c 100", "-c=100" or "-c100", in seconds."""
    text = " ".join(words)
    for flag in flags:
        found = re.search(rf"(?:^|\s){re.escape(flag)}(?:[ =]?)(\d+(?:\.\d+)?)(?:\s|$)", text)
        if found:
            return float(found[1]) * unit_s
    return None
