import numpy as np
import pytest
from simulated_session import Session, write_run

from ptxbench.core.errors import InputError
from ptxbench.meter.host import log_from_csv, log_from_run
from ptxbench.meter.readers.nvml import read_nvml, read_windows
from ptxbench.sensors.base import SourceName

T0_US = 1_700_000_000_000_000


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def nvml_file(tmp_path, rows=100):
    lines = ["t_us,utilization_pct,power_draw_w,power_average_w,power_instant_w"]
    lines += [f"{T0_US + 10_000 * i},0,{100 + i},{200 + i},{300 + i}" for i in range(rows)]
    return write(tmp_path / "nvml.csv", *lines)


def windows_file(tmp_path, *spans, header="start_us,end_us", extra=""):
    lines = [f"{T0_US + int(1e6 * a)},{T0_US + int(1e6 * b)}{extra}" for a, b in spans]
    return write(tmp_path / "windows.csv", header, *lines)


def test_nvml_columns_become_sources(tmp_path):
    series, notes = read_nvml(nvml_file(tmp_path))
    assert [s.source for s in series] == [SourceName.USAGE, SourceName.AVERAGE, SourceName.INSTANT]
    assert series[1].value.tolist() == [200 + i for i in range(100)]
    assert series[0].time_ns[3] == 1000 * (T0_US + 30_000)
    assert notes == ()


def test_plain_nvidia_smi_output_is_read(tmp_path):
    lines = ["timestamp, power.draw [W], power.draw.instant [W]"]
    lines += [f"2023/07/08 19:27:{i:02d}.359, {100 + i}.25 W, [N/A]" for i in range(30)]
    series, notes = read_nvml(write(tmp_path / "smi.csv", *lines))
    assert [s.source for s in series] == [SourceName.USAGE]
    assert series[0].value[3] == 103.25
    assert series[0].time_ns[0] == 1_688_844_420_359_000_000
    assert notes == ("the times name no zone and are taken for UTC",)


def test_milliwatts_and_the_energy_counter(tmp_path):
    lines = [
        "t_ns,power_draw_mw,total_energy_consumption_mj",
        *(f"{i},{1000 * i},{2000 * i}" for i in range(1, 30)),
    ]
    usage, counter = read_nvml(write(tmp_path / "n.csv", *lines))[0]
    assert (usage.value[4], counter.value[4]) == (5.0, 10.0)
    assert counter.source is SourceName.COUNTER


