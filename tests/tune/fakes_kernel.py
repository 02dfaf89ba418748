"""A user's kernel in a few lines of PTX, its specification, and a GPU that computes what a test wants."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptxbench.core.errors import LaunchError
from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu

# out[i] = 2 in[i], MORE multiplications by one besides.
KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry twice(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .reg .b64 %rd<6>;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    .reg .pred %p;
    .shared .align 4 .b8 space[{{ SPACE }}];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r5, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, {{ BLOCK }}, %r2;
    setp.ge.u32 %p, %r3, %r5;
    @%p ret;
    mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f1, %f1, %f1;
{% for n in range(MORE) %}
    fma.rn.f32 %f1, %f1, %f1, 0f3F800000;
{% endfor %}
    st.shared.f32 [space], %f1;
    st.global.f32 [%rd5], %f1;
    ret;
}
"""

SPEC = """
filters = ["BLOCK * MORE <= 4096"]
[kernel]
name = "twice"
source = "twice.ptx.j2"
[sizes]
n = 262144
[axes]
BLOCK = [64, 128]
MORE = { from = 1, to = "BLOCK // 8", factor = 4 }
SPACE = [4]
[launch]
grid = "ceil_div(n, BLOCK)"
block = "BLOCK"
[[arguments]]
name = "in"
dtype = "f32"
shape = ["n"]
[[arguments]]
name = "out"
dtype = "f32"
shape = ["n"]
role = "output"
[[arguments]]
name = "count"
dtype = "u32"
value = "n"
[reference]
function = "add"
arguments = ["in", "in"]
[work]
flops = "n * MORE"
dram_bytes = "8 * n"
[objective]
metric = "energy_j * time_s ** 2"
"""


def write_spec(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the kernel and its specification, changed as a test wants."""
    folder.mkdir(exist_ok=True)
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "twice.ptx.j2").write_text(KERNEL)
    (folder / "spec.toml").write_text(text)
    return folder / "spec.toml"


class AddingGpu(SimulatedGpu):
    """A simulated GPU whose kernels double their input; `wrong` elements are off by a thousandth."""

    wrong = 0
    refuses = ""

    def compute(self, launch: Launch) -> Bytes | None:
        if self.refuses and self.refuses in launch.trial_id:
            raise LaunchError("cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        result = 2 * launch.operands[0].view(np.float32)
        result[: self.wrong] *= np.float32(1.001)
        return result.view(np.uint8)
