"""Every reader of files that others may have written, a valid input for each, and ways to damage it.

`tests/storage/test_readers_fuzz.py` tries some damages in each test run; `tests/fuzz_readers.py` goes on for
as long as it is told.
"""

from __future__ import annotations

import atexit
import gzip
import json
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from fakes import run as fake
from fakes import tool_files

from ptxbench.attribute.baseline import read_report
from ptxbench.attribute.launches import read_launches as read_injected
from ptxbench.audit.audit import audit
from ptxbench.core.errors import PtxbenchError
from ptxbench.experiment.roofline.point import open_folder, read_kernels
from ptxbench.meter.readers import read_mapping, read_meter
from ptxbench.meter.readers.nvml import read_nvml, read_windows
from ptxbench.model.atlas import open_atlas
from ptxbench.model.clocks.ridge import read_power_samples
from ptxbench.model.ncu import read_launches, work_of
from ptxbench.model.solved import read_solved
from ptxbench.model.terms import read_terms
from ptxbench.storage.board_spread import read_board_spread
from ptxbench.storage.document import read_document
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.methods_file import METHODS_FILE, MethodsFile
from ptxbench.storage.recording import RecordingFolder
from ptxbench.storage.records import read_records
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.sensor_file import read_sensor_file
from ptxbench.storage.table import read_table
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.space import load_axes
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.variant import DType

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
H200 = RESULTS / "nvidia-h200"
RUN = H200 / "repeat-1"
LOG = ROOT / "hw_validation" / "captures" / "rtx3090_step_6s"
_KEPT_LINES = 60


@dataclass(frozen=True)
class FuzzedReader:
    """One reader.

    Attributes:
        name: What it reads.
        file: Name of the file that is damaged.
        others: Further files that the reader needs, by name, as they must be.
        data: Returns the file, undamaged.
        read: Reads a folder that holds them, and looks at all that was read.
        base: Returns a folder whose copy is damaged, None for an empty one.
    """

    name: str
    file: str
    others: Mapping[str, Path]
    data: Callable[[], bytes]
    read: Callable[[Path], object]
    base: Callable[[], Path] | None = None


def _run(folder: Path) -> None:
    with RunFolder.open(folder) as run:
        for record in run.records():
            run.trace(record.trial_id)
        run.rows()


def _kernels(folder: Path) -> None:
    with RunFolder.open(folder) as run:
        store = run.kernels
        for entry in store.entries:
            store.cubin(entry)
            store.ptx(entry)
            store.sass(entry)


def _in_progress(folder: Path) -> None:
    _run(folder)
    with RunFolder.resume(folder, fake.GPU, fake.ARGUMENTS, fake.LATER_SESSION) as run:
        run.records()


@cache
def _begun() -> Path:
    """A run of two trials that was left without a word."""
    path = Path(tempfile.mkdtemp(prefix="ptxbench-fuzz-")) / "run"
    atexit.register(shutil.rmtree, path.parent)
    with RunFolder.create(path, fake.manifest()) as run:
        for number in range(2):
            run.append(fake.record(number), fake.trace(number))
    return path


def _recorded(folder: Path) -> None:
    with RecordingFolder.open(folder, "sensor") as recorded:
        for one in recorded.recordings:
            recorded.trace(one.name)


def _tuned(folder: Path) -> None:
    dict(TuningFolder.read(folder).trials)


def _others(folder: Path, *names: str) -> dict[str, Path]:
    return {name: folder / name for name in names}


def _lines(path: Path, count: int = _KEPT_LINES) -> Callable[[], bytes]:
    return lambda: b"".join(path.read_bytes().splitlines(keepends=True)[:count])


def _whole(path: Path) -> Callable[[], bytes]:
    return path.read_bytes


def _short_list(path: Path, count: int, *keys: str) -> Callable[[], bytes]:
    """A JSON file whose long lists are cut, so that damage meets the rest as well."""

    def data() -> bytes:
        document = json.loads(path.read_bytes())
        if isinstance(document, list):
            document = document[:count]
        for key in keys:
            document[key] = document[key][:count]
        return json.dumps(document, indent=1).encode()

    return data


def _meter_csv() -> bytes:
    rows = [
        f"{1_700_000_000_000_000 + 1000 * i},12.0,{9 + i % 7 / 10},12.1,{4 + i % 5 / 10}" for i in range(60)
    ]
    return "\n".join(["t_us,slot_v,slot_a,cable1_v,cable1_a", *rows, ""]).encode()


