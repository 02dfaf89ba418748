"""One block of threads that runs a GEMM kernel's PTX in numpy, all threads at once.

It knows the instructions of the GEMM templates and nothing more. Besides results it watches three things
that a GPU would not show every time: a byte of shared memory that two warps touch between two barriers, one
of them writing; a byte that is read before it was written; and an asynchronous copy that is read before it
was waited for (copies land only at cp.async.wait_group).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

WARP = 32
SHARED_AT = 1 << 24
_LINE = re.compile(r"^\s*(?:@(?P<guard>!?%\w+)\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>[^;]*);")
_KINDS = {"f32": np.float32, "f64": np.float64, "b32": np.uint32, "u32": np.uint32, "f16": np.float16}


@dataclass
class Shared:
    """Shared memory, and who touched which byte since the last barrier."""

    size: int
    data: np.ndarray = field(init=False)
    written: np.ndarray = field(init=False)
    writer: np.ndarray = field(init=False)
    reader: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.data = np.zeros(self.size, np.uint8)
        self.written = np.zeros(self.size, bool)
        self.barrier()

    def barrier(self) -> None:
        self.writer, self.reader = (np.full(self.size, -1) for _ in range(2))

    def read(self, at: np.ndarray, warps: np.ndarray) -> np.ndarray:
        assert 0 <= at.min() <= at.max() < self.size, "shared memory is read outside of the block's own"
        assert self.written[at].all(), "shared memory is read before it was written"
        other = (self.writer[at] != -1) & (self.writer[at] != warps)
        assert not other.any(), "a warp reads what another wrote since the last barrier"
        # Several readers count as none of the warps that may write.
        self.reader[at] = np.where((self.reader[at] == -1) | (self.reader[at] == warps), warps, -2)
        return self.data[at]

    def write(self, at: np.ndarray, values: np.ndarray, warps: np.ndarray) -> None:
        self.claim(at, warps)
        self.land(at, values)

    def claim(self, at: np.ndarray, warps: np.ndarray) -> None:
        assert 0 <= at.min() <= at.max() < self.size, "shared memory is written outside of the block's own"
        foreign = (self.reader[at] != -1) & (self.reader[at] != warps)
        assert not foreign.any(), "a warp writes what another read since the last barrier"
        assert len(np.unique(at)) == at.size, "two threads write the same byte"
        self.writer[at] = warps

    def land(self, at: np.ndarray, values: np.ndarray) -> None:
        self.data[at] = values
        self.written[at] = True


class Block:
    """One block of a launch; `run` returns when all its threads have."""

    def __init__(self, ptx: str, threads: int, shared_bytes: int, place: tuple[int, int]) -> None:
        self.threads = threads
        self.warps = np.arange(threads) // WARP
        self.shared = Shared(shared_bytes)
        self.place = place
        self.registers: dict[str, np.ndarray] = {}
        self.kinds: dict[str, str] = {}
        self.pending: list[list[tuple[np.ndarray, np.ndarray]]] = []
        self.open: list[tuple[np.ndarray, np.ndarray]] = []
        self.lines = _code(ptx)
        self.active = np.ones(threads, bool)
        self.fenced = False

    def run(self, memory: dict[str, np.ndarray], scalars: dict[str, int]) -> None:
        """Execute the kernel.

        Args:
            memory: Bytes of each pointer parameter, by its name.
            scalars: The other parameters.
        """
        self.memory = list(memory.values())
        self.parameters = {name: (n + 1) << 40 for n, name in enumerate(memory)} | scalars
        labels = {line: n for n, line in enumerate(self.lines) if isinstance(line, str)}
        at = 0
        while True:
            line = self.lines[at]
            at += 1
            if isinstance(line, str):
                continue
            guard, opcode, operands = line
            active = self._active(guard)
            if opcode == "ret":
                return
            if opcode == "bra":
                assert active.all() or not active.any(), "threads of a block take different ways"
                at = labels[operands[0]] if active.all() else at
            elif active.all():
                self._execute(opcode, operands)
            elif active.any():
                self._execute_some(opcode, operands, active)
            elif opcode == "cp.async.commit_group":
                raise AssertionError("a guarded commit")

    def _active(self, guard: str | None) -> np.ndarray:
        if not guard:
            return np.ones(self.threads, bool)
        return self._value(guard.lstrip("!")).astype(bool) != guard.startswith("!")

    def _value(self, operand: str) -> np.ndarray:
        full = lambda value: np.full(self.threads, value)  # noqa: E731
        special = {
            "%tid.x": np.arange(self.threads),
            "%ctaid.x": full(self.place[0]),
            "%ctaid.y": full(self.place[1]),
        }
        if operand in special:
            return special[operand].astype(np.int64)
        if operand.startswith("%"):
            return self.registers[operand]
        if operand == "tiles":
            return full(SHARED_AT)
        if operand.startswith("0f"):
            return full(np.uint32(int(operand[2:], 16)).view(np.float32))
        if operand.startswith("0d"):
            return full(np.uint64(int(operand[2:], 16)).view(np.float64))
        return full(int(operand))

    def _execute(self, opcode: str, operands: list[str]) -> None:
        base, *modifiers = opcode.split(".")
        handler = getattr(self, f"_{base}", None)
        assert handler, f"the lockstep block does not know {opcode}"
        handler(modifiers, operands)

    def _execute_some(self, opcode: str, operands: list[str], active: np.ndarray) -> None:
        """Execute an instruction of some threads: the others keep their registers, and touch no memory."""
        base = opcode.split(".")[0]
        assert base in ("ld", "st", "fma"), f"only whole blocks take part in {opcode}"
        self.active = active
        before = {name: values.copy() for name, values in self.registers.items()}
        self._execute(opcode, operands)
        self.active = np.ones(self.threads, bool)
        if base != "st":
            for name in _listed(operands[0]):
                kept = before.get(name, np.zeros(self.threads))
                self.registers[name] = np.where(active, self.registers[name], kept)

    def _set(self, register: str, values: np.ndarray, kind: str) -> None:
        if kind in ("u32", "b32") or kind == "s32":
            values = values & 0xFFFFFFFF
        self.registers[register] = values

    def _mov(self, modifiers: list[str], operands: list[str]) -> None:
        if operands[1].startswith("{"):
            low, high = map(self._value, _listed(operands[1]))
            self.registers[operands[0]] = low.astype(np.int64) | high.astype(np.int64) << 32
            return
        self._set(operands[0], self._value(operands[1]), modifiers[-1])

    def _add(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) + self._value(operands[2]), modifiers[-1])

    def _sub(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) - self._value(operands[2]), modifiers[-1])

    def _neg(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], -self._value(operands[1]), modifiers[-1])

    def _and(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) & self._value(operands[2]), modifiers[-1])

    def _shr(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) >> self._value(operands[2]), modifiers[-1])

    def _rem(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) % self._value(operands[2]), modifiers[-1])

    def _div(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) // self._value(operands[2]), modifiers[-1])

    def _mul(self, modifiers: list[str], operands: list[str]) -> None:
        kind = "u64" if modifiers[0] == "wide" else modifiers[-1]
        self._set(operands[0], self._value(operands[1]) * self._value(operands[2]), kind)

    def _mad(self, modifiers: list[str], operands: list[str]) -> None:
        product = self._value(operands[1]) * self._value(operands[2])
        self._set(operands[0], product + self._value(operands[3]), modifiers[-1])

    def _fma(self, modifiers: list[str], operands: list[str]) -> None:
        a, b, c = (self._value(o) for o in operands[1:])
        self.registers[operands[0]] = a * b + c

    def _cvt(self, modifiers: list[str], operands: list[str]) -> None:
        self.registers[operands[0]] = self._value(operands[1])

    def _cvta(self, modifiers: list[str], operands: list[str]) -> None:
        self.registers[operands[0]] = self._value(operands[1])

    def _setp(self, modifiers: list[str], operands: list[str]) -> None:
        a, b = self._value(operands[1]), self._value(operands[2])
        if modifiers[-1] == "s32":
            a, b = ((one & 0xFFFFFFFF).astype(np.uint32).view(np.int32) for one in (a, b))
        compare = {"ne": a != b, "eq": a == b, "ge": a >= b, "gt": a > b}
        met = compare[modifiers[0]]
        self.registers[operands[0]] = met & self._value(operands[3]) if "and" in modifiers else met

    def _selp(self, modifiers: list[str], operands: list[str]) -> None:
        chosen = np.where(self._value(operands[3]), self._value(operands[1]), self._value(operands[2]))
        self._set(operands[0], chosen, modifiers[-1])

    def _bar(self, modifiers: list[str], operands: list[str]) -> None:
        assert not self.open, "copies that are in no group"
        self.shared.barrier()

    def _cp(self, modifiers: list[str], operands: list[str]) -> None:
        if "commit_group" in modifiers:
            self.pending.append(self.open)
            self.open = []
        elif "wait_group" in modifiers:
            self.fenced = self.fenced and len(self.pending) <= int(operands[0])
            while len(self.pending) > int(operands[0]):
                for at, values in self.pending.pop(0):
                    # What has landed is its own thread's to read, until a barrier.
                    self.shared.land(at, values)
                    self.shared.writer[at] = self.warps[:, None]
        else:
            size = int(operands[2])
            to = self._bytes_at(operands[0], size) - SHARED_AT
            self.shared.written[to] = False
            self.shared.claim(to, np.repeat(self.warps[:, None], size, 1))
            if len(operands) > 3:
                filled = self._value(operands[3])
                assert set(np.unique(filled)) <= {0, size}, "a copy of a part"
                self.active = filled == size
            self.open.append((to, self._load_global(operands[1], size)))
            self.active = np.ones(self.threads, bool)

    def _ld(self, modifiers: list[str], operands: list[str]) -> None:
        if "param" in modifiers:
            name = operands[1].strip("[]")
            self.registers[operands[0]] = np.full(self.threads, self.parameters[name])
            return
        targets = _listed(operands[0])
        kind = _KINDS[modifiers[-1]]
        size = len(targets) * kind().itemsize
        if "shared" in modifiers:
            at = self._bytes_at(operands[1], size) - SHARED_AT
            data = self.shared.read(at, np.repeat(self.warps[:, None], size, 1))
        else:
            data = self._load_global(operands[1], size)
        values = np.ascontiguousarray(data).view(kind)
        for n, target in enumerate(targets):
            self.registers[target] = values[:, n]

    def _st(self, modifiers: list[str], operands: list[str]) -> None:
        kind = _KINDS[modifiers[-1]]
        values = np.stack([self._value(o).astype(kind) for o in _listed(operands[1])], 1)
        data = np.ascontiguousarray(values).view(np.uint8)
        at = self._bytes_at(operands[0], data.shape[1])
        if "shared" in modifiers:
            self.shared.write(at - SHARED_AT, data, np.repeat(self.warps[:, None], data.shape[1], 1))
        else:
            at, data = at[self.active], data[self.active]
            self._buffer(at)[at & ((1 << 40) - 1)] = data

    def _ldmatrix(self, modifiers: list[str], operands: list[str]) -> None:
        rows = self.shared.read(
            self._bytes_at(operands[1], 16) - SHARED_AT, np.repeat(self.warps[:, None], 16, 1)
        )
        halves = np.ascontiguousarray(rows).view(np.uint16).reshape(-1, 4, 8, 8)  # warp, matrix, row, column
        if "trans" in modifiers:
            halves = halves.transpose(0, 1, 3, 2)
        # Lane l gets row l / 4, columns 2 (l mod 4) and the next, of each matrix.
        pairs = np.ascontiguousarray(halves).view(np.uint32).reshape(-1, 4, WARP)
        for n, target in enumerate(_listed(operands[0])):
            self.registers[target] = pairs[:, n].ravel()

    def _mma(self, modifiers: list[str], operands: list[str]) -> None:
        d, a, b, c = (_listed(o) for o in operands)
        if modifiers[-1] == "f64":
            self._mma_f64(d, a, b, c)
            return
        left, right = self._halves(a), self._halves(b)  # warp, register, group, lane of group, half
        product_a = left.reshape(-1, 2, 2, 8, 8)  # warp, k half, row half, row, column (pairs side by side)
        matrix_a = np.concatenate(
            [np.concatenate([product_a[:, k, r] for r in (0, 1)], 1) for k in (0, 1)], 2
        )
        matrix_b = np.concatenate([right.reshape(-1, 2, 8, 8)[:, k] for k in (0, 1)], 2)  # n by k
        product = np.einsum("wmk,wnk->wmn", matrix_a.astype(np.float64), matrix_b.astype(np.float64))
        for n, (target, source) in enumerate(zip(d, c, strict=True)):
            part = product[:, 8 * (n // 2) : 8 * (n // 2) + 8].reshape(-1, 8, 4, 2)[..., n % 2]
            self.registers[target] = (part.reshape(-1) + self._value(source)).astype(np.float32)

    def _fence(self, modifiers: list[str], operands: list[str]) -> None:
        assert modifiers == ["proxy", "async"]
        self.fenced = True

    def _wgmma(self, modifiers: list[str], operands: list[str]) -> None:
        """m64nNk16 of f16 by descriptors (PTX ISA, "Asynchronous Warpgroup Level Matrix"), at once."""
        if "mma_async" not in modifiers:
            return
        assert self.fenced, "what copies brought is not shown to the tensor cores"
        c = _listed(operands[0])
        columns = int(re.match(r"m64n(\d+)k16", modifiers[3])[1])
        assert operands[4:] == ["1", "1", "0", "1"]
        assert self._value(operands[3]).all()
        of_a, of_b = self._value(operands[1]), self._value(operands[2])
        for first in range(0, self.threads, 4 * WARP):
            group = slice(first, first + 4 * WARP)
            assert len(set(of_a[group].tolist())) == len(set(of_b[group].tolist())) == 1
            # A by rows of m, 64 x 16; B by rows of k, 16 x columns.
            a = self._matrix(int(of_a[first]), 64, 16, first)
            b = self._matrix(int(of_b[first]), 16, columns, first)
            product = (a @ b).reshape(4, 2, 8, columns // 8, 4, 2)  # warp, half, row, 8 columns, lane, pair
            for n, register in enumerate(c):
                part = product[:, n // 2 % 2, :, n // 4, :, n % 2].reshape(-1)
                values = self.registers[register].copy()
                values[group] = (part + values[group]).astype(np.float32)
                self.registers[register] = values

    def _matrix(self, descriptor: int, rows: int, columns: int, thread: int) -> np.ndarray:
        """Rows of halves that a descriptor with a swizzle of 128 bytes names; columns beyond 64 in chunks."""
        assert descriptor >> 62 == 1
        at, to_chunk, to_rows = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
        row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        place = at + column // 64 * to_chunk + row // 8 * to_rows + row % 8 * 128 + column % 64 * 2
        place ^= (place >> 7 & 7) << 4
        place = place[..., None] - (SHARED_AT & 0x3FFFF) + np.arange(2)
        # Whoever reads is no single warp.
        data = self.shared.read(place, np.full(place.shape, 1000 + thread))
        return np.ascontiguousarray(data).view(np.float16)[..., 0].astype(np.float64)

    def _or(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) | self._value(operands[2]), modifiers[-1])

    def _xor(self, modifiers: list[str], operands: list[str]) -> None:
        self._set(operands[0], self._value(operands[1]) ^ self._value(operands[2]), modifiers[-1])

    def _mma_f64(self, d: list[str], a: list[str], b: list[str], c: list[str]) -> None:
        """m8n8k4, m16n8k4, m16n8k8 or m16n8k16: PTX ISA, "Matrix Fragments for mma with .f64"."""
        halves = len(d) // 2
        # Register r of A: row lane / 4 of its half, column lane mod 4 of four.
        of_a = np.stack([self._value(r).reshape(-1, 8, 4) for r in a], 1)
        of_b = np.stack([self._value(r).reshape(-1, 8, 4) for r in b], 1)
        matrix_b = np.concatenate(list(of_b.transpose(1, 0, 2, 3)), 2)
        for half in range(halves):
            matrix_a = np.concatenate(list(of_a[:, half::halves].transpose(1, 0, 2, 3)), 2)
            product = np.einsum("wmk,wnk->wmn", matrix_a, matrix_b).reshape(-1, 8, 4, 2)
            for n in range(2):
                target, source = d[2 * half + n], c[2 * half + n]
                self.registers[target] = product[..., n].reshape(-1) + self._value(source)

    def _halves(self, registers: list[str]) -> np.ndarray:
        words = np.stack([self.registers[r].reshape(-1, WARP) for r in registers], 1).astype(np.uint32)
        return np.ascontiguousarray(words).view(np.float16).reshape(len(words), len(registers), 8, 8)

    def _bytes_at(self, operand: str, size: int) -> np.ndarray:
        register, _, offset = operand.strip("[]").partition("+")
        start = self._value(register).astype(np.int64) + int(offset or 0)
        assert not (start % size).any(), f"an access of {size} bytes is not aligned"
        return start[:, None] + np.arange(size)

    def _load_global(self, operand: str, size: int) -> np.ndarray:
        """Bytes that active threads read; zeros for the others."""
        at = self._bytes_at(operand, size)
        data = np.zeros(at.shape, np.uint8)
        if self.active.any():
            data[self.active] = self._buffer(at[self.active])[at[self.active] & ((1 << 40) - 1)]
        return data

    def _buffer(self, at: np.ndarray) -> np.ndarray:
        """The one buffer that all addresses lie in."""
        (number,) = {int(one) for one in np.unique(at >> 40)}
        buffer = self.memory[number - 1]
        assert int((at & ((1 << 40) - 1)).max()) < buffer.size, "an access beyond an array"
        return buffer


def _listed(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{} ").split(",")]


def _code(ptx: str) -> list[str | tuple[str | None, str, list[str]]]:
    body = ptx[ptx.index("{\n") + 2 :]
    lines: list[str | tuple[str | None, str, list[str]]] = []
    for text in body.splitlines():
        text = text.partition("//")[0].rstrip()
        if re.fullmatch(r"\w+:", text):
            lines.append(text[:-1])
        elif match := _LINE.match(text):
            operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", match["operands"])
            lines.append((match["guard"], match["opcode"], operands))
    return lines
