"""One GEMM kernel of the search space, and the product that it is tuned for."""

from __future__ import annotations

import struct
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum

from ptxbench.core.threads import WARP


class DType(StrEnum):
    """Type of the elements of A and B; C is of the same type, and of f32 for f16.

    c64 and c128 are complex numbers of two f32 and of two f64 (cgemm and zgemm).
    """

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"
    C64 = "c64"
    C128 = "c128"

    @property
    def bytes(self) -> int:
        """Size of an element of A and B."""
        return int(self.value[1:]) // 8

    @property
    def result_bytes(self) -> int:
        """Size of an element of C."""
        return max(4, self.bytes)

    @property
    def complex(self) -> bool:
        """Whether an element is a real and an imaginary part."""
        return self.value.startswith("c")

    @property
    def parts(self) -> int:
        """Real numbers of an element."""
        return 2 if self.complex else 1

    @property
    def ptx(self) -> str:
        """Type of a part, as PTX writes it."""
        return f"f{8 * self.bytes // self.parts}"

    @property
    def result(self) -> str:
        """Type of a part of C, as PTX writes it."""
        return "f32" if self is DType.F16 else self.ptx

    def literal(self, value: float) -> str:
        """Return a number as PTX writes it for a part of C: its bits."""
        if self.result == "f64":
            return f"0d{struct.pack('>d', value).hex().upper()}"
        return f"0f{struct.pack('>f', value).hex().upper()}"


class Core(StrEnum):
    """What multiplies: the ordinary cores, or the tensor cores by mma.sync or by wgmma."""

    SIMT = "simt"
    MMA = "mma"
    WGMMA = "wgmma"

    @classmethod
    def usual(cls, dtype: DType) -> Core:
        """Return what is tuned for an element type where nobody says."""
        return cls.MMA if dtype is DType.F16 else cls.SIMT


class Op(StrEnum):
    """How an operand is stored: as it is, transposed, or transposed and conjugated, as BLAS names them."""

    N = "n"
    T = "t"
    C = "c"


