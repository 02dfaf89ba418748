"""A search over clocks on a fake NVML whose settings outlive the process; it waits within the sweep.

python -m fakes.kept_sweep STATE_FILE SPEC_FOLDER OUT_FOLDER
"""

import sys
from contextlib import contextmanager
from pathlib import Path

from fakes.kept_nvml import open_kept
from tune.fakes_kernel import AddingGpu, write_spec

from ptxbench.tune.clocks import axes as setting_axes
from ptxbench.tune.clocks.axes import SettingAxes, Values
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.variant_runner import TrialOptions

CLOCKS_MHZ = (1980, 1500, 1005)
# So many trials are done when it waits.
TRIALS = 2


def main() -> None:
    state, spec, out = map(Path, sys.argv[1:])

    @contextmanager
    def open_settable(_):
        yield open_kept(state)

    setting_axes.open_settable = open_settable

    def show(done, _, name):
        if done == TRIALS:
            print(name, flush=True)
            sys.stdin.readline()

    axes = SettingAxes(Values(CLOCKS_MHZ), None, Values((500,)))
    options = TrialOptions(window_s=0.1)
    tuning = Tuning(
        load_spec(write_spec(spec)), Goal(Objective.ENERGY), options, axes=axes, allow_settings=True
    )
    tune(AddingGpu(), tuning, out, show=show)


if __name__ == "__main__":
    main()
