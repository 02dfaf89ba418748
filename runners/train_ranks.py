"""One rank of data-parallel training for 8 s, to be measured as a rank of a job.

torchrun --nproc-per-node 2 --no-python ptxbench run --out runs/job -- python runners/train_ranks.py
ptxbench report runs/job
"""

import os
import time

import torch

import ptxbench

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.distributed.init_process_group("nccl")
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.TransformerEncoder(layer, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(16, 512, 1024, device="cuda")
seconds = torch.zeros(1, device="cuda")

begun = time.monotonic()
while seconds.item() < 8:
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        model(batch).square().mean().backward()
    optimizer.step()
    ptxbench.count("sample", len(batch))
    seconds.fill_(time.monotonic() - begun)
    torch.distributed.broadcast(seconds, 0)
torch.distributed.destroy_process_group()
