"""What a run says of whole loops: bytes of a level stand beside the opcodes."""

from dataclasses import replace

import pytest
from fakes.measuring import trial

from ptxbench.catalogue.load import find_instruction
from ptxbench.model.observations import _moved_bytes
from ptxbench.storage.schema import Role


@pytest.mark.parametrize(
    ("name", "role", "levels"),
    [
        ("ld.global.v4.b32:hbm", Role.TARGET, {"BYTE.crossbar": 16, "BYTE.DRAM": 16}),
        ("ld.global.cg.b32:l2", Role.TARGET, {"BYTE.crossbar": 4}),
        ("st.global.b32:hbm", Role.TARGET, {"BYTE.DRAM": 4}),
        ("ld.global.b32:l1", Role.TARGET, {}),
        ("ld.global.v4.b32:hbm", Role.OVERHEAD, {}),
        ("add.u32:pair", Role.TARGET, {}),
        ("of another catalogue:hbm", Role.TARGET, {}),
    ],
)
def test_bytes_of_a_level_are_those_of_all_copies(name, role, levels):
    record = replace(trial(role), instruction=name, copies=32)
    assert dict(_moved_bytes(record)) == {opcode: 32 * size for opcode, size in levels.items()}


def test_the_rows_are_in_the_catalogue():
    assert find_instruction("ld.global.v4.b32:hbm").bytes == 16
