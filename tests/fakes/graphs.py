# ruff: noqa: N802, N815
"""A CUDA driver that knows graphs, allocations and copies, and runs nothing."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from itertools import count
from types import SimpleNamespace

import numpy as np

from ptxbench.core.errors import LaunchError


class NodeTypes(IntEnum):
    CU_GRAPH_NODE_TYPE_KERNEL = 0
    CU_GRAPH_NODE_TYPE_MEMCPY = 1
    CU_GRAPH_NODE_TYPE_MEMSET = 2
    CU_GRAPH_NODE_TYPE_HOST = 3
    CU_GRAPH_NODE_TYPE_GRAPH = 4
    CU_GRAPH_NODE_TYPE_EMPTY = 5
    CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10


POINTER_ATTRIBUTES = ("MEMORY_TYPE", "IS_MANAGED", "DEVICE_ORDINAL", "RANGE_START_ADDR", "RANGE_SIZE")
NODE_ATTRIBUTES = ("CLUSTER_DIMENSION", "COOPERATIVE", "PRIORITY")
TYPES = SimpleNamespace(
    CUgraphNodeType=NodeTypes,
    CUpointer_attribute=SimpleNamespace(**{f"CU_POINTER_ATTRIBUTE_{n}": n for n in POINTER_ATTRIBUTES}),
    CUkernelNodeAttrID=SimpleNamespace(**{f"CU_LAUNCH_ATTRIBUTE_{n}": n for n in NODE_ATTRIBUTES}),
    CUDA_KERNEL_NODE_PARAMS=SimpleNamespace,
    CUDA_MEMCPY3D=SimpleNamespace,
    CUmemorytype=SimpleNamespace(CU_MEMORYTYPE_DEVICE=2),
)
_numbers = count(1)


class Handle(int):
    """A node or a graph by its number, as the bindings' objects turn into numbers."""


class Kernel:
    """A node that launches `name`; parameters are bytes each."""

    type = NodeTypes.CU_GRAPH_NODE_TYPE_KERNEL

    def __init__(self, name, grid=1, parameters=(), function=None, cluster=0, priority=0, packed=False):
        self.parameters = [ctypes.create_string_buffer(bytes(p), len(p)) for p in parameters]
        self.pointers = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(p) for p in self.parameters))
        self.name, self.cluster, self.priority, self.copied = name, cluster, priority, None
        self.params = SimpleNamespace(
            **dict.fromkeys(("gridDimY", "gridDimZ", "blockDimY", "blockDimZ"), 1),
            gridDimX=grid,
            blockDimX=128,
            sharedMemBytes=0,
            func=function or next(_numbers),
            kern=0,
            kernelParams=ctypes.addressof(self.pointers) if parameters and not packed else 0,
            extra=self._extra(b"".join(parameters)) if packed else 0,
        )

    def _extra(self, whole):
        self.whole = ctypes.create_string_buffer(whole, len(whole))
        self.size = ctypes.c_size_t(len(whole))
        keys = 1, ctypes.addressof(self.whole), 2, ctypes.addressof(self.size), 0
        self.extra = (ctypes.c_void_p * len(keys))(*keys)
        return ctypes.addressof(self.extra)


class Fill:
    type = NodeTypes.CU_GRAPH_NODE_TYPE_MEMSET

    def __init__(self, address, size):
        self.params = SimpleNamespace(dst=address, elementSize=1, width=size, height=1)


class Copy:
    type = NodeTypes.CU_GRAPH_NODE_TYPE_MEMCPY

    def __init__(self, source, target, size):
        self.params = SimpleNamespace(
            srcDevice=source, dstDevice=target, srcHost=0, dstHost=0, srcMemoryType=2, dstMemoryType=2,
            WidthInBytes=size, Height=1, Depth=1,
        )  # fmt: skip


class Other:
    def __init__(self, kind):
        self.type = kind


class Graph:
    """Nodes, and edges (from, to, data) by their positions."""

    type = NodeTypes.CU_GRAPH_NODE_TYPE_GRAPH

    def __init__(self, nodes=(), edges=()):
        self.nodes, self.edges = list(nodes), list(edges)


