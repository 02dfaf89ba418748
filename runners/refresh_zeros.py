"""Write what opcodes cost on zeros beside random operands, for estimates by runs that have no zeros.

    python runners/refresh_zeros.py results/nvidia-h200/patterns

The run holds rows on both (`ptxbench table ... --operands random --operands zeros`). Its -O3 rows whose
opcodes are all of one class are kept in ptxbench/model/zeros_ratios.toml, with the run's name. Those of a
memory level are not, since what data cost on the way is no part of an opcode's energy there.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.opcode_energies import RANDOM, ZEROS
from ptxbench.model.opcodes import opcode_class
from ptxbench.model.solve import row_counts
from ptxbench.model.zeros import MEMORY
from ptxbench.storage.atomic import write_text
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "ptxbench" / "model" / "zeros_ratios.toml"
_HEAD = """\
# What opcodes cost on zeros, where a run has no trial on zeros: rows of a run that was measured on both
# patterns (-O3, dynamic protocol; pJ of the rows, a thread). Written by runners/refresh_zeros.py.
"""


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder with rows on random operands and on zeros")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    arguments = parser.parse_args()
    run = arguments.run.resolve()
    with RunFolder.open(run) as folder:
        energies = on_both(folder.known_rows())
        gpu = folder.manifest.gpu
    if gpu.kind is GpuKind.SIMULATED and arguments.out == SHIPPED:
        raise InputError(f"{run} is simulated, and what ptxbench ships is measured; give another --out")
    if not energies:
        raise InputError(f"{run} has no valid -O3 row on both random operands and zeros; measure --operands")
    name = run.relative_to(ROOT).as_posix() if run.is_relative_to(ROOT) else run.name
    lines = [f'run = "{name}"', f'gpu = "{gpu.name}"', "", "# opcode = [on zeros, on random operands]"]
    lines.append("[opcodes]")
    lines += [f'"{opcode}" = [{zeros:.6g}, {random:.6g}]' for opcode, (zeros, random) in energies.items()]
    write_text(arguments.out, _HEAD + "\n".join(lines) + "\n")
    return 0


def on_both(rows: Sequence[TableRow]) -> dict[str, tuple[float, float]]:
    """Return each opcode's energy on zeros and on random operands, pJ, summed over rows that have both."""
    pairs: dict[str, dict[str, TableRow]] = defaultdict(dict)
    for row in rows:
        good = row.status is Status.OK and row.protocol == DYNAMIC and row.lanes == WARP
        if good and row.opt_level is OptLevel.O3:
            pairs[row.instruction][row.operands] = row
    found: dict[str, tuple[float, float]] = {}
    for pair in pairs.values():
        if not pair.keys() >= {RANDOM, ZEROS}:
            continue
        opcodes = row_counts(pair[RANDOM])
        classes = {opcode_class(opcode) for opcode in opcodes}
        level = ":" in pair[RANDOM].instruction and classes <= MEMORY
        if len(classes) != 1 or level:
            continue
        for opcode in opcodes:
            zeros, random = found.get(opcode, (0.0, 0.0))
            found[opcode] = zeros + pair[ZEROS].dynamic_pj, random + pair[RANDOM].dynamic_pj
    return dict(sorted(found.items()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_zeros: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
