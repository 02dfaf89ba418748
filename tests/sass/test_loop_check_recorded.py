"""The loop check on what the driver of a real H200 assembled, as the committed runs keep it."""

from pathlib import Path

import pytest

from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import Form
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop_check import check_loops
from ptxbench.storage.kernels import KernelStore

H200 = Path(__file__).parents[2] / "results" / "nvidia-h200"
# It was not reached in these runs: no row of it has a number.
REFUSED = {"call.uni"}


@pytest.mark.parametrize(
    ("run", "every"),
    [("table-6eda-repeat", 2), pytest.param("table-6eda", 8, marks=pytest.mark.data), ("levels", 1)],
)
def test_loops_of_a_real_driver_pass(run, every):
    store = KernelStore(H200 / run)
    entries = [entry for entry in store.entries if "/" in entry.name][::every]
    assert entries
    refused = {}
    for entry in entries:
        name, form = entry.name.rsplit("/", 1)
        kernels = parse_listing(store.sass(entry))
        found = check_loops(find_instruction(name), entry.opt_level, kernels, entry.target, Form(form))
        if not found.passed:
            refused[name] = found.reason
    assert set(refused) <= REFUSED, refused
