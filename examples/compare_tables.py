"""Set two tables beside each other: compare_tables.py [RUN [RUN]]; without a run, that of an H200."""

import statistics
import sys

import ptxbench

first, second = (ptxbench.load_table(name) for name in (*sys.argv[1:3], "h200", "h200")[:2])
ratios = {}
for row in first:
    of = row.row
    key = of.instruction, of.opt_level, of.protocol, of.operands, of.lanes
    if row.is_valid and key in second and second[key].is_valid:
        ratios[key] = second[key].energy_pj / row.energy_pj

factor = statistics.median(ratios.values())
print(f"{first.gpu.name}, {second.gpu.name}: {len(ratios)} rows, one factor of {factor:.4f}")
for key, ratio in sorted(ratios.items(), key=lambda item: -abs(item[1] / factor - 1))[:5]:
    print(f"{' '.join(map(str, key))}: {ratio / factor - 1:+.1%} beside it")
