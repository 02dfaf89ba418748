"""What the bits of the operands do to the energy of some instructions, on the simulated GPU."""

import ptxbench

NAMES = ["fma.rn.f32", "add.u32", "fma.rn.f64"]

with ptxbench.open_gpu("simulated") as gpu:
    table = ptxbench.measure_table(gpu, NAMES, opt_levels="O3", operands=["random", "zeros"])

for name in NAMES:
    random, zeros = table[name], table.find(name, operands="zeros")
    print(f"{name}: {random.energy_pj:.2f} pJ on random bits, {zeros.energy_pj:.2f} pJ on zeros")
