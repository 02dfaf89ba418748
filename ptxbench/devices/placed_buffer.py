"""Device memory at an address that is the same in every process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ptxbench.core.errors import LaunchError
from ptxbench.devices.device_buffer import DeviceBuffer

# Half of its bits are ones, as in an address that a driver picks; neither a host's programs nor its
# libraries lie there (Linux, x86-64 and aarch64), and every CUDA GPU since Pascal reaches it.
PLACE = 0x2A5A_5A00_0000
# More than 48 blocks of 1024 threads on each of 132 SMs take. An H200 puts 16 MB or less into room that it
# holds already, and gives the place for 32 MB or more.
_LEAST_BYTES = 50 << 20


@dataclass
class PlacedBuffer(DeviceBuffer):
    """Device memory at `place`, wherever the driver lets it be there.

    A load that gives the address of the next one computes in its addresses: their bits are its operands,
    and move its energy. The driver's own choice differs between processes. Where a driver has no such
    memory, or something else lies at that place, it is where the driver puts it.

    Attributes:
        driver: The module `cuda.bindings.driver`, for its types.
        device: Number of the GPU.
        place: Requested address.
    """

    driver: Any = field(kw_only=True)
    device: int = field(kw_only=True)
    place: int = field(kw_only=True, default=PLACE)
    _undo: list[tuple[Any, ...]] = field(init=False, default_factory=list)

    def reserve(self, size: int) -> None:
        """Make room for at least `size` bytes."""
        if size <= self.size:
            return
        self.release()
        try:
            self._map(max(size, _LEAST_BYTES))
        except LaunchError:
            self.release()
            super().reserve(size)

    def release(self) -> None:
        """Give the memory back."""
        if not self._undo:
            super().release()
            return
        while self._undo:
            self.call(*self._undo.pop())
        self.address, self.size = 0, 0

    def _map(self, size: int) -> None:
        """Make memory and map it to the place.

        Raises:
            LaunchError: The driver refused a step; `release` undoes what went before it.
        """
        cuda = self.driver
        memory = cuda.CUmemAllocationProp()
        memory.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        memory.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        memory.location.id = self.device
        access = cuda.CUmemAccessDesc()
        access.location = memory.location
        access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        least = cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        page = int(self.call("cuMemGetAllocationGranularity", memory, least))
        size = -(-size // page) * page
        handle = self.call("cuMemCreate", size, memory, 0)
        self._undo.append(("cuMemRelease", handle))
        address = int(self.call("cuMemAddressReserve", size, 0, self.place, 0))
        self._undo.append(("cuMemAddressFree", address, size))
        self.call("cuMemMap", address, size, 0, handle, 0)
        self._undo.append(("cuMemUnmap", address, size))
        self.call("cuMemSetAccess", address, size, [access], 1)
        self.address, self.size = address, size
