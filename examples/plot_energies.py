"""Draw the energies of the single-precision instructions of an H200 into energies.png."""

import matplotlib

import ptxbench

matplotlib.use("Agg")
frame = ptxbench.load_table("h200").to_dataframe()
wanted = frame["instruction"].str.endswith(".f32") & (frame["opt_level"] == "O3") & (frame["status"] == "ok")
shown = frame[wanted].set_index("instruction").sort_values("dynamic_pj")[:20]

axes = shown.plot.barh(y="dynamic_pj", xerr="dynamic_ci95_pj", legend=False, figsize=(7, 6))
axes.set_xlabel("energy, pJ a thread")
axes.figure.tight_layout()
axes.figure.savefig("energies.png")
print(f"{len(shown)} instructions in energies.png")
