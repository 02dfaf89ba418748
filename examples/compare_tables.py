"""Set two tables beside each other: compare_tables.py [RUN [RUN]]; without a run, that of an H200."""

import statistics
import sys

import ptxbench

first, second = (ptxbench.load_table(name) for name in (*sys.argv[1:3], "h200", "h200")[:2])
ratios = {}
for row in first:
    key = row.instruction, row.row.opt_level, row.row.protocol, row.row.operands
    if row.is_valid and key in second and second[key].is_valid:
        ratios[key] = second[key].energy_pj / row.energy_pj

factor = statistics.median(ratios.values())
print(f"{first.gpu.name}, {second.gpu.name}: {len(ratios)} rows, one factor of {factor:.4f}")
for key, ratio in sorted(ratios.items(), key=lambda item: -abs(item[1] / factor - 1))[:5]:
    print(f"{' '.join(key)}: {ratio / factor - 1:+.1%} beside it")
