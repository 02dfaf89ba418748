"""Files of a user beside those of the catalogue that ptxbench ships (`ptxbench.catalogue.own`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# A name and the text of a file.
OwnFile = tuple[str, str]
OWN_FILES: dict[str, str] = {}


@contextmanager
def own_instructions() -> Iterator[None]:
    """Take back, at the end of the block, what was added to the catalogue within it."""
    before = dict(OWN_FILES)
    try:
        yield
    finally:
        OWN_FILES.clear()
        OWN_FILES.update(before)
