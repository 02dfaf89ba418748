"""Feeds damaged files to every reader for as long as it is told, and says which of them break.

    python tests/fuzz_readers.py --minutes 30 --seed 1

Every damage follows from the seed, the reader and its number, which `--only READER --number N` tries again.
Exit codes: 0 none broke, 1 some did.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from fakes.reader_fuzz import READERS, FuzzedReader, damaged, outcome, prepared

_TURN = 25
_SLOW_S = 20.0


def main() -> int:
    """Fuzz until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="name of one reader")
    parser.add_argument("--number", type=int, help="try one damage, and let its error through")
    arguments = parser.parse_args()
    # Nobody pulls the plug here.
    os.fsync = lambda descriptor: None
    readers = [reader for reader in READERS if arguments.only in (None, reader.name)]
    with tempfile.TemporaryDirectory(prefix="ptxbench-fuzz-") as place:
        data = {reader.name: prepared(reader, Path(place, f"{n}")) for n, reader in enumerate(readers)}
        folders = {reader.name: Path(place, f"{n}") for n, reader in enumerate(readers)}
        if arguments.number is not None:
            for reader in readers:
                print(
                    outcome(reader, folders[reader.name], _damage(reader, data, arguments, arguments.number))
                )
            return 0
        found, broken = Counter[tuple[str, str]](), dict[str, str]()
        end_s = time.monotonic() + 60 * arguments.minutes
        number = 0
        while time.monotonic() < end_s:
            for reader in readers:
                for one in range(number, number + _TURN):
                    text = _tried(
                        reader, folders[reader.name], _damage(reader, data, arguments, one), broken, one
                    )
                    found[reader.name, text] += 1
            number += _TURN
    for reader in readers:
        counts = ", ".join(f"{n} {text}" for (name, text), n in sorted(found.items()) if name == reader.name)
        print(f"{reader.name}: {counts}")
    print(f"{found.total()} files, {len(broken)} kinds of break", flush=True)
    return 1 if broken else 0


def _damage(
    reader: FuzzedReader, data: dict[str, bytes], arguments: argparse.Namespace, number: int
) -> bytes:
    return damaged(data[reader.name], Random(f"{arguments.seed}/{reader.name}/{number}"))


def _tried(reader: FuzzedReader, folder: Path, data: bytes, broken: dict[str, str], number: int) -> str:
    began_s = time.monotonic()
    try:
        text = outcome(reader, folder, data)
    except Exception as error:  # whatever it is, it is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    if time.monotonic() - began_s > _SLOW_S:
        text = f"over {_SLOW_S:g} s"
    if text in ("read", "refused"):
        return text
    if f"{reader.name}: {text}" not in broken:
        broken[f"{reader.name}: {text}"] = text
        print(f"BROKEN {reader.name} --number {number}: {text}", flush=True)
    return "broken"


if __name__ == "__main__":
    sys.exit(main())
