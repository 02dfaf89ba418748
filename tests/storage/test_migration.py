"""Kept runs of every age are read as runs of today, and those of tomorrow by the reader of today."""

import csv
import json
import shutil
from dataclasses import make_dataclass
from pathlib import Path

import pytest
from validation_file import KernelSession

from ptxbench.attribute.recorded import ProgramManifest
from ptxbench.core.errors import InputError
from ptxbench.storage import codec, migration
from ptxbench.storage.codec import Place
from ptxbench.storage.doctor_file import DoctorFile
from ptxbench.storage.document import SCHEMA, read_document
from ptxbench.storage.folder_kind import Kind, kind_of
from ptxbench.storage.manifest import Manifest, TableManifest, read_manifest
from ptxbench.storage.recording import RecordingManifest
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.sensor_file import read_sensor_file
from ptxbench.storage.table import read_table
from ptxbench.tune.blocks.concurrent_search import ConcurrentManifest
from ptxbench.tune.folder import TuningManifest

RESULTS = Path(__file__).parents[2] / "results"
NAMES = ("manifest.json", "run.json", "measured.json")
KEPT = sorted(path for name in NAMES for path in RESULTS.rglob(name))
# Of a script's study the kinds of run have no part.
Anything = make_dataclass("Anything", [], frozen=True)
READ_AS = {
    Kind.TABLE: TableManifest,
    Kind.RECORDING: RecordingManifest,
    Kind.ROOFLINE: RecordingManifest,
    Kind.PROFILE: RecordingManifest,
    Kind.CALIBRATION: RecordingManifest,
    Kind.PROGRAM: ProgramManifest,
    Kind.TUNING: TuningManifest,
    Kind.CONCURRENT: ConcurrentManifest,
    Kind.KERNELS: KernelSession,
    Kind.STUDY: Manifest[Anything],
}
# What the first schema called otherwise, by kind.
RENAMED = {
    (Kind.PROGRAM, "version"): "ptxbench_version",
    (Kind.PROGRAM, "command"): "program",
    (Kind.KERNELS, "begun"): "created",
}
VERSIONS = {"schema", "schema_version", "recording_version", "tuning_version"}


def as_read(path):
    kind = kind_of(path.parent)[0]
    return kind, read_manifest(path, READ_AS[kind], kind)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: str(path.parent.relative_to(RESULTS)))
def test_a_kept_run_says_all_that_it_said(path):
    old = json.loads(path.read_text())
    kind, manifest = as_read(path)
    new = codec.encode(manifest)
    told = {**new, **new["part"]}
    board = new["gpus"][0] if new["gpus"] else {}
    for key in old.keys() - VERSIONS:
        name = RENAMED.get((kind, key), key)
        if kind is Kind.KERNELS and key != "begun":
            told = {**board, "gpu": board["name"], **told}
        # The runner that made a study reads its part.
        if kind is Kind.STUDY and (key not in new or key == "part") and key != "gpu":
            continue
        found = board if key == "gpu" and kind is not Kind.KERNELS else told[name]
        # Where a program's run had no commit it said "".
        known = old[key] if old[key] != "" or key != "commit" else None
        assert grown(found, known) == known, key


def grown(new, old):
    """Return a value without the fields that the older one did not have."""
    if isinstance(old, dict):
        return {key: grown(new[key], old[key]) for key in old}
    if isinstance(old, list):
        assert len(new) == len(old)
        return [grown(*both) for both in zip(new, old, strict=True)]
    return new


def test_a_table_of_before_its_shared_error_was_kept_has_none():
    kind, manifest = as_read(RESULTS / "nvidia-h200" / "starters" / "manifest.json")
    assert (kind, manifest.schema, manifest.command) == (Kind.TABLE, SCHEMA, ())
    assert manifest.part.cost is manifest.part.level_error is manifest.part.scale_ci95 is None
    assert (manifest.part.arguments.linearity, manifest.part.known_difference) == ("all", 0.0)
    assert manifest.host.python.startswith("3.")


def test_a_recording_of_before_the_sms_were_kept_has_no_number_of_them():
    _, manifest = as_read(RESULTS / "nvidia-h200" / "sensor" / "manifest.json")
    assert (manifest.part.purpose, manifest.part.load_sms) == ("sensor", 0)
    assert kind_of(RESULTS / "nvidia-h100" / "roofline" / "f32")[0] is Kind.ROOFLINE


def test_a_tuning_has_its_board_and_its_problem():
    _, manifest = as_read(RESULTS / "nvidia-h200" / "gemm" / "f32" / "manifest.json")
    assert (manifest.gpu.name, manifest.part.problem.dtype) == ("NVIDIA H200", "f32")


