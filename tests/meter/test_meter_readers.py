import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.core.errors import InputError
from ptxbench.meter.readers import Mapping, read_mapping, read_meter

POWER_W = 150 + 40 * np.sin(np.arange(40) / 3)
T0_US = 1_700_000_000_000_000


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def rail_lines(rows: int = 40) -> list[str]:
    header = "t_us,slot_v,slot_a,cable1_v,cable1_a"
    return [header, *(f"{T0_US + 200 * i},12.0,2.0,12.5,{(POWER_W[i] - 24) / 12.5:.9f}" for i in range(rows))]


def test_rails_of_volts_and_amperes_are_multiplied_and_summed(tmp_path):
    capture = read_meter(write(tmp_path / "m.csv", *rail_lines()))
    assert capture.rails == ("slot", "cable1")
    assert capture.power_w == pytest.approx(POWER_W, abs=1e-6)
    assert capture.time_ns.tolist() == [1000 * (T0_US + 200 * i) for i in range(40)]
    assert capture.is_epoch
    assert capture.period_s == pytest.approx(200e-6)


def test_gzip_is_unpacked(tmp_path):
    path = tmp_path / "m.csv.gz"
    path.write_bytes(gzip.compress("\n".join(rail_lines()).encode()))
    assert read_meter(path).power_w == pytest.approx(POWER_W, abs=1e-6)


