"""records.parquet and traces.parquet."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import run as fake
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.core.errors import InputError
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Series, Trace
from ptxbench.storage import traces
from ptxbench.storage.codec import type_hints
from ptxbench.storage.records import read_records, write_records
from ptxbench.storage.schema import TrialRecord

# A run of 2026-11 that has its trials beside it.
KEPT = Path(__file__).parents[2] / "results" / "nvidia-h200" / "levels"
INT64 = st.integers(-(2**63), 2**63 - 1)


def test_records_round_trip(tmp_path):
    old = [fake.record(n) for n in range(4)]
    write_records(tmp_path / "r.parquet", old)
    new = read_records(tmp_path / "r.parquet")
    assert list(map(repr, new)) == list(map(repr, old))


def test_record_columns_are_typed_and_nan_is_not_null(tmp_path):
    write_records(tmp_path / "r.parquet", [fake.record(1)])
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.schema.names == list(type_hints(TrialRecord))
    types = {name: table.schema.field(name).type for name in ("cycles", "papi_j", "status")}
    assert types == {"cycles": pa.int64(), "papi_j": pa.float64(), "status": pa.string()}
    assert table["papi_j"].null_count == 0
    assert table["cycles"].to_pylist() == [-1]


def test_kept_trials_of_before_have_their_operands_by_the_former_name():
    path = KEPT / "records.parquet"
    assert "operands" not in pq.read_schema(path).names
    assert {record.operands for record in read_records(path)} == {"random", "zeros"}


def test_a_former_name_is_named_where_its_value_does_not_fit(tmp_path):
    write_records(tmp_path / "r.parquet", [fake.record(1)])
    table = pq.read_table(tmp_path / "r.parquet")
    names = [{"operands": "pattern"}.get(name, name) for name in table.schema.names]
    older = table.rename_columns(names)
    pq.write_table(older, tmp_path / "r.parquet")
    assert repr(read_records(tmp_path / "r.parquet")) == repr([fake.record(1)])
    place = names.index("pattern")
    pq.write_table(older.set_column(place, "pattern", pa.array([1])), tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"row 1\.pattern must be text"):
        read_records(tmp_path / "r.parquet")


def test_no_records(tmp_path):
    write_records(tmp_path / "r.parquet", [])
    assert read_records(tmp_path / "r.parquet") == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda t: t.drop_columns(["sma_j"]), "row 1.sma_j is missing"),
        (lambda t: t.set_column(1, "order", pa.array(["0"])), "row 1.order must be a whole number"),
        (
            lambda t: t.set_column(1, "order", pa.array([None], pa.int64())),
            "row 1.order must be a whole number",
        ),
        (
            lambda t: t.set_column(t.schema.get_field_index("status"), "status", pa.array(["good"])),
            "row 1.status must be one of ok, ",
        ),
    ],
)
def test_records_are_read_strictly(tmp_path, change, text):
    path = tmp_path / "r.parquet"
    write_records(path, [fake.record(0)])
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(InputError) as error:
        read_records(path)
    assert str(error.value).startswith(f"{path}: {text}")


@pytest.mark.parametrize("data", [b"", b"PAR1 no parquet PAR1", None])
@pytest.mark.parametrize("read", [read_records, traces.read, traces.TraceFile])
def test_damaged_or_missing_file_is_one_line(tmp_path, data, read):
    path = tmp_path / "r.parquet"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError) as error:
        read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def write(path, *named):
    with path.open("wb") as file:
        traces.write(file, [traces.to_table(name, series) for name, series in named])


@st.composite
def a_series(draw, source):
    n = draw(st.integers(1, 5))

    def ints():
        return np.array(draw(st.lists(INT64, min_size=n, max_size=n)), np.int64)

    values = np.array(draw(st.lists(st.floats(width=64), min_size=n, max_size=n)))
    return Series(source, ints(), ints(), values, ints(), ints())


@given(st.permutations(list(SourceName)).flatmap(lambda names: st.tuples(*map(a_series, names))))
def test_any_readings_round_trip(tmp_path_factory, series):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    write(path, ("a", series))
    new = traces.to_series(traces.read(path), path)
    assert fake.same_trace(Trace(0, 0, new), Trace(0, 0, series))


def test_each_trial_is_found_among_many_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "_ROW_GROUP_READINGS", 25)  # 10 readings a trial: 3 trials a group
    path = tmp_path / "t.parquet"
    write(path, *((f"t{n}", fake.trace(n).series) for n in range(8)))
    assert pq.ParquetFile(path).metadata.num_row_groups == 3
    assert traces.read(path).num_rows == 80
    file = traces.TraceFile(path)
    for n in (7, 0, 1, 5, 2, 3, 4, 6):
        new = Trace(fake.trace(n).begin_ns, fake.trace(n).end_ns, file.series(f"t{n}"))
        assert fake.same_trace(new, fake.trace(n))
    assert file.series("t9") == ()
    file.close()


def test_damaged_page_is_one_line(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, *((f"t{n}", fake.trace(n).series) for n in range(8)))
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(4)
    begin = column.dictionary_page_offset
    data[begin : begin + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    for read in (traces.read, lambda p: traces.TraceFile(p).series("t0")):
        with pytest.raises(
            InputError, match=r"cannot read .*; (copy the run again|go on with `resume`)"
        ) as error:
            read(path)
        assert "\n" not in str(error.value)


def test_trial_without_readings_has_no_series(tmp_path):
    empty = fake.trace(0).series[0].select(np.zeros(7, bool))
    path = tmp_path / "t.parquet"
    write(path, ("a", (empty,)), ("b", ()))
    assert traces.to_series(traces.read(path), path) == ()
    assert traces.TraceFile(path).series("a") == ()


def test_unknown_source_and_other_columns_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, ("a", fake.trace(0).series))
    table = traces.read(path)
    other = table.set_column(1, "source", pa.array(["meter"] * table.num_rows))
    with pytest.raises(InputError, match="column source holds 'meter'"):
        traces.to_series(other, path)
    pq.write_table(table.drop_columns(["code"]), path)
    with pytest.raises(InputError, match=r"t.parquet: the columns must be trial_id \(string\), "):
        traces.read(path)


def test_columns_of_other_types_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, ("a", fake.trace(0).series))
    table = traces.read(path)
    pq.write_table(table.set_column(4, "value", table["value"].cast(pa.float32())), path)
    with pytest.raises(InputError, match=r"t.parquet: the columns must be "):
        traces.read(path)


def test_a_million_readings_take_a_few_megabytes(tmp_path):
    """Polled at about 1 kHz with the jitter of a real host; a sensor that refreshes every 100 ms."""
    rng = np.random.default_rng(0)
    count = 100_000
    begin = 10**12 + np.cumsum(rng.integers(1_000_000, 1_060_000, count))
    end = begin + rng.integers(800, 30_000, count)
    value = np.round(rng.normal(500, 10, count // 100), 3).repeat(100)
    stamps, codes = np.full(count, -1), np.zeros(count, np.int64)
    path = tmp_path / "t.parquet"
    write(path, ("fma/0", (Series(SourceName.INSTANT, begin, end, value, stamps, codes),)))
    assert path.stat().st_size / count * 1e6 < 6e6
    plain = tmp_path / "plain.parquet"
    pq.write_table(traces.read(path), plain)
    assert path.stat().st_size < plain.stat().st_size / 2


def test_reading_a_trace_does_not_need_the_others(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, ("a", fake.trace(0).series), ("b", fake.trace(1).series))
    assert math.isnan(traces.TraceFile(path).series("b")[0].value[1])


def test_a_column_of_a_newer_ptxbench_is_passed_over(tmp_path):
    write_records(tmp_path / "r.parquet", [fake.record(1)])
    table = pq.read_table(tmp_path / "r.parquet").append_column("newer", pa.array([1]))
    pq.write_table(table, tmp_path / "r.parquet")
    assert repr(read_records(tmp_path / "r.parquet")) == repr([fake.record(1)])