def test_a_programs_words_are_not_those_of_ptxbench():
    _, manifest = as_read(RESULTS / "nvidia-h100" / "programs" / "wait" / "run.json")
    assert manifest.part.program
    assert (manifest.command, manifest.gpus, manifest.part.is_counted) == ((), (), False)


def test_measured_kernels_of_the_first_schema_know_little_of_their_gpu():
    _, session = as_read(RESULTS / "nvidia-h200" / "validation" / "measured.json")
    assert (session.gpu.name, session.gpu.power_limit_w, session.gpu.target) == ("NVIDIA H200", 700.0, "")
    assert (session.ptxbench_version, session.host) == ("", None)


def test_kernels_at_once_of_before_their_sources_were_kept(tmp_path):
    gpu = json.loads((RESULTS / "nvidia-h100" / "blocks" / "manifest.json").read_text())["gpu"]
    kept = {
        **{"concurrent_version": 1, "ptxbench_version": "0.9", "commit": None, "gpu": gpu},
        **{"created": "2026-11-23T10:00:00+00:00", "kernels": [], "window_s": 0.4, "seed": 3},
        "host": {"name_hash": "0" * 12, "python": "3.11.2", "os": "Linux"},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(kept))
    manifest = read_manifest(tmp_path / "manifest.json", ConcurrentManifest, Kind.CONCURRENT)
    assert (manifest.part.seed, manifest.part.source_keys, manifest.gpu.index) == (3, (), 1)


def test_every_age_of_a_manifest_is_told_apart_by_one_key():
    for path in KEPT:
        document = json.loads(path.read_text())
        keys = migration.MIGRATIONS.keys() & document.keys()
        if isinstance(document.get("schema"), str):  # today's
            assert not keys, path
            continue
        assert len({migration.MIGRATIONS[key] for key in keys - {"cases"}} or keys) == 1, path


def test_a_newer_first_schema_is_refused(tmp_path):
    place = Place(tmp_path / "manifest.json")
    with pytest.raises(InputError, match=r"schema_version is 3, and this ptxbench reads up to 2\.x"):
        migration.migrated({"schema_version": 3}, place)


@pytest.mark.parametrize("run", ["nvidia-h200/starters", "nvidia-h100/table-c080"])
def test_a_run_of_tomorrow_is_read_by_the_reader_of_today(tmp_path, run):
    """One column more in table.csv, one field more in each object of the manifest, a newer minor schema."""
    shutil.copytree(RESULTS / run, tmp_path / "run")
    before = read_table(tmp_path / "run" / "table.csv")
    _, manifest = as_read(RESULTS / run / "manifest.json")
    plain = {**with_more(codec.encode(manifest)), "schema": "2.99"}
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(plain))
    lines = list(csv.reader((tmp_path / "run" / "table.csv").read_text().splitlines()))
    with (tmp_path / "run" / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [line[0], "more" if n == 0 else "7", *line[1:]] for n, line in enumerate(lines)
        )
    with RunFolder.open(tmp_path / "run") as newer:
        assert repr(newer.rows()) == repr(before)
        assert (newer.manifest.schema, repr(newer.manifest.part)) == ("2.99", repr(manifest.part))


def read_doctor(path):
    return read_document(path, DoctorFile, "doctor_version")


def with_more(plain):
    """Return plain values with one field more in each object."""
    if isinstance(plain, list):
        return [with_more(item) for item in plain]
    if isinstance(plain, dict):
        return {"more": {"of": "tomorrow"}, **{key: with_more(item) for key, item in plain.items()}}
    return plain


@pytest.mark.parametrize(
    ("name", "read", "version"),
    [
        ("nvidia-h200/sensor/sensor.json", read_sensor_file, "sensor_version"),
        ("nvidia-h100/doctor-b6a0/doctor.json", read_doctor, "doctor_version"),
    ],
)
def test_a_side_file_follows_the_same_rule(tmp_path, name, read, version):
    path = tmp_path / Path(name).name
    plain = json.loads((RESULTS / name).read_text())
    kept = repr(read(RESULTS / name))
    path.write_text(json.dumps(with_more({**plain, "schema": "2.7"})))
    assert repr(read(path)) == kept
    for newer in ({version: 3}, {"schema": "3.0"}):
        path.write_text(json.dumps({**plain, **newer}))
        with pytest.raises(InputError, match=r"reads up to 2\.x: read it with a newer ptxbench"):
            read(path)
    del plain[version]
    path.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=f"{version} must be the schema of the file, such as '{SCHEMA}'"):
        read(path)
