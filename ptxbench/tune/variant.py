"""One GEMM kernel of the search space, and the product that it is tuned for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from ptxbench.core.threads import WARP


class DType(StrEnum):
    """Type of the elements of A and B; C is of the same type, and of f32 for f16."""

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"

    @property
    def bytes(self) -> int:
        """Size of an element of A and B."""
        return int(self.value[1:]) // 8

    @property
    def result_bytes(self) -> int:
        """Size of an element of C."""
        return max(4, self.bytes)

    @property
    def ptx(self) -> str:
        """Type as PTX writes it."""
        return self.value

    @property
    def zero(self) -> str:
        """Zero as a PTX literal."""
        return "0d0000000000000000" if self is DType.F64 else "0f00000000"

    @property
    def template(self) -> str:
        """Name of the template of its kernels."""
        return "gemm_mma" if self is DType.F16 else "gemm_simt"


@dataclass(frozen=True)
class Problem:
    """One product C = A B, all matrices row-major.

    Attributes:
        dtype: Element type.
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A, rows of B.
    """

    dtype: DType
    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Floating-point operations: 2 m n k."""
        return 2 * self.m * self.n * self.k

    @property
    def title(self) -> str:
        """What pictures and tables call it."""
        return f"GEMM {self.m} x {self.n} x {self.k} {self.dtype}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what differs between variants."""
        return PARAMETERS

    @property
    def least_bytes(self) -> int:
        """Bytes that must pass the memory: A and B read once, C written once."""
        read = (self.m * self.k + self.k * self.n) * self.dtype.bytes
        return read + self.m * self.n * self.dtype.result_bytes


@dataclass(frozen=True)
class Variant:
    """Parameters of one kernel, named after the stencil of Anzt et al. (2015), section 2.2.

    A block of dim_m x dim_n threads computes blk_m x blk_n of C in stripes of blk_k. On the tensor cores a
    warp's 32 lanes count as 8 x 4, as its fragment of C is laid out.

    Attributes:
        dtype: Element type.
        dim_m: Threads of a block along m.
        dim_n: Threads of a block along n.
        blk_m: Rows of C that a block computes.
        blk_n: Columns of C that a block computes.
        blk_k: Columns of A and rows of B that shared memory holds at a time.
        a_k: Threads along k when the block reads A; the others stand along m.
        b_n: Threads along n when the block reads B; the others stand along k.
        vector: Neighbouring elements that one instruction reads or writes.
        buffers: Stripes in shared memory at a time.
        pad: Elements between the rows of a stripe in shared memory, against bank conflicts.
        min_blocks: Blocks that must fit one SM at once (.minnctapersm), which bounds the registers.
    """

    dtype: DType
    dim_m: int
    dim_n: int
    blk_m: int
    blk_n: int
    blk_k: int
    a_k: int
    b_n: int
    vector: int
    buffers: int
    pad: int
    min_blocks: int

    @property
    def name(self) -> str:
        """Its parameters in short, such as "f32-16x16-128x128x8-a2-b32-v4-s2-p4-r1"."""
        return (
            f"{self.dtype}-{self.dim_m}x{self.dim_n}-{self.blk_m}x{self.blk_n}x{self.blk_k}"
            f"-a{self.a_k}-b{self.b_n}-v{self.vector}-s{self.buffers}-p{self.pad}-r{self.min_blocks}"
        )

    @property
    def values(self) -> tuple[int, ...]:
        """Its parameters without the type, in the order of `PARAMETERS`."""
        return tuple(int(getattr(self, name)) for name in PARAMETERS)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.dim_m * self.dim_n

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)

    @property
    def warps_m(self) -> int:
        """Warps of a block along m, on the tensor cores."""
        return self.dim_m // 8

    @property
    def warps_n(self) -> int:
        """Warps of a block along n, on the tensor cores."""
        return self.dim_n // 4

    @property
    def tile_m(self) -> int:
        """Rows of C of one thread."""
        return self.blk_m // self.dim_m

    @property
    def tile_n(self) -> int:
        """Columns of C of one thread."""
        return self.blk_n // self.dim_n

    @property
    def a_m(self) -> int:
        """Threads along m when the block reads A."""
        return self.threads // self.a_k

    @property
    def b_k(self) -> int:
        """Threads along k when the block reads B."""
        return self.threads // self.b_n

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        if self.dtype is DType.F16:
            a_elements = self.blk_m * (self.blk_k + self.pad)
        else:
            a_elements = self.blk_k * (self.blk_m + self.pad)
        b_elements = self.blk_k * (self.blk_n + self.pad)
        return self.buffers * (a_elements + b_elements) * self.dtype.bytes

    def grid(self, problem: Problem) -> tuple[int, int]:
        """Return the blocks along n and along m."""
        return problem.n // self.blk_n, problem.m // self.blk_m

    def trips(self, problem: Problem) -> int:
        """Return how often the kernel goes through its loop: the stripes along k."""
        return problem.k // self.blk_k


PARAMETERS = tuple(field.name for field in fields(Variant) if field.name != "dtype")
