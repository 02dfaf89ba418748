"""Machine code that was assembled from one PTX module."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from ptxbench.core.condition import OptLevel


@dataclass(frozen=True)
class Cubin:
    """Machine code that was assembled from one PTX module.

    Attributes:
        image: The ELF image.
        target: Such as "sm_90a".
        opt_level: Optimization level that it was assembled at.
        assembler: Who assembled it, with version: "ptxas 13.0.88" or "driver 580.159.04 (CUDA 13.0)".
    """

    image: bytes
    target: str
    opt_level: OptLevel
    assembler: str

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the image."""
        return hashlib.sha256(self.image).hexdigest()
