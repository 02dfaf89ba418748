"""Stand-ins for PyTorch and CuPy that hold no data: arrays know their length, launches are written down."""

import sys
from types import ModuleType, SimpleNamespace

SMS = 132
# The runners that hold on to them: each test imports these anew.
HOLDERS = ("kernel_operands", "torch_kernels", "cuda_kernels", "kernel_cases")


class Anything:
    """What any name of a library is here: it can be called, and has every attribute."""

    def __getattr__(self, name):
        return Anything()

    def __len__(self):
        return 1

    def __call__(self, *arguments, **words):
        return Anything()


class Library(ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


def install(monkeypatch):
    """Put both libraries in place; return the launches: name, grid, block and arguments of each."""
    launches = []

    def function(name):
        return lambda grid, block, arguments: launches.append((name, grid, block, arguments))

    def module(code, options=()):
        return SimpleNamespace(get_function=function)

    torch, cupy = Library("torch"), Library("cupy")
    cupy.zeros = cupy.empty = lambda count, dtype: SimpleNamespace(size=count)
    cupy.dtype = lambda dtype: SimpleNamespace(kind="u")
    cupy.int32 = cupy.int64 = int
    cupy.uint32 = int
    cupy.RawModule = module
    cupy.cuda = SimpleNamespace(Device=lambda: SimpleNamespace(attributes={"MultiProcessorCount": SMS}))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return launches
