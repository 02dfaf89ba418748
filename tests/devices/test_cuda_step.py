"""A captured step by a driver that a fake plays: its nodes, graphs of some of them, and its memory."""

import itertools
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.graphs import TYPES, Copy, Fill, Graph, GraphDriver, Kernel, NodeTypes, Other

from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError, LaunchError
from ptxbench.core.target import TARGETS
from ptxbench.devices.cuda_step import CudaStep, Driver, own_kernels
from ptxbench.devices.step import NOTHING, SLEEP, UNDO, NodeType

EARLY = SimpleNamespace(from_port=b"\x01", to_port=b"\x00", type=b"\x01")
FULL = SimpleNamespace(from_port=b"\x00", to_port=b"\x00", type=b"\x00")


def opened(driver, graph, memory=()):
    return CudaStep(Driver(driver, TYPES, 0, sleep="sleep", nothing="nothing"), driver.handle(graph), memory)


def chain(*nodes, edge=FULL):
    return Graph(nodes, [(i, i + 1, edge) for i in range(len(nodes) - 1)])


def added(driver, step, order):
    """The nodes of the graph that a replay launches."""
    replay = step.replay(order)
    replay()
    return driver.launched[-1].nodes


def test_nodes_are_told_in_an_order_in_which_they_can_run():
    a, b, c = Kernel("a", 4), Kernel("b", 2), Kernel("c")
    step = opened(GraphDriver(), Graph([c, b, a], [(2, 1, FULL), (1, 0, FULL)]))
    assert [node.name for node in step.nodes] == ["a", "b", "c"]
    assert step.nodes[0].grid == (4, 1, 1)
    assert step.nodes[0].block == (128, 1, 1)


def test_graphs_within_the_graph_are_part_of_it():
    step = opened(GraphDriver(), chain(Kernel("a"), chain(Kernel("b"), Kernel("c")), Kernel("d")))
    assert [node.name for node in step.nodes] == ["a", "b", "c", "d"]


def test_functions_of_one_name_are_told_apart_and_one_function_is_one():
    step = opened(
        GraphDriver(), chain(Kernel("a", function=1), Kernel("a", function=2), Kernel("a", function=1))
    )
    assert step.nodes[0] == step.nodes[2] != step.nodes[1]


def test_clusters_and_priorities_tell_launches_apart():
    step = opened(
        GraphDriver(),
        chain(*(Kernel("a", function=1, cluster=c, priority=p) for c, p in ((0, 0), (2, 0), (0, -1)))),
    )
    assert len(set(step.nodes)) == 3
    assert step.nodes[1].cluster == (2, 2, 2)
    assert step.nodes[2].priority == -1


