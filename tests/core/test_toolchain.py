import os
import stat

import pytest

from ptxbench.core import toolchain
from ptxbench.core.errors import RefusedModuleError, ToolError


@pytest.fixture(autouse=True)
def fresh():
    toolchain.tool_path.cache_clear()
    toolchain.tool_version.cache_clear()
    yield
    toolchain.tool_path.cache_clear()
    toolchain.tool_version.cache_clear()


@pytest.fixture
def on_path(monkeypatch, tmp_path):
    """Hide the wheels, and put a script of the tool's name on PATH."""
    monkeypatch.setattr("importlib.metadata.files", lambda _wheel: None)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + "/usr/bin" + os.pathsep + "/bin")

    def write(script):
        path = tmp_path / "ptxas"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


def test_the_wheel_comes_before_path(on_path, monkeypatch):
    script = on_path("true")
    assert toolchain.tool_path("ptxas") == script
    monkeypatch.undo()
    toolchain.tool_path.cache_clear()
    assert "nvidia" in toolchain.tool_path("ptxas").parts
    toolchain.tool_version.cache_clear()
    assert toolchain.assembler_name().startswith("ptxas 13.0.")


@pytest.fixture
def library_alone(monkeypatch):
    """Hide the wheel that has ptxas."""
    monkeypatch.setitem(toolchain._WHEELS, "ptxas", {"nvidia-nvjitlink": toolchain._LIBRARY})


def test_the_library_is_there_where_ptxas_is_not(library_alone):
    assert toolchain.assembler_name().startswith("nvJitLink 13.0.")


def test_ptxas_of_a_toolkit_has_its_own_name(on_path):
    on_path("echo 'release 12.4, V12.4.131'")
    assert toolchain.assembler_name() == "ptxas 12.4.131"


def test_the_library_says_the_line_and_leaves_nothing_behind(library_alone, tmp_path):
    (tmp_path / "module.ptx").write_text(".version 8.0\n.target sm_90a\n.address_size 64\nbogus;\n")
    with pytest.raises(RefusedModuleError, match=r"^ptxas failed: ptxas .*, line 4; fatal   : .*bogus"):
        toolchain.run_tool("ptxas", ["-arch=sm_90a", "-O3", "module.ptx", "-o", "module.cubin"], tmp_path)
    with pytest.raises(RefusedModuleError, match=r"^ptxas failed: fatal   : .*compute_1"):
        toolchain.run_tool("ptxas", ["-arch=sm_1", "-O3", "module.ptx", "-o", "module.cubin"], tmp_path)
    assert not (tmp_path / "module.cubin").exists()


@pytest.mark.parametrize("tool", ["ptxas", "nvdisasm"])
def test_a_missing_tool_names_the_wheel_and_the_cure(monkeypatch, tmp_path, tool):
    monkeypatch.setattr("importlib.metadata.files", lambda _wheel: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ToolError, match=rf"^{tool} not found: .*nvidia-.*'pip install .*nvidia-cuda-nvdisasm'"
    ):
        toolchain.tool_path(tool)


def test_the_version_is_read_from_the_tool(on_path):
    on_path("echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    assert toolchain.tool_version("ptxas") == "13.0.88"


def test_a_complaint_is_its_first_line(on_path):
    on_path("echo 'line 7; error: bad' >&2; echo 'more' >&2; exit 255")
    with pytest.raises(RefusedModuleError, match=r"^ptxas failed: line 7; error: bad$"):
        toolchain.run_tool("ptxas", [])


def test_a_header_of_another_wheel_is_named_with_it(on_path):
    on_path("echo 'cuda_fp16.h:4504:10: fatal error: nv/target: No such file or directory' >&2; exit 1")
    with pytest.raises(RefusedModuleError, match=r"No such file.*wheel \"nvidia-cuda-cccl"):
        toolchain.run_tool("ptxas", [])


def test_a_tool_that_breaks_silently_gives_its_exit_code(on_path):
    on_path("kill -SEGV $$")
    with pytest.raises(RefusedModuleError, match=r"^ptxas failed: exit code -11$"):
        toolchain.run_tool("ptxas", [])


def test_a_tool_that_was_stopped_did_not_refuse_anything(on_path):
    on_path("kill -KILL $$")
    with pytest.raises(ToolError, match=r"^ptxas was stopped by SIGKILL$") as caught:
        toolchain.run_tool("ptxas", [])
    assert not isinstance(caught.value, RefusedModuleError)


def test_a_tool_that_cannot_be_started_is_one_line(on_path, monkeypatch):
    script = on_path("true")
    assert toolchain.tool_path("ptxas") == script
    script.write_text("no script at all")
    with pytest.raises(ToolError, match=r"^ptxas could not be started: "):
        toolchain.run_tool("ptxas", [])
