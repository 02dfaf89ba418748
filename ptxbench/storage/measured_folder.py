"""A run whose records come with readings: begun, resumed after any end, finished, by one writer at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ptxbench.core.closing import Closing
from ptxbench.sensors.trace import Series
from ptxbench.storage.atomic import replacing
from ptxbench.storage.file_errors import require_kept
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.kernels import KernelStore
from ptxbench.storage.manifest import Manifest, begin_run, write_manifest
from ptxbench.storage.partial import PartialFolder

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ptxbench.storage.traces import TraceFile

TRACES = "traces.parquet"
P = TypeVar("P", bound="DataclassInstance")


class MeasuredFolder(Closing, Generic[P]):
    """A folder of records with their readings and kernels, and a context manager that closes it.

    As long as `partial/` is there, what it holds is the run. `finish` writes the final files beside it, and
    the run is finished when `partial/` goes, in one rename. `kernels/` goes after it.

    Attributes:
        path: The folder.
        manifest: What the run is.
        kernels: PTX, machine code and SASS of what ran.
        lost: Records that were dropped as the writer took over: their readings are missing or damaged.
    """

    _partial: PartialFolder[Any]

    def __init__(self, path: Path, manifest: Manifest[P]) -> None:
        self.path = path
        self.manifest = manifest
        self.kernels = KernelStore(path)
        self.lost: tuple[str, ...] = ()
        self._trace_file: TraceFile | None = None

    @classmethod
    def create(cls, path: Path, manifest: Manifest[P]) -> Self:
        """Begin a run in a new or empty folder.

        Raises:
            InputError: The folder holds something, cannot be written, or is not for this kind of GPU.
        """
        begin_run(path, manifest)
        folder = cls(path, manifest)
        folder._partial.open(create=True)
        return folder

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the run is complete, and in its final files."""

    def close(self) -> None:
        """Release the folder to other processes."""
        self._partial.close()
        if self._trace_file is not None:
            self._trace_file.close()
            self._trace_file = None

    @abstractmethod
    def _load(self) -> None:
        """Read what the folder holds."""

    def _go_on(self, manifest: Manifest[P] | None = None) -> None:
        """Become the writer of a run that was stopped, after what it holds; one that is finished is swept.

        Args:
            manifest: What the run is from now on, None where nothing changes.
        """
        if self.finished:
            self._partial.sweep()
            self.kernels.sweep()
            return
        # Only a run that was killed between its first two writes has no partial/ yet.
        self._partial.open(create=not self._partial.exists)
        try:
            self.lost = self._partial.drop_lost()
            self._load()
            if manifest is not None:
                self._set_manifest(manifest)
        except BaseException:
            self.close()
            raise

    def _series(self, name: str) -> tuple[Series, ...]:
        """Return the readings of one record."""
        if not self.finished:
            return self._partial.series(name)
        if self._trace_file is None:
            from ptxbench.storage.traces import TraceFile

            require_kept(self.path / TRACES, "readings")
            self._trace_file = TraceFile(self.path / TRACES)
        return self._trace_file.series(name)

    def _write_traces(self, names: Iterable[str]) -> None:
        """Write the readings of records into their final file."""
        from ptxbench.storage import traces

        with replacing(self.path / TRACES) as file:
            traces.write(file, self._partial.tables(names))

    def _retire(self) -> None:
        """Let the final files be the run."""
        self._partial.retire()
        self.kernels.sweep()

    def _set_manifest(self, manifest: Manifest[P]) -> None:
        write_manifest(self.path / MANIFEST, manifest)
        self.manifest = manifest
