"""Puts this folder on the import path, so that tests share `fakes`, and sets up hypothesis."""

from hypothesis import settings

# A busy machine makes one example slow, which says nothing about the code.
settings.register_profile("ptxbench", deadline=None)
settings.load_profile("ptxbench")
