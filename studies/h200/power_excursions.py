"""Count the kernels whose power falls, rises and falls again while they run, by the power that they draw.

    python studies/h200/power_excursions.py results/nvidia-h200/table-cba9 --plot excursions.png

On an H200 a kernel of more than some 400 W may draw a percent less for about a tenth of a second, then a
percent more, and then what it always does. Counted is the rise in between, from one reading to the one that
the sensor's averaging time separates from it; trials in which the SM clock dipped are left out. `--plot`
draws all trials of the kernel above 400 W that ran most often. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxbench.analysis.operating_point import dipped_trials, kernel_of
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.energy.excursion import Excursion, find_excursion
from ptxbench.energy.steady import fresh
from ptxbench.report.figure import new_figure, require_picture, save, title
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TrialRecord

# What power is read behind on an H200: runs from before that was known do not say it.
RISE = sensor_for(SourceName.SAMPLES, "sm_90a").excursion
_BINS_W = (0.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 1000.0)
HOT_W = 400.0
# The last blocks' time, in which SMs end one after the other: this share of a kernel.
_END = 0.1
_FEWEST = 8


@dataclass(frozen=True)
class Course:
    """How the power of one trial went.

    Attributes:
        record: The trial.
        time_s: Time of each reading since the launch, shape (n,).
        power_w: Each reading, shape (n,).
        found: Its steepest rise, and the steepest fall behind that.
    """

    record: TrialRecord
    time_s: npt.NDArray[np.float64]
    power_w: npt.NDArray[np.float64]
    found: Excursion

    @property
    def rose(self) -> bool:
        """Whether there is a rise that noise does not make."""
        return self.found.rise > RISE

    @property
    def rise_s(self) -> float:
        """When the power rose most steeply, since the launch."""
        return float(self.time_s[self.found.rise_at])

    @property
    def fall_s(self) -> float:
        """When it fell most steeply after that."""
        return float(self.time_s[self.found.fall_at])


def main() -> int:
    """Read the traces, print, draw, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder with rows of the dynamic protocol")
    parser.add_argument("--plot", type=Path, help="picture to write (.png, .svg, .pdf)")
    arguments = parser.parse_args()
    if arguments.plot is not None:
        require_picture(arguments.plot)
    with RunFolder.open(arguments.run) as folder:
        info = folder.manifest.gpu
        courses = list(courses_of(folder))
    if not courses:
        raise InputError(f"{arguments.run} has no trials of the dynamic protocol with {_FEWEST} readings")
    for line in describe(courses):
        print(line)
    if arguments.plot is not None:
        draw(courses, info, arguments.plot)
    return 0


def courses_of(folder: RunFolder) -> Iterator[Course]:
    """Yield the courses of the valid trials without a dip, in the order of time, but for sleeping kernels."""
    counted = [r for r in folder.records() if r.repeat >= 0 and r.protocol == DYNAMIC]
    dipped = dipped_trials(counted)
    sensors = {str(sensor.source): sensor for sensor in folder.manifest.sensors}
    for record in sorted(counted, key=lambda r: r.start_ns):
        if record.status is not Status.OK or record.role is Role.STATIC or record.trial_id in dipped:
            continue
        course = course_of(record, folder, sensors[record.source])
        if course is not None:
            yield course


def course_of(record: TrialRecord, folder: RunFolder, sensor: SensorDescription) -> Course | None:
    """Return how the power of a trial went, from when its sensor had settled until SMs ended.

    None where there are too few readings.
    """
    series = folder.trace(record.trial_id).of(sensor.source)
    if series is None:
        return None
    seen = fresh(series.good(), sensor.refresh_s)
    time_s = (seen.time_ns - record.start_ns) / 1e9
    inside = (time_s >= sensor.settle_s) & (time_s <= (1 - _END) * record.elapsed_s)
    power_w, apart = seen.value[inside], sensor.readings_apart
    if len(power_w) < max(_FEWEST, apart + 1):
        return None
    return Course(record, time_s[inside], power_w, find_excursion(power_w, apart, len(power_w)))


def describe(courses: Sequence[Course]) -> list[str]:
    """Return sentences on how many trials rose, by power, and on when."""
    lines = [f"rises by more than {RISE:.1%} while a kernel ran, in {len(courses)} trials without a dip"]
    for low_w, high_w in pairwise(_BINS_W):
        mine = [c for c in courses if low_w <= c.record.steady_power_w < high_w]
        if mine:
            share = sum(c.rose for c in mine) / len(mine)
            lines.append(f"{low_w:4.0f} to {high_w:4.0f} W  {len(mine):5d} trials  {share:6.1%}")
    next_to = [
        (a.rose, b.rose)
        for a, b in pairwise(courses)
        if min(a.record.steady_power_w, b.record.steady_power_w) >= HOT_W
    ]
    for rose, where in ((True, "behind one that rose"), (False, "behind one that did not")):
        after = [b for a, b in next_to if a is rose]
        if after:
            lines.append(f"of {len(after)} above {HOT_W:.0f} W {where}, {sum(after) / len(after):.1%} rose")
    risen = [c for c in courses if c.rose and c.record.steady_power_w >= HOT_W]
    if risen:
        for name, times_s in (("rise", [c.rise_s for c in risen]), ("fall", [c.fall_s for c in risen])):
            first_s, median_s, last_s = np.percentile(times_s, (10, 50, 90))
            lines.append(
                f"the {name} comes {median_s:.2f} s after the launch at the median"
                f" (10th to 90th percentile: {first_s:.2f} to {last_s:.2f} s)"
            )
    return lines


def draw(courses: Sequence[Course], info: GpuInfo, path: Path) -> None:
    """Draw all trials of the hot kernel that ran most often, those that rose in another colour.

    Raises:
        InputError: No kernel draws that much, matplotlib is not installed, or the file cannot be written.
    """
    hot = [c for c in courses if c.record.steady_power_w >= HOT_W]
    if not hot:
        raise InputError(f"no kernel of this run draws {HOT_W:.0f} W: nothing to draw")
    kernel, _ = Counter(kernel_of(c.record) for c in hot).most_common(1)[0]
    mine = [c for c in hot if kernel_of(c.record) == kernel]
    figure = new_figure(9, 3.4)
    axes = figure.subplots()
    for rose, colour, width, label in ((False, "#c3c7ce", 1.0, "even"), (True, "#b0552f", 1.6, "rose")):
        of_kind = [c for c in mine if c.rose is rose]
        for number, course in enumerate(of_kind):
            name = f"{label}: {len(of_kind)} trials" if number == 0 else None
            axes.plot(course.time_s, course.power_w, color=colour, linewidth=width, label=name)
    axes.set_xlabel("time since the launch, s")
    axes.set_ylabel("power, W")
    axes.legend(loc="lower right")
    first = mine[0].record
    figure.suptitle(f"{first.instruction} -{first.opt_level}, {first.role} - {title(info)}")
    save(figure, path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"power_excursions: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
