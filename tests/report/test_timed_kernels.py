"""Kernels that other commands timed, with flops and bytes of an estimate or of ncu."""

import json

import pytest

from ptxbench.core.errors import InputError
from ptxbench.report.timed_kernels import timed_kernels

COUNTS = (
    '"ID","Kernel Name","sass__inst_executed_per_opcode_with_modifier_all","dram__bytes.sum"\n'
    '"","","","byte"\n'
    '"0","void saxpy<float>(int, float const*, float*)","3 (FFMA: 2; IADD3: 1)","1,000"\n'
    '"1","void saxpy<float>(int, float const*, float*)","7 (FFMA: 6; IADD3: 1)","3,000"\n'
    '"2","other(int)","1 (FADD: 1)","10"\n'
)
NAME = "void saxpy<float>(int, const float*, float*)"
RUN = {
    "kernels": [
        {"kernels": [NAME], "calls": 4, "energy_j": 8.0, "time_s": 0.04},
        {"kernels": ["other", "cannot be told apart"], "calls": 2, "energy_j": 1.0, "time_s": 0.01},
        {"kernels": ["unmeasured"], "calls": 2, "energy_j": None, "time_s": 0.01},
    ]
}
ROW = {"name": NAME, "launch_j": 2.0, "launch_s": 0.01}
PROFILE = {"rows": [ROW, {"name": "gaps", "launch_j": None, "launch_s": 0.1}]}


@pytest.fixture
def written(tmp_path):
    def write(document):
        path = tmp_path / "kernels.json"
        path.write_text(json.dumps(document))
        return path

    return write


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS)
    return path


@pytest.mark.parametrize("document", [RUN, PROFILE, {"kernels": [], "replay": [PROFILE]}])
def test_a_launch_has_the_mean_counts_of_its_kernel(document, written, counts):
    (one,) = timed_kernels(written(document), counts)
    assert (one.name, one.energy_j, one.time_s) == (NAME, 2.0, 0.01)
    # Four FFMA of a warp of 32 threads on 2,000 bytes.
    assert one.work.flops == {"f32": 4 * 32 * 2}
    assert one.work.bytes_moved["dram"] == 2000


def test_an_estimate_knows_its_own_flops_and_bytes(written):
    own = {"flops": {"f32": 10.0}, "bytes_moved": {"dram": 4.0}}
    document = {"kernel": "k", "energy_j": 1.0, "time_s": 0.5, "capped": True, "roofline": own}
    (one,) = timed_kernels(written(document), None)
    assert (one.work.intensity, one.capped) == (2.5, True)
    for lacking in ({"roofline": None}, {"energy_j": None}):
        with pytest.raises(InputError, match="estimate again"):
            timed_kernels(written(document | lacking), None)


def test_what_is_missing_is_one_line(written, counts):
    with pytest.raises(InputError, match=r"flops and bytes are not in it, such as 'void saxpy.*by `counts`"):
        timed_kernels(written(RUN), None)
    with pytest.raises(InputError, match="has none of its kernels, such as 'k'"):
        timed_kernels(written({"rows": [ROW | {"name": "k"}]}), counts)
    with pytest.raises(InputError, match="names no kernel with an energy of its own"):
        timed_kernels(written({"rows": []}), counts)
    with pytest.raises(InputError, match="is not what `ptxbench run`"):
        timed_kernels(written([]), counts)