def test_memory_nodes_have_their_size():
    step = opened(GraphDriver(), chain(Fill(0, 512), Copy(0, 0, 4096)))
    assert [(node.type, node.size) for node in step.nodes] == [(NodeType.FILL, 512), (NodeType.COPY, 4096)]
    assert step.nodes[1].name == "copy from device to device"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (NodeTypes.CU_GRAPH_NODE_TYPE_HOST, "calls a function of the host"),
        (NodeTypes.CU_GRAPH_NODE_TYPE_MEM_ALLOC, "allocates memory"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_the_reason(kind, why):
    with pytest.raises(InputError, match=why):
        opened(GraphDriver(), chain(Kernel("a"), Other(kind)))


def test_nodes_that_only_order_others_are_passed_over():
    step = opened(GraphDriver(), chain(Kernel("a"), Other(NodeTypes.CU_GRAPH_NODE_TYPE_EMPTY), Kernel("b")))
    assert [node.name for node in step.nodes] == ["a", "b"]


def test_a_replay_launches_in_its_order_with_the_attributes_of_the_step():
    driver, (a, b) = GraphDriver(), (Kernel("a"), Kernel("b"))
    nodes = added(driver, opened(driver, chain(a, b)), [1, SLEEP, 0, NOTHING])
    assert [node.like for node in nodes] == [b, None, a, None]
    assert [getattr(node.params, "func", None) for node in nodes] == [
        b.params.func, "sleep", a.params.func, "nothing",
    ]  # fmt: skip
    assert not nodes[0].after
    for before, node in itertools.pairwise(nodes):
        assert [driver.objects[handle] for handle in node.after] == [before]


def test_a_launch_that_may_begin_early_does_so_behind_a_kernel_alone():
    driver = GraphDriver()
    step = opened(driver, chain(Kernel("a"), Kernel("b"), edge=EARLY))
    assert [node.is_programmatic for node in step.nodes] == [False, True]
    nodes = added(driver, step, [0, 1, 1])
    assert [len(node.early) for node in nodes] == [0, 1, 1]
    assert not nodes[1].after
    assert nodes[1].early[0][1] is EARLY
    copy = opened(driver, Graph([Copy(0, 0, 8), Kernel("c"), Kernel("d")], [(0, 1, FULL), (1, 2, EARLY)]))
    nodes = added(driver, copy, [0, 2])
    assert len(nodes[1].after) == 1
    assert not nodes[1].early


def test_a_closed_replay_leaves_the_step_and_nothing_else():
    driver = GraphDriver()
    step = opened(driver, chain(Kernel("a")))
    before = set(driver.objects)
    replay = step.replay([0])
    replay.close()
    assert {h for h in set(driver.objects) - before if isinstance(driver.objects[h], Graph)} == set()
    step.whole().close()
    assert before <= set(driver.objects)


def test_parameters_in_one_buffer_lead_to_memory_too():
    array = np.zeros(64, np.uint8)
    driver = GraphDriver(array)
    parameters = [struct.pack("<Q", 1), struct.pack("<Q", array.ctypes.data + 8)]
    assert opened(driver, chain(Kernel("a", parameters=parameters, packed=True))).saved_bytes == 64
    lost = Kernel("lost", parameters=parameters, packed=True)
    lost.params.extra = 0
    with pytest.raises(InputError, match="the parameters of lost cannot be read"):
        opened(driver, chain(lost))


def test_the_memory_that_parameters_lead_to_is_saved_and_restored():
    array = np.arange(100, dtype=np.uint8)
    driver = GraphDriver(array)
    # An address in the middle of a structure, behind a number.
    parameter = struct.pack("<QQ", 5, array.ctypes.data + 17)
    step = opened(driver, chain(Kernel("a", parameters=[b"\x01\x02", parameter])))
    assert step.saved_bytes == 100
    array[:] = 0
    assert step.changed_bytes() == 100
    step.restore()
    assert array.tolist() == list(range(100))
    assert step.changed_bytes() == 0
    step.close()
    assert not driver.copies


def doubling(array):
    """A kernel that reads what it writes."""
    node = Kernel("double", parameters=[struct.pack("<Q", array.ctypes.data)])

    def run():
        array[:] *= 2

    node.run = run
    return node


def test_what_a_kernel_changes_of_what_it_reads_is_found_kept_and_written_back():
    array, other = np.ones(100, np.uint8), np.ones(50, np.uint8)
    driver = GraphDriver(array, other)
    setting = Kernel("set", parameters=[struct.pack("<Q", other.ctypes.data)])
    setting.run = lambda: other.fill(5)
    step = opened(driver, chain(doubling(array), setting))
    assert step.find_changing([1]) == 0
    assert step.find_changing([0, 1]) == 100
    array[:] = 3
    assert step.keep_changing()
    nodes = added(driver, step, [UNDO, 0, UNDO])
    first, _, last = nodes
    assert [(node.params.dstDevice, node.params.WidthInBytes) for node in (first, last)] == [
        (array.ctypes.data, 100)
    ] * 2
    assert driver.copies[first.params.srcDevice].tolist() == [3] * 100
    assert (first.params.Height, first.params.Depth, first.params.srcPitch) == (1, 1, 100)
    assert [len(node.after) for node in nodes] == [0, 1, 1]
    step.close()
    assert not driver.copies


def test_large_memory_is_written_back_in_parts_that_the_driver_takes(monkeypatch):
    from ptxbench.devices import cuda_step

    monkeypatch.setattr(cuda_step, "_MOST_COPIED_BYTES", 64)
    array = np.ones(100, np.uint8)
    driver = GraphDriver(array)
    step = opened(driver, chain(doubling(array)))
    assert step.find_changing([0]) == 100
    assert step.keep_changing()
    assert [node.params.WidthInBytes for node in added(driver, step, [UNDO])] == [64, 36]


def test_without_room_for_what_changes_nothing_is_kept(monkeypatch):
    array = np.ones(100, np.uint8)
    driver = GraphDriver(array)
    step = opened(driver, chain(doubling(array)))
    held = set(driver.copies)
    assert step.find_changing([0]) == 100

    def refuse(_size):
        raise LaunchError("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(driver, "cuMemAlloc", refuse)
    assert not step.keep_changing()
    assert set(driver.copies) == held


def test_too_much_memory_is_not_looked_at(monkeypatch):
    from ptxbench.devices import cuda_step

    array = np.ones(100, np.uint8)
    step = opened(GraphDriver(array), chain(doubling(array)))
    monkeypatch.setattr(cuda_step, "_MOST_WATCHED_BYTES", 99)
    assert step.find_changing([0]) == -1
    assert array.tolist() == [1] * 100


@pytest.mark.parametrize(("which", "why"), [("managed", "managed memory"), ("elsewhere", "another GPU")])
def test_memory_that_cannot_be_saved_is_refused(which, why):
    array = np.zeros(64, np.uint8)
    driver = GraphDriver(array)
    getattr(driver, which).add(array.ctypes.data)
    with pytest.raises(InputError, match=why):
        opened(driver, chain(Kernel("a", parameters=[struct.pack("<Q", array.ctypes.data)])))


@pytest.mark.parametrize("target", [target.name for target in TARGETS])
def test_own_kernels_assemble_for_every_target(target):
    assert assemble_ptx(own_kernels(target), target, OptLevel.O3).image