def _meter_dates() -> bytes:
    rows = [f'13/07/2023 18:27:{i:02d},5;1.{i:03d},25 W;"{i % 3}"' for i in range(60)]
    return "\n".join(["Zeitstempel;Leistung [mW];Phase", *rows, ""]).encode("utf-16")


def _of_tool(write: Callable[[Path], Path]) -> Callable[[], bytes]:
    def data() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return write(Path(folder)).read_bytes()

    return data


def _smi() -> bytes:
    rows = [
        f"2023/07/08 18:27:{i:02d}.359, {board}, {'[N/A]' if i % 9 == 4 else f'{120 + i % 7}.25 W'}, P0"
        for i in range(30)
        for board in (0, 1)
    ]
    return "\n".join(["timestamp, index, power.draw [W], pstate", *rows, ""]).encode()


def _meter_rigol() -> bytes:
    rows = [f"{i},12.0,{9 + i % 7 / 10}" for i in range(60)]
    return "\n".join(["X,CH1,CH2,Start,Increment,", "Sequence,Volt,Ampere,-6e-2,2e-5", *rows, ""]).encode()


def _meter_pmd() -> bytes:
    return b"".join(
        struct.pack("<H8h", 614 * i % 65536, 1586 << 4, (100 + i % 9) << 4, 1586 << 4, 100 << 4, 0, 0, 0, 0)
        for i in range(60)
    )


def _meter_powersensor() -> bytes:
    head = (
        "marker time dt_micro device_timestamp current0 voltage0 power0 current1 voltage1 power1 power_total"
    )
    rows = [f"S {i * 5e-5:.6f} 50 {i} 2 12 24 8 12 {90 + i % 9} {114 + i % 9}" for i in range(60)]
    return "\n".join([head, *rows, ""]).encode()


def _injected(folder: Path) -> None:
    (folder / "7-0.bin").write_bytes(bytes(range(256)))
    read_injected(folder)


MAPPING = b"""[format]
separator = ","
decimal = "."
[time]
column = "t_us"
unit = "us"
[[rails]]
name = "slot"
volts = "slot_v"
amperes = "slot_a"
amperes_scale = 1.0
[[rails]]
watts = "cable1_v"
"""
POWERS = b"clock_mhz,power_w\n" + b"".join(b"%d,%d\n" % (400 + 50 * i, 100 + 9 * i) for i in range(30))
TRACE_TEXT = b"device 0 GPU-0\nname 0 fma\nname 1 mul\ndropped 0\nend\n"

