"""A captured step on a real GPU: the nodes of its graph, and graphs of some of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ptxbench.core.errors import InputError, LaunchError
from ptxbench.core.target import find_target
from ptxbench.devices.device_buffer import Call
from ptxbench.devices.step import NOTHING, SLEEP, SLEEP_NS, UNDO, NodeType, StepNode
from ptxbench.devices.step_memory import (
    Range,
    SavedMemory,
    allocation_of,
    changing,
    host_room,
    joined,
    words_of,
)

_KERNEL, _COPY, _FILL, _GRAPH = "KERNEL", "MEMCPY", "MEMSET", "GRAPH"
# Nodes that only order others.
_PASSED_OVER = ("EMPTY", "EVENT_RECORD", "WAIT_EVENT")
_REFUSED = {
    "HOST": "calls a function of the host",
    "MEM_ALLOC": "allocates memory (cudaMallocAsync): allocate before the step, or use a pool that keeps it",
    "CONDITIONAL": "has a branch or a loop",
    "BATCH_MEM_OP": "waits for a value in memory",
    "EXT_SEMAS_WAIT": "waits for another program",
    "EXT_SEMAS_SIGNAL": "signals another program",
}
# Memory that is looked at on the host to see what of it changes: some tenths of a second.
_MOST_WATCHED_BYTES = 2 << 30
# The driver takes pitches of less than 2 GiB.
_MOST_COPIED_BYTES = 1 << 30
# CU_LAUNCH_PARAM_END, _BUFFER_POINTER and _BUFFER_SIZE.
_END, _BUFFER, _BUFFER_SIZE = 0, 1, 2
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_PLACES = {1: "host", 2: "device", 3: "array", 4: "device"}

SLEEP_KERNEL, NOTHING_KERNEL, DIGEST_KERNEL = "ptxbench_sleep", "ptxbench_nothing", "ptxbench_digest"
# What one block of the third reads, in words of 8 bytes.
_DIGEST_WORDS = 1 << 17


def own_kernels(target: str) -> str:
    """Return the PTX of one thread that sleeps for `SLEEP_NS`, of a kernel that does nothing, and of a third.

    The third adds a checksum of each MiB of memory to a word of its own. It has parameters: where the memory
    begins, how many words of 8 bytes it has, and where the checksums are.
    """
    return f"""
.version {find_target(target).ptx_version}
.target {target}
.address_size 64

.visible .entry {NOTHING_KERNEL}()
{{
    ret;
}}

.visible .entry {SLEEP_KERNEL}()
{{
    .reg .pred %p;
    .reg .u64 %begin, %now, %slept;
    mov.u64 %begin, %globaltimer;
again:
    nanosleep.u32 500;
    mov.u64 %now, %globaltimer;
    sub.u64 %slept, %now, %begin;
    setp.lt.u64 %p, %slept, {SLEEP_NS};
    @%p bra again;
    ret;
}}

