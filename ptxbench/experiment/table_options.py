"""What `ptxbench table` takes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ptxbench.core.option import Opt
from ptxbench.core.shared_options import (
    CataloguePath,
    Category,
    GpusSpec,
    Json,
    LaneOperands,
    Lanes,
    OptionalPatterns,
    OptLevels,
    Out,
    Resume,
    SensorPath,
)
from ptxbench.experiment.protocols import protocol_names
from ptxbench.experiment.row_options import RowOptions
from ptxbench.sensors.base import POWER_SOURCES

if TYPE_CHECKING:
    from ptxbench.catalogue.search import Selection
    from ptxbench.core.target import Target
    from ptxbench.experiment.run_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class _What:
    """What is measured, and where.

    Attributes:
        whole_catalogue: Measure the whole catalogue.
        standard: Measure the 300 instructions of most worth on the GPU, at -O3, for 15 minutes at most.
        counts: CSV of ncu: measure at -O3 what its kernels execute, for `ptxbench estimate`.
        protocols: Protocol (may be repeated; default: dynamic); arafa is Eq. 1 of Arafa et al. (2020).
        source: Power source (default: the GPU's best).
    """

    instructions: OptionalPatterns = ()
    whole_catalogue: Annotated[bool, Opt(flag="--all")] = False
    standard: bool = False
    counts: Annotated[Path | None, Opt(flag="--for", metavar="COUNTS.csv")] = None
    category: Category = ""
    catalogue: CataloguePath = None
    spec: GpusSpec = None
    out: Out = None
    resume: Resume = False
    opt_levels: OptLevels = ()
    protocols: Annotated[tuple[str, ...], Opt(choices=protocol_names(), flag="--protocol")] = ()
    operands: LaneOperands = ()
    lanes: Lanes = ()
    sensor_path: SensorPath = None
    source: Annotated[str | None, Opt(choices=[source.value for source in POWER_SOURCES])] = None


@dataclass(frozen=True, kw_only=True)
class TableOptions(RowOptions, _What):
    """Options of `ptxbench table`.

    Attributes:
        linearity: Compare N copies with 2N: for all rows, a sample (one for each template and optimization
            level; default) or none.
        budget_minutes: Measure for so many minutes at most, the most important rows first; --resume measures
            the rest.
        isolate: Measure in a separate process; if a kernel breaks it, continue without that kernel.
    """

    linearity: Annotated[str | None, Opt(choices=("all", "sample", "none"), flag="--check-linearity")] = None
    budget_minutes: Annotated[float | None, Opt(0, 1e6, above=True)] = None
    isolate: Annotated[bool, Opt(former=("survive",))] = False
    as_json: Json = False

    def selection(self, target: Target | None = None) -> Selection:
        """Return what the patterns stand for; nothing: the twelve common instructions.

        Instructions of a file that is named join the catalogue, and are chosen where nothing else is.

        Args:
            target: Of the GPU, by which `standard` chooses; None: not known yet.

        Raises:
            InputError: There is no such instruction or category, or a word stands for too many.
        """
        from ptxbench.catalogue.select import chosen
        from ptxbench.storage.own_catalogue import with_own

        patterns = with_own(self.catalogue, ("*",) if self.whole_catalogue else self.instructions)
        if self.counts is not None and not self.whole_catalogue:
            from ptxbench.model.inputs import rows_for

            patterns = (*patterns, *rows_for(self.counts))
        if self.standard and target is not None:
            from ptxbench.experiment.plan import standard_names

            patterns = (*patterns, *standard_names(target))
        return chosen(patterns, self.category)

    @property
    def most_minutes(self) -> float | None:
        """How long the run may measure; None: to its end."""
        from ptxbench.experiment.plan import STANDARD_MINUTES

        return STANDARD_MINUTES if self.standard and self.budget_minutes is None else self.budget_minutes

    def wanted(self, target: Target | None = None) -> RunOptions:
        """Return the options of the run.

        Args:
            target: As `selection`.

        Raises:
            InputError: There is no such instruction or category.
        """
        from ptxbench.core.condition import OptLevel, Pattern
        from ptxbench.experiment.linearity import Linearity
        from ptxbench.experiment.run_options import RunOptions
        from ptxbench.sensors.base import SourceName

        at_o3 = self.standard or self.counts is not None
        opt_levels = self.opt_levels or (("O3",) if at_o3 else ())
        return RunOptions(
            instructions=self.selection(target).names,
            opt_levels=tuple(map(OptLevel, opt_levels)),
            protocols=self.protocols,
            patterns=tuple(map(Pattern, self.operands)),
            lanes=self.lanes,
            source=SourceName(self.source) if self.source else None,
            linearity=Linearity(self.linearity) if self.linearity else None,
            **{field.name: getattr(self, field.name) for field in fields(RowOptions)},
        )
