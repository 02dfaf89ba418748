"""The way from a sitting's files to kernel_validation.csv, on kernels whose truth is made up here."""

import csv
import json
import math

import numpy as np
import pytest

from ptxbench.errors import InputError
from ptxbench.model.judge import judge
from ptxbench.model.judged_file import mean_absolute_error_pct, write_judged
from ptxbench.model.prices import Known, Prices
from ptxbench.model.validation_file import (
    KernelCase,
    KernelSession,
    KernelTrial,
    Purpose,
    write_session,
)

RANDOM_PJ = {"FFMA": 14.0, "IADD3": 8.0, "LDG.E.128": 60.0}
ZEROS_PJ = {"FFMA": 4.5, "IADD3": 5.0, "LDG.E.128": 30.0}
DRAM_PJ = {"random": 90.0, "zeros": 50.0}
HMMA_PJ = {"random": 1.1, "zeros": 0.3}  # a multiply-add
GAMMA = 1.5
STATIC_W = 120.0
LIMIT_W = 700.0
FULL_MHZ = 1980.0
PRICES = Prices(
    {opcode: Known(pj, 0.05 * pj) for opcode, pj in RANDOM_PJ.items()},
    {opcode: Known(pj, 0.05 * pj) for opcode, pj in ZEROS_PJ.items()},
)


def full_j(counts, dram, pattern):
    """Dynamic energy at the full clock: float work toggles, index work half of what random bits do."""
    table = RANDOM_PJ if pattern == "random" else ZEROS_PJ
    joules = 0.0
    for opcode, warps in counts.items():
        if opcode.startswith("HMMA"):
            pj = HMMA_PJ[pattern] * 16 * 8 * 16 / 32
        elif opcode == "IADD3":
            pj = (RANDOM_PJ[opcode] + ZEROS_PJ[opcode]) / 2
        else:
            pj = table[opcode]
        joules += 32 * warps * pj * 1e-12
    return joules + dram * DRAM_PJ[pattern] * 1e-12


class Sitting:
    """Writes measured.json and counts/ as the runner does."""

    def __init__(self, folder):
        self.folder, self.cases, self.trials, self.rows = folder, [], [], []
        self.add("sleep", "zeros", Purpose.STATIC, {}, 0.0, 1.0)

    def add(self, name, pattern, purpose, counts, dram, time_s, profiled=True):
        number = len(self.cases)
        self.cases.append(KernelCase(number, name, pattern, purpose))
        dynamic_j = full_j(counts, dram, pattern)
        power_w, ratio, limit_w = dynamic_j / time_s + STATIC_W, 1.0, LIMIT_W
        if power_w > limit_w:
            # A kernel that computes: P_static + E0 r^gamma / (t0 / r) = limit.
            ratio = ((limit_w - STATIC_W) * time_s / dynamic_j) ** (1 / (GAMMA + 1))
            power_w, time_s = limit_w, time_s / ratio
        for repeat in range(3):
            self.trials.append(
                KernelTrial(
                    number, repeat, 10, 10 * time_s, power_w * (1 + 1e-4 * repeat), 0.1, power_w, 40.0,
                    FULL_MHZ * ratio, 3201.0, 4 if ratio < 1 else 0, 0, "", (0.02,), (power_w,),
                )
            )  # fmt: skip
        if profiled and counts:
            per_opcode = "; ".join(f"{opcode}: {n:,}" for opcode, n in counts.items())
            self.rows += [
                [f"ptxbench_case_{number}()", "32", "32 (NOP: 32)", "0", "1000"],
                [name, "1", f"{sum(counts.values()):,} ({per_opcode})", f"{dram:.0f}", f"{time_s * 1e9:.0f}"],
            ]

    def write(self):
        self.folder.joinpath("counts").mkdir(parents=True)
        head = ["ID", "Kernel Name", "Block Size", "sass__inst_executed_per_opcode_with_modifier_all"]
        with self.folder.joinpath("counts", "counts-0-9.csv").open("w", newline="") as file:
            file.write("==PROF== Connected to process 7\n")
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow([*head, "dram__bytes.sum", "gpu__time_duration.sum"])
            writer.writerow(["", "", "", "inst", "byte", "ns"])
            for number, row in enumerate(self.rows):
                writer.writerow([number, *row])
        write_session(
            self.folder,
            KernelSession(
                "NVIDIA H200", "0123456789ab", "580", LIMIT_W, FULL_MHZ, "samples", (), "2026",
                tuple(self.cases), tuple(self.trials),
            ),
        )  # fmt: skip
        return self.folder


