"""How a step is captured: by PyTorch, by a stream, or as a graph that is there already; with fakes."""

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from ptxbench.attribute.replay.capture import allocated, capture, graph_handle, stream_handle
from ptxbench.core.errors import ArgumentError, InputError

SEGMENTS = [
    {"device": 0, "address": 1000, "blocks": [
        {"size": 60, "state": "active_allocated"},
        {"size": 40, "state": "active_allocated"},
        {"size": 50, "state": "inactive"},
        {"size": 30, "state": "active_allocated"},
    ]},
    {"device": 1, "address": 5000, "blocks": [{"size": 9, "state": "active_allocated"}]},
]  # fmt: skip


class FakeGpu:
    """Keeps what it was asked to save and to capture, in order."""

    def __init__(self):
        self.done = []

    def captured(self, stream, call):
        self.done.append(("begin", stream))
        call()
        self.done.append(("end", stream))
        return 77

    def captured_nodes(self, stream):
        assert stream == 99
        return self.done.count("kernel")

    def save(self, memory):
        self.done.append(("save", tuple(memory)))
        return SimpleNamespace(
            restore=lambda: self.done.append("restore"), close=lambda: self.done.append("close")
        )


class FakeTorch:
    """What is used of PyTorch: it notes what is done."""

    def __init__(self, done):
        self.cuda = self
        self.done = done
        self.random_state = "before"

    def is_initialized(self):
        return True

    def synchronize(self):
        pass

    def get_rng_state(self):
        return self.random_state

    def set_rng_state(self, state):
        self.random_state = state

    def memory_snapshot(self):
        return SEGMENTS

    def current_device(self):
        return 0

    def current_stream(self):
        return SimpleNamespace(wait_stream=lambda _: None)

    def Stream(self):  # noqa: N802
        return SimpleNamespace(wait_stream=lambda _: None, cuda_stream=99)

    @contextmanager
    def stream(self, _stream):
        yield

    def CUDAGraph(self, keep_graph):  # noqa: N802
        assert keep_graph
        return SimpleNamespace(
            instantiate=lambda: self.done.append("instantiate"),
            replay=lambda: self.done.append("replay"),
            reset=lambda: self.done.append("reset"),
            raw_cuda_graph=lambda: 55,
        )

    @contextmanager
    def graph(self, _graph, stream):
        assert stream is not None
        self.done.append("begin")
        yield
        self.done.append("end")


@pytest.fixture
def alone(monkeypatch):
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return monkeypatch


def test_with_pytorch_what_warming_up_changed_is_undone_before_anything_is_measured(alone):
    gpu = FakeGpu()
    torch = FakeTorch(gpu.done)
    alone.setitem(sys.modules, "torch", torch)

    def step():
        gpu.done.append("step")
        torch.random_state = "after"

    found = capture(gpu, step)
    saved = ("save", ((1000, 100), (1150, 30)))
    assert gpu.done == [
        saved, *["step"] * 3, "begin", "step", "end", "instantiate", "replay", "restore", "close",
    ]  # fmt: skip
    assert found.graph == 55
    assert list(found.memory) == [(1000, 100), (1150, 30)]
    found.release()
    assert gpu.done[-1] == "reset"
    assert torch.random_state == "before"


class Module:
    """What is used of a module of PyTorch."""

    def __init__(self, forward, **children):
        self.forward, self.children, self.before, self.after = forward, children, [], []

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def register_forward_pre_hook(self, hook):
        return self._kept(self.before, hook)

    def register_forward_hook(self, hook, always_call):
        assert always_call
        return self._kept(self.after, hook)

    def _kept(self, hooks, hook):
        hooks.append(hook)
        return SimpleNamespace(remove=lambda: hooks.remove(hook))

    def __call__(self):
        for hook in self.before:
            hook(self, ())
        try:
            self.forward(self)
        finally:
            for hook in self.after:
                hook(self, (), None)


class Llama(Module):
    pass


