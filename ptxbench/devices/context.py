"""The CUDA context of a process: what is loaded into it, and whether a kernel broke it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import GpuError, LaunchError
from ptxbench.devices.device_buffer import Call

# Modules that stay loaded; the oldest goes first. Chosen.
_CACHED_MODULES = 64


class Context:
    """The primary context of one GPU.

    Args:
        call: Calls a function of the driver by name.
        device: The GPU, as the driver names it.

    Raises:
        LaunchError: The driver gives no context.
    """

    def __init__(self, call: Call, device: Any) -> None:
        self._call = call
        self._device = device
        self._lost = ""
        self._modules: dict[str, Any] = {}
        self._handle = call("cuDevicePrimaryCtxRetain", device)

    @property
    def is_lost(self) -> bool:
        """Whether a kernel broke it, so that every later call fails."""
        return bool(self._lost)

    def make_current(self) -> None:
        """Let the calls of this thread be about this context."""
        self._call("cuCtxSetCurrent", self._handle)

    def function(self, cubin: Cubin, kernel: str) -> Any:
        """Return a kernel of a cubin, loaded where it is not yet.

        Raises:
            LaunchError: The driver refuses the cubin, or it holds no such kernel.
        """
        if cubin.sha256 not in self._modules:
            if len(self._modules) >= _CACHED_MODULES:
                self._call("cuModuleUnload", self._modules.pop(next(iter(self._modules))))
            self._modules[cubin.sha256] = self._call("cuModuleLoadData", cubin.image)
        return self._call("cuModuleGetFunction", self._modules[cubin.sha256], kernel.encode())

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Refuse where the context is lost, and find out whether a launch that fails has lost it.

        Raises:
            GpuError: An earlier kernel broke it.
        """
        self.require()
        try:
            yield
        except LaunchError:
            self._check()
            raise

    def require(self) -> None:
        """Refuse where the context is lost.

        Raises:
            GpuError: An earlier kernel broke it.
        """
        if self._lost:
            raise GpuError(
                f"a kernel broke the CUDA context of this process ({self._lost}); "
                "what was measured is kept: continue with `resume`"
            )

    def release(self) -> None:
        """Give the context back."""
        self._call("cuDevicePrimaryCtxRelease", self._device)

    def _check(self) -> None:
        """See whether the context outlived a failed launch.

        A launch that the driver refuses leaves it whole. A kernel that breaks (an illegal address) makes
        every later call of this process fail, and a reset of the context does not mend that.
        """
        try:
            self._call("cuCtxSynchronize")
        except LaunchError as error:
            self._lost = str(error)