def test_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "m.csv.gz"
    path.write_bytes(gzip.compress("\n".join(rail_lines()).encode())[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read_meter(path)


def test_shunt_follows_equation_3(tmp_path):
    # Eq. 3: (Vs1 - Vg1) / Rs x Vg1 + (Vs2 - Vg2) / Rs x Vg2 + I_clamp x V_DPS.
    lines = ["t_ms,slot12_vs,slot12_vg,slot12_rs_mohm,slot3_vs,slot3_vg,slot3_rs_ohm,dps_v,dps_a"]
    lines += [f"{i},12.10,12.00,{5},3.32,3.30,0.010,11.9,{8 + i % 2}" for i in range(30)]
    expected = 0.10 / 0.005 * 12.00 + 0.02 / 0.010 * 3.30 + 11.9 * (8 + np.arange(30) % 2)
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert capture.power_w == pytest.approx(expected)
    assert set(capture.rails) == {"slot12", "slot3", "dps"}


def test_shunt_by_mapping_and_clamp_in_volts(tmp_path):
    lines = ["Time (s),CH1 (V),CH2 (V),CH3 (V),CH4 (V)"]
    lines += [f"{i / 1000:.3f},12.1,12.0,11.9,{0.08 + 0.01 * (i % 2)}" for i in range(30)]
    mapping = read_mapping(
        write(
            tmp_path / "map.toml",
            '[[rails]]\nname = "slot"\nsource_volts = "CH1 (V)"\nvolts = "CH2 (V)"\nshunt_ohm = 0.005',
            '[[rails]]\nname = "cable"\nvolts = "CH3 (V)"\namperes = "CH4 (V)"\namperes_scale = 100.0',
        )
    )
    capture = read_meter(write(tmp_path / "m.csv", *lines), mapping)
    assert capture.power_w == pytest.approx(240 + 11.9 * (8 + np.arange(30) % 2))
    assert capture.rails == ("slot", "cable")


def test_channels_without_a_partner_ask_for_a_mapping(tmp_path):
    lines = ["Time (s),CH1 (V),CH2 (V)", *(f"{i},12,3" for i in range(30))]
    with pytest.raises(InputError, match=r"CH1 \(V\), CH2 \(V\) belong to; say it in a mapping"):
        read_meter(write(tmp_path / "m.csv", *lines))


@pytest.mark.parametrize(
    ("header", "factor"),
    [
        ("time_s,power_mw", 1e-3),
        ("t_s,Power (W)", 1.0),
        ("Time [s],P [kW]", 1e3),
        ("timestamp,total power", 1.0),
    ],
)
def test_single_power_column_in_its_unit(tmp_path, header, factor):
    lines = [header, *(f"{i * 0.25},{float(POWER_W[i] / factor)!r}" for i in range(40))]
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert capture.power_w == pytest.approx(POWER_W)
    assert capture.time_ns[1] - capture.time_ns[0] == 250_000_000


def test_total_is_taken_and_its_parts_are_not_added(tmp_path):
    lines = ["t_s,slot_w,cable_w,total_w", *(f"{i},20,{POWER_W[i] - 20},{POWER_W[i]}" for i in range(40))]
    assert read_meter(write(tmp_path / "m.csv", *lines)).power_w == pytest.approx(POWER_W)
    without = [",".join(line.split(",")[:3]) for line in lines]
    assert read_meter(write(tmp_path / "n.csv", *without)).power_w == pytest.approx(POWER_W)


def test_semicolons_decimal_commas_and_a_zone(tmp_path):
    def line(i: int) -> str:
        return f"2024-03-05T10:00:00,{i:03d}+02:00;{POWER_W[i]:.4f}".replace(".", ",")

    capture = read_meter(
        write(
            tmp_path / "m.csv",
            "Zeit stempel;Leistung (W)".replace("Zeit stempel", "time"),
            *map(line, range(40)),
        )
    )
    assert capture.power_w == pytest.approx(POWER_W, abs=1e-4)
    assert capture.time_ns[0] == 1_709_625_600_000_000_000  # 08:00 UTC
    assert np.diff(capture.time_ns).tolist() == [1_000_000] * 39


def test_tabs(tmp_path):
    lines = ["t_s\tpower_w", *(f"{i}\t{POWER_W[i]}" for i in range(40))]
    assert read_meter(write(tmp_path / "m.tsv", *lines)).power_w == pytest.approx(POWER_W)


def test_zone_of_naive_stamps_comes_from_the_mapping(tmp_path):
    lines = ["timestamp,power_w", *(f"2024/07/08 19:27:36.{i:03d},{POWER_W[i]}" for i in range(40))]
    path = write(tmp_path / "m.csv", *lines)
    utc, berlin = read_meter(path), read_meter(path, Mapping(zone="Europe/Berlin"))
    assert utc.time_ns[0] == 1_720_466_856_000_000_000
    assert utc.time_ns[0] - berlin.time_ns[0] == 2 * 3600 * 10**9
    assert any("no zone" in note for note in utc.notes)
    assert not berlin.notes
    with pytest.raises(InputError, match="no time zone"):
        read_meter(path, Mapping(zone="Mars/Olympus"))


def test_times_of_day_go_on_past_midnight(tmp_path):
    stamps = ["23:59:59.250", "23:59:59.500", "23:59:59.750", *(f"00:00:{i:02d}.000" for i in range(37))]
    lines = ["Time,power_w", *(f"{s},{p}" for s, p in zip(stamps, POWER_W.tolist(), strict=True))]
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert np.diff(capture.time_ns)[:4].tolist() == [250_000_000, 250_000_000, 250_000_000, 1_000_000_000]
    assert not capture.is_epoch


def test_bad_rows_are_dropped_and_counted(tmp_path):
    lines = ["t_s,power_w", *(f"{i},{150 + i % 7}" for i in range(400))]
    lines[40] = "39,oops"
    lines[50] = "49"
    lines[60] = "59,150,7"
    lines.insert(101, lines[100])
    lines[202] = "3,150"
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert len(capture) == 400 - 4
    assert capture.notes == (
        "3 of 401 rows torn",
        "1 of 401 rows backward in time",
        "1 of 401 rows of a repeated time, averaged with their like",
    )
    assert 99_000_000_000 in capture.time_ns


def test_rows_of_one_coarse_time_keep_their_energy(tmp_path):
    lines = ["t_ms,power_w", *(f"{i // 4},{100 + 50 * (i % 4)}" for i in range(400))]
    capture = read_meter(write(tmp_path / "m.csv", *lines))
    assert len(capture) == 100
    assert capture.power_w == pytest.approx(np.full(100, 175.0))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["t_s,power_w", *(f"{i},{'x' if i % 5 == 0 else 100}" for i in range(100))],
            "20 of 100 rows are torn",
        ),
        (["t_s,power_w", *(f"{(i * 37) % 100},100" for i in range(100))], "go back in time"),
        (["t_s,power_w", *(f"5,{100 + i}" for i in range(100))], "only 1 different times"),
        (["t_s,power_w", *(f"{i},100" for i in range(5))], "5 usable rows are too few"),
        (["t_s,power_w", *(f"{i},{-100 - i}" for i in range(50))], "no single GPU draws"),
        (["t_s,power_w", *(f"{i},{3000 + i}" for i in range(50))], "no single GPU draws"),
        (["t_s,slot_a,slot_v", *(f"{i},,12" for i in range(50))], "holds no number"),
        (
            ["t_s,volume,colour", *(f"{i},{i},{i}" for i in range(50))],
            "no power, or volts and amperes, among",
        ),
        (["pressure,power_w", *(f"{i},{i}" for i in range(50))], "no column of time"),
        (["2,3", *(f"{i},{i}" for i in range(50))], "no column of time"),
        (
            ["some words", "and more"],
            r"holds no table of numbers \(3 rows of one form in turn\)",
        ),
        (["t_s,rail_vs,rail_vg,rail_rs_ohm", *(f"{i},12.1,12,0" for i in range(50))], "larger than 0 ohm"),
        (["start_us,end_us", *(f"{i},{i + 1}" for i in range(50))], "give it as `windows`"),
        (["t_us,power_draw_w", *(f"{i},{i + 1}" for i in range(50))], "give it as `nvml`"),
    ],
)
def test_refusals_are_one_line_with_the_file(tmp_path, lines, message):
    path = write(tmp_path / "m.csv", *lines)
    with pytest.raises(InputError, match=message) as error:
        read_meter(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_empty_and_missing_files_are_refused(tmp_path):
    (tmp_path / "m.csv").write_bytes(b"\n")
    with pytest.raises(InputError, match="is empty"):
        read_meter(tmp_path / "m.csv")
    with pytest.raises(InputError, match=r"cannot read .*none\.csv: No such file"):
        read_meter(tmp_path / "none.csv")


def test_oscilloscope_export_with_units_below_the_names(tmp_path):
    lines = ["x-axis,1,2", "second,Volt,Ampere"]
    lines += [f"{-0.02 + i * 0.001:+.6E},+1.20E+01,{POWER_W[i] / 12:+.9E}" for i in range(40)]
    capture = read_meter(write(tmp_path / "scope.csv", *lines))
    assert capture.power_w == pytest.approx(POWER_W)
    assert np.diff(capture.time_ns).tolist() == [1_000_000] * 39


def test_oscilloscope_export_with_a_preamble(tmp_path):
    lines = ["Model,MSO58", "Firmware,1.2", "Record Length,40", "", "TIME,CH1 (V),CH2 (A)"]
    lines += [f"{i * 0.001:.6f},12.0,{POWER_W[i] / 12:.9f}" for i in range(40)]
    capture = read_meter(write(tmp_path / "scope.csv", *lines))
    assert capture.power_w == pytest.approx(POWER_W)
    assert capture.origin == "instrument export"


def test_waveform_without_a_time_column_uses_the_sampling_rate(tmp_path):
    lines = ['"Header Size",6', '"TraceName","CH1","CH2"', '"BlockSize",40,40', '"VUnit","V","A"']
    lines += ['"SampleRate",5.0E+02', '"HUnit","s"', ""]
    lines += [f",1.2E+01,{POWER_W[i] / 12:.9E}," for i in range(40)]
    capture = read_meter(write(tmp_path / "yokogawa.csv", *lines))
    assert capture.power_w == pytest.approx(POWER_W)
    assert np.diff(capture.time_ns).tolist() == [2_000_000] * 39


def test_power_analyser_with_date_time_and_milliseconds(tmp_path):
    lines = ["Store No.,Date,Time,Millisecond,U-1,I-1,P-1,U-2,I-2,P-2"]
    for i in range(40):
        stamp = f"2024/01/01,10:00:{i // 20:02d},{50 * (i % 20)}"
        lines.append(f"{i},{stamp},12.0,2.0,24.0,12.5,{(POWER_W[i] - 24) / 12.5:.9f},{POWER_W[i] - 24:.6f}")
    capture = read_meter(write(tmp_path / "wt.csv", *lines))
    assert capture.power_w == pytest.approx(POWER_W)
    assert np.diff(capture.time_ns).tolist() == [50_000_000] * 39


def test_pmd_csv_leaves_the_cpu_rails_out(tmp_path):
    names = ["PCIE1", "PCIE2", "EPS1", "EPS2"]
    columns = ",".join(f"{name} Voltage,{name} Current,{name} Power" for name in names)
    lines = [f"Timestamp,Total Power,GPU Power,CPU Power,{columns}"]
    lines += [
        f"2024-01-01 10:00:{i:02d}.500,999,99,9,12,2,24,12,{3 + i % 2},{36 + 12 * (i % 2)},12,4,48,12,5,60"
        for i in range(40)
    ]
    capture = read_meter(write(tmp_path / "pmd.csv", *lines))
    assert capture.rails == ("pcie1", "pcie2")
    assert capture.power_w == pytest.approx(12 * (5 + np.arange(40) % 2))
    assert any("eps1" in note for note in capture.notes)


def pmd_frames(ticks: list[int], amperes_counts: list[int], volts_counts: int = 1586) -> bytes:
    frames = []
    for tick, amperes in zip(ticks, amperes_counts, strict=True):
        live = (volts_counts << 4, amperes << 4)
        frames.append(struct.pack("<H8h", tick % 65536, *live, *live, 0, 0, 0, 0))
    return b"".join(frames)


def test_raw_pmd_capture_unwraps_its_counter(tmp_path):
    ticks = [60_000 + 614 * i for i in range(60)]
    amperes = [100 if i % 2 else -1 for i in range(60)]
    (tmp_path / "PMD_data.bin").write_bytes(pmd_frames(ticks, amperes) + b"\x01\x02\x03")
    capture = read_meter(tmp_path / "PMD_data.bin")
    assert capture.time_ns == pytest.approx(614e9 / 2_933_500 * np.arange(60), abs=1)
    volts = 1586 * 0.007568
    assert capture.power_w == pytest.approx([2 * volts * 0.0488 * a for a in amperes])
    assert capture.rails == ("channel1", "channel2")
    assert capture.notes == ("3 bytes of an unfinished frame at the end are left out",)
    (tmp_path / "PMD_start_ts.txt").write_text(f"{T0_US}\n", encoding="ascii")
    assert read_meter(tmp_path / "PMD_data.bin").time_ns[0] == 1000 * T0_US


def test_binary_that_is_no_pmd_capture_is_refused(tmp_path):
    (tmp_path / "m.bin").write_bytes(bytes(range(256)) * 20)
    with pytest.raises(InputError, match="neither text nor a raw PMD-USB"):
        read_meter(tmp_path / "m.bin")


def test_powersensor_dump_keeps_samples_that_carry_a_mark(tmp_path):
    lines = [
        "marker time dt_micro device_timestamp current0 voltage0 power0 current1 voltage1 power1 power_total"
    ]
    for i in range(40):
        total = POWER_W[i]
        lines.append(
            f"{'A' if i == 7 else 'S'} {i * 5e-5:.6f} 50 {i} 2 12 24 8 12 {total - 24:.6f} {total:.6f}"
        )
    capture = read_meter(write(tmp_path / "dump.txt", *lines))
    assert capture.power_w == pytest.approx(POWER_W, abs=1e-5)
    assert capture.rails == ("sensor0", "sensor1")
    assert np.diff(capture.time_ns).tolist() == [50_000] * 39


def test_powersensor_dump_without_names_and_with_mark_lines(tmp_path):
    lines = [f"S {i * 0.001:.6f} 1000 12.0 2.0 24.0 {POWER_W[i]:.6f}" for i in range(40)]
    lines.insert(10, "M 0.0095 X")
    capture = read_meter(write(tmp_path / "dump.txt", *lines))
    assert capture.power_w == pytest.approx(POWER_W, abs=1e-5)
    assert capture.notes == ("1 lines are marks",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[time", "cannot be read as a mapping"),
        ("colour = 1", "unknown key colour"),
        ('[time]\nunit = "furlong"', "no unit of time"),
        ('[[rails]]\nname = "a"\nvolts = "x"', "rail a needs watts, or volts and amperes"),
        ('[[rails]]\nwatts = "x"\nwatts_scale = "y"', "watts_scale of rail rail1 must be a number"),
        ("[[rails]]\nwatts = [1]", "must be a column or a number"),
        ("rails = 3", "rails must be tables"),
        ("time = 3", "time must be a table"),
        ("[format]\nseparator = 3", "separator must be a text"),
    ],
)
def test_mapping_refusals(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_mapping(write(tmp_path / "map.toml", text))


def test_mapping_names_time_unit_and_a_constant_voltage(tmp_path):
    lines = ["clock|amps", *(f"{5 * i}|{POWER_W[i] / 12}" for i in range(40))]
    mapping = read_mapping(
        write(
            tmp_path / "map.toml",
            '[time]\ncolumn = "clock"\nunit = "us"\n[format]\nseparator = "|"',
            '[[rails]]\nvolts = 12\namperes = "amps"',
        )
    )
    capture = read_meter(write(tmp_path / "m.csv", *lines), mapping)
    assert capture.power_w == pytest.approx(POWER_W)
    assert capture.time_ns[1] == 5_000


def test_mapping_of_a_missing_column_names_those_there_are(tmp_path):
    path = write(tmp_path / "m.csv", *rail_lines())
    mapping = read_mapping(write(tmp_path / "map.toml", '[[rails]]\nwatts = "nope"'))
    with pytest.raises(InputError, match="no column 'nope' among t_us, slot_v"):
        read_meter(path, mapping)


@given(
    powers=st.lists(st.floats(0.5, 1900).map(lambda x: round(x, 3)), min_size=20, max_size=60),
    step_us=st.integers(1, 10**7),
    separator=st.sampled_from([",", ";", "\t"]),
    decimal=st.sampled_from([".", ","]),
    preamble=st.integers(0, 5),
)
def test_what_is_written_is_read(tmp_path_factory, powers, step_us, separator, decimal, preamble):
    if separator == "," and decimal == ",":
        decimal = "."
    lines = [f"Setting {i}" for i in range(preamble)]
    lines += [separator.join(("t_us", "power_w"))]
    lines += [f"{T0_US + i * step_us}{separator}{p:.3f}".replace(".", decimal) for i, p in enumerate(powers)]
    capture = read_meter(write(tmp_path_factory.mktemp("m") / "m.csv", *lines))
    assert capture.power_w.tolist() == pytest.approx(powers)
    assert capture.time_ns.tolist() == [1000 * (T0_US + i * step_us) for i in range(len(powers))]