def test_launches_are_told_by_the_module_in_which_they_are_captured(alone):
    gpu = FakeGpu()
    alone.setitem(sys.modules, "torch", FakeTorch(gpu.done))

    def launch(count):
        gpu.done.extend(["kernel"] * count)

    def forward(model):
        launch(1)
        model.children["mlp"]()
        launch(1)

    inner = Module(lambda _: launch(2))
    model = Llama(forward, mlp=inner)

    def step():
        if gpu.done.count("step") < 3:
            # What warms up is captured into nothing.
            gpu.done.append("step")
            return
        launch(1)
        model()
        launch(1)

    found = capture(gpu, step, model=model)
    assert list(found.modules) == ["", "Llama", "Llama.mlp", "Llama.mlp", "Llama", ""]
    assert not any((model.before, model.after, inner.before, inner.after))


@pytest.mark.parametrize("step", [lambda: None, 55])
def test_modules_need_a_model_and_a_step_that_pytorch_captures(alone, step):
    gpu, model = FakeGpu(), Llama(lambda _: None)
    with pytest.raises(ArgumentError, match=r"model must be a torch\.nn\.Module"):
        capture(gpu, step, stream=5, model="Llama")
    with pytest.raises(ArgumentError, match="model tells the launches of a step that PyTorch captures"):
        capture(gpu, step, stream=5, model=model)


def test_a_step_that_fails_leaves_no_copy(alone):
    gpu = FakeGpu()
    alone.setitem(sys.modules, "torch", FakeTorch(gpu.done))
    with pytest.raises(ZeroDivisionError):
        capture(gpu, lambda: 1 / 0)
    assert gpu.done[-1] == "close"


def test_a_stream_is_captured_as_it_is(alone):
    gpu = FakeGpu()
    found = capture(gpu, lambda: gpu.done.append("step"), stream=9)
    assert gpu.done == [("begin", 9), "step", ("end", 9)]
    assert found.graph == 77
    gpu.done.clear()
    capture(gpu, lambda: gpu.done.append("step"), stream=9, warm_up=2)
    assert gpu.done[:3] == ["step", "step", ("begin", 9)]


def test_cupy_gives_the_stream(alone):
    class Stream:
        ptr = 12

        def __init__(self, non_blocking):
            assert non_blocking

        def synchronize(self):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    alone.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Stream=Stream)))
    gpu = FakeGpu()
    capture(gpu, lambda: None)
    assert gpu.done[0] == ("begin", 12)


def test_what_a_step_returns_lives_as_long_as_its_graph(alone):
    class Result:
        pass

    import weakref

    results = []

    def step():
        result = Result()
        results.append(weakref.ref(result))
        return result

    found = capture(FakeGpu(), step, stream=1)
    assert results[0]() is not None
    found.release()
    assert results[0]() is None


def test_without_a_stream_or_a_library_it_says_what_to_give(alone):
    with pytest.raises(InputError, match="give the stream that the step works in"):
        capture(FakeGpu(), lambda: None)
    with pytest.raises(InputError, match="must be callable"):
        capture(FakeGpu(), "step", stream=1)


def test_a_captured_graph_is_taken_as_it_is(alone):
    assert graph_handle(5) == 5
    assert graph_handle(SimpleNamespace(raw_cuda_graph=lambda: 6)) == 6
    assert graph_handle(lambda: None) is None
    gpu = FakeGpu()
    assert capture(gpu, 5).graph == 5
    assert gpu.done == []

    def gone():
        raise RuntimeError("the graph was not kept")

    with pytest.raises(InputError, match="keep_graph=True"):
        graph_handle(SimpleNamespace(raw_cuda_graph=gone))


@pytest.mark.parametrize(
    "stream",
    [
        3,
        SimpleNamespace(cuda_stream=3),
        SimpleNamespace(ptr=3),
        SimpleNamespace(handle=SimpleNamespace(value=3)),
        SimpleNamespace(__cuda_stream__=lambda: (0, 3)),
    ],
)
def test_streams_of_every_library_have_a_handle(stream):
    assert stream_handle(stream) == 3


def test_what_is_no_stream_is_refused():
    with pytest.raises(InputError, match="must be the handle of a CUDA stream"):
        stream_handle("stream")


def test_only_memory_in_use_on_this_gpu_counts():
    assert allocated(SEGMENTS, 0) == [(1000, 100), (1150, 30)]
    assert allocated(SEGMENTS, 1) == [(5000, 9)]


def test_units_must_be_more_than_none():
    import ptxbench
    from ptxbench.attribute.replay import profiling

    with pytest.raises(ArgumentError, match="how many of 'token'"):
        profiling._check_units({"token": 0})
    assert ptxbench.profile is profiling.profile
