"""Operations of models: what they are called, their work, and the shapes that models use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ptxbench.core.errors import InputError

DTYPE_BYTES = {"bf16": 2, "f16": 2, "tf32": 4, "fp8": 1, "f32": 4, "f64": 8}
_DTYPE_NAMES = {
    **{name: name for name in DTYPE_BYTES},
    **{"bfloat16": "bf16", "float16": "f16", "fp16": "f16", "half": "f16"},
    **{"float32": "f32", "fp32": "f32", "float64": "f64", "fp64": "f64", "double": "f64"},
    **{"fp8_e4m3": "fp8", "float8_e4m3fn": "fp8"},
}
_SHAPE = re.compile(r"\d{1,12}(x\d{1,12})*")
_SHAPE_OF_SEVERAL = re.compile(r"\d+(x\d+)+")
# Of a dimension; chosen.
_MOST = 2**40
_OF_PTX = {"add", "mul", "sum", "copy"}


@dataclass(frozen=True)
class OperationKind:
    """A kind of operation.

    Attributes:
        dims: Names of its dimensions.
        flops: Returns its floating point operations, a multiply-add being two.
        elements: Returns the elements that it reads and writes once each.
        dtypes: Types of its operands.
    """

    dims: tuple[str, ...]
    flops: Callable[..., float]
    elements: Callable[..., float]
    dtypes: tuple[str, ...] = ("bf16", "f16", "f32")


# Attention is causal in a prefill; one new token looks at all others in a decode.
KINDS: Mapping[str, OperationKind] = {
    "gemm": OperationKind(
        ("m", "n", "k"),
        lambda m, n, k: 2.0 * m * n * k,
        lambda m, n, k: m * k + k * n + m * n,
        tuple(DTYPE_BYTES),
    ),
    "attention_prefill": OperationKind(
        ("batch", "heads", "kv_heads", "length", "head_dim"),
        lambda b, h, _, s, d: 2.0 * b * h * s * s * d,
        lambda b, h, kv, s, d: 2 * b * s * d * (h + kv),
        ("bf16", "f16"),
    ),
    "attention_decode": OperationKind(
        ("batch", "heads", "kv_heads", "length", "head_dim"),
        lambda b, h, _, s, d: 4.0 * b * h * s * d,
        lambda b, h, kv, s, d: 2 * b * kv * s * d + 2 * b * h * d,
        ("bf16", "f16"),
    ),
    "softmax": OperationKind(("rows", "columns"), lambda r, c: 5.0 * r * c, lambda r, c: 2 * r * c),
    "rmsnorm": OperationKind(("rows", "columns"), lambda r, c: 4.0 * r * c, lambda r, c: 2 * r * c + c),
    "layernorm": OperationKind(("rows", "columns"), lambda r, c: 8.0 * r * c, lambda r, c: 2 * r * c + 2 * c),
    "add": OperationKind(("n",), lambda n: 1.0 * n, lambda n: 3 * n),
    "mul": OperationKind(("n",), lambda n: 1.0 * n, lambda n: 3 * n),
    "gelu": OperationKind(("n",), lambda n: 10.0 * n, lambda n: 2 * n),
    "silu_mul": OperationKind(("n",), lambda n: 6.0 * n, lambda n: 3 * n),
    "sum": OperationKind(("rows", "columns"), lambda r, c: 1.0 * r * c, lambda r, c: r * c + r),
    "copy": OperationKind(("n",), lambda n: 0.0 * n, lambda n: 2 * n),
}


@dataclass(frozen=True)
class Operation:
    """An operation of one shape.

    Attributes:
        op: Its kind.
        dtype: Type of its operands.
        shape: Its dimensions, as its kind names them.
    """

    op: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.op} {self.shape_text} {self.dtype}"

    @property
    def shape_text(self) -> str:
        """Its dimensions, such as "4096x4096x4096"."""
        return "x".join(map(str, self.shape))

    @property
    def order(self) -> tuple[int, str, float, tuple[int, ...]]:
        """By what tables are sorted: those of one kind and type together, small ones first."""
        return list(KINDS).index(self.op), self.dtype, self.flops, self.shape

    @property
    def flops(self) -> float:
        """Its floating point operations."""
        return float(KINDS[self.op].flops(*self.shape))

    @property
    def bytes_moved(self) -> float:
        """Bytes that it reads and writes, each once."""
        return float(KINDS[self.op].elements(*self.shape) * DTYPE_BYTES[self.dtype])


def parse_operation(text: str) -> Operation | None:
    """Return the operation that a text names, such as "gemm 4096x4096x4096 bf16"; None where it names none.

    Raises:
        InputError: It begins with a kind of operation, but type or shape are missing or do not fit; or it has
            a shape, but no kind.
    """
    words = _words(text)
    if len(words) < 2 or not (words[0] in KINDS or any(map(_SHAPE_OF_SEVERAL.fullmatch, words))):
        return None
    if words[0] not in KINDS:
        raise InputError(f"{text!r} begins with no kind of operation: {', '.join(KINDS)}")
    op, kind = words[0], KINDS[words[0]]
    example = "x".join(["128"] * len(kind.dims))
    form = (
        f"write it as '{op} {'x'.join(kind.dims)} DTYPE', such as '{op} {example} bf16'; DTYPE is one of"
        f" {', '.join(kind.dtypes)}"
    )
    shapes = [word for word in words[1:] if _SHAPE.fullmatch(word)]
    dtypes = [_DTYPE_NAMES[word] for word in words[1:] if word in _DTYPE_NAMES]
    if len(shapes) != 1 or len(dtypes) != 1 or len(words) != 3:
        raise InputError(f"{text!r} is no operation: {form}")
    shape = tuple(map(int, shapes[0].split("x")))
    if len(shape) != len(kind.dims) or not all(0 < size <= _MOST for size in shape):
        raise InputError(f"{text!r} has a shape that {op} cannot have: {form}")
    if "kv_heads" in kind.dims and shape[1] % shape[2]:
        raise InputError(f"{text!r} has a shape that {op} cannot have: HEADS must be a multiple of KV_HEADS")
    if dtypes[0] not in kind.dtypes:
        raise InputError(f"{op} has no {dtypes[0]}; it has {', '.join(kind.dtypes)}")
    return Operation(op, dtypes[0], shape)


def _words(text: str) -> list[str]:
    """Return the words of a text, the kind as one, also where it is written `attention decode`."""
    words = text.lower().split()
    kind = "_".join(words[:2])
    return [kind, *words[2:]] if kind in KINDS else words


def named_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds that one word names, or begins: none where it may be an instruction, such as add."""
    word = " ".join(_words(text))
    if word == "operations":
        return tuple(KINDS)
    return tuple(kind for kind in KINDS if word in (kind, kind.split("_")[0]) and word not in _OF_PTX)


