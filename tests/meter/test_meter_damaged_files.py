"""Files that are damaged, hostile or of an unusual kind: read rightly, or refused in one line."""

import gzip
import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ptxbench.core.errors import InputError
from ptxbench.meter.readers import Mapping, read_mapping, read_meter, text
from ptxbench.meter.readers.nvml import read_nvml, read_windows

pytestmark = pytest.mark.hostile

POWER_W = 150 + 40 * np.sin(np.arange(60) / 3)
VOLTS = 12.0


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# As a Tektronix MDO3014 writes it: settings with a cell for each channel, as wide as the rows.
TEKTRONIX = [
    "Model,MSO58",
    "Firmware Version,1.20",
    "",
    "Waveform Type,ANALOG,",
    "Horizontal Units,s,",
    "Horizontal Scale,0.004,",
    "Sample Interval,0.001,",
    "Record Length,60,",
    "Gating,0.0% to 100.0%,",
    "Probe Attenuation,10,1",
    "Vertical Units,V,A",
    "Vertical Offset,0,0",
    "Vertical Scale,2,0.5",
    "Vertical Position,-1.98,0.3",
    ",,",
    "Label,,",
]


def test_tektronix_mso_of_two_channels_gives_its_samples_and_not_its_settings(tmp_path):
    rows = [f"{-0.03 + 0.001 * i:.6e},{VOLTS},{p / VOLTS:.9f}" for i, p in enumerate(POWER_W)]
    capture = read_meter(write(tmp_path / "mso.csv", *TEKTRONIX, "TIME,CH1,CH2", *rows))
    assert capture.power_w == pytest.approx(POWER_W)
    assert np.diff(capture.time_ns) == pytest.approx(1e6)
    assert capture.notes == ()


def test_tektronix_tds_with_settings_beside_its_first_rows_is_refused_or_mapped(tmp_path):
    beside = ["Record Length,2.5e+03,", "Sample Interval,1e-3,", "Trigger Point,1.25e+03,"]
    rows = [f",{0.001 * i:.6f},{p:.9f}," for i, p in enumerate(POWER_W)]
    lines = [before + row for before, row in zip([*beside, *[",,"] * 57], rows, strict=True)]
    path = write(tmp_path / "tds.csv", *lines)
    with pytest.raises(InputError, match="no column of time among column1"):
        read_meter(path)
    mapping = write(
        tmp_path / "map.toml", '[time]\ncolumn = "column4"\nunit = "s"', '[[rails]]\nwatts = "column5"'
    )
    assert read_meter(path, read_mapping(mapping)).power_w == pytest.approx(POWER_W)


@pytest.mark.parametrize("with_number", [True, False])
@pytest.mark.parametrize("tail", ["", ","])
def test_rigol_ds1000z_is_read(tmp_path, with_number, tail):
    names = ("X," if with_number else "") + "CH1,CH2,Start,Increment," + "\r"
    units = ("Sequence," if with_number else "") + "Volt,Ampere,-6.0e-02,2.0e-05\r"
    rows = [
        (f"{i}," if with_number else "") + f"{VOLTS},{p / VOLTS:.9f}{tail}" for i, p in enumerate(POWER_W)
    ]
    capture = read_meter(write(tmp_path / "rigol.csv", names, units, *rows))
    assert capture.power_w == pytest.approx(POWER_W)
    assert capture.time_ns[0] == -60_000_000
    assert np.diff(capture.time_ns).tolist() == [20_000] * 59


def test_rigol_current_as_volts_of_a_clamp_by_a_mapping(tmp_path):
    rows = [f"{i},{VOLTS},{p / VOLTS / 100:.9f}" for i, p in enumerate(POWER_W)]
    path = write(tmp_path / "r.csv", "X,CH1,CH2,Start,Increment,", "Sequence,Volt,Volt,0,1e-3", *rows)
    with pytest.raises(InputError, match=r"CH1, CH2 belong to; say it in a mapping"):
        read_meter(path)
    mapping = write(tmp_path / "m.toml", '[[rails]]\nvolts = "CH1"\namperes = "CH2"\namperes_scale = 100')
    assert read_meter(path, read_mapping(mapping)).power_w == pytest.approx(POWER_W)


