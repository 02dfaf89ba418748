"""The energy of one instruction on the simulated GPU, and of a kernel on an H200."""

import ptxbench

PTX = "tests/model/kernels/elementwise.ptx"

with ptxbench.open_gpu("simulated") as gpu:
    print(ptxbench.measure(gpu, "fma.rn.f32"))

kernel = ptxbench.estimate_kernel(PTX, table="h200", grid=1056, block=256, trips={0: 4096})
print(f"{kernel.kernel}: {kernel.energy_j:.3g} J ({kernel.low_j:.3g} to {kernel.high_j:.3g} J)")
