"""Estimate a kernel on an H200 for operands from all zeros to random bits, and say where the joules go."""

import sys

import ptxbench

path = sys.argv[1] if sys.argv[1:] else "tests/model/kernels/elementwise.ptx"
table = ptxbench.load_table("h200")

for activity in (0.0, 0.5, 1.0):
    found = ptxbench.estimate_kernel(
        path, table=table, grid=1056, block=256, trips={0: 4096}, operands=activity
    )
    parts = ", ".join(f"{part.name} {part.energy_j / found.energy_j:.0%}" for part in found.parts[:3])
    print(f"activity {activity:g}: {found.energy_j:.3g} J at {found.power_w:.0f} W ({parts})")
print(*found.notes, sep="\n")
