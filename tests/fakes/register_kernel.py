"""A kernel in PTX that needs about so many registers."""

from __future__ import annotations

from ptxbench.core.target import find_target


def ptx_of_registers(values: int, target: str, bounds: str = "", shared_bytes: int = 0) -> str:
    """Return a kernel `k` that holds so many values at once: it reads all of them before it writes any."""
    n = range(values)
    lines = [
        f".version {find_target(target).ptx_version}",
        f".target {target}",
        ".address_size 64",
        f".visible .entry k(.param .u64 at) {bounds}",
        "{",
        ".reg .b64 %rd<2>;",
        f".reg .f32 %f<{values}>;",
        *([f".shared .align 4 .b8 space[{shared_bytes}];"] if shared_bytes else []),
        "ld.param.u64 %rd1, [at];",
        *(f"ld.volatile.global.f32 %f{i}, [%rd1+{4 * i}];" for i in n),
        *(f"st.volatile.global.f32 [%rd1+{4 * i}], %f{values - 1 - i};" for i in n),
        *(["st.shared.f32 [space], %f0;"] if shared_bytes else []),
        "ret;",
        "}",
    ]
    return "\n".join(lines)
