#!/bin/sh
# What an installed ptxbench must do on a bare machine without a GPU. Run it where no checkout is imported.
set -eu
there=$(mktemp -d)
cd "$there"
ptxbench --version
ptxbench --help-json > commands.json
ptxbench cost fma.rn.f32 --table h200
ptxbench verify fma.rn.f32 popc.b32 --target sm_90a
ptxbench table fma.rn.f32 --protocol dynamic --gpu simulated --out run
ptxbench report run
python -c 'import ptxbench; print(len(ptxbench.load_table("h100")), "rows of h100")'
rm -r "$there"