.visible .entry {DIGEST_KERNEL}(.param .u64 from, .param .u64 words, .param .u64 to)
{{
    .reg .pred %p;
    .reg .u32 %thread, %block, %threads;
    .reg .u64 %from, %words, %to, %at, %end, %step, %place, %value, %mixed, %sum;
    ld.param.u64 %from, [from];
    ld.param.u64 %words, [words];
    ld.param.u64 %to, [to];
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    cvt.u64.u32 %step, %threads;
    mul.wide.u32 %at, %block, {_DIGEST_WORDS};
    add.u64 %end, %at, {_DIGEST_WORDS};
    min.u64 %end, %end, %words;
    cvt.u64.u32 %place, %thread;
    add.u64 %at, %at, %place;
    mov.u64 %sum, 0;
next:
    setp.ge.u64 %p, %at, %end;
    @%p bra done;
    shl.b64 %place, %at, 3;
    add.u64 %place, %place, %from;
    ld.global.u64 %value, [%place];
    mul.lo.u64 %mixed, %at, 0x9E3779B97F4A7C15;
    xor.b64 %value, %value, %mixed;
    mul.lo.u64 %value, %value, 0xBF58476D1CE4E5B9;
    shr.u64 %mixed, %value, 31;
    xor.b64 %value, %value, %mixed;
    mul.lo.u64 %value, %value, 0x94D049BB133111EB;
    add.u64 %sum, %sum, %value;
    add.u64 %at, %at, %step;
    bra next;
done:
    mul.wide.u32 %place, %block, 8;
    add.u64 %place, %place, %to;
    red.global.add.u64 [%place], %sum;
    ret;
}}
"""


@dataclass(frozen=True)
class Driver:
    """What the driver is reached by.

    Attributes:
        call: Calls one of its functions by name.
        types: The module `cuda.bindings.driver`.
        ordinal: Number of the GPU, as CUDA counts.
        sleep: The function of one thread that sleeps for `SLEEP_NS`.
        nothing: The function that does nothing.
    """

    call: Call
    types: Any
    ordinal: int
    sleep: Any
    nothing: Any

    def newest(self, function: str, *arguments: Any) -> Any:
        """Call the version of a function that knows of data of edges."""
        second = f"{function}_v2"
        return self.call(second if hasattr(self.types, second) else function, *arguments)


@dataclass(frozen=True)
class _Node:
    """A node of the captured graph.

    Attributes:
        handle: The driver's.
        type: Such as "KERNEL".
        params: What it is added to a graph by.
        place: How many nodes were captured before it.
        edge: Data of an edge by which it may begin early; None for none.
    """

    handle: Any
    type: str
    params: Any
    place: int
    edge: Any = None


@dataclass
class CudaReplay:
    """An executable graph.

    Attributes:
        call: Calls a function of the driver by name.
        graph: The graph.
        is_own: Whether the graph is destroyed with it.
        executable: Launched by each call, in the default stream.
    """

    call: Call
    graph: Any
    is_own: bool
    executable: Any = field(init=False)

    def __post_init__(self) -> None:
        """Make the graph executable."""
        self.executable = self.call("cuGraphInstantiate", self.graph, 0)

    def __call__(self) -> None:
        """Launch it."""
        self.call("cuGraphLaunch", self.executable, 0)

    def close(self) -> None:
        """Destroy it, once it has ended."""
        self.call("cuCtxSynchronize")
        self.call("cuGraphExecDestroy", self.executable)
        if self.is_own:
            self.call("cuGraphDestroy", self.graph)


class CudaStep:
    """A captured step: its nodes, and the memory that their parameters lead to.

    Attributes:
        nodes: Its launches, in an order in which they can run.
        created: The place of each in the order in which they were captured, what is no launch among them.

    Args:
        driver: The driver.
        graph: The captured graph; it outlives this.
        memory: Address and size of further memory that the step may work on.

    Raises:
        InputError: It cannot be replayed, or its memory cannot be saved.
    """

    def __init__(self, driver: Driver, graph: Any, memory: Sequence[tuple[int, int]] = ()) -> None:
        self._driver = driver
        self._graph = graph
        self._nodes = tuple(self._read(graph))
        functions: dict[int, int] = {}
        self.nodes = tuple(self._described(node, functions, i) for i, node in enumerate(self._nodes))
        self.created = tuple(node.place for node in self._nodes)
        ranges = self._allocations(range(len(self._nodes)))
        self._memory = SavedMemory(driver.call, [*ranges, *(Range(*one) for one in memory)])
        self._changing: tuple[Range, ...] = ()
        self._kept: list[int] = []

    @property
    def saved_bytes(self) -> int:
        """How much memory `restore` writes."""
        return self._memory.size

    def whole(self) -> CudaReplay:
        """Return the step as it was captured, with launches side by side where it has them."""
        return CudaReplay(self._driver.call, self._graph, is_own=False)

    def replay(self, order: Sequence[int]) -> CudaReplay:
        """Return launches one after the other, by their numbers in `nodes`, `SLEEP`, `NOTHING` or `UNDO`."""
        call = self._driver.call
        graph = call("cuGraphCreate", 0)
        before: Any = None
        is_kernel = False
        for number in order:
            if number == UNDO:
                for one, copy in zip(self._changing, self._kept, strict=True):
                    after = [before] if before is not None else None
                    before = self._added_copy(graph, one, copy, after)
                is_kernel = False
                continue
            # Only behind a kernel can a kernel begin early.
            edge = self._nodes[number].edge if number >= 0 and is_kernel else None
            after = [before] if before is not None and edge is None else None
            added = self._added(graph, number, after)
            if edge is not None:
                self._driver.newest("cuGraphAddDependencies", graph, [before], [added], [edge], 1)
            before, is_kernel = added, number < 0 or self._nodes[number].type == _KERNEL
        return CudaReplay(call, graph, is_own=True)

    def restore(self) -> None:
        """Let the memory be as it was when the step was opened."""
        self._memory.restore()

    def changed_bytes(self) -> int:
        """Return in how much memory, in bytes, anything differs from when the step was opened."""
        return self._memory.changed_bytes()

    def find_changing(self, order: Sequence[int]) -> int:
        """Make launches twice, and find the memory that the second time changes: they read what they write.

        Returns:
            Its size in bytes; -1 where there is too much memory to look at.
        """
        self._forget()
        ranges = [one for one in joined(self._allocations(order)) if not one.on_host]
        if sum(one.size for one in ranges) > min(_MOST_WATCHED_BYTES, host_room() // 2):
            return -1
        replay = self.replay(order)
        try:
            found = changing(self._driver.call, ranges, replay)
            self._changing = tuple(piece for one in found for piece in one.pieces(_MOST_COPIED_BYTES))
        finally:
            replay.close()
        return sum(one.size for one in self._changing)

    def keep_changing(self) -> bool:
        """Keep what that memory holds now, for `UNDO`; return whether there is room for it."""
        call = self._driver.call
        self._release_kept()
        for one in self._changing:
            try:
                self._kept.append(int(call("cuMemAlloc", one.size)))
            except LaunchError:
                self._forget()
                return False
            call("cuMemcpyDtoDAsync", self._kept[-1], one.start, one.size, 0)
        return True

    def close(self) -> None:
        """Release the copies of the memory."""
        self._forget()
        self._memory.close()

    def _forget(self) -> None:
        self._release_kept()
        self._changing = ()

    def _release_kept(self) -> None:
        while self._kept:
            self._driver.call("cuMemFree", self._kept.pop())

    def _allocations(self, numbers: Iterable[int]) -> list[Range]:
        """Return the allocations that the parameters of some nodes lead to."""
        driver, attributes = self._driver, self._driver.types.CUpointer_attribute
        words = {word for number in set(numbers) for word in self._words(self._nodes[number])}
        found = {allocation_of(driver.call, attributes, word, driver.ordinal) for word in sorted(words)}
        return [one for one in found if one is not None]

    def _read(self, graph: Any, within: int | None = None) -> Iterator[_Node]:
        """Yield the nodes of a graph, and of the graphs in it, in an order in which they can run."""
        call, types = self._driver.call, self._driver.types
        handles, early = self._ordered(graph)
        for handle, created in handles:
            place = created if within is None else within
            kind = types.CUgraphNodeType(int(call("cuGraphNodeGetType", handle))).name
            kind = kind.removeprefix("CU_GRAPH_NODE_TYPE_")
            if kind in _PASSED_OVER:
                continue
            if kind == _GRAPH:
                yield from self._read(call("cuGraphChildGraphNodeGetGraph", handle), place)
            elif kind == _KERNEL:
                params = call("cuGraphKernelNodeGetParams", handle)
                yield _Node(handle, kind, params, place, early.get(int(handle)))
            elif kind == _COPY:
                yield _Node(handle, kind, call("cuGraphMemcpyNodeGetParams", handle), place)
            elif kind == _FILL:
                yield _Node(handle, kind, call("cuGraphMemsetNodeGetParams", handle), place)
            else:
                why = _REFUSED.get(kind, f"has a node of type {kind}")
                raise InputError(f"the step cannot be replayed: it {why}")

    def _ordered(self, graph: Any) -> tuple[list[tuple[Any, int]], dict[int, Any]]:
        """Return the nodes of one graph with their places, each behind all that it waits for.

        Returned as well is how some begin early.
        """
        driver = self._driver
        count = driver.call("cuGraphGetNodes", graph, 0)[-1]
        nodes = list(driver.call("cuGraphGetNodes", graph, count)[0])[:count]
        count = driver.newest("cuGraphGetEdges", graph, 0)[-1]
        befores, afters, edges = driver.newest("cuGraphGetEdges", graph, count)[:3] if count else ((), (), ())
        waits = {int(node): 0 for node in nodes}
        followers: dict[int, list[int]] = {int(node): [] for node in nodes}
        early = {}
        for before, after, edge in zip(befores, afters, edges, strict=True):
            waits[int(after)] += 1
            followers[int(before)].append(int(after))
            if _number(edge.from_port):
                early[int(after)] = edge
        handles = {int(node): (node, place) for place, node in enumerate(nodes)}
        ready = [int(node) for node in nodes if not waits[int(node)]]
        ordered = []
        while ready:
            one = ready.pop(0)
            ordered.append(handles[one])
            for other in followers[one]:
                waits[other] -= 1
                if not waits[other]:
                    ready.append(other)
        return ordered, early

    def _described(self, node: _Node, functions: dict[int, int], number: int) -> StepNode:
        params = node.params
        if node.type == _FILL:
            size = int(params.elementSize) * int(params.width) * max(int(params.height), 1)
            return StepNode(NodeType.FILL, "fill of device memory", size=size)
        if node.type == _COPY:
            name = " to ".join(_PLACES[int(end)] for end in (params.srcMemoryType, params.dstMemoryType))
            size = int(params.WidthInBytes) * max(int(params.Height), 1) * max(int(params.Depth), 1)
            return StepNode(NodeType.COPY, f"copy from {name}", size=size)
        function, name = self._function(params)
        x, y, z = self._attribute(node, "CLUSTER_DIMENSION", lambda value: value.clusterDim, _dimensions)
        return StepNode(
            NodeType.KERNEL,
            name,
            functions.setdefault(function, number),
            (int(params.gridDimX), int(params.gridDimY), int(params.gridDimZ)),
            (int(params.blockDimX), int(params.blockDimY), int(params.blockDimZ)),
            int(params.sharedMemBytes),
            (x, y, z),
            bool(self._attribute(node, "COOPERATIVE", lambda value: value.cooperative, int)),
            node.edge is not None,
            int(self._attribute(node, "PRIORITY", lambda value: value.priority, int)),
        )

    def _attribute(
        self, node: _Node, name: str, get: Callable[[Any], Any], convert: Callable[[Any], Any]
    ) -> Any:
        attribute = getattr(self._driver.types.CUkernelNodeAttrID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        return convert(get(self._driver.call("cuGraphKernelNodeGetAttribute", node.handle, attribute)))

    def _function(self, params: Any) -> tuple[int, str]:
        """Return what a function is told apart by, and its name."""
        call = self._driver.call
        if int(params.func):
            handle, name = int(params.func), call("cuFuncGetName", params.func)
        else:
            handle, name = int(params.kern), call("cuKernelGetName", params.kern)
        return handle, name.decode() if isinstance(name, bytes) else str(name)

    def _words(self, node: _Node) -> set[int]:
        """Return all that could be addresses in the parameters of a node."""
        if node.type == _KERNEL:
            return {word for parameter in self._parameters(node.params) for word in words_of(parameter)}
        ends = ("dst",) if node.type == _FILL else ("srcDevice", "dstDevice", "srcHost", "dstHost")
        return {int(getattr(node.params, end) or 0) for end in ends} - {0}

    def _parameters(self, params: Any) -> Iterator[bytes]:
        """Yield the bytes of each parameter of a kernel."""
        call = self._driver.call
        ask, which = (
            ("cuFuncGetParamInfo", params.func) if int(params.func) else ("cuKernelGetParamInfo", params.kern)
        )
        sizes: list[int] = []
        while True:
            try:
                _, size = call(ask, which, len(sizes))
            except LaunchError:
                break
            sizes.append(int(size))
        places = int(params.kernelParams or 0)
        if sizes and not places:
            yield _packed(int(params.extra or 0), self._function(params)[1])
            return
        pointers = (ctypes.c_void_p * len(sizes)).from_address(places) if sizes else ()
        for pointer, size in zip(pointers, sizes, strict=True):
            yield ctypes.string_at(pointer, size)

    def _added(self, graph: Any, number: int, after: list[Any] | None) -> Any:
        """Add a launch to a graph, behind another or none."""
        call, count = self._driver.call, len(after or ())
        if number < 0:
            return call("cuGraphAddKernelNode", graph, after, count, self._own(number))
        node = self._nodes[number]
        if node.type == _KERNEL:
            added = call("cuGraphAddKernelNode", graph, after, count, node.params)
            # Clusters, priority, carve-out and all that a launch has beside its shape.
            call("cuGraphKernelNodeCopyAttributes", added, node.handle)
            return added
        adding = "cuGraphAddMemcpyNode" if node.type == _COPY else "cuGraphAddMemsetNode"
        return call(adding, graph, after, count, node.params, call("cuCtxGetCurrent"))

    def _added_copy(self, graph: Any, one: Range, copy: int, after: list[Any] | None) -> Any:
        """Add a node that writes kept memory back."""
        call, types = self._driver.call, self._driver.types
        params = types.CUDA_MEMCPY3D()
        params.srcMemoryType = params.dstMemoryType = types.CUmemorytype.CU_MEMORYTYPE_DEVICE
        params.srcDevice, params.dstDevice = copy, one.start
        params.WidthInBytes = params.srcPitch = params.dstPitch = one.size
        params.Height = params.srcHeight = params.dstHeight = params.Depth = 1
        context = call("cuCtxGetCurrent")
        return call("cuGraphAddMemcpyNode", graph, after, len(after or ()), params, context)

    def _own(self, number: int) -> Any:
        params = self._driver.types.CUDA_KERNEL_NODE_PARAMS()
        params.func = {SLEEP: self._driver.sleep, NOTHING: self._driver.nothing}[number]
        params.gridDimX = params.gridDimY = params.gridDimZ = 1
        params.blockDimX = params.blockDimY = params.blockDimZ = 1
        params.kernelParams = 0
        return params


def _packed(extra: int, name: str) -> bytes:
    """Return the parameters of a kernel that was given all of them in one buffer.

    Args:
        extra: Address of the list of what the launch has, each a key and an address; 0 for none.
        name: Name of the kernel.

    Raises:
        InputError: There is no buffer.
    """
    found: dict[int, int] = {}
    while extra and (key := ctypes.c_void_p.from_address(extra).value or _END) != _END:
        found[key] = ctypes.c_void_p.from_address(extra + _POINTER).value or 0
        extra += 2 * _POINTER
    if not found.get(_BUFFER) or not found.get(_BUFFER_SIZE):
        raise InputError(f"the parameters of {name} cannot be read")
    return ctypes.string_at(found[_BUFFER], ctypes.c_size_t.from_address(found[_BUFFER_SIZE]).value)


def _number(value: Any) -> int:
    """Return a field of one byte as a number; the bindings give either."""
    return int.from_bytes(value, "little") if isinstance(value, bytes) else int(value)


def _dimensions(value: Any) -> tuple[int, int, int]:
    return int(value.x), int(value.y), int(value.z)