class GraphDriver:
    """Plays the driver; `memory` has the allocations, by their addresses, which are the host's own."""

    def __init__(self, *arrays, room=1 << 40):
        self.memory = {array.ctypes.data: array for array in arrays}
        self.managed, self.elsewhere, self.on_host = set(), set(), set()
        self.room = room
        self.objects = {}
        self.launched = []
        self.copies = {}

    def handle(self, thing):
        number = Handle(next(_numbers) + 1000)
        self.objects[number] = thing
        return number

    def __call__(self, function, *arguments):
        return getattr(self, function)(*arguments)

    def cuGraphGetNodes(self, graph, _count):
        nodes = self.objects[graph].nodes
        if not hasattr(self.objects[graph], "handles"):
            self.objects[graph].handles = [self.handle(node) for node in nodes]
        return list(self.objects[graph].handles), len(nodes)

    def cuGraphGetEdges(self, graph, _count):
        graph = self.objects[graph]
        edges = [(graph.handles[a], graph.handles[b], data) for a, b, data in graph.edges]
        return *(list(part) for part in zip(*edges, strict=True)), len(edges)

    def cuGraphNodeGetType(self, node):
        return int(self.objects[node].type)

    def cuGraphChildGraphNodeGetGraph(self, node):
        return node

    def cuGraphKernelNodeGetParams(self, node):
        return self.objects[node].params

    cuGraphMemcpyNodeGetParams = cuGraphMemsetNodeGetParams = cuGraphKernelNodeGetParams

    def cuGraphKernelNodeGetAttribute(self, node, attribute):
        node = self.objects[node]
        cluster = SimpleNamespace(x=node.cluster, y=node.cluster, z=node.cluster)
        return SimpleNamespace(clusterDim=cluster, cooperative=0, priority=node.priority)

    def cuFuncGetName(self, function):
        return next(
            node.name.encode()
            for node in self.objects.values()
            if isinstance(node, Kernel) and node.params.func == function
        )

    def cuFuncGetParamInfo(self, function, index):
        node = next(n for n in self.objects.values() if isinstance(n, Kernel) and n.params.func == function)
        if index >= len(node.parameters):
            raise LaunchError("cuFuncGetParamInfo: CUDA_ERROR_INVALID_VALUE")
        return 0, len(node.parameters[index])

    def cuGraphCreate(self, _flags):
        return self.handle(Graph())

    def _add(self, graph, after, count, params, *_context):
        assert len(after or ()) == count
        node = SimpleNamespace(params=params, after=list(after or ()), early=[], like=None)
        self.objects[graph].nodes.append(node)
        return self.handle(node)

    cuGraphAddKernelNode = cuGraphAddMemcpyNode = cuGraphAddMemsetNode = _add

    def cuGraphKernelNodeCopyAttributes(self, node, source):
        self.objects[node].like = self.objects[source]

    def cuGraphAddDependencies(self, _graph, befores, afters, edges, count):
        assert count == len(befores) == len(afters) == len(edges)
        for before, after, edge in zip(befores, afters, edges, strict=True):
            self.objects[after].early.append((before, edge))

    def cuGraphInstantiate(self, graph, _flags):
        return self.handle(self.objects[graph])

    def cuGraphLaunch(self, executable, _stream):
        self.launched.append(self.objects[executable])
        for node in self.objects[executable].nodes:
            run = getattr(getattr(node, "like", None), "run", None)
            if run is not None:
                run()

    def cuGraphExecDestroy(self, executable):
        del self.objects[executable]

    cuGraphDestroy = cuGraphExecDestroy

    def cuCtxSynchronize(self):
        return None

    def cuCtxGetCurrent(self):
        return 7

    def cuPointerGetAttribute(self, attribute, address):
        found = [(start, a) for start, a in self.memory.items() if start <= address < start + a.nbytes]
        if not found:
            raise LaunchError("cuPointerGetAttribute: CUDA_ERROR_INVALID_VALUE")
        ((start, array),) = found
        return {
            "MEMORY_TYPE": 1 if start in self.on_host else 2,
            "IS_MANAGED": start in self.managed,
            "DEVICE_ORDINAL": 1 if start in self.elsewhere else 0,
            "RANGE_START_ADDR": start,
            "RANGE_SIZE": array.nbytes,
        }[attribute]

    def cuMemGetInfo(self):
        return self.room, self.room

    def cuMemAlloc(self, size):
        copy = np.zeros(size, np.uint8)
        self.copies[copy.ctypes.data] = copy
        return copy.ctypes.data

    def cuMemFree(self, address):
        del self.copies[address]

    def cuMemcpyDtoDAsync(self, target, source, size, _stream):
        ctypes.memmove(target, source, size)

    def cuMemcpyDtoH(self, target, source, size):
        ctypes.memmove(target, source, size)

    cuMemcpyHtoD = cuMemcpyDtoH
