"""Which boards a process may use, in CUDA's order, and what becomes of boards that do not work."""

import os

import pytest
from fakes.nvml import LOST, NO_PERMISSION, FakeDevice, FakeNvml

from ptxbench.core.errors import GpuError
from ptxbench.devices.visible import Machine

VARIABLE = "CUDA_VISIBLE_DEVICES"
BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
AT_HANDLE = "nvmlDeviceGetHandleByIndex"
LOST_BOARD = {"errors": {AT_HANDLE: LOST}}
FORBIDDEN = {"errors": {AT_HANDLE: NO_PERMISSION}}
SPLIT = {"is_partitioned": True}


def boards(*changes):
    """Return boards GPU-a0, GPU-a1 and so on."""
    return [FakeDevice(uuid=f"GPU-a{n}", **change) for n, change in enumerate(changes)]


def machine(*changes, visible=None, **environment):
    shown = {} if visible is None else {VARIABLE: visible}
    return Machine(FakeNvml(*boards(*changes)), environment | shown)


def usable(found):
    return [board.uuid for board in found.usable()]


UNLIKE = ({"name": "NVIDIA L4"}, {"name": "NVIDIA H200"})


@pytest.fixture
def cuda(monkeypatch):
    """CUDA's order is what a test puts into the list; None: CUDA does not answer."""
    told, environments = [], []

    def cuda_order(environment):
        environments.append(environment)
        if told == [None]:
            raise OSError("libcuda.so.1: no such file")
        return tuple(told)

    told_of = type("Told", (), {"order": told, "environments": environments})
    monkeypatch.setattr("ptxbench.devices.visible.cuda_order", cuda_order)
    return told_of


def test_numbers_are_those_of_cuda_not_of_nvml(cuda):
    cuda.order[:] = ["GPU-a1"]
    found = machine(*UNLIKE, visible="0")
    assert usable(found) == ["GPU-a1"]
    assert found.counted(0).name == "NVIDIA H200"
    # One question, with the variable that CUDA itself honours.
    assert cuda.environments == [{VARIABLE: "0"}]


def test_without_the_variable_numbers_are_those_of_cuda_too(cuda):
    cuda.order[:] = ["GPU-a1", "GPU-a0"]
    found = machine(*UNLIKE)
    assert found.counted(0).uuid == found.first().uuid == "GPU-a1"
    with pytest.raises(GpuError, match="GPU 2 is not among the 2 GPUs"):
        found.counted(2)


def test_where_cuda_does_not_answer_the_order_of_unlike_gpus_is_no_guess(cuda):
    cuda.order[:] = [None]
    cure = r"does not answer \(libcuda.so.1: no such file\): set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs"
    with pytest.raises(GpuError, match=f"CUDA_VISIBLE_DEVICES is '0', .*{cure}"):
        machine(*UNLIKE, visible="0").usable()
    with pytest.raises(GpuError, match=f"which GPU CUDA counts as 0 is not known.*{cure}"):
        machine(*UNLIKE).counted(0)
    # What needs no order is as it was.
    assert usable(machine(*UNLIKE)) == ["GPU-a0", "GPU-a1"]
    assert usable(machine(*UNLIKE, visible="GPU-a1")) == ["GPU-a1"]


def test_alike_gpus_stand_in_the_order_of_their_bus_where_cuda_does_not_answer(cuda):
    cuda.order[:] = [None]
    assert usable(machine({"bus": 9}, {"bus": 3}, visible="0")) == ["GPU-a1"]


def test_by_bus_id_nvml_knows_the_order_and_cuda_is_left_alone(cuda):
    found = machine({"name": "NVIDIA L4", "bus": 9}, {"name": "NVIDIA H200", "bus": 3}, **BY_BUS)
    assert (found.counted(0).uuid, found.counted(1).uuid) == ("GPU-a1", "GPU-a0")
    assert machine({}, visible="0").counted(0).uuid == "GPU-a0"
    assert cuda.environments == []