READERS = (
    FuzzedReader(
        "table.csv", "table.csv", {}, _whole(RUN / "table.csv"), lambda f: read_table(f / "table.csv")
    ),
    FuzzedReader("a run's manifest", "manifest.json", {}, _whole(RUN / "manifest.json"), read_run_manifest),
    FuzzedReader(
        "records.parquet",
        "records.parquet",
        {},
        _whole(RUN / "records.parquet"),
        lambda f: read_records(f / "records.parquet"),
    ),
    FuzzedReader(
        "traces.parquet",
        "traces.parquet",
        _others(RUN, "manifest.json", "records.parquet", "table.csv"),
        _whole(RUN / "traces.parquet"),
        _run,
    ),
    FuzzedReader(
        "kernels.zip",
        "kernels.zip",
        _others(RUN, "manifest.json", "records.parquet", "table.csv"),
        _whole(RUN / "kernels.zip"),
        _kernels,
    ),
    FuzzedReader(
        "a run in progress",
        "partial/records.jsonl",
        {},
        lambda: (_begun() / "partial" / "records.jsonl").read_bytes(),
        _in_progress,
        _begun,
    ),
    FuzzedReader(
        "solved.json",
        "solved.json",
        _others(RUN, "manifest.json", "table.csv"),
        _whole(RUN / "solved.json"),
        read_solved,
    ),
    FuzzedReader(
        "a run for estimates",
        "manifest.json",
        _others(RUN, "solved.json", "table.csv"),
        _whole(RUN / "manifest.json"),
        lambda f: open_atlas(f).machine,
    ),
    FuzzedReader("model.json", "model.json", {}, _whole(H200 / "table-6eda" / "model.json"), read_terms),
    FuzzedReader("sensor.json", "sensor.json", {}, _whole(H200 / "sensor" / "sensor.json"), read_sensor_file),
    FuzzedReader(
        "recordings.json",
        "recordings.json",
        _others(H200 / "sensor", "manifest.json", "traces.parquet"),
        _whole(H200 / "sensor" / "recordings.json"),
        _recorded,
    ),
    FuzzedReader(
        "a recording's manifest",
        "manifest.json",
        _others(H200 / "sensor", "recordings.json", "traces.parquet"),
        _whole(H200 / "sensor" / "manifest.json"),
        _recorded,
    ),
    FuzzedReader(
        "methods.json",
        "methods.json",
        {},
        _short_list(H200 / "methods" / "methods.json", 8, "points"),
        lambda folder: read_document(folder / METHODS_FILE, MethodsFile, "methods_version"),
    ),
    FuzzedReader(
        "kernels of a roofline",
        "kernels.jsonl",
        _others(H200 / "roofline" / "f32", "manifest.json", "recordings.json", "traces.parquet"),
        _whole(H200 / "roofline" / "f32" / "kernels.jsonl"),
        lambda f: read_kernels(open_folder(f)),
    ),
    FuzzedReader(
        "trials of tuning",
        "trials.jsonl",
        _others(H200 / "gemm-best" / "f16", "manifest.json"),
        _lines(H200 / "gemm-best" / "f16" / "trials.jsonl", 6),
        _tuned,
    ),
    FuzzedReader(
        "a manifest of tuning",
        "manifest.json",
        {},
        _whole(H200 / "gemm-best" / "f16" / "manifest.json"),
        _tuned,
    ),
    FuzzedReader(
        "a kernel's specification",
        "stencil.toml",
        _others(ROOT / "examples" / "tune", "stencil.cu", "stencil_reference.cu"),
        _whole(ROOT / "examples" / "tune" / "stencil.toml"),
        lambda f: load_spec(f / "stencil.toml"),
    ),
    FuzzedReader(
        "axes of tuning",
        "axes.toml",
        {},
        _whole(ROOT / "ptxbench" / "tune" / "data" / "gemm.toml"),
        lambda f: load_axes(DType.F32, f / "axes.toml"),
    ),
    FuzzedReader(
        "counts by ncu",
        "counts.csv",
        {},
        _lines(H200 / "validation" / "counts" / "counts-111-113-115.csv", 6),
        lambda f: work_of(read_launches(f / "counts.csv"), "work", f),
    ),
    FuzzedReader("power by clock", "p.csv", {}, lambda: POWERS, lambda f: read_power_samples(f / "p.csv")),
    FuzzedReader("a meter's CSV", "m.csv", {}, _meter_csv, lambda f: read_meter(f / "m.csv")),
    FuzzedReader(
        "a meter's gzip",
        "m.csv.gz",
        {},
        lambda: gzip.compress(_meter_csv(), mtime=0),
        lambda f: read_meter(f / "m.csv.gz"),
    ),
    FuzzedReader("a meter's dates", "m.csv", {}, _meter_dates, lambda f: read_meter(f / "m.csv")),
    FuzzedReader("an oscilloscope", "m.csv", {}, _meter_rigol, lambda f: read_meter(f / "m.csv")),
    FuzzedReader("a PMD-USB", "m.bin", {}, _meter_pmd, lambda f: read_meter(f / "m.bin")),
    FuzzedReader("a PowerSensor", "m.txt", {}, _meter_powersensor, lambda f: read_meter(f / "m.txt")),
    FuzzedReader("a mapping", "m.toml", {}, lambda: MAPPING, lambda f: read_mapping(f / "m.toml")),
    FuzzedReader("an NVML log", "n.csv", {}, _lines(LOG / "nvml.csv"), lambda f: read_nvml(f / "n.csv")),
    FuzzedReader("an nvidia-smi log", "n.csv", {}, _smi, lambda f: read_nvml(f / "n.csv", board="0")),
    FuzzedReader(
        "kernel windows", "w.csv", {}, _whole(LOG / "windows.csv"), lambda f: read_windows(f / "w.csv")
    ),
    FuzzedReader(
        "boards.json",
        "boards.json",
        {},
        _short_list(ROOT / "ptxbench" / "tables" / "nvidia-h200" / "boards.json", 5, "rows", "boards"),
        read_board_spread,
    ),
    FuzzedReader(
        "energy.json",
        "energy.json",
        {},
        _whole(H200 / "programs" / "mixed.json"),
        lambda f: read_report(f / "energy.json"),
    ),
    *(
        FuzzedReader(
            f"{name} of another tool", file, {}, _of_tool(write), lambda f, file=file: audit([f / file])
        )
        for name, file, write in (
            ("a log", "dcgm.txt", tool_files.dcgm),
            ("a table", "zeus.csv", tool_files.zeus),
            ("a document", "cache.json", tool_files.kernel_tuner),
            ("operations", "gemm.parquet", tool_files.operations),
        )
    ),
    FuzzedReader("launches of a program", "7-0.txt", {}, lambda: TRACE_TEXT, _injected),
)

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOKENS = (
    b"nan", b"NaN", b"inf", b"-Infinity", b"1e999", b"-1", b"0", b"9" * 30, b"9223372036854775808", b"1e-400",
    b"null", b"true", b'""', b"[]", b"{}", b"\x1b[31m", b"\x00", b"\xff\xfe", b"\r", b"\n", b",", b'"', b";",
    b"../", b"[" * 2000, b"{" * 50, b"-", b"1_000", "١٢".encode(), "\u2028".encode(), b"1" * 5000, b"0x10",
)  # fmt: skip
_VALUES = (
    None, True, -1, 0, 2**63, -(2**70), 10**400, 1e308, float("inf"), float("nan"), "", "\x1b[2J", "a\nb", [],
    {}, [[]], "../../etc/passwd", "x" * 5000, 0.5, "1",
)  # fmt: skip