def test_meter_in_place_of_the_nvml_log_is_refused(tmp_path):
    lines = ["t_us,slot_v,slot_a", *(f"{i},12,1" for i in range(30))]
    with pytest.raises(InputError, match="no power that NVML gives"):
        read_nvml(write(tmp_path / "m.csv", *lines))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["start_us,end_us"], "holds no window"),
        (["a,b", "1,2"], "no column start_us"),
        (["start_us,end_us", "1,2", "5,4"], "row 2 ends before it starts"),
        (["start_us,end_us", "1,10", "5,14"], "windows overlap"),
        (["start_us,end_us", "1,2", "x,4"], "row 2 of start_us is no number"),
        (["start_us,end_us", "1,2,3,4", "1"], "cannot be read|no column|no number"),
    ],
)
def test_windows_refusals(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read_windows(write(tmp_path / "w.csv", *lines))


def test_windows_in_other_units_and_with_labels(tmp_path):
    one, two = read_windows(write(tmp_path / "w.csv", "start_ms,end_ms,label", "20,30.5,b", "1,2,a"))
    assert (one.label, one.window.start_ns, one.window.end_ns) == ("a", 1_000_000, 2_000_000)
    assert (two.label, two.window.elapsed_s) == ("b", pytest.approx(0.0105))


def test_readings_of_a_log_that_cannot_be_true_are_left_out_and_said(tmp_path):
    path = nvml_file(tmp_path)
    rows = path.read_text().splitlines()
    rows[5::10] = [row.replace(",2", ",-2", 1) for row in rows[5::10]]
    rows[1:] = [row[: row.rindex(",")] + ",0" for row in rows[1:]]
    log = log_from_csv(write(path, *rows), windows_file(tmp_path, (0.2, 0.3)))
    assert [one.source for one in log.series] == [SourceName.USAGE, SourceName.AVERAGE]
    assert (log.series[1].value > 0).all()
    assert "10 of 100 readings of average left out: 10 zero or negative" in log.notes
    assert any("100 of 100 readings of instant left out" in note for note in log.notes)


def test_a_log_of_which_nothing_can_be_true_is_refused(tmp_path):
    lines = ["t_us,power_draw_w", *(f"{T0_US + 10_000 * i},-{100 + i}" for i in range(100))]
    with pytest.raises(InputError, match="zero or negative"):
        log_from_csv(write(tmp_path / "n.csv", *lines), windows_file(tmp_path, (0.2, 0.3)))


def test_each_window_gets_the_readings_up_to_halfway_to_its_neighbours(tmp_path):
    log = log_from_csv(nvml_file(tmp_path), windows_file(tmp_path, (0.2, 0.3), (0.5, 0.6)))
    first, second = (trial.trace.of(SourceName.USAGE).value for trial in log.trials)
    assert (first[0], first[-1]) == (110, 140)
    assert (second[0], second[-1]) == (140, 170)
    assert log.recordings == ((1000 * T0_US, 1000 * (T0_US + 990_000)),)


def test_single_window_gets_the_whole_log(tmp_path):
    log = log_from_csv(nvml_file(tmp_path), windows_file(tmp_path, (0.2, 0.3)))
    assert len(log.trials[0].trace.of(SourceName.USAGE)) == 100


def test_burst_windows_align_and_are_not_judged(tmp_path):
    path = write(
        tmp_path / "w.csv",
        "start_us,end_us,label",
        f"{T0_US + 100_000},{T0_US + 150_000},burst",
        f"{T0_US + 300_000},{T0_US + 400_000},add.f32",
    )
    log = log_from_csv(nvml_file(tmp_path), path)
    assert [trial.label for trial in log.trials] == ["add.f32"]
    assert len(log.windows) == 2
    only = write(tmp_path / "b.csv", *path.read_text().splitlines()[:2])
    with pytest.raises(InputError, match="no kernel, only a burst"):
        log_from_csv(nvml_file(tmp_path), only)


def test_windows_outside_the_log_are_noted_or_refused(tmp_path):
    log = log_from_csv(nvml_file(tmp_path), windows_file(tmp_path, (0.2, 0.3), (5.0, 5.1)))
    assert len(log.trials) == 1
    assert "1 of 2 windows lie outside the NVML log" in log.notes
    with pytest.raises(InputError, match="none of the 1 windows"):
        log_from_csv(nvml_file(tmp_path), windows_file(tmp_path, (500.0, 500.1)))


@pytest.mark.parametrize("hours", [-5, 2, 5.75])
def test_time_zone_of_the_log_is_found(tmp_path, hours):
    windows = windows_file(tmp_path, (0.2 + 3600 * hours, 0.3 + 3600 * hours))
    log = log_from_csv(nvml_file(tmp_path), windows)
    assert log.series[0].time_ns[0] == 1000 * (T0_US + int(3600e6 * hours))
    assert any(f"moved by {hours:+g} h" in note for note in log.notes)


def test_counter_readings_become_power_between_its_steps(tmp_path):
    lines = ["t_ms,energy_j", *(f"{10 * i},{20 * (i // 5)}" for i in range(50))]
    log = log_from_csv(
        write(tmp_path / "n.csv", *lines), write(tmp_path / "w.csv", "start_ms,end_ms", "100,200")
    )
    time_ns, power_w = log.readings(SourceName.COUNTER)
    assert power_w == pytest.approx(np.full(8, 400.0))
    assert time_ns[0] == 100_000_000


def test_run_folder_gives_its_trials(tmp_path):
    session = Session(kernels=3, epoch_ns=7_000_000_000)
    write_run(tmp_path / "run", session)
    log = log_from_run(tmp_path / "run")
    assert [trial.label for trial in log.trials] == ["fma.rn.f32 O3 target"] * 3
    assert len(log.recordings) == 3
    assert log.kind == "real"
    assert len(log.series[0]) == sum(len(trial.trace.series[0]) for trial in log.trials)


def test_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        log_from_run(tmp_path)
