"""A pack of a board is checked before it joins the atlas: it may be from anybody."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.measuring import asked
from fakes.script import load_script
from pack_file import read_pack

from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run
from ptxbench.storage.pack import write_pack

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "nvidia-h200" / "table-6eda-repeat"


@pytest.fixture(scope="module")
def runner():
    return load_script("runners/add_board.py")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return write_pack(KEPT, tmp_path_factory.mktemp("packs") / "kept.tar")


@pytest.fixture
def scratch(runner, tmp_path, monkeypatch):
    """Results of three boards, without the run that was packed."""
    results = tmp_path / "scratch"
    (results / "nvidia-h200").mkdir(parents=True)
    (results / "nvidia-h100").symlink_to(ROOT / "results" / "nvidia-h100")
    for run in ("table-6eda", "table-01d0", "table-021e"):
        (results / "nvidia-h200" / run).symlink_to(KEPT.parent / run)
    monkeypatch.setattr(runner.build_atlas, "RESULTS", results)
    return results / "nvidia-h200"


def test_a_kept_run_is_accepted_and_becomes_a_folder_that_the_atlas_reads(runner, packed, scratch, capsys):
    pack = read_pack(packed)
    assert runner.model_of(pack) == "h200"
    assert "known of other boards" in runner.check(pack, "h200")
    folder = runner.place(pack, "h200")
    assert folder.parent == scratch
    assert folder.name.startswith("board-6eda")
    assert folder in set(scratch.glob("board-*"))
    assert runner.build_atlas._run(folder).rows
    with pytest.raises(InputError, match=f"{folder} is this run"):
        runner.place(pack, "h200")


def test_what_was_not_measured_is_refused(runner, tmp_path):
    gpu = SimulatedGpu()
    with start_run(gpu, asked("fma.rn.f32", "add.f32"), tmp_path / "run") as folder:
        measure_table(gpu, folder)
    pack = read_pack(write_pack(tmp_path / "run", tmp_path / "simulated.tar"))
    with pytest.raises(InputError, match=r"simulated\.tar was not measured: its GPU is simulated"):
        runner.model_of(pack)


def changed(pack, **of_rows):
    """The pack with other values in its rows; a value may be a function of a row and its number."""
    rows = enumerate(pack.rows)
    return replace(
        pack,
        rows=tuple(
            replace(row, **{name: of(n, row) if callable(of) else of for name, of in of_rows.items()})
            for n, row in rows
        ),
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda pack: changed(pack, repeats=1), "has 1 repeats, 2 needed"),
        (lambda pack: changed(pack, sass="XMAD"), "none of its SASS is that of other boards"),
        (lambda pack: changed(pack, dynamic_pj=lambda _, row: 2 * row.dynamic_pj), r"energies are 2\.0"),
        (
            lambda pack: changed(pack, dynamic_pj=lambda n, row: (1 + (n % 5 == 0)) * row.dynamic_pj),
            "rows are more than 10% from other boards",
        ),
        (lambda pack: changed(pack, dynamic_ci95_pj=0.0), "an interval that cannot be"),
        (lambda pack: replace(pack, kernels=()), "has no machine code"),
        (lambda pack: replace(pack, rows=()), "no row has a number"),
        (
            lambda pack: replace(pack, files={**pack.files, "solved.json": b"{}"}),
            "was not made from its table",
        ),
        (lambda pack: replace(pack, manifest=replace(pack.manifest, sensors=())), "power source, samples"),
    ],
)
def test_what_cannot_be_is_refused_and_said(runner, packed, monkeypatch, change, text):
    pack = read_pack(packed)
    known = {(*row.key, row.sass): row.dynamic_pj for row in pack.rows}
    monkeypatch.setattr(runner, "_known_rows", lambda _: known)
    assert runner.check(pack, "h200")
    with pytest.raises(InputError, match=text):
        runner.check(change(pack), "h200")
