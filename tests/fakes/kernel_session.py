"""A session of runners/validate_kernels.py on made-up kernels: what it measured, and ncu's CSV."""

import csv

import numpy as np
from validation_file import MEASURED, KernelCase, KernelTrial, Purpose, kernel_session

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.opcode_energies import Known, OpcodeEnergies
from ptxbench.storage.manifest import write_manifest

RANDOM_PJ = {"FFMA": 14.0, "IADD3": 8.0, "LDG.E.128": 60.0}
ZEROS_PJ = {"FFMA": 4.5, "IADD3": 5.0, "LDG.E.128": 30.0}
DRAM_PJ = {"random": 90.0, "zeros": 50.0}
HMMA_PJ = {"random": 1.1, "zeros": 0.3}  # a multiply-add
REQUEST_PJ = 900.0  # of L2, whatever the data are
GAMMA = 1.5
STATIC_W = 120.0
LIMIT_W = 700.0
FULL_MHZ = 1980.0
OPCODE_ENERGIES = OpcodeEnergies(
    {opcode: Known(pj, 0.05 * pj) for opcode, pj in RANDOM_PJ.items()},
    {opcode: Known(pj, 0.05 * pj) for opcode, pj in ZEROS_PJ.items()},
)


def full_j(counts, pattern):
    """Energy at the full clock, DRAM left out: float work toggles, index work half of what random bits do."""
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
    return joules


class MadeUpSession:
    """Writes measured.json and counts/ as the runner does."""

    def __init__(self, folder):
        self.folder, self.cases, self.trials, self.rows = folder, [], [], []
        self.add("sleep", "zeros", Purpose.STATIC, {}, 0.0, 1.0)

    def add(self, name, pattern, purpose, counts, dram, time_s, profiled=True, requests=None):
        """Add a case; without `requests` its profile does not count L2 requests, as older ones do not."""
        number = len(self.cases)
        self.cases.append(KernelCase(number, name, pattern, purpose))
        clocked_j, dram_j = full_j(counts, pattern), dram * DRAM_PJ[pattern] * 1e-12
        clocked_j += (requests or 0) * REQUEST_PJ * 1e-12
        ratio = 1.0
        # A kernel that computes takes longer at a lower clock; DRAM has a clock of its own.
        while (power_w := (clocked_j * ratio**GAMMA + dram_j) * ratio / time_s + STATIC_W) > LIMIT_W:
            ratio -= 1e-4
        time_s /= ratio
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
                [f"ptxbench_case_{number}()", "32", "32 (NOP: 32)", "0", "1000", "0"],
                [
                    name,
                    "1",
                    f"{sum(counts.values()):,} ({per_opcode})",
                    f"{dram:.0f}",
                    f"{time_s * 1e9:.0f}",
                    "n/a" if requests is None else f"{requests:.0f}",
                ],
            ]

    def write(self):
        self.folder.joinpath("counts").mkdir(parents=True)
        head = ["ID", "Kernel Name", "Block Size", "sass__inst_executed_per_opcode_with_modifier_all"]
        with self.folder.joinpath("counts", "counts-0-9.csv").open("w", newline="") as file:
            file.write("==PROF== Connected to process 7\n")
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow([*head, "dram__bytes.sum", "gpu__time_duration.sum", "lts__t_requests.sum"])
            writer.writerow(["", "", "", "inst", "byte", "ns", "request"])
            for number, row in enumerate(self.rows):
                writer.writerow([number, *row])
        write_manifest(
            self.folder / MEASURED,
            kernel_session(
                GpuInfo.partly_known("NVIDIA H200", "0123456789ab", "580", LIMIT_W, FULL_MHZ), "samples", (),
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