def damaged(data: bytes, random: Random) -> bytes:
    """Return a file with one to four damages, drawn by chance."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_DAMAGES)(data, random)
    return data


def _flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 20))):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _cut(data: bytes, random: Random) -> bytes:
    at, length = random.randrange(len(data) + 1), random.choice((1, 2, 10, 100, len(data)))
    return data[:at] + data[at + length :]


def _double(data: bytes, random: Random) -> bytes:
    at, length = random.randrange(len(data) + 1), random.choice((1, 10, 100, 1000))
    return data[: at + length] + data[at:]


def _token(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(_TOKENS) + data[at:]


def _number(data: bytes, random: Random) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _token(data, random)
    one = random.choice(found)
    return data[: one.start()] + random.choice(_TOKENS) + data[one.end() :]


def _line(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return _flip(data, random)
    n, m = random.randrange(len(lines)), random.randrange(len(lines))
    way = random.randrange(3)
    if way == 0:
        lines[n], lines[m] = lines[m], lines[n]
    elif way == 1:
        del lines[n]
    else:
        lines.insert(m, lines[n])
    return b"".join(lines)


def _value(data: bytes, random: Random) -> bytes:
    """Another value, one less or one more, at any place of a JSON file or of one of its lines."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        lines = data.splitlines(keepends=True)
        if len(lines) < 2 or not data.startswith(b"{"):
            return _number(data, random)
        n = random.randrange(len(lines))
        lines[n] = _value(lines[n].rstrip(b"\n"), random) + b"\n" if lines[n].startswith(b"{") else lines[n]
        return b"".join(lines)
    holder, key = _place(document, random)
    if holder is None:
        return _number(data, random)
    way = random.randrange(5)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, list):
        holder.insert(key, random.choice(_VALUES))
    elif way == 1:
        holder[random.choice(("x", "\x1b[0m", ""))] = random.choice(_VALUES)
    else:
        holder[key] = random.choice(_VALUES)
    return json.dumps(document).encode()


def _place(document: object, random: Random) -> tuple[dict | list | None, object]:
    holder, key = None, None
    while isinstance(document, dict | list) and document and (holder is None or random.random() < 0.8):
        holder = document
        key = random.choice(list(document)) if isinstance(document, dict) else random.randrange(len(document))
        document = document[key]
    return holder, key


_DAMAGES = (_flip, _cut, _double, _token, _number, _number, _line, _value, _value, _value)


def prepared(reader: FuzzedReader, folder: Path) -> bytes:
    """Put what a reader needs beside its file into a new folder, and return the undamaged file."""
    if reader.base is not None:
        shutil.copytree(reader.base(), folder)
    folder.mkdir(exist_ok=True)
    for name, path in reader.others.items():
        shutil.copyfile(path, folder / name)
    return reader.data()


def outcome(reader: FuzzedReader, folder: Path, data: bytes) -> str:
    """Read a damaged file: "read", "refused", or what is wrong with the way in which it was refused.

    Anything but an error of this package, in one printable line, is raised.
    """
    (folder / reader.file).write_bytes(data)
    try:
        reader.read(folder)
    except PtxbenchError as error:
        text = str(error)
        if len(text) > 4100:
            return f"a message of {len(text)} characters"
        return "refused" if text.isprintable() else f"not printable: {text!r}"
    return "read"
