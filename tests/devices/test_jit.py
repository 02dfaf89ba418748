"""PTX that a fake driver assembles, or refuses."""

import ctypes

import pytest

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import LaunchError, RefusedModuleError
from ptxbench.devices.jit import jit_assemble

driver = pytest.importorskip("cuda.bindings.driver")

IMAGE = b"\x7fELF and so on"


class Driver:
    """Links whatever it is given into IMAGE, or complains in the log."""

    def __init__(self, complaint=None):
        self.complaint = complaint
        self.held = 0
        self.image = ctypes.create_string_buffer(IMAGE)

    def __call__(self, function, *arguments):
        return getattr(self, function)(*arguments)

    def cuLinkCreate(self, count, options, values):  # noqa: N802
        assert count == len(options) == len(values)
        self.level, self.log, size = values
        assert size == len(self.log)
        self.held += 1
        return "state"

    def cuLinkAddData(self, state, _kind, source, size, *_options):  # noqa: N802
        assert state == "state"
        assert (source[-1], size) == (0, len(source))
        if self.complaint is not None:
            self.log[: len(self.complaint)] = self.complaint
            raise LaunchError("cuLinkAddData: CUDA_ERROR_INVALID_PTX")

    def cuLinkComplete(self, _state):  # noqa: N802
        return ctypes.addressof(self.image), len(IMAGE)

    def cuLinkDestroy(self, _state):  # noqa: N802
        self.held -= 1


@pytest.mark.parametrize("level", OptLevel)
def test_a_module_is_assembled_at_the_level_asked_for(level):
    call = Driver()
    cubin = jit_assemble(call, driver, ".version 8.0", level, "sm_90a", "driver JIT 580")
    assert cubin == Cubin(IMAGE, "sm_90a", level, "driver JIT 580")
    assert (call.level, call.held) == (level.number, 0)


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        (b"ptxas: line 3: nonsense\nand more", "failed: ptxas: line 3: nonsense$"),
        (b"", "failed: cuLinkAddData: CUDA_ERROR_INVALID_PTX$"),
    ],
)
def test_a_module_that_is_refused_says_why_in_one_line(complaint, words):
    call = Driver(complaint)
    with pytest.raises(RefusedModuleError, match=words):
        jit_assemble(call, driver, "nonsense", OptLevel.O3, "sm_90a", "driver JIT 580")
    assert call.held == 0
