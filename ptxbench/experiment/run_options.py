"""The options of a run, and the arguments that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.starters import STARTERS
from ptxbench.core.condition import DYNAMIC, Conditions, OptLevel, Pattern
from ptxbench.core.errors import ArgumentError
from ptxbench.devices.base import Gpu
from ptxbench.experiment.criteria import criterion_for
from ptxbench.experiment.linearity import Linearity
from ptxbench.experiment.protocols import find_protocol
from ptxbench.experiment.row_options import RowOptions
from ptxbench.experiment.sensor_choice import choose_sensor, default_window_s, short_window_s
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.manifest import RunArguments

# What most rows reach with the least repeats (studies/method/detail.md): a row that may end as soon as its
# interval is narrow ends sooner where it is too narrow by chance.
PRECISION = 0.02
MIN_REPEATS = 2
MAX_REPEATS = 6


@dataclass(frozen=True, kw_only=True)
class RunOptions(RowOptions, Conditions):
    """What a caller sets; an option that is None or empty is not set.

    Attributes:
        instructions: Catalogue names.
        source: Power source.
        linearity: For which rows N copies are checked against 2N.
    """

    instructions: tuple[str, ...] = ()
    source: SourceName | None = None
    linearity: Linearity | None = None

    def over(self, recorded: RunArguments) -> RunArguments:
        """Return a run's arguments with the options that are set in their place.

        A value that is given twice counts once; of the bounds of the repeats, one that is not set gives way.

        Raises:
            InputError: An instruction, a protocol or a stopping criterion is unknown, or the bounds of the
                repeats are the wrong way round.
        """
        for name in self.instructions:
            find_instruction(name)
        for name in self.protocols:
            find_protocol(name)
        given: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value not in (None, ()):
                given[field.name] = tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value
        if self.window_s is not None:
            given["dynamic_window_s"] = None
        arguments = self._in_order(replace(recorded, **given))
        criterion_for(arguments)
        return arguments

    def complete(self, gpu: Gpu, sensors: Sequence[SensorDescription] = ()) -> RunArguments:
        """Return the arguments of a new run, with defaults for options that are not set.

        Args:
            gpu: Where it will be measured.
            sensors: What was measured about its power sources; none: as the GPU describes them.

        Raises:
            InputError: An instruction is unknown, or the GPU does not answer the power source.
        """
        sensor = choose_sensor(gpu, self.source, sensors)
        defaults = RunArguments(
            instructions=STARTERS,
            opt_levels=tuple(OptLevel),
            protocols=(DYNAMIC,),
            patterns=(Pattern.RANDOM,),
            precision=PRECISION,
            min_repeats=MIN_REPEATS,
            max_repeats=MAX_REPEATS,
            window_s=default_window_s(sensor),
            source=None,
            seed=None,
            dynamic_window_s=short_window_s(sensor),
            linearity=Linearity.SAMPLE,
        )
        return self.over(defaults)

    def _in_order(self, arguments: RunArguments) -> RunArguments:
        least, most = arguments.min_repeats, arguments.max_repeats
        if least <= most:
            return arguments
        if self.max_repeats is None:
            return replace(arguments, max_repeats=least)
        if self.min_repeats is None:
            return replace(arguments, min_repeats=most)
        raise ArgumentError("max_repeats", f"is {most}, less than `min_repeats`, {least}: raise it")
