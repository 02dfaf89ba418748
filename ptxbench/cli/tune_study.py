"""`ptxbench tune study`: what published ways to tune would have found in a search that was made."""

from __future__ import annotations

import click

from ptxbench.cli.tune_study_difficulty import difficulty
from ptxbench.cli.tune_study_strategies import strategies


@click.group(name="study")
def study() -> None:
    """Repeat analyses of published studies on a search."""


study.add_command(difficulty)
study.add_command(strategies)
