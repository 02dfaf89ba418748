"""Modules of a model as NVTX ranges, against a stand-in for PyTorch."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import ptxbench.torch


class Module:
    """What of torch.nn.Module the hooks need."""

    def __init__(self, run=lambda: None, **children):
        self.run, self.children = run, children
        self.hooks = {kind: [] for kind in ("before", "after", "backward_before", "backward_after")}

    def named_modules(self, path=""):
        yield path, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{path}.{name}" if path else name)

    def _add(self, kind, hook):
        self.hooks[kind].append(hook)
        return SimpleNamespace(remove=lambda: self.hooks[kind].remove(hook))

    def register_forward_pre_hook(self, hook):
        return self._add("before", hook)

    def register_forward_hook(self, hook, *, always_call):
        assert always_call
        return self._add("after", hook)

    def register_full_backward_pre_hook(self, hook):
        return self._add("backward_before", hook)

    def register_full_backward_hook(self, hook):
        return self._add("backward_after", hook)

    def __call__(self):
        for hook in self.hooks["before"]:
            assert hook(self, ()) is None
        try:
            self.run()
            for child in self.children.values():
                child()
        finally:
            for hook in self.hooks["after"]:
                assert hook(self, (), None) is None

    def backward(self):
        for kind in ("backward_before", "backward_after"):
            for hook in self.hooks[kind]:
                assert hook(self, (), ()) is None


@pytest.fixture
def said(monkeypatch):
    found = []

    def range_start(name):
        found.append(f"begin {name}")
        return name

    nvtx = SimpleNamespace(range_start=range_start, range_end=lambda name: found.append(f"end {name}"))
    cuda = SimpleNamespace(nvtx=nvtx, synchronize=lambda: found.append("wait"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return found


def test_modules_down_to_a_depth_are_ranges(said):
    model = Module(layers=Module(one=Module(inner=Module())))
    with ptxbench.torch.labelled(model, name="net", wait=False) as same:
        assert same is model
        model()
    assert said == [
        *("begin net", "begin net.layers", "begin net.layers.one"),
        *("end net.layers.one", "end net.layers", "end net"),
    ]
    model()
    assert len(said) == 6


def test_ranges_wait_for_the_gpu_on_both_sides(said):
    model = Module()
    with ptxbench.torch.labelled(model):
        model()
    assert said == ["wait", "begin model", "wait", "end model"]


def test_the_backward_pass_is_marked_where_it_is_wanted(said):
    model = Module()
    with ptxbench.torch.labelled(model, backward=True, wait=False):
        model.backward()
    assert said == ["begin model backward", "end model backward"]


def test_a_module_that_raises_leaves_no_range_open(said):
    def fail():
        raise ValueError

    model = Module(part=Module(fail))
    with pytest.raises(ValueError), ptxbench.torch.labelled(model, wait=False):  # noqa: PT011
        model()
    assert said == ["begin model", "begin model.part", "end model.part", "end model"]


def test_importing_it_does_not_import_pytorch():
    code = "import ptxbench.torch, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"
