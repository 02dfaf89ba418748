"""Memory that is saved, restored and compared."""

import numpy as np
import pytest
from fakes.graphs import TYPES, GraphDriver

from ptxbench.core.errors import InputError, LaunchError
from ptxbench.devices import step_memory
from ptxbench.devices.step_memory import Range, SavedMemory, allocation_of, changing, joined, words_of


def ranges(*arrays):
    return [Range(array.ctypes.data, array.nbytes) for array in arrays]


def test_words_are_whole_and_could_be_addresses():
    words = np.array([0, 1 << 15, 0x7F00_1234_5678, 1 << 60, 1 << 16], dtype="<u8").tobytes()
    assert list(words_of(words + b"\xff\xff\xff")) == [0x7F00_1234_5678, 1 << 16]
    assert list(words_of(b"\x01\x02\x03\x04")) == []


def test_ranges_that_overlap_are_one_and_those_that_only_touch_may_be_two_allocations():
    found = joined(
        [Range(100, 10), Range(0, 50), Range(20, 40), Range(60, 5, True), Range(110, 1), Range(7, 0)]
    )
    assert found == (Range(0, 60), Range(100, 10), Range(110, 1), Range(60, 5, True))


def test_an_address_leads_to_its_allocation_and_a_number_to_none():
    array = np.zeros(64, np.uint8)
    driver, start = GraphDriver(array), array.ctypes.data
    attributes = TYPES.CUpointer_attribute
    assert allocation_of(driver, attributes, start + 63, 0) == Range(start, 64)
    assert allocation_of(driver, attributes, start + 64, 0) is None
    driver.on_host.add(start)
    assert allocation_of(driver, attributes, start, 0) == Range(start, 64, on_host=True)


@pytest.mark.parametrize("room", [1 << 40, 0])
def test_what_was_saved_comes_back_from_either_place(room):
    arrays = [np.arange(n, dtype=np.uint8) for n in (50, 60)]
    driver = GraphDriver(room=room)
    saved = SavedMemory(driver, ranges(*arrays))
    assert saved.size == 110
    assert bool(driver.copies) == bool(room)
    for array in arrays:
        array[:] = 9
    saved.restore()
    assert [array.tolist() for array in arrays] == [list(range(50)), list(range(60))]
    saved.close()
    assert not driver.copies


def test_only_the_pieces_that_differ_are_counted(monkeypatch):
    monkeypatch.setattr(step_memory, "_PIECE_BYTES", 16)
    array = np.zeros(40, np.uint8)
    saved = SavedMemory(GraphDriver(), ranges(array))
    assert saved.changed_bytes() == 0
    array[39] = 1
    assert saved.changed_bytes() == 8
    array[0] = 1
    assert saved.changed_bytes() == 24


def test_a_copy_that_a_kernel_wrote_into_does_not_pass_for_the_memory():
    array = np.arange(32, dtype=np.uint8)
    driver = GraphDriver()
    saved = SavedMemory(driver, ranges(array))
    next(iter(driver.copies.values()))[3] = 99
    saved.restore()
    assert saved.changed_bytes() == 32


def test_what_the_gpu_has_no_room_for_is_saved_on_the_host(monkeypatch):
    arrays = [np.zeros(n, np.uint8) for n in (50, 60)]
    driver = GraphDriver()
    allocate = driver.cuMemAlloc

    def once(size):
        if driver.copies:
            raise LaunchError("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY")
        return allocate(size)

    monkeypatch.setattr(driver, "cuMemAlloc", once)
    saved = SavedMemory(driver, ranges(*arrays))
    assert len(driver.copies) == 1
    arrays[1][:] = arrays[0][0] = 3
    saved.restore()
    assert not arrays[0].any()
    assert not arrays[1].any()


def test_where_there_is_no_room_anywhere_nothing_stays_behind(monkeypatch):
    arrays = [np.zeros(n, np.uint8) for n in (50, 60)]
    driver = GraphDriver(room=(512 << 20) + 70)
    monkeypatch.setattr(
        driver, "cuMemGetInfo", lambda: (driver.room - sum(map(len, driver.copies.values())), 0)
    )
    monkeypatch.setattr(step_memory, "host_room", lambda: 10)
    with pytest.raises(InputError, match="cannot be saved: neither the GPU nor the host"):
        SavedMemory(driver, ranges(*arrays))
    assert not driver.copies


def test_only_what_the_second_run_changes_is_found(monkeypatch):
    monkeypatch.setattr(step_memory, "_FINE_BYTES", 16)
    written, counted, read = (np.zeros(40, np.uint8) for _ in range(3))

    def run():
        written[:] = 7
        counted[17] += 1
        counted[35] += read[0] + 1

    found = changing(GraphDriver(), ranges(written, counted, read), run)
    start = counted.ctypes.data
    # Pieces that follow each other are one, up to the end of the allocation.
    assert found == (Range(start + 16, 24),)
    assert counted[17] == 2


def test_pieces_of_two_allocations_stay_apart(monkeypatch):
    monkeypatch.setattr(step_memory, "_FINE_BYTES", 16)
    whole = np.zeros(64, np.uint8)

    def run():
        whole[:] += 1

    start = whole.ctypes.data
    found = changing(GraphDriver(), [Range(start, 32), Range(start + 32, 32)], run)
    assert found == (Range(start, 32), Range(start + 32, 32))