def mixture(seed, tensor=0.0):
    random = np.random.default_rng(seed)
    counts = {opcode: int(random.uniform(1, 10) * 1e8) for opcode in RANDOM_PJ}
    if tensor:
        counts["HMMA.16816.F32"] = int(tensor * 1e8)
    return counts


@pytest.fixture
def sitting(tmp_path):
    made = Sitting(tmp_path / "validation")
    for n in range(8):
        for pattern in ("random", "zeros"):
            made.add(
                f"fit{n}",
                pattern,
                Purpose.FIT,
                mixture(n, tensor=n % 3),
                n * 2e9,
                1.4e-3,
                pattern == "random",
            )
    for n, time_s in enumerate((0.4e-3, 0.5e-3, 0.6e-3)):
        made.add(f"slowed{n}", "random", Purpose.FIT, mixture(20 + n, tensor=4), 1e9, time_s)
    return made


def test_kernels_that_were_not_fitted_come_out_right_capped_or_not(sitting):
    for n in range(4):
        for pattern in ("random", "zeros"):
            sitting.add(f"judged{n}", pattern, Purpose.JUDGED, mixture(40 + n, tensor=n), 3e9, 6e-3)
    sitting.add("hot", "random", Purpose.JUDGED, mixture(50, tensor=9), 1e9, 0.5e-3)
    found = judge(sitting.write(), PRICES)
    assert len(found.kernels) == 9
    assert found.missing == ()
    assert mean_absolute_error_pct(found.kernels) < 2
    assert {k.kernel for k in found.kernels if k.capped} == {"hot"}
    (hot,) = (k for k in found.kernels if k.capped)
    assert hot.estimated_capped
    # Not by the limit alone: the clock term gives the energy of the slowed kernel too.
    assert hot.estimated_at_clock_j == pytest.approx(hot.measured_j, rel=0.03)
    assert hot.uncapped_estimate_j > 1.1 * hot.measured_j
    assert found.terms.gamma == pytest.approx(GAMMA, abs=0.15)
    assert found.terms.tensor[0].kind == "HMMA.F32"
    assert found.terms.tensor[0].random_pj == pytest.approx(HMMA_PJ["random"], rel=0.05)
    assert not any("judged" in name or "hot" in name for name in found.terms.kernels)


def test_judged_kernels_do_not_change_what_is_fitted(tmp_path):
    terms = []
    for extra in (1.0, 3.0):
        made = Sitting(tmp_path / f"{extra}")
        for n in range(6):
            made.add(f"fit{n}", "random", Purpose.FIT, mixture(n, tensor=n % 3), n * 2e9, 1.5e-3)
        made.add("judged", "random", Purpose.JUDGED, mixture(9), 0.0, 1.5e-3 * extra)
        terms.append(judge(made.write(), PRICES).terms)
    assert terms[0] == terms[1]


def test_the_csv_has_the_parts_and_a_case_without_counts_is_named(sitting, tmp_path):
    sitting.add("judged", "random", Purpose.JUDGED, mixture(9), 1e9, 1.5e-3)
    sitting.add("lost", "random", Purpose.JUDGED, mixture(9), 1e9, 1.5e-3, profiled=False)
    found = judge(sitting.write(), PRICES)
    assert found.missing == ("lost random: no counts",)
    write_judged(tmp_path / "v.csv", found.kernels)
    (row,) = csv.DictReader((tmp_path / "v.csv").read_text().splitlines())
    parts = json.loads(row["parts"])
    assert sum(parts.values()) == pytest.approx(float(row["estimated_j"]), rel=1e-3)
    assert {"static", "fp32", "DRAM"} <= set(parts)
    assert float(row["measured_ci95_j"]) > 0
    assert math.isfinite(float(row["low_j"]))


def test_a_sitting_without_counts_is_refused(sitting):
    sitting.rows.clear()
    with pytest.raises(InputError, match="no kernel was both measured and counted"):
        judge(sitting.write(), PRICES)
