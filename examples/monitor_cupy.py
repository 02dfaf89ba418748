"""The energy of a matrix product with CuPy on zeros and on random numbers, which differ by far."""

import cupy

import ptxbench

SIZE, REPEATS = 8192, 50

with ptxbench.EnergyMonitor(gpus=0) as monitor:
    for name, make in (("zeros", cupy.zeros), ("random", cupy.random.random)):
        a = make((SIZE, SIZE)).astype(cupy.float32)
        a @ a
        with monitor.window(name):
            for _ in range(REPEATS):
                a @ a

for found in monitor.measured:
    low_j, high_j = (end / REPEATS for end in found.interval_j)
    print(f"{found.name}: {found.energy_j / REPEATS:.3g} J a product ({low_j:.3g} to {high_j:.3g})")
