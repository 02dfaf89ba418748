"""Memory at an address that is the same in every process, by a driver that a fake plays."""

from __future__ import annotations

import pytest

from ptxbench.core.errors import LaunchError
from ptxbench.devices.placed_buffer import PLACE, PlacedBuffer

driver = pytest.importorskip("cuda.bindings.driver")

PAGE = 2 << 20


class Driver:
    """Holds what was made and not given back; refuses the functions in `refused`."""

    def __init__(self, refused=(), taken=False):
        self.refused = refused
        self.taken = taken
        self.held = set()

    def __call__(self, function, *arguments):
        if function in self.refused:
            raise LaunchError(f"{function}: CUDA_ERROR_NOT_SUPPORTED")
        return getattr(self, function)(*arguments)

    def cuMemGetAllocationGranularity(self, memory, _option):  # noqa: N802
        assert memory.location.id == 3
        return PAGE

    def cuMemCreate(self, size, _memory, _flags):  # noqa: N802
        assert size % PAGE == 0
        self.held.add(("memory", size))
        return size

    def cuMemAddressReserve(self, size, _alignment, place, _flags):  # noqa: N802
        address = 0x7000_0000_0000 if self.taken else place
        self.held.add(("range", address, size))
        return address

    def cuMemMap(self, address, size, _offset, handle, _flags):  # noqa: N802
        assert ("memory", handle) in self.held
        assert ("range", address, size) in self.held
        self.held.add(("mapping", address, size))

    def cuMemSetAccess(self, address, size, access, count):  # noqa: N802
        assert len(access) == count == 1
        assert ("mapping", address, size) in self.held

    def cuMemUnmap(self, address, size):  # noqa: N802
        self.held.remove(("mapping", address, size))

    def cuMemAddressFree(self, address, size):  # noqa: N802
        assert ("mapping", address, size) not in self.held
        self.held.remove(("range", address, size))

    def cuMemRelease(self, handle):  # noqa: N802
        self.held.remove(("memory", handle))

    def cuMemAlloc(self, size):  # noqa: N802
        self.held.add(("plain", size))
        return size

    def cuMemFree(self, address):  # noqa: N802
        self.held.remove(("plain", address))


def buffer(call):
    return PlacedBuffer(call, driver=driver, device=3)


def test_memory_that_grows_stays_at_its_place():
    call = Driver()
    placed = buffer(call)
    for size in (1, PAGE, 50 * PAGE + 1, 100):
        placed.reserve(size)
        assert placed.address == PLACE
        assert placed.size >= size
    assert placed.size == 51 * PAGE
    assert len(call.held) == 3
    placed.release()
    assert call.held == set()
    assert placed.size == 0


def test_where_the_place_is_taken_it_is_elsewhere():
    placed = buffer(Driver(taken=True))
    placed.reserve(1)
    assert placed.address == 0x7000_0000_0000


@pytest.mark.parametrize(
    "refused",
    ["cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"],
)
def test_a_driver_without_it_gives_plain_memory(refused):
    call = Driver(refused=(refused,))
    placed = buffer(call)
    placed.reserve(10)
    assert call.held == {("plain", 10)}
    placed.reserve(20)
    assert call.held == {("plain", 20)}
    placed.release()
    assert call.held == set()


def test_no_memory_at_all_is_told():
    call = Driver(refused=("cuMemCreate", "cuMemAlloc"))
    with pytest.raises(LaunchError, match="cuMemAlloc"):
        buffer(call).reserve(10)
    assert call.held == set()
