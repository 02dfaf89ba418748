"""Logs as drivers, loggers and instruments of other locales write them: the right power, or one line."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ptxbench.core.errors import InputError
from ptxbench.meter import capture as capture_module
from ptxbench.meter.readers import Mapping, read_mapping, read_meter, stamps
from ptxbench.meter.readers.nvml import boards_of, read_nvml, read_windows
from ptxbench.meter.readers.text import open_text, read_text_table
from ptxbench.sensors.base import SourceName
from ptxbench.storage import text_file

ROWS = 40
POWER_W = 150 + 40 * np.sin(np.arange(ROWS) / 3)
SECOND_NS = 1_000_000_000
# 2023-07-08T18:27:36Z, when the shipped capture of an RTX 3090 was taken.
T0_NS = 1_688_840_856 * SECOND_NS


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


def english(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def localized(value: float, digits: int, group: str, decimal: str) -> str:
    return english(value, digits).replace(",", "\0").replace(".", decimal).replace("\0", group)


def meter(path: Path, header: str, line, *, encoding: str = "utf-8", mapping: Mapping | None = None):
    lines = [line(i, float(power)) for i, power in enumerate(POWER_W)]
    return read_meter(write(path / "m.csv", *header.split("\n"), *lines, encoding=encoding), mapping)


def nvml(path: Path, header: str, line, **options):
    lines = [line(i, float(power)) for i, power in enumerate(POWER_W)]
    return read_nvml(write(path / "n.csv", *header.split("\n"), *lines), **options)


@pytest.mark.parametrize(
    ("group", "decimal", "encoding"),
    [
        (".", ",", "utf-8"),
        ("\u202f", ",", "utf-8"),
        ("\u00a0", ",", "cp1252"),
        (" ", ",", "utf-16"),
        ("'", ".", "utf-8-sig"),
        ("\u2019", ".", "cp1252"),
        (",", ".", "utf-8"),
    ],
)
@pytest.mark.parametrize("unit", ["", " mW"])
def test_power_of_each_locale_and_encoding(tmp_path, group, decimal, encoding, unit):
    found = meter(
        tmp_path,
        "t_s;power_mw",
        lambda i, p: f"{i};{localized(1e3 * p, 1, group, decimal)}{unit}",
        encoding=encoding,
    )
    assert found.power_w == pytest.approx(POWER_W, abs=1e-3)
    assert np.diff(found.time_ns).tolist() == [SECOND_NS] * (ROWS - 1)
    assert found.notes == ()


@pytest.mark.parametrize("digits", [0, 1, 3])
def test_quoted_thousands_beside_commas_that_separate(tmp_path, digits):
    found = meter(tmp_path, "t_s,power_mw", lambda i, p: f'{i},"{english(1e3 * p, digits)}"')
    assert found.power_w == pytest.approx(POWER_W, abs=1e-3)


def test_quoted_decimal_commas(tmp_path):
    found = meter(tmp_path, "t_s,power_w", lambda i, p: f'{i},"{localized(p, 2, "", ",")}"')
    assert found.power_w == pytest.approx(POWER_W, abs=1e-2)


def test_sign_of_the_numbers_is_told_by_the_last_row_of_the_file(tmp_path):
    lines = [f"{i};{150 + i % 9}" for i in range(1000)]
    lines[-1] = "999;140,5"
    found = read_meter(write(tmp_path / "m.csv", "t_s;power_w", *lines))
    assert found.power_w[-1] == 140.5
    lines[500] = "500;150.5"
    with pytest.raises(InputError, match=r"numbers of two locales: '1[45]0[,.]5' and '1[45]0[,.]5'"):
        read_meter(write(tmp_path / "m.csv", "t_s;power_w", *lines))


def test_thousands_that_may_be_fractions_ask_for_the_sign(tmp_path):
    lines = ["t_s;power_w", *(f"{i};{998 + i}" if i < 2 else f"{i};1.{i:03d}" for i in range(ROWS))]
    path = write(tmp_path / "m.csv", *lines)
    with pytest.raises(InputError, match=r"'1\.0\d\d' may be thousands or a fraction; say it in a mapping"):
        read_meter(path)
    assert read_meter(path, Mapping(decimal=",")).power_w[5] == 1005
    # With a fraction of three digits in every row nothing is open.
    found = meter(tmp_path, "t_s;power_w", lambda i, p: f"{i};{localized(p, 3, '', ',')}")
    assert found.power_w == pytest.approx(POWER_W, abs=1e-3)


def test_decimal_commas_between_commas_are_told_in_the_line(tmp_path):
    with pytest.raises(InputError, match=r"the line above the rows has 2 cells and each row 3"):
        meter(tmp_path, "t_s,power_w", lambda i, p: f"{i},{localized(p, 2, '', ',')}")


def test_cells_that_are_no_numbers_are_counted_or_refused(tmp_path):
    found = meter(tmp_path, "t_s,power_w", lambda i, p: f"{i},{'1_5' if i == 7 else p}")
    assert found.notes == ("1 of 40 rows torn",)
    with pytest.raises(InputError, match="8 of 40 rows are torn or hold no number"):
        meter(tmp_path, "t_s,power_w", lambda i, p: f"{i},{'err' if i % 5 == 0 else p}")


def test_absent_values_are_counted_and_are_not_torn(tmp_path):
    found = meter(tmp_path, "t_s,power_w", lambda i, p: f"{i},{('', 'NaN', '-')[i % 3] if i % 4 == 0 else p}")
    assert len(found) == 30
    assert found.notes == ("10 of 40 rows without a value",)


@pytest.mark.parametrize(
    ("header", "end"), [("t_s,power_w,label", ","), ("t_s,power_w,", ","), ("t_s,power_w", ",")]
)
def test_rows_may_end_with_a_separator_or_an_empty_column(tmp_path, header, end):
    found = meter(tmp_path, header, lambda i, p: f"{i},{p}{end}")
    assert found.power_w == pytest.approx(POWER_W)
    assert found.notes == ()


def test_power_of_an_ac_meter_wins_over_volts_times_amperes(tmp_path):
    # A Yokogawa WT at a power factor of 0.9, its time in three columns.
    found = meter(
        tmp_path,
        "Store No.,Date,Time,Millisecond,U-1,I-1,P-1,S-1,LAMBDA-1",
        lambda i, p: (
            f"{i},2023/07/08,18:27:{36 + i // 20},{50 * (i % 20)},230.10,{p / 0.9 / 230.1:.9f},{p:.9f},"
            f"{p / 0.9:.3f},0.9"
        ),
    )
    assert found.power_w == pytest.approx(POWER_W)
    assert found.time_ns[0] == T0_NS
    assert np.diff(found.time_ns).tolist() == [50_000_000] * (ROWS - 1)
    assert "rail 1: the logged power is taken, not volts times amperes" in found.notes


def test_ac_meter_without_power_is_refused_or_doubted(tmp_path):
    with pytest.raises(InputError, match="a power factor, but no power"):
        meter(tmp_path, "t_s,U,I,PF", lambda i, p: f"{i},230,{p / 0.9 / 230},0.9")
    (note,) = meter(tmp_path, "t_s,U,I", lambda i, p: f"{i},230,{p / 230}").notes
    assert note == "230 V is the mains, where volts times amperes are no watts: log the power"


def test_rohde_schwarz_log_of_means(tmp_path):
    found = meter(
        tmp_path,
        "UnixTime,StringTime,Ah,Wh,VAvg,IAvg,WAvg,NSamplesBlock",
        lambda i, p: f"{T0_NS // SECOND_NS + i}.25,2023-07-08 18:27:36,0.001,0.012,12.1,{p / 13:.6f},{p},100",
    )
    assert found.power_w == pytest.approx(POWER_W)
    assert found.time_ns[1] == T0_NS + 1.25 * SECOND_NS


def test_rohde_schwarz_oscilloscope(tmp_path):
    found = meter(tmp_path, "in s,C1 in V,C2 in A", lambda i, p: f"{i * 5e-4:.6E},12.0,{p / 12:.9f}")
    assert found.power_w == pytest.approx(POWER_W)
    assert np.diff(found.time_ns).tolist() == [500_000] * (ROWS - 1)


def test_picoscope(tmp_path):
    # It writes an infinity beyond its range.
    found = meter(
        tmp_path,
        "Time,Channel A,Channel B\n(ms),(V),(mA)\n",
        lambda i, p: f"{0.5 * i:.8f},12.0,{'∞' if i == 9 else f'{p / 12e-3:.6f}'}",
    )
    assert found.power_w == pytest.approx(np.delete(POWER_W, 9))
    assert found.time_ns[1] == 500_000
    assert found.notes == ("1 of 40 rows torn",)


def test_home_assistant(tmp_path):
    def line(i: int, p: float, entity: str = "sensor.shelly_plug_power") -> str:
        state = "unavailable" if i % 4 == 1 else f"{p:.6f}"
        return f"{entity},{state},2023-07-08T18:27:{36 + i // 20}.{50 * (i % 20):03d}Z"

    header = "entity_id,state,last_changed"
    found = meter(tmp_path, header, line)
    assert found.power_w == pytest.approx(np.delete(POWER_W, np.arange(1, ROWS, 4)))
    assert found.time_ns[0] == T0_NS
    assert found.rails == ("shelly_plug_power",)
    assert found.notes == ("10 of 40 rows without a value",)

    def two(i: int, p: float) -> str:
        return f"{line(i, p)}\n{line(i, 21.5, 'sensor.shelly_plug_temperature')}"

    with pytest.raises(
        InputError, match=r"states of sensor.shelly_plug_power, sensor.shelly_plug_temperature"
    ):
        meter(tmp_path, header, two)
    chosen = read_mapping(
        write(
            tmp_path / "map.toml",
            '[rows]\ncolumn = "entity_id"\nvalue = "sensor.shelly_plug_power"\n[[rails]]\nwatts = "state"',
        )
    )
    assert meter(tmp_path, header, two, mapping=chosen).power_w == pytest.approx(found.power_w)


def test_channel_pairs_are_rails(tmp_path):
    found = meter(
        tmp_path,
        "timestamp,ch1v,ch1i,ch2v,ch2i,ch3v,ch3i",
        lambda i, p: ",".join([f"2023-07-08T18:27:36.{i:03d}Z", *["12.1", f"{p / 12.1 / 3:.9f}"] * 3]),
    )
    assert found.power_w == pytest.approx(POWER_W)
    assert found.rails == ("ch1", "ch2", "ch3")


def test_unit_behind_a_name_without_brackets(tmp_path):
    found = meter(tmp_path, "Elapsed ms,Voltage V,Current mA", lambda i, p: f"{i},12,{p / 12e-3}")
    assert found.power_w == pytest.approx(POWER_W)
    assert found.time_ns[1] == 1_000_000


@pytest.mark.parametrize(
    ("header", "line", "note"),
    [
        ("t_s,CPU Package Power [W],GPU Power [W]", "{i},50,{p}", "cpu package"),
        ("t_s,Total Power [W],CPU Power [W],GPU Power [W]", "{i},{q},50,{p}", "cpu, total"),
        ("t_s,AC Power [W],DC Power [W]", "{i},{q},{p}", "ac"),
        ("t_s,gpu_v,gpu_a,dram_v,dram_a", "{i},1,{p},12,4", "dram"),
    ],
)
def test_columns_of_other_devices_are_left_out(tmp_path, header, line, note):
    found = meter(tmp_path, header, lambda i, p: line.format(i=i, p=p, q=p + 50))
    assert found.power_w == pytest.approx(POWER_W)
    assert found.notes == (f"left out as other devices', by their names: {note}; a mapping can add them",)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("t_s,GPU0 Power [W],GPU1 Power [W]", r"columns of several GPUs \(gpu0, gpu1\); choose the rails"),
        ("t_s,CPU Power [W],DRAM Power [W]", r"several devices \(cpu, dram\), none the GPU's"),
        ("t_s,Total Power [W],CPU Power [W]", r"several devices \(total, cpu\), none the GPU's"),
    ],
)
def test_columns_that_make_no_sum_ask_for_a_mapping(tmp_path, header, message):
    with pytest.raises(InputError, match=message):
        meter(tmp_path, header, lambda i, p: f"{i},{p},{p}")


def test_limits_and_peaks_are_no_power(tmp_path):
    found = meter(
        tmp_path,
        "t_s,Power [W],Power Limit [W],Max Power [W],Apparent Power [VA]",
        lambda i, p: f"{i},{p},450,500,{p * 1.1}",
    )
    assert found.power_w == pytest.approx(POWER_W)


def test_points_in_a_date_put_the_day_first(tmp_path):
    found = meter(
        tmp_path,
        "Zeitstempel;Leistung [W]",
        lambda i, p: f"08.07.2023 18:27:36,{i:03d};{localized(p, 3, '', ',')}",
    )
    assert found.power_w == pytest.approx(POWER_W, abs=1e-3)
    assert found.time_ns.tolist() == [T0_NS + 1_000_000 * i for i in range(ROWS)]


@pytest.mark.parametrize(
    ("dates", "first"),
    [
        (["25/12/2023"], "2023-12-25"),
        (["12/25/2023"], "2023-12-25"),
        (["12/25/23"], "2023-12-25"),
        (["2/1/2023"] * 30 + ["13/1/2023"], "2023-01-02"),
        (["12/07/2023"] * 30 + ["13/07/2023"], "2023-07-12"),
        (["07/08/2023"] * 30 + ["07/09/2023"], "2023-07-08"),
        (["08/07/2023"] * 30 + ["09/07/2023"], "2023-07-08"),
        (["07-07-2023"], "2023-07-07"),
        (["20230708"], "2023-07-08"),
    ],
)
def test_order_of_day_and_month_is_told_by_the_whole_file(tmp_path, dates, first):
    found = meter(
        tmp_path, "timestamp,power_w", lambda i, p: f"{dates[min(i, len(dates) - 1)]} 18:27:{i:02d},{p}"
    )
    assert np.datetime64(int(found.time_ns[0]), "ns") == np.datetime64(f"{first}T18:27:00")


def test_dates_that_may_be_read_both_ways_ask_for_their_order(tmp_path):
    def line(i: int, p: float) -> str:
        return f"07/08/2023 07:27:{i:02d} PM,{p}"

    with pytest.raises(InputError, match=r"'07/08/2023' may have the day or the month first; say it in a"):
        meter(tmp_path, "timestamp,power_w", line)
    mapping = read_mapping(write(tmp_path / "map.toml", '[time]\ndate_order = "mdy"'))
    found = meter(tmp_path, "timestamp,power_w", line, mapping=mapping)
    assert np.datetime64(int(found.time_ns[0]), "ns") == np.datetime64("2023-07-08T19:27:00")
    with pytest.raises(InputError, match="date_order must be one of 'ymd', 'dmy', 'mdy', not 'ydm'"):
        read_mapping(write(tmp_path / "map.toml", '[time]\ndate_order = "ydm"'))


def test_stamps_that_are_no_times_are_counted_or_refused(tmp_path):
    def line(i: int, p: float, every: int) -> str:
        return f"2023-07-{38 if i % every == 5 else '08'} 18:27:{i:02d},{p}"

    found = meter(tmp_path, "timestamp,power_w", lambda i, p: line(i, p, ROWS))
    assert "1 of 40 rows torn" in found.notes
    with pytest.raises(InputError, match="4 of 40 times cannot be read, such as '2023-07-38 18:27:05'"):
        meter(tmp_path, "timestamp,power_w", lambda i, p: line(i, p, 10))
    far = ("2023-07-08", "9999-12-31")
    found = meter(tmp_path, "timestamp,power_w", lambda i, p: f"{far[i == 7]} 18:27:{i:02d},{p}")
    assert "1 of 40 rows torn" in found.notes
    with pytest.raises(InputError, match="times cannot be read, such as '99 Jul 2023"):
        meter(tmp_path, "timestamp,power_w,x", lambda i, p: f"99 Jul 2023 18:27:{i:02d},{p},1")


@pytest.mark.parametrize(
    "stamp",
    [
        "8 Jul 2023 18:27:{:02d}",
        "Sat, 08-Jul-2023 18:27:{:02d}Z",
        "July 8 2023 6:27:{:02d} PM",
        "Sat Jul  8 18:27:{:02d} 2023",
    ],
)
def test_month_in_letters(tmp_path, stamp):
    found = meter(tmp_path, "timestamp;power_w;range", lambda i, p: f"{stamp.format(i)};{p};1")
    assert np.datetime64(int(found.time_ns[0]), "ns") == np.datetime64("2023-07-08T18:27:00")
    assert np.diff(found.time_ns).tolist() == [SECOND_NS] * (ROWS - 1)


SMI = "timestamp, index, power.draw [W], temperature.gpu"


def smi(i: int, index: object, power: str) -> str:
    return f"2023/07/08 18:27:{36 + i // 20}.{50 * (i % 20):03d}, {index}, {power}, 54"


@pytest.mark.parametrize(
    ("name", "boards"),
    [
        ("index", ("0", "1")),
        ("uuid", ("GPU-9c5e0f1a", "GPU-77aa0b2c")),
        ("pci.bus_id", ("00000000:17:00.0", "00000000:65:00.0")),
    ],
)
def test_log_of_several_gpus_asks_which_one(tmp_path, name, boards):
    def both(i: int, p: float) -> str:
        return f"{smi(i, boards[0], f'{p:.2f} W')}\n{smi(i, boards[1], '29.01 W')}"

    header = SMI.replace("index", name)
    with pytest.raises(InputError, match=rf"is of several GPUs \({name} {', '.join(boards)}\); .*`nvml_gpu`"):
        nvml(tmp_path, header, both)
    (usage,), notes = nvml(tmp_path, header, both, board=boards[0].lower())
    assert usage.value == pytest.approx(POWER_W, abs=0.01)
    assert f"of n.csv the rows with {name} {boards[0]} are taken" in notes
    with pytest.raises(InputError, match=rf"has no GPU '7' \({name} {boards[0]}"):
        nvml(tmp_path, header, both, board="7")


@pytest.mark.parametrize(
    ("name", "cell"),
    [("id", lambda i: f"row{i}"), ("gpu", lambda i: (0, 2, 98)[i % 3]), ("index", lambda i: 7)],
)
def test_column_of_row_numbers_or_of_use_names_no_gpus(tmp_path, name, cell):
    (usage,), _ = nvml(tmp_path, f"{name},t_ms,power_draw_w", lambda i, p: f"{cell(i)},{10 * i},{p}")
    assert len(usage) == ROWS


def test_absent_readings_are_counted_whatever_the_reason(tmp_path):
    reasons = ("[N/A]", "[Unknown Error]", "[GPU is lost]", "[Insufficient Permissions]")
    (usage,), notes = nvml(
        tmp_path, SMI, lambda i, p: smi(i, 0, reasons[i // 8 % 4] if i % 8 == 0 else f"{p:.2f} W")
    )
    assert len(usage.good()) == 35
    assert "5 of 40 values of power.draw [W] in n.csv are absent: left out" in notes


def test_reading_that_is_no_number_is_counted_or_refused(tmp_path):
    _, notes = nvml(tmp_path, "t_ms,power_draw_w", lambda i, p: f"{i},{'12..5' if i == 3 else p}")
    assert notes == ("1 of 40 values of power_draw_w in n.csv are no numbers: left out",)
    with pytest.raises(InputError, match="8 of 40 cells of 'power_draw_w' are no numbers"):
        nvml(tmp_path, "t_ms,power_draw_w", lambda i, p: f"{i},{'err' if i % 5 == 0 else p}")


def test_header_before_each_row_is_skipped(tmp_path):
    (usage,), notes = nvml(tmp_path, SMI, lambda i, p: f"{smi(i, 0, f'{p:.2f} W')}\n{SMI}")
    assert len(usage) == ROWS
    assert notes == ("the times name no zone and are taken for UTC",)


def test_log_without_names_is_read_by_a_mapping(tmp_path):
    def line(i: int, p: float) -> str:
        return f"2023/07/08 18:27:{i:02d}.359, {1e3 * p:.0f}, 54"

    with pytest.raises(InputError, match=r"among column1, column2, column3; name it .* under \[nvml\]"):
        nvml(tmp_path, "", line)
    mapping = read_mapping(
        write(
            tmp_path / "map.toml",
            '[nvml]\nusage = "column2"\nusage_scale = 0.001',
            '[nvml.time]\ncolumn = "column1"\nzone = "Asia/Tokyo"',
        )
    )
    (usage,), _ = nvml(tmp_path, "", line, mapping=mapping.nvml)
    assert usage.source is SourceName.USAGE
    assert usage.value == pytest.approx(POWER_W, abs=1e-3)
    assert np.datetime64(int(usage.time_ns[0]), "ns") == np.datetime64("2023-07-08T09:27:00.359")


def test_mapping_of_an_nvml_log_knows_its_sources(tmp_path):
    with pytest.raises(InputError, match=r"\[nvml\] has the unknown key power"):
        read_mapping(write(tmp_path / "map.toml", '[nvml]\npower = "column2"'))
    with pytest.raises(InputError, match=r"\[rows\] needs both column and value"):
        read_mapping(write(tmp_path / "map.toml", '[nvml.rows]\ncolumn = "index"'))


def test_dmon_with_date_and_time(tmp_path):
    header = (
        "#Date       Time        gpu    pwr  gtemp  mtemp\n#YYYYMMDD   HH:MM:SS    Idx      W      C      C"
    )

    def line(i: int, p: float) -> str:
        again = f"{header}\n" if i == 20 else ""
        return f"{again} 20230708   18:27:{i:02d}      0    {p:.0f}     54      -"

    (usage,), _ = nvml(tmp_path, header, line)
    assert usage.value == pytest.approx(POWER_W, abs=0.5)
    assert usage.time_ns[0] == T0_NS - 36 * SECOND_NS
    assert len(usage) == ROWS


def test_comma_of_gnu_date_is_a_decimal_point(tmp_path):
    (usage,), notes = nvml(
        tmp_path,
        "timestamp,utilization.gpu,utilization.memory,memory.used,power.draw",
        lambda i, p: f"2023-07-08T18:27:36,{359000000 + 1000000 * i:09d}+00:00,100, 0, 512, {p:.2f}",
    )
    assert usage.time_ns[0] == T0_NS + 359_000_000
    assert usage.value == pytest.approx(POWER_W, abs=0.01)
    assert notes == ()


@pytest.mark.parametrize("unit", [" W", ""])
def test_decimal_comma_of_nvidia_smi_between_commas(tmp_path, unit):
    (usage,), _ = nvml(tmp_path, SMI, lambda i, p: smi(i, 0, f"{localized(p, 2, '', ',')}{unit}"))
    assert usage.value == pytest.approx(POWER_W, abs=0.01)


def test_power_of_a_logger_that_names_the_device(tmp_path):
    (usage,), _ = nvml(
        tmp_path,
        "timestamp_nanoseconds,power_watts,device_id",
        lambda i, p: f"{T0_NS + 50_000_000 * i},{p:.3f},0",
    )
    assert usage.value == pytest.approx(POWER_W, abs=1e-3)
    assert usage.time_ns[1] == T0_NS + 50_000_000


def test_energy_counter_of_32_bits_is_unwrapped_and_a_reset_is_said(tmp_path):
    header = "t_ms,total_energy_consumption_mj"
    (counter,), notes = nvml(tmp_path, header, lambda i, _: f"{i},{(2**32 - 10_000 + 1000 * i) % 2**32}")
    assert np.diff(counter.value) == pytest.approx(1.0)
    assert notes == ("the energy counter wraps once; it is unwrapped",)
    _, notes = nvml(tmp_path, header, lambda i, _: f"{i},{1000 * (i % 20)}")
    assert notes == ("the energy counter goes back 1 times, and not by a wrap",)


def test_windows_in_the_numbers_of_another_locale(tmp_path):
    path = write(tmp_path / "w.csv", "start_ms;end_ms;label", "20,5;30,25;b", "1,5;2,5;a", encoding="utf-16")
    one, two = read_windows(path)
    assert (one.label, one.window.start_ns, two.window.end_ns) == ("a", 1_500_000, 30_250_000)


def test_memory_of_a_long_log_grows_by_its_times_and_powers_alone(tmp_path, monkeypatch):
    # Small pieces make of a moderate log a long one.
    monkeypatch.setattr(text_file, "_BLOCK", 1 << 14)
    for module in (capture_module, stamps):
        monkeypatch.setattr(module, "_BLOCK", 1 << 9)

    def peak(rows: int) -> float:
        header = "t_us,a_v,a_a,b_v,b_a,c_v,c_a"
        cells = ",".join(["12.01", "3.0123"] * 3)
        path = write(tmp_path / "m.csv", header, *(f"{1000 * i},{cells}" for i in range(rows)))
        tracemalloc.start()
        try:
            assert len(read_meter(path)) == rows
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Two numbers of 8 bytes a row, and the room in which they grow; a row has 50 characters.
    assert (peak(20_000) - peak(5_000)) / 15_000 < 25


def test_log_of_too_many_rows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(capture_module, "MAX_ROWS", ROWS - 1)
    with pytest.raises(InputError, match="holds more than 39 rows; cut it to the time of the kernels"):
        meter(tmp_path, "t_s,power_w", lambda i, p: f"{i},{p}")


@pytest.mark.parametrize(("boards", "told"), [(("0",), ()), (("0", "1"), ("0", "1")), (("0", "1", "3"),) * 2])
def test_a_log_tells_its_boards_apart_where_it_is_of_several(tmp_path, boards, told):
    lines = (f"{T0_NS // SECOND_NS + i},{board},150" for i in range(3) for board in boards)
    path = write(tmp_path / "n.csv", "timestamp,index,power.draw [W]", *lines)
    assert boards_of(read_text_table(open_text(path))) == told


def test_a_log_whose_power_has_another_name_says_how_a_mapping_names_it(tmp_path):
    log = write(tmp_path / "log.csv", "time_s,watts_of_it", *(f"{0.1 * i},{100 + i}" for i in range(9)))
    with pytest.raises(
        InputError, match=r"among time_s, watts_of_it; .* such as usage = \"COLUMN\" under \[nvml\]"
    ):
        read_nvml(log)
    named = write(tmp_path / "map.toml", "[nvml]", 'usage = "watts_of_it"')
    assert read_nvml(log, read_mapping(named).nvml)[0][0].value[-1] == 108