# Hidden size, size within the feed-forward part, heads, heads of keys, size of a head and vocabulary, from
# the published configurations of Llama 3 8B and 70B, Qwen2.5 7B and Mistral Small 24B.
_MODELS = {
    "llama-3-8b": (4096, 14336, 32, 8, 128, 128256),
    "llama-3-70b": (8192, 28672, 64, 8, 128, 128256),
    "qwen2.5-7b": (3584, 18944, 28, 4, 128, 152064),
    "mistral-small-24b": (5120, 32768, 32, 8, 128, 131072),
}
_TOKENS = (1, 4, 16, 128, 1024, 4096)
# Each of an fp8 product's dimensions is a multiple of this in PyTorch.
_LEAST_FP8 = 16
_SQUARES = (512, 1024, 2048, 4096, 8192)
# Between those, in steps of two: rows of public tables stand beside them (docs/howto/audit.md).
_BETWEEN = (
    *((512, 4096, 4096), (2048, 4096, 4096), (8192, 4096, 4096), (4096, 2048, 2048)),
    *((256, 8192, 8192), (512, 8192, 8192), (2048, 8192, 8192)),
)


def used_shapes() -> tuple[Operation, ...]:
    """Return operations on shapes that models use, each once: what a table of operations measures."""
    of_models = (one for model in _MODELS.values() for one in _of_model(*model))
    return tuple(dict.fromkeys((*_squares(), *of_models, *_of_vectors())))


def _squares() -> Iterator[Operation]:
    for dtype, size in product(DTYPE_BYTES, _SQUARES):
        if dtype != "f64" or size < _SQUARES[-1]:
            yield Operation("gemm", dtype, (size, size, size))
    for shape in _BETWEEN:
        yield Operation("gemm", "bf16", shape)


def _of_model(
    hidden: int, inner: int, heads: int, kv: int, head: int, vocabulary: int
) -> Iterator[Operation]:
    products = (
        ((heads + 2 * kv) * head, hidden),
        (hidden, heads * head),
        (2 * inner, hidden),
        (hidden, inner),
    )
    for tokens, (n, k) in product(_TOKENS, products):
        yield Operation("gemm", "bf16", (tokens, n, k))
        yield Operation("gemm", "fp8", (max(tokens, _LEAST_FP8), n, k))
    for tokens in _TOKENS[:4]:
        yield Operation("gemm", "bf16", (tokens, vocabulary, hidden))
    for batch, length in product((1, 4), (512, 2048, 8192)):
        yield Operation("attention_prefill", "bf16", (batch, heads, kv, length, head))
    for batch, length in product((1, 16, 64), (1024, 8192)):
        yield Operation("attention_decode", "bf16", (batch, heads, kv, length, head))
    for op, rows in product(("rmsnorm", "layernorm"), _TOKENS):
        yield Operation(op, "bf16", (rows, hidden))


def _of_vectors() -> Iterator[Operation]:
    for rows, columns, dtype in product((16, 128, 1024), (1024, 8192, 128256), ("bf16", "f32")):
        yield Operation("softmax", dtype, (rows, columns))
        yield Operation("sum", dtype, (rows, columns))
    kinds = ("add", "mul", "gelu", "silu_mul", "copy")
    for op, power, dtype in product(kinds, range(18, 29), ("bf16", "f32")):
        yield Operation(op, dtype, (1 << power,))
