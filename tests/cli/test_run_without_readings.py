"""A run of which only the table is kept can be read, and says in a line what it cannot do and what to do."""

import shutil

import pytest
from fakes.measuring import asked

from ptxbench.cli.main import run
from ptxbench.core.condition import OptLevel
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.session import start_run

KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry one(.param .u64 out) {
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    st.global.u32 [%rd1], 1;
    ret;
}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    what = asked("fma.rn.f32", opt_levels=(OptLevel.O3,), min_repeats=3, max_repeats=3)
    with start_run(SimulatedGpu(poll_interval_s=0.02), what, path) as folder:
        measure_table(SimulatedGpu(poll_interval_s=0.02), folder)
    return path


@pytest.fixture(params=["kernels", "readings"])
def kept(whole, tmp_path, request):
    """The run without its kernels, and without its readings, too."""
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    (path / "kernels.zip").unlink()
    if request.param == "readings":
        (path / "records.parquet").unlink()
        (path / "traces.parquet").unlink()
    return path


def test_it_is_read_as_the_whole_run_is(whole, kept, tmp_path, capsys):
    kernel = tmp_path / "one.ptx"
    kernel.write_text(KERNEL)
    shape = ["--grid", "132", "--block", "128", "--time-s", "1e-3"]
    for arguments in (
        ["report", "{}"],
        ["diff", str(whole), "{}", "--json"],
        ["report", "--opcodes", "{}"],
        ["estimate", str(kernel), *shape, "--table", "{}"],
    ):
        printed = []
        for path in (whole, kept):
            assert run([one.format(path) for one in arguments]) == 0
            out, err = capsys.readouterr()
            assert not err
            printed.append(out.replace(str(path), "RUN").replace(str(whole), "RUN"))
        assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "arguments",
    [["table", "--gpu", "replay:{run}", "--out", "{out}"], ["report", "--opcodes", "{run}", "--store"]],
)
def test_what_needs_the_rest_says_how_to_get_it(kept, tmp_path, capsys, arguments):
    before = sorted(kept.rglob("*"))
    out = tmp_path / "out"
    assert run([one.format(run=kept, out=out) for one in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{kept} is kept without its " in line
    assert f"`python runners/archive_readings.py restore {kept}`" in line
    assert not out.exists()
    assert sorted(kept.rglob("*")) == before


def test_without_solved_quantities_it_says_so_too(kept, capsys):
    (kept / "solved.json").unlink()
    assert run(["report", "--opcodes", str(kept)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is kept without its " in line
