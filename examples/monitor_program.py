"""The energy of the parts of a program, here on the simulated GPU: windows in a row and within each other."""

import ptxbench

with ptxbench.open_gpu("simulated") as gpu, ptxbench.EnergyMonitor(gpu) as monitor:
    monitor.begin_window("all")
    with monitor.window("idle"):
        gpu.sleep(2.0)
    with monitor.window("measuring"):
        ptxbench.measure(gpu, "fma.rn.f32", precision=0.05)
    monitor.end_window("all")

for found in monitor.measured:
    print(found)
