"""Puts this folder on the import path, so that tests share `fakes`, and sets up hypothesis."""

from hypothesis import settings

# A busy machine makes one example slow, which says nothing about the code. The same commit is judged by the
# same examples everywhere; `make fuzz` looks for others.
settings.register_profile("ptxbench", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=2000)
settings.load_profile("ptxbench")
