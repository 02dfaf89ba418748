"""What the report of a program says: its figures, shares, order, and what it leaves out."""

import csv
import math
from dataclasses import replace

import pytest

from ptxbench.api.window_energy import GpuEnergy
from ptxbench.attribute.attribution import BY_TIME, NO_KERNEL, Share
from ptxbench.attribute.program import GpuShare, ProgramEnergy
from ptxbench.attribute.report import csv_text, document, lines, range_rows, rows

IDLE = Share((NO_KERNEL,), 0, 2.0, 100.0, (90.0, 110.0), "measured")


def share(name="gemm", energy_j=300.0, calls=7, **change):
    interval_j = (0.9 * energy_j, 1.1 * energy_j)
    return replace(Share((name,), calls, 1.5, energy_j, interval_j, "measured"), **change)


GEMM = share()


def program(kernels=(GEMM,), ranges=(), energy_j=400.0, time_s=8.0, gpus=1):
    energy = GpuEnergy("a GPU", energy_j, (0.95 * energy_j, 1.05 * energy_j), "samples")
    one = GpuShare(energy, (*kernels, IDLE), tuple(ranges))
    return ProgramEnergy(("python", "train.py"), 0, time_s, (one,) * gpus, "a method", ("a remark",))


def line_of(said, name):
    (found,) = [line for line in said if line.startswith(name) and "%" in line]
    return found.removeprefix(name).split()


def test_a_line_has_energy_interval_percent_power_time_and_calls():
    said = lines(program())
    words = ["300", "270", "to", "330", "75.0%", "200.0", "1.5", "7"]
    assert line_of(said, "gemm") == words
    assert line_of(said, "(no kernel)")[4] == "25.0%"
    assert said[0] == "a GPU: 400 J (95%: 380 to 420) in 8 s, 50 W"
    assert said[-2:] == ["by a method", "a remark"]
    assert "SIMULATED" not in "".join(said)
    assert lines(replace(program(), is_simulated=True))[0].startswith("SIMULATED")


def test_rows_have_the_share_and_the_mean_power_as_plain_numbers():
    (first, last) = rows(program([share(expected_j=250.0)]))
    assert (first["share"], first["mean_power_w"], first["calls"]) == (0.75, 200.0, 7)
    assert (first["energy_j"], first["interval_j"], first["expected_j"]) == (300.0, [270.0, 330.0], 250.0)
    assert (last["share"], last["expected_j"]) == (0.25, None)
    (nothing, _) = rows(program([share(time_s=0.0)], energy_j=0.0))
    assert (nothing["share"], nothing["mean_power_w"]) == (None, None)


def test_the_document_has_the_power_of_the_whole_run():
    found = document(program(gpus=2))
    assert (found["energy_j"], [gpu["mean_power_w"] for gpu in found["gpus"]]) == (800.0, [50.0, 50.0])
    assert (found["command"], found["exit_code"], found["time_s"]) == (["python", "train.py"], 0, 8.0)
    assert document(program(time_s=0.0))["gpus"][0]["mean_power_w"] is None
    assert document(program(energy_j=math.nan))["gpus"][0]["energy_j"] is None


@pytest.mark.parametrize(("kernels", "left"), [(3, ""), (4, "and 1 kernels more"), (9, "and 6 kernels more")])
def test_as_many_kernels_are_shown_as_requested_and_the_rest_is_counted(kernels, left):
    said = lines(program([share(f"k{n}") for n in range(kernels)]), most=3)
    assert [line.split("  ")[0] for line in said if "%" in line and "95%" not in line] == [
        *("k0", "k1", "k2"),
        "(no kernel)",
    ]
    assert [line.partition(" (`")[0] for line in said if line.startswith("and ")] == ([left] if left else [])


@pytest.mark.parametrize(("ranges", "left"), [(3, ""), (5, "and 2 ranges more")])
def test_ranges_stand_by_energy_the_largest_first(ranges, left):
    made = [
        share(f"part {n}", energy_j=10.0 * (n + 1), calls=n + 1, method="NVTX range") for n in range(ranges)
    ]
    found = program(ranges=made)
    said = lines(found, most=3)
    shown = [line.partition(", NVTX range")[2] for line in said if ", NVTX range" in line]
    assert [float(line.split()[0]) for line in shown] == [10.0 * (ranges - n) for n in range(3)]
    assert [line.partition(" (`")[0] for line in said if line.startswith("and ")] == ([left] if left else [])
    assert [(row["range"], row["count"]) for row in range_rows(found)] == [
        (f"part {n}", n + 1) for n in range(ranges)
    ]