@pytest.mark.parametrize(
    ("visible", "shown"),
    [
        ("1,0", [1, 0]),
        (" 2 , 0", [2, 0]),
        ("1,7,0", [1]),
        ("0,-1,1", [0]),
        ("0,x,1", [0]),
        ("1,GPU-a0", [1]),
        ("1x", [1]),
        ("GPU-a1", [1]),
        ("GPU-a2,GPU-a0", [2, 0]),
        ("GPU-a2,GPU-a,GPU-a0", [2]),
        ("GPU-a2,0", [2]),
        ("GPU-a2,GPU-zz,GPU-a0", [2]),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(visible, shown):
    found = machine({}, {}, {}, visible=visible, **BY_BUS)
    assert usable(found) == [f"GPU-a{n}" for n in shown]


@pytest.mark.parametrize("visible", ["", "-1", "7", "x", "0,0", "GPU-zz", "GPU-a", "NoDevFiles"])
def test_a_variable_that_shows_no_gpu_is_an_error(visible):
    with pytest.raises(GpuError, match=f"is '{visible}', which shows none of this machine's 2 GPUs: unset"):
        machine({}, {}, visible=visible, **BY_BUS).usable()


def test_a_variable_that_names_a_mig_instance_is_an_error():
    with pytest.raises(GpuError, match="names the MIG instance MIG-12: NVML reads the power of whole boards"):
        machine({}, visible="MIG-12").usable()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (LOST_BOARD, f"NVML says 'error text {LOST}' (code {LOST}); reset the GPU or restart the machine"),
        (FORBIDDEN, f"NVML says 'error text {NO_PERMISSION}' (code {NO_PERMISSION}); run as a user who"),
        ({"errors": {"nvmlDeviceGetUUID": 999}}, "NVML says 'error text 999' (code 999)"),
        (SPLIT, "split into MIG instances, and NVML reads the power of whole boards only: run `nvidia-smi"),
    ],
    ids=["lost", "forbidden", "no UUID", "MIG"],
)
def test_a_board_that_does_not_work_is_left_out_and_named(change, why, caplog):
    found = machine(change, {}, change)
    assert usable(found) == ["GPU-a1"]
    assert found.first().uuid == "GPU-a1"
    found.say_left_out()
    (line,) = caplog.messages
    assert line.startswith("ptxbench: GPU 0")
    assert ", GPU 2" in line
    assert why in line
    assert "GPU 1" not in line


def test_a_board_whose_opening_tells_its_fault_is_not_named_twice(caplog):
    found = machine(LOST_BOARD, {}, SPLIT)
    found.say_left_out([0, "GPU-a2"])
    assert caplog.messages == []


def test_where_nothing_works_each_board_has_its_reason():
    with pytest.raises(GpuError, match=rf"^GPU 0 left out: .*code {LOST}.*; GPU 1 .*MIG"):
        machine(LOST_BOARD, SPLIT).usable()
    with pytest.raises(GpuError, match="NVML sees no GPU here"):
        machine().usable()


def test_a_number_before_a_lost_board_is_known_and_one_behind_it_is_not(cuda, caplog):
    cuda.order[:] = [None]
    found = machine({}, LOST_BOARD, {})
    assert found.counted(0).uuid == "GPU-a0"
    assert f"code {LOST}" in found.counted(1).fault
    with pytest.raises(GpuError, match="CUDA may not count GPU 1, which is at fault, and does not answer"):
        found.counted(2)
    assert usable(machine({}, LOST_BOARD, {}, visible="0,1")) == ["GPU-a0"]
    with pytest.raises(GpuError, match="CUDA may not count GPU 0"):
        machine(LOST_BOARD, {}, visible="1").usable()
    assert caplog.messages == []
    assert usable(machine({}, LOST_BOARD, {}, visible="0,2")) == ["GPU-a0"]
    assert "further GPUs of CUDA_VISIBLE_DEVICES ('0,2') left out: CUDA may not count" in caplog.text


def test_cuda_tells_the_numbers_behind_a_lost_board(cuda):
    cuda.order[:] = ["GPU-a0", "GPU-a2"]
    found = machine({}, LOST_BOARD, {})
    assert found.counted(1).uuid == "GPU-a2"
    with pytest.raises(GpuError, match=rf"GPU 2 is not among the 2 GPUs .*; GPU 1 left out: .*code {LOST}"):
        found.counted(2)


def test_cuda_does_not_count_a_forbidden_board(cuda):
    assert usable(machine(FORBIDDEN, {}, visible="0")) == ["GPU-a1"]
    assert cuda.environments == []


def test_a_mig_instance_that_cuda_counts_is_no_board(cuda):
    cuda.order[:] = ["GPU-ffff"]
    found = machine(SPLIT, {}, {})
    with pytest.raises(GpuError, match="counts as 0 is not known: CUDA shows a MIG instance there"):
        found.counted(0)
    # ptxbench can show the others to CUDA.
    assert found.first().uuid == "GPU-a1"


def test_a_hidden_board_is_refused(cuda):
    found = machine({}, {}, visible="1", **BY_BUS)
    found.require_visible(1)
    with pytest.raises(GpuError, match="CUDA_VISIBLE_DEVICES is '1', which hides GPU 0: unset it"):
        found.require_visible(0)
    machine({}, {}).require_visible(0)
    cuda.order[:] = [None]
    with pytest.raises(GpuError, match="set CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        machine(*UNLIKE, visible="0").require_visible(0)


@pytest.mark.parametrize(
    ("changes", "visible", "within"),
    [
        (({}, SPLIT, {}), None, "GPU-a0,GPU-a2"),
        (({}, LOST_BOARD), None, "GPU-a0"),
        (({}, {}), None, None),
        (({}, FORBIDDEN), None, None),
        (({}, SPLIT), "1", "1"),
        ((SPLIT,), None, None),
    ],
)
def test_cuda_is_shown_what_works_while_it_starts(monkeypatch, changes, visible, within):
    monkeypatch.delenv(VARIABLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(VARIABLE, visible)
    with Machine(FakeNvml(*boards(*changes))).showing_what_works():
        assert os.environ.get(VARIABLE) == within
    assert os.environ.get(VARIABLE) == visible
