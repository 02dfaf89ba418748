"""What docs/tuning.md says of parameters and searches is so; of sizes, tests/tune/test_space.py."""

import json
import math
from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.tune.strategies import STRATEGIES
from ptxbench.tune.variant import PARAMETERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tuning.md").read_text()


def test_every_parameter_and_strategy_is_there():
    assert all(f"`{name}`" in PAGE for name in PARAMETERS)
    assert ", ".join(STRATEGIES) in " ".join(PAGE.split())


def test_tables_of_searches_are_those_of_the_kept_searches():
    module = load_script("runners/refresh_tuning.py")
    made = module.blocks({name: module.read_search(name) for name in module.SEARCHES})
    for page, names in module.PAGES.items():
        for name in names:
            block = f"<!-- {name}:begin -->\n{made[name]}<!-- {name}:end -->"
            assert block in page.read_text(), "run runners/refresh_tuning.py"


def energies(search):
    """Return steady seconds and joules of the measured variants of a kept search, the fastest first."""
    lines = (ROOT / "results" / search / "trials.jsonl").read_text().splitlines()
    trials = [json.loads(line) for line in lines]
    return sorted(
        (one["steady_s"], one["energy_j"])
        for one in trials
        if one["status"] == "ok" and math.isfinite(one["energy_j"] or math.nan)
    )


@pytest.mark.parametrize(
    ("search", "name", "unit_s", "unit_j", "shown"),
    [
        ("nvidia-h200/gemm/f64", "GEMM f64, 4096, H200", 1e-3, 1, ("{:.3f} ms", "{:.3f} J")),
        ("nvidia-h100/tunings/nbody", "n-body, 32768", 1e-3, 1, ("{:.3f} ms", "{:.3f} J")),
        ("nvidia-h100/tunings/stencil", "stencil, 4096 squared", 1e-6, 1e-3, ("{:.1f} us", "{:.1f} mJ")),
        ("nvidia-h100/tunings/reduction", "reduction, 2^25", 1e-6, 1e-3, ("{:.1f} us", "{:.1f} mJ")),
    ],
)
def test_the_fastest_and_the_most_efficient_variant_are_those_of_the_kept_search(
    search, name, unit_s, unit_j, shown
):
    found = energies(search)
    fastest, least = found[0], min(found, key=lambda one: one[1])
    cells = [
        ", ".join(shown).format(time_s / unit_s, energy_j / unit_j) for time_s, energy_j in (fastest, least)
    ]
    more, slower = fastest[1] / least[1] - 1, least[0] / fastest[0] - 1
    assert f"| {name} | {len(found)} | {' | '.join(cells)} | {more:.1%} | {slower:.1%} |" in PAGE


def test_the_page_says_how_much_more_the_worst_variants_take():
    spread = {
        name: max(joules) / min(joules)
        for name in ("nbody", "stencil", "reduction")
        for joules in ([energy_j for _, energy_j in energies(f"nvidia-h100/tunings/{name}")],)
    }
    said = f"take {spread['reduction']:.1f} (reduction) to {spread['nbody']:.1f} times (n-body) the least"
    assert min(spread, key=spread.get) == "reduction"
    assert max(spread, key=spread.get) == "nbody"
    assert said in " ".join(PAGE.split())
    for search in ("nbody-2", "gemm-beast"):
        found = energies(f"nvidia-h100/tunings/{search}")
        assert found[0][1] == min(energy_j for _, energy_j in found), "there the fastest takes least"
