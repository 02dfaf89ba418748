"""The rows that slow tests take: the starters and every 40th other row; PTXBENCH_TEST_ALL=1 takes all."""

import os

from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.catalogue.starters import STARTERS

STARTER_ROWS = tuple(find_instruction(name) for name in STARTERS)
_OTHERS = tuple(row for row in load_catalogue() if row.name not in STARTERS)
SAMPLE = STARTER_ROWS + (_OTHERS if os.environ.get("PTXBENCH_TEST_ALL") else _OTHERS[::40])
