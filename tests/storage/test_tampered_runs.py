"""Run folders that someone changed: refused on reading, in one line that names the place."""

import json
import math
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.storage.codec import Place, decode, encode
from ptxbench.storage.kernels import KernelStore
from ptxbench.storage.manifest import read_run_manifest, write_manifest
from ptxbench.storage.records import read_records, write_records
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TrialRecord
from ptxbench.storage.table import read_table, write_table

pytestmark = pytest.mark.hostile

VALID = replace(fake.row(), status=Status.OK, reason="", dynamic_pj=12.4, dynamic_ci95_pj=0.1)


def refused(read, *arguments) -> str:
    with pytest.raises(InputError) as error:
        read(*arguments)
    assert str(error.value).isprintable()
    return str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dynamic_pj": math.nan, "mtsm_pj": math.nan}, "row 1 is valid without an energy"),
        ({"dynamic_pj": math.inf}, "endless number"),
        ({"dynamic_ci95_pj": math.inf}, "endless number"),
        ({"power_w": -math.inf}, "endless number"),
        ({"dynamic_pj": -12.4}, "negative energy"),
        ({"power_w": -300.0}, "negative energy or power"),
        ({"dynamic_ci95_pj": math.nan}, "without an interval"),
        ({"dynamic_ci95_pj": -1.0}, "has an interval of -1 pJ"),
        ({"repeats": -3}, "negative count"),
        ({"threads": -1}, "negative count"),
        ({"unit": "t"}, "is per 't'"),
    ],
)
def test_valid_row_that_holds_no_valid_numbers_is_refused(tmp_path, changes, message):
    energies = dict.fromkeys(("sma_pj", "papi_pj", "mtsm_pj", "counter_pj"), math.nan)
    write_table(tmp_path / "table.csv", [replace(VALID, **energies | changes)])
    assert message in refused(read_table, tmp_path / "table.csv")


def test_row_that_is_not_valid_needs_no_numbers(tmp_path):
    row = replace(VALID, status=Status.THROTTLED, reason="hot", dynamic_pj=math.nan, dynamic_ci95_pj=math.nan)
    write_table(tmp_path / "table.csv", [row])
    assert len(read_table(tmp_path / "table.csv")) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 0}, "iterations 0"),
        ({"grid": -1}, "grid -1"),
        ({"block": 0}, "block 0"),
        ({"elapsed_s": -1.0}, "valid trial of -1 s"),
        ({"elapsed_s": math.inf}, "valid trial of inf s"),
        ({"elapsed_s": math.nan}, "valid trial of nan s"),
        ({"end_ns": 1}, "valid trial of"),
        ({"steady_power_w": math.inf}, "endless energy or power"),
        ({"counter_j": -math.inf}, "endless energy or power"),
    ],
)
def test_valid_trial_that_cannot_have_run_is_refused(tmp_path, changes, message):
    write_records(tmp_path / "records.parquet", [replace(fake.record(0), status=Status.OK, **changes)])
    assert message in refused(read_records, tmp_path / "records.parquet")


def tampered(path, change):
    """Write a manifest with one change to its plain values, and return its path."""
    write_manifest(path, fake.manifest())
    plain = json.loads(path.read_text())
    change(plain)
    path.write_text(json.dumps(plain))
    return path


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sm_count", -1, "has -1 SMs"),
        ("max_threads_per_sm", 0, "of 0 threads"),
        ("power_limit_w", -700.0, "a power limit of -700 W"),
        ("power_limit_w", math.inf, "a power limit of inf W"),
    ],
)
def test_manifest_of_an_impossible_gpu_is_refused(tmp_path, key, value, message):
    path = tampered(tmp_path / "manifest.json", lambda plain: plain["gpus"][0].update({key: value}))
    text = refused(read_run_manifest, path.parent)
    assert "gpus[0]" in text
    assert message in text


def test_whole_number_that_no_float_holds_is_refused(tmp_path):
    path = tampered(tmp_path / "manifest.json", lambda plain: plain["gpus"][0].update(power_limit_w=10**400))
    assert "power_limit_w is too large for a number" in refused(read_run_manifest, path.parent)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_time_that_utc_cannot_say_is_refused(tmp_path, moment):
    path = tampered(
        tmp_path / "manifest.json", lambda plain: plain["part"]["sessions"][0].update(start=moment)
    )
    assert "within the years 1 to 9999" in refused(read_run_manifest, path.parent)


def test_manifest_of_100000_brackets_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text("[" * 100_000 + "]" * 100_000)
    assert "nested too deeply" in refused(read_run_manifest, tmp_path)


def test_escapes_of_a_terminal_in_a_foreign_run_are_replaced(tmp_path):
    def change(plain):
        plain["gpus"][0]["name"] = "H200\x1b]0;evil\x07\x1b[2J"
        plain["part"]["run_id"] = "a\rb"

    manifest = read_run_manifest(tampered(tmp_path / "manifest.json", change).parent)
    assert manifest.gpu.name == "H200\ufffd]0;evil\ufffd\ufffd[2J"
    assert manifest.part.run_id.isprintable()
    write_table(tmp_path / "table.csv", [replace(VALID, sass="FFMA\x1b[31m", reason="two\nlines")])
    (row,) = read_table(tmp_path / "table.csv")
    assert row.sass.isprintable()
    assert row.reason == "two\nlines"


def test_record_of_a_gpu_that_the_manifest_lacks_is_refused(tmp_path):
    path = tmp_path / "run"
    with RunFolder.create(path, fake.manifest()) as run:
        run.append(fake.record(0), fake.trace(0))
    tampered(path / "manifest.json", lambda plain: plain["gpus"][0].update(uuid_hash="ba9876543210"))
    with RunFolder.open(path) as run:
        assert "which the manifest does not list" in refused(run.records)


@pytest.mark.parametrize("digest", ["../../../../etc/passwd", "a" * 63, "A" * 64, "../" + "a" * 61, ""])
def test_hash_that_is_a_path_is_refused(tmp_path, digest):
    folder = tmp_path / "kernels"
    KernelStore(tmp_path).add("fma/target", fake.PTX, fake.SASS, fake.CUBIN)
    plain = json.loads((folder / "index.json").read_text())
    plain[0]["ptx_sha256"] = digest
    (folder / "index.json").write_text(json.dumps(plain))
    assert "no SHA-256" in refused(KernelStore, tmp_path)


def test_what_ptxbench_writes_has_no_fault(tmp_path):
    record = fake.record(0)
    assert decode(TrialRecord, encode(record), Place(tmp_path)).trial_id == record.trial_id
    assert fake.GPU.fault() == record.fault() == fake.row().fault() == ""


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400])
def test_whole_number_beyond_64_bits_is_refused(tmp_path, value):
    plain = encode(fake.record(0)) | {"start_ns": value}
    message = refused(decode, TrialRecord, plain, Place(tmp_path / "records.jsonl", "line 1"))
    assert "start_ns is too large for a whole number" in message


def test_whole_number_of_64_bits_is_read(tmp_path):
    plain = encode(fake.record(0)) | {"start_ns": -(2**63), "end_ns": 2**63 - 1}
    assert decode(TrialRecord, plain, Place(tmp_path / "x")).end_ns == 2**63 - 1


def test_what_an_error_quotes_can_neither_command_a_terminal_nor_fill_the_screen(tmp_path):
    plain = encode(fake.record(0)) | {"status": "\x1b[2J" + 100_000 * "x", "\x1b]0;owned\x07": 1}
    message = refused(decode, TrialRecord, plain, Place(tmp_path / "records.jsonl", "line 1"))
    assert len(message) < 5_000