@pytest.mark.parametrize(("count", "left"), [(8, []), (11, ["~ and 3 more"])])
def test_a_group_shows_eight_of_its_names_and_counts_the_rest(count, left):
    members = tuple(share(f"m{n}", energy_j=30.0, method=BY_TIME) for n in range(count))
    group = share(names=tuple(f"m{n}" for n in range(count)), members=members)
    said = lines(program([group]))
    assert line_of(said, f"{count} kernels, not separable; the largest is m0")
    assert sum("~ m" in line for line in said) == 8
    assert [line.partition(" (`")[0] for line in said if line.startswith("~ and")] == left
    assert sum(line.startswith("~: the energy of kernels") for line in said) == 1
    assert not any(line.startswith("~:") for line in lines(program()))
    (row, _) = rows(program([group]))
    assert [one["kernel"] for one in row["members"]] == [f"m{n}" for n in range(count)]
    assert row["members"][0]["share"] == pytest.approx(30 / 400)


def test_in_a_terminal_a_long_name_stands_above_its_figures():
    name = "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma"
    said = lines(program([share(name)]), width=70)
    assert said[said.index(name) + 1].split() == ["300", "270", "to", "330", "75.0%", "200.0", "1.5", "7"]
    assert max(map(len, said)) <= 70


def test_two_names_are_a_group():
    (said,) = [line for line in lines(program([share(names=("a", "b"))])) if "not separable" in line]
    assert said.startswith("2 kernels, not separable; the largest is a ")


@pytest.mark.parametrize("names", [("gemm", NO_KERNEL), ("gemm", "norm", NO_KERNEL)])
def test_a_run_that_cannot_be_separated_is_one_row_that_says_why(names):
    whole = program([share(names=names, energy_j=400.0, method="run too short for the sensor")])
    (one,) = whole.gpus
    said = lines(replace(whole, gpus=(replace(one, kernels=one.kernels[:1]),)))
    (row,) = [line for line in said if "100.0%" in line]
    assert row.startswith("(the whole run): run too short for the sensor  ")


def test_names_are_short_and_differ():
    names = [
        f"void at::native::elementwise_kernel<{n}, 4, at::native::MulFunctor<float> >(int)" for n in (64, 128)
    ]
    said = lines(program([share(name) for name in (*names, "_ZN2at6native5scaleEPf")]))
    shown = [line.split("  ")[0] for line in said if "75.0%" in line]
    assert shown == ["elementwise_kernel: MulFunctor", "elementwise_kernel: MulFunctor (2)", "scale"]


def test_the_tables_number_and_what_is_too_short_stand_behind_the_name():
    said = lines(program([share("a", expected_j=250.0), share("b", method="too short to tell")]))
    assert any(line.startswith("a, table: 250 J ") for line in said)
    assert any(line.startswith("b, too short to tell ") for line in said)


def test_in_csv_every_group_has_a_number_and_rows_add_up():
    groups = [
        share(names=(f"{n}a", f"{n}b"), members=(share(f"{n}a", 200.0), share(f"{n}b", 100.0)))
        for n in (1, 2)
    ]
    found = list(csv.DictReader(csv_text(program([*groups, share("c")], energy_j=1000.0)).splitlines()))
    assert [(row["kernels"], row["member_of"]) for row in found] == [
        *(("group 1", ""), ("1a", "group 1"), ("1b", "group 1")),
        *(("group 2", ""), ("2a", "group 2"), ("2b", "group 2")),
        *(("c", ""), (NO_KERNEL, "")),
    ]
    assert sum(float(row["share"]) for row in found if not row["member_of"]) == pytest.approx(1.0)
    assert [found[0][column] for column in ("energy_j", "low_j", "high_j")] == ["300.0", "270.0", "330.0"]
