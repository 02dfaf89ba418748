"""The energy of a training step with PyTorch, on every GPU that the process may use."""

import torch

import ptxbench

model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(4096, 8192, device="cuda")

with ptxbench.EnergyMonitor() as monitor:
    for number in range(20):
        with monitor.window(f"step {number}"):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()

for step in monitor.measured:
    print(step)