@pytest.mark.parametrize(
    "units", ["Sequence", "Sequence,Volt,Volt", "Sequence,Volt,Volt,0,0", "Sequence,Volt,Volt,0,nan"]
)
def test_rigol_without_an_increment_is_refused(tmp_path, units):
    path = write(tmp_path / "r.csv", "X,CH1,CH2,Start,Increment,", units, *(f"{i},1,2" for i in range(30)))
    with pytest.raises(InputError, match="no start and increment"):
        read_meter(path)


def rails(*powers_w: np.ndarray) -> list[str]:
    names = ",".join(f"rail{n}_v,rail{n}_a" for n in range(len(powers_w)))
    rows = zip(*powers_w, strict=True)
    return [
        f"t_ms,{names}",
        *(f"{i}," + ",".join(f"12,{p / 12:.6f}" for p in row) for i, row in enumerate(rows)),
    ]


def test_rail_that_is_wired_backwards_is_refused_though_the_sum_is_positive(tmp_path):
    with pytest.raises(InputError, match=r"rail rail1 carries -3\d\.?\d* W on average.*backwards"):
        read_meter(write(tmp_path / "m.csv", *rails(POWER_W, -POWER_W / 4)))


def test_small_rail_that_is_wired_backwards_falls_as_the_others_rise(tmp_path):
    with pytest.raises(InputError, match=r"rail rail1 .* wired backwards"):
        read_meter(write(tmp_path / "m.csv", *rails(POWER_W, -POWER_W / 120)))


def test_idle_rail_with_the_zero_of_its_sensor_below_zero_is_kept(tmp_path):
    noise_w = np.random.default_rng(0).normal(-0.8, 0.5, len(POWER_W))
    capture = read_meter(write(tmp_path / "m.csv", *rails(POWER_W, noise_w)))
    assert capture.power_w == pytest.approx(POWER_W + noise_w, abs=1e-3)
    (note,) = capture.notes
    assert note.startswith("rail rail1 carries -0.")
    assert note.endswith("the zero of its sensor is off, or it is wired backwards")


def test_rail_that_reads_nothing_is_said(tmp_path):
    capture = read_meter(write(tmp_path / "m.csv", *rails(POWER_W, 0 * POWER_W)))
    assert capture.notes == ("rail rail1 reads 0 W in every row: is its sensor connected?",)


def test_backward_rails_of_a_dump_and_of_a_raw_capture_are_refused(tmp_path):
    names = (
        "marker time dt_micro device_timestamp current0 voltage0 power0 current1 voltage1 power1 power_total"
    )
    rows = [
        f"S {i / 1000} 50 {i} 9 12 {p:.3f} -2 12 {-p / 4:.3f} {0.75 * p:.3f}" for i, p in enumerate(POWER_W)
    ]
    with pytest.raises(InputError, match=r"rail sensor1 .* wired backwards"):
        read_meter(write(tmp_path / "dump.txt", names, *rows))
    frames = b"".join(
        struct.pack("<H8h", (600 * i) % 65536, 1586 << 4, 200 << 4, 1586 << 4, -40 << 4, 0, 0, 0, 0)
        for i in range(60)
    )
    (tmp_path / "pmd.bin").write_bytes(frames)
    with pytest.raises(InputError, match=r"rail channel2 .* wired backwards"):
        read_meter(tmp_path / "pmd.bin")


def test_raw_pmd_capture_that_loses_frames_for_most_of_a_wrap_keeps_its_time(tmp_path):
    ticks = [600 * i + (50_000 if i >= 30 else 0) for i in range(60)]
    frames = b"".join(struct.pack("<H8h", t % 65536, 1586 << 4, 200 << 4, 0, 0, 0, 0, 0, 0) for t in ticks)
    (tmp_path / "pmd.bin").write_bytes(frames)
    assert read_meter(tmp_path / "pmd.bin").time_ns == pytest.approx(np.array(ticks) / 2_933_500 * 1e9, abs=1)


@pytest.mark.parametrize("bits", [16, 24, 31, 32])
def test_counter_of_time_may_wrap_inside_a_capture(tmp_path, bits):
    start = 2**bits - 20_000
    lines = ["t_us,power_w", *(f"{(start + 1000 * i) % 2**bits},{p}" for i, p in enumerate(POWER_W))]
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert len(capture) == 60
    assert np.diff(capture.time_ns).tolist() == [1_000_000] * 59
    assert capture.notes == ("the clock's counter wraps once; it is unwrapped",)