@dataclass(frozen=True)
class Problem:
    """One product C = op(A) op(B) + beta C, all matrices row-major.

    Attributes:
        dtype: Element type.
        m: Rows of op(A) and C.
        n: Columns of op(B) and C.
        k: Columns of op(A), rows of op(B).
        op_a: How A is stored: m by k, or k by m.
        op_b: How B is stored: k by n, or n by k.
        beta: What C counts in the result; 0: it is not read.
    """

    dtype: DType
    m: int
    n: int
    k: int
    op_a: Op = Op.N
    op_b: Op = Op.N
    beta: float = 0.0

    @property
    def flops(self) -> int:
        """Floating-point operations: 2 m n k, of complex numbers 8 m n k."""
        return 2 * self.dtype.parts**2 * self.m * self.n * self.k

    @property
    def title(self) -> str:
        """What pictures and tables call it."""
        form = "" if self.op_a is self.op_b is Op.N else f" {self.op_a}{self.op_b}"
        update = f" beta {self.beta:g}" if self.beta else ""
        return f"GEMM {self.m} x {self.n} x {self.k} {self.dtype}{form}{update}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what differs between variants."""
        return PARAMETERS

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of A and of B, as they are stored."""
        a, b = (self.m, self.k), (self.k, self.n)
        return (a if self.op_a is Op.N else a[::-1]), (b if self.op_b is Op.N else b[::-1])

    @property
    def least_bytes(self) -> int:
        """Bytes that must pass the memory: A and B read once, C written once, and read for an update."""
        read = (self.m * self.k + self.k * self.n) * self.dtype.bytes
        return read + self.m * self.n * self.dtype.result_bytes * (2 if self.beta else 1)


@dataclass(frozen=True)
class Stripe:
    """One operand's stripe, and how the threads of a block bring it to shared memory.

    A stripe has rows as they lie in memory: `outer` of them, each of `inner` neighbouring elements.

    Attributes:
        outer: Its rows in memory.
        inner: Elements of a row.
        outer_lanes: Threads across its rows.
        inner_lanes: Threads along a row.
        vector: Neighbouring elements that one instruction reads.
        along_k: Whether neighbours differ in k; or else in m or n.
        lead: Elements from one row in shared memory to the next.
        by_k: Whether rows in shared memory are those of one k.
    """

    outer: int
    inner: int
    outer_lanes: int
    inner_lanes: int
    vector: int
    along_k: bool
    lead: int
    by_k: bool

    @property
    def passes(self) -> int:
        """Reads of a thread across the rows."""
        return self.outer // self.outer_lanes

    @property
    def steps(self) -> int:
        """Reads of a thread along a row."""
        return self.inner // (self.inner_lanes * self.vector)

    @property
    def reads(self) -> int:
        """Elements that a thread reads."""
        return self.passes * self.steps * self.vector

    @property
    def k_stride(self) -> int:
        """Elements of shared memory from one k to the next."""
        return self.lead if self.by_k else 1

    @property
    def other_stride(self) -> int:
        """Elements of shared memory from one row of A, or column of B, to the next."""
        return 1 if self.by_k else self.lead

    @property
    def outer_stride(self) -> int:
        """Elements of shared memory from one row in memory to the next."""
        return self.other_stride if self.along_k else self.k_stride

    @property
    def inner_stride(self) -> int:
        """Elements of shared memory from one neighbour in memory to the next."""
        return self.k_stride if self.along_k else self.other_stride

    @property
    def elements(self) -> int:
        """Elements of shared memory that it takes."""
        rows = self.outer if self.along_k is not self.by_k else self.inner
        return rows * self.lead


@dataclass(frozen=True)
class Form:
    """What of a problem its kernels are made for; its sizes are given at the launch.

    Attributes:
        op_a: How A is stored.
        op_b: How B is stored.
        beta: What C counts in the result.
        edge_m: Whether tiles reach beyond m.
        edge_n: Whether tiles reach beyond n.
        edge_k: Whether stripes reach beyond k.
    """

    op_a: Op = Op.N
    op_b: Op = Op.N
    beta: float = 0.0
    edge_m: bool = False
    edge_n: bool = False
    edge_k: bool = False

    @property
    def edges(self) -> bool:
        """Whether anything reaches beyond the matrices."""
        return self.edge_m or self.edge_n or self.edge_k


PLAIN = Form()


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
        read_a: 1 to read A through the read-only path (texture), 0 for plain reads.
        read_b: The same for B.
        interleaved: 1 to read A and B by turns, 0 for first A, then B.
        mma_k: Depth of one instruction on the tensor cores.
        core: What multiplies; "": the usual for the type.
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
    read_a: int = 1
    read_b: int = 1
    interleaved: int = 0
    mma_k: int = 16
    core: str = ""

    @property
    def on_tensor_cores(self) -> bool:
        """Whether the tensor cores multiply."""
        # A search asks this a million times, and enumerations compare slowly.
        return self.core in ("mma", "wgmma") or (not self.core and self.dtype is DType.F16)

    @property
    def by_warpgroups(self) -> bool:
        """Whether warpgroups multiply, by wgmma."""
        return self.core == "wgmma"

    @property
    def template(self) -> str:
        """Name of the template of its kernels."""
        if self.by_warpgroups:
            return "gemm_wgmma"
        return "gemm_mma" if self.on_tensor_cores else "gemm_simt"

    @property
    def name(self) -> str:
        """Its parameters in short, such as "f32-16x16-128x128x8-a2-b32-v4-s2-p4-r1"."""
        core = self.core if self.core != Core.usual(self.dtype) else ""
        tensor = f"-{core}{self.mma_k}" if core else ""
        reads = f"-t{self.read_a}{self.read_b}" if (self.read_a, self.read_b) != (1, 1) else ""
        return (
            f"{self.dtype}-{self.dim_m}x{self.dim_n}-{self.blk_m}x{self.blk_n}x{self.blk_k}"
            f"-a{self.a_k}-b{self.b_n}-v{self.vector}-s{self.buffers}-p{self.pad}-r{self.min_blocks}"
            f"{tensor}{reads}{'-i1' if self.interleaved else ''}"
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

    def stripe_a(self, op: Op = Op.N) -> Stripe:
        """Return the stripe of A, by how it is stored."""
        if op is Op.N:
            return self._stripe(self.blk_m, self.blk_k, self.a_m, self.a_k, along_k=True)
        return self._stripe(self.blk_k, self.blk_m, self.a_k, self.a_m, along_k=False)

    def stripe_b(self, op: Op = Op.N) -> Stripe:
        """Return the stripe of B, by how it is stored."""
        if op is Op.N:
            return self._stripe(self.blk_k, self.blk_n, self.b_k, self.b_n, along_k=False)
        return self._stripe(self.blk_n, self.blk_k, self.b_n, self.b_k, along_k=True)

    def _stripe(self, outer: int, inner: int, outer_lanes: int, inner_lanes: int, *, along_k: bool) -> Stripe:
        """Return a stripe: the tensor cores take it as it is in memory, the others by rows of one k."""
        by_k = not (self.on_tensor_cores and along_k)
        row = outer if along_k and by_k else inner
        return Stripe(outer, inner, outer_lanes, inner_lanes, self.vector, along_k, row + self.pad, by_k)

    def buffer_bytes(self, form: Form = PLAIN) -> int:
        """Return the shared memory of one stripe of A and one of B."""
        stripes = self.stripe_a(form.op_a), self.stripe_b(form.op_b)
        return sum(stripe.elements for stripe in stripes) * self.dtype.bytes

    def shared_bytes(self, form: Form = PLAIN) -> int:
        """Return the shared memory of a block."""
        return self.buffers * self.buffer_bytes(form)

    def grid(self, problem: Problem) -> tuple[int, int]:
        """Return the blocks along n and along m."""
        return -(-problem.n // self.blk_n), -(-problem.m // self.blk_m)

    def trips(self, problem: Problem) -> int:
        """Return how often the kernel goes through its loop: the stripes along k."""
        return -(-problem.k // self.blk_k)

    def form(self, problem: Problem) -> Form:
        """Return what of a problem its kernel is made for."""
        return Form(
            op_a=problem.op_a,
            op_b=problem.op_b,
            beta=problem.beta,
            edge_m=problem.m % self.blk_m > 0,
            edge_n=problem.n % self.blk_n > 0,
            edge_k=problem.k % self.blk_k > 0,
        )


PARAMETERS = tuple(one.name for one in fields(Variant) if one.name not in ("dtype", "core"))
"""The search space: every combination of the parameters' values that passes the filters."""
OPTIONAL: dict[str, int] = {
    one.name: int(one.default)
    for one in fields(Variant)
    if one.name in PARAMETERS and one.default is not MISSING
}
"""Parameters that a file of the search space may leave out, with their values."""
