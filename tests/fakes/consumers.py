"""What turns readings into joules, each on a simulated GPU with a fault: what it gives, beside the truth."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from fakes import distorters as d
from fakes.fault_cases import Case
from fakes.measuring import asked, measured
from fakes.monitored import by_monitor, by_run
from fakes.troubled import NO_TROUBLE, Trouble, TroubledGpu
from tune.fakes_kernel import write_spec

from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.devices.simulated.profile import Profile
from ptxbench.experiment.roofline.measure import measure
from ptxbench.experiment.roofline.options import RooflineOptions
from ptxbench.experiment.roofline.result import work_out
from ptxbench.sensors.base import SourceName
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.variant_runner import TrialOptions

H200_MEMORY = find_profile("h200-memory")
RTX2080TI = find_profile("rtx2080ti")

Sources = tuple[SourceName, ...]
# The power of a board whose only source averages over 1 s is no subject of short kernels.
_USAGE = next(one for one in RTX2080TI.sensors if one.source is SourceName.USAGE)
_SENSORS = {one.source: one for one in H200.sensors} | {SourceName.USAGE: replace(_USAGE, gain=1.0)}
_ROWS = asked("fma.rn.f32", "fma.rn.f64", min_repeats=3, max_repeats=3, window_s=0.6)
_ROOFLINE = RooflineOptions(("f32",), intensities=(0.25, 1, 4, 64, 256))


@dataclass(frozen=True)
class Given:
    """What a measurement of several energies gave.

    Attributes:
        energies: Value and half of the 95% interval, J, by name.
        said: What it said of an energy, or of one that is missing; "" is of all of them.
    """

    energies: Mapping[str, tuple[float, float]]
    said: Mapping[str, tuple[str, ...]]

    def beside(self, true: Given) -> list[Case]:
        """Return each energy beside that of the same measurement without a fault."""
        found = []
        for name, (truth_j, truth_half_j) in true.energies.items():
            value_j, half_j = self.energies.get(name, (math.nan, math.nan))
            half_j = math.hypot(half_j, truth_half_j)
            said = self.said.get(name, ()) + self.said.get("", ())
            found.append(Case(name, truth_j, value_j, (value_j - half_j, value_j + half_j), said))
        return found


def _gpu(profile: Profile, sources: Sources, trouble: Trouble) -> TroubledGpu:
    return TroubledGpu(replace(profile, sensors=tuple(_SENSORS[one] for one in sources)), trouble)


def _table(sources: Sources, trouble: Trouble) -> Given:
    with tempfile.TemporaryDirectory() as place:
        rows = measured(_gpu(H200, sources, trouble), Path(place, "run"), _ROWS)
        manifest = read_run_manifest(Path(place, "run"))
    scale = manifest.part.scale_ci95 or 0.0
    note = manifest.part.source_check.note if manifest.part.source_check else ""
    energies = {
        row.instruction: (1e-12 * row.dynamic_pj, 1e-12 * (row.dynamic_ci95_pj + scale * row.dynamic_pj))
        for row in rows
        if row.status is Status.OK
    }
    said = {row.instruction: (f"{row.status}: {row.reason}",) for row in rows if row.status is not Status.OK}
    return Given(energies, {**said, "": (note,) if note else ()})


def _tune(sources: Sources, trouble: Trouble) -> Given:
    # A refresh of 100 ms leaves three readings in the usual 0.4 s.
    window_s = 0.4 if SourceName.SAMPLES in sources else 1.0
    tuning = Tuning(_spec(), Goal(Objective.ENERGY), TrialOptions(window_s=window_s), jobs=1)
    with tempfile.TemporaryDirectory() as place:
        found = tune(_gpu(H200, sources, trouble), tuning, Path(place, "t"))
    said = {one.name: tuple(filter(None, (one.reason, one.note))) for one in found.trials}
    return Given(
        {one.name: (one.energy_j, 1.96 * one.power_error_w * one.steady_s) for one in found.best},
        {**said, "": (found.scale,) if found.scale else ()},
    )


def _roofline(sources: Sources, trouble: Trouble) -> Given:
    with tempfile.TemporaryDirectory() as place:
        try:
            gpu = _gpu(H200_MEMORY, sources, trouble)
            found = work_out(measure(gpu, _ROOFLINE, Path(place, "r"), peaks=False))
        except InputError as error:
            return Given({}, {"": (str(error),)})
    notes = [point.note for point in found.points if point.note and not point.slowed]
    left_out = [f"{name}: slowed down" for name in found.left_out]
    said = (*found.unread, *notes, *left_out, *found.disturbed, found.scale)
    energies = {one.name: (one.value.value, one.value.uncertainty) for one in found.energies}
    return Given(energies, {"": tuple(filter(None, said))})


@cache
def _spec() -> KernelSpec:
    return load_spec(write_spec(Path(tempfile.mkdtemp()) / "spec"), {"n": 1 << 22})


@cache
def _true(measure: Callable[[Sources, Trouble], Given], sources: Sources) -> Given:
    return measure(sources, NO_TROUBLE)


@dataclass(frozen=True)
class Consumer:
    """What turns readings into joules.

    Attributes:
        cases: Measures with a fault.
        mid_s: Middle of its measurement.
    """

    cases: Callable[[Sources, Trouble], Sequence[Case]]
    mid_s: float


def _of_gpu(measure: Callable[[Sources, Trouble], Given], mid_s: float) -> Consumer:
    return Consumer(lambda sources, trouble: measure(sources, trouble).beside(_true(measure, sources)), mid_s)


def _of_loads(measure: Callable[..., list[Case]]) -> Consumer:
    def cases(sources: Sources, trouble: Trouble) -> list[Case]:
        fault = d.late_values(trouble.late_s) if trouble.late_s else trouble.fault()
        return measure(sources, fault, trouble=trouble)

    return Consumer(cases, 5.0)


CONSUMERS = {
    "table": _of_gpu(_table, 8.0),
    "run": _of_loads(by_run),
    "EnergyMonitor": _of_loads(by_monitor),
    "tune": _of_gpu(_tune, 4.0),
    "roofline": _of_gpu(_roofline, 4.0),
}