def local_stamps(first: str, seconds: np.ndarray, zone: str) -> list[str]:
    import pandas as pd

    times = pd.Timestamp(first, tz="UTC") + pd.to_timedelta(seconds, unit="s")
    return [str(t) for t in times.tz_convert(zone).strftime("%Y-%m-%d %H:%M:%S.%f")]


# Berlin turned its clocks at 01:00 UTC on these days, forward and back.
@pytest.mark.parametrize("first", ["2024-03-31 00:59:45", "2024-10-27 00:59:45"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_change_of_summer_time_inside_a_capture_is_undone(tmp_path, first, zone):
    stamps = local_stamps(first, np.arange(60) / 2, "Europe/Berlin")
    lines = ["timestamp,power_w", *(f"{s},{p}" for s, p in zip(stamps, POWER_W, strict=True))]
    capture = read_meter(write(tmp_path / "m.csv", *lines), Mapping(zone=zone))
    assert np.diff(capture.time_ns).tolist() == [500_000_000] * 59
    assert any("summer time" in note for note in capture.notes)
    if zone is not None:
        assert np.datetime64(int(capture.time_ns[0]), "ns") == np.datetime64(first)
    log, notes = read_nvml(write(tmp_path / "n.csv", *[x.replace("power_w", "power.draw") for x in lines]))
    assert np.diff(log[0].time_ns).tolist() == [500_000_000] * 59
    assert any("summer time" in note for note in notes)


def test_gpu_log_whose_clock_was_set_back_is_refused_and_a_single_row_left_out(tmp_path):
    times = [i if i < 50 else i - 20 for i in range(100)]
    with pytest.raises(InputError, match="19 of 100 rows go back in time"):
        read_nvml(write(tmp_path / "n.csv", "t_ms,power_draw_w", *(f"{t},{100 + t}" for t in times)))
    times = [*range(100), 3, *range(100, 200)]
    (series,), notes = read_nvml(
        write(tmp_path / "n.csv", "t_ms,power_draw_w", *(f"{t},9{t}" for t in times))
    )
    assert len(series) == 200
    assert notes == ("1 rows that go back in time of n.csv are left out",)


def test_small_gzip_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_BYTES", 1 << 20)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        file.write(b"t_us,usage_w,start_us,end_us\n")
        for _ in range(64):
            file.write(b"1,2,3,4\n" * (1 << 17))
    for reader in (read_meter, read_nvml, read_windows):
        path = tmp_path / "bomb.csv.gz"
        path.write_bytes(packed.getvalue())
        with pytest.raises(InputError, match="unpacks to more than 1 MiB"):
            reader(path)
    (tmp_path / "long.csv").write_bytes(b"t_us,power_w\n" + b"1,2\n" * (1 << 19))
    with pytest.raises(InputError, match="holds more than 1 MiB"):
        read_meter(tmp_path / "long.csv")


@pytest.mark.parametrize("cells", [1_000_000, 2_000])
def test_table_of_very_many_columns_is_refused(tmp_path, cells):
    line = ",".join("1" * cells)
    path = write(tmp_path / "m.csv", *[line] * 25)
    for reader in (read_meter, read_nvml):
        with pytest.raises(InputError, match=r"more than 20000 characters|2000 columns"):
            reader(path)
    with pytest.raises(InputError, match=r"more than 20000 characters|no column start"):
        read_windows(path)


def test_escapes_of_a_terminal_do_not_come_through_names(tmp_path):
    lines = ["t_ms,slot\x1b[2J_w,cable\x07_w", *(f"{i},20,{p}" for i, p in enumerate(POWER_W))]
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert all(name.isprintable() for name in capture.rails)
    (one,) = read_windows(write(tmp_path / "w.csv", "start_ms,end_ms,label", "1,2,\x1b]0;evil\x07add"))
    assert one.label.isprintable()
    assert one.label.endswith("add")
    mapping = write(tmp_path / "map.toml", '[[rails]]\nname = "a\\u001b[31m"\nwatts = "power"')
    assert read_mapping(mapping).rails[0].name.isprintable()


@pytest.mark.parametrize("value", ["1e400", "-1e300", "inf", "9223372036854775807", "1e30"])
def test_times_beyond_any_clock_are_torn_rows(tmp_path, value):
    lines = ["t_s,power_w", *(f"{i / 10},{p}" for i, p in enumerate(POWER_W))]
    lines[30] = f"{value},150"
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert capture.notes == ("1 of 60 rows torn",)
    with pytest.raises(InputError, match="no number or no time"):
        read_windows(write(tmp_path / "w.csv", "start_s,end_s", "1,2", f"{value},{value}"))


@pytest.mark.parametrize("number", ["nan", "inf", "1e300", "0x" + "f" * 4000])
def test_mapping_of_numbers_without_bounds_is_refused(tmp_path, number):
    with pytest.raises(InputError, match="must be"):
        read_mapping(write(tmp_path / "m.toml", f'[[rails]]\nvolts = {number}\namperes = "x"'))


# Pieces that files of meters, oscilloscopes and drivers are made of, and what damages them.
HEADERS = (
    "t_us,power_w",
    "timestamp;slot_v;slot_a",
    "t_us,power_draw_w,energy_j",
    "timestamp, power.draw [W]",
    "start_us,end_us,label",
    "marker time dt_micro device_timestamp power0 power_total",
    "X,CH1,CH2,Start,Increment,\nSequence,Volt,Ampere,0,1e-3",
    "\n".join([*TEKTRONIX, "TIME,CH1,CH2"]),
    "Store No.,Date,Time,Millisecond,U-1,I-1",
    "",
)
CELLS = st.one_of(
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(repr),
    st.integers(0, 10**6).map(str),
    st.sampled_from(
        ("", "nan", "inf", "1e999", "-1e308", '"', "'", "[N/A]", "12,5", "S", "M", "Infinity", "True", "0x10")
    ),
    st.sampled_from(
        ("2024-03-31 02:59:59.5", "2024/01/01 10:00:00.359", "23:59:59", "00:00:00.1", "9999-12-31")
    ),
    st.sampled_from(
        ("99999999:59:59", "2024-13-41 99:99:99", "1677-01-01", "1:2:3:4", "2024-01-01T00:00:00+99:99")
    ),
    st.text(max_size=6),
)


@st.composite
def table_texts(draw: st.DrawFn) -> bytes:
    """A table with sound rows and unsound ones, damaged here and there, in any encoding."""
    separator = draw(st.sampled_from((",", ";", "\t", " ")))
    width = draw(st.integers(1, 6))
    sound = draw(st.integers(0, 40))
    rows = [separator.join([str(1000 * i), *(["12.5"] * (width - 1))]) for i in range(sound)]
    for cells in draw(st.lists(st.lists(CELLS, min_size=1, max_size=8), max_size=30)):
        rows.insert(draw(st.integers(0, len(rows))), separator.join(cells))
    end = draw(st.sampled_from(("\n", "\r\n", "\r", "\n\n")))
    whole = end.join([draw(st.sampled_from(HEADERS)), *rows])
    data = bytearray(
        whole.encode(draw(st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "utf-16-le"))), "replace")
    )
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 255)), max_size=4)):
        if data:
            data[place % len(data)] = byte
    data = data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data
    if not draw(st.booleans()):
        return bytes(data)
    packed = gzip.compress(bytes(data))
    return packed[: draw(st.integers(0, len(packed)))]


def read_as_all(path: Path) -> list[str]:
    """Read a file as everything that it could be given for, and return what the refusals say."""
    refusals = []
    for reader in (read_meter, read_nvml, read_windows, read_mapping):
        try:
            reader(path)
        except InputError as error:
            refusals.append(str(error))
    return refusals


@given(data=st.one_of(table_texts(), st.binary(max_size=400)))
@example(data=b"")
@example(data=b"\xff\xfe")
@example(data=b"\x1f\x8b\x08")
@example(data=b'"\n' * 30)
@example(data=b"t_us,power_w\n" + b"1,2\n" * 5000 + b"\x00\x00")
def test_no_file_makes_a_traceback(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    path.write_bytes(data)
    assert all(refusal.isprintable() for refusal in read_as_all(path))


def test_number_of_400_digits_is_a_torn_row_and_no_traceback(tmp_path):
    rows = [f"{1_000 * i},{p:.0f}" for i, p in enumerate(POWER_W)]
    rows[7], rows[30] = f"{'9' * 4000},150", f"30000,{'9' * 4000}"
    capture = read_meter(write(tmp_path / "m.csv", "t_us,power_w", *rows))
    assert len(capture) == len(POWER_W) - 2
