"""What a user's kernel is compiled from: included files, flags of the environment, endless templates."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tune.fakes_kernel import AddingGpu, write_spec
from tune.test_user_kernel import require_nvcc, tuning

from ptxbench.cli.main import run
from ptxbench.core import toolchain
from ptxbench.core.errors import EndlessSourceError, InputError, RefusedModuleError
from ptxbench.tune import source, template_process
from ptxbench.tune.blocks.concurrent_search import ConcurrentTuning, tune_concurrently
from ptxbench.tune.source import VariantSource, variant_source
from ptxbench.tune.spec import Source
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.template_process import TemplateProcess
from ptxbench.tune.tuning import tune

CODE = """
#include "scale.cuh"
#if defined __CUDA_ARCH_FEAT_SM90_ALL
#include "hopper.cuh"
#endif
extern "C" __global__ void twice(const float *in, float *out, unsigned n)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n)
        out[i] = in[i] * SCALE / HOPPER;
}
"""
# A macro n would change the headers of CUDA.
BY_MACRO = (
    *(("n = 262144", "N = 65536"), ("ceil_div(n,", "ceil_div(N,"), ('["n"]', '["N"]'), ('"n"', '"N"')),
    *(('"n * MORE"', '"N * MORE"'), ('"8 * n"', '"8 * N"')),
)


ONE_MORE = ('{ from = 1, to = "BLOCK // 8", factor = 4 }', "[1]")


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of included files, which CPATH names; the cache is empty."""
    require_nvcc()
    folder = tmp_path / "headers"
    (folder / "first").mkdir(parents=True)
    (folder / "scale.cuh").write_text("#define SCALE 2.0f\n")
    (folder / "hopper.cuh").write_text("#define HOPPER 1.0f\n")
    monkeypatch.setenv("CPATH", f"{folder / 'first'}:{folder}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CPLUS_INCLUDE_PATH"):
        monkeypatch.delenv(name, raising=False)
    return folder


def seen(code: str = CODE, name: str = "twice.cu", **values: int) -> VariantSource:
    return variant_source(Source(Path(name), code.encode(), "twice"), {"BLOCK": 64, **values}, "sm_90a")


def cuda_spec(folder: Path) -> Path:
    path = write_spec(folder, ("twice.ptx.j2", "twice.cu"), ("[64, 128]", "[64]"), ONE_MORE, *BY_MACRO)
    (folder / "twice.cu").write_text(CODE)
    return path


CHANGES: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "an included file": lambda headers, _: (headers / "scale.cuh").write_text("#define SCALE 4.0f\n"),
    "a file for this architecture": lambda headers, _: (headers / "hopper.cuh").write_text(
        "#define HOPPER 3.0f\n"
    ),
    "a new file that comes first": lambda headers, _: (headers / "first" / "scale.cuh").write_text(
        "#define SCALE 5.0f\n"
    ),
    "CPATH": lambda headers, patch: (
        (headers / "first" / "other").mkdir(),
        (headers / "first" / "other" / "scale.cuh").write_text("#define SCALE 6.0f\n"),
        patch.setenv("CPATH", f"{headers / 'first' / 'other'}:{headers}"),
    ),
    "CPLUS_INCLUDE_PATH": lambda headers, patch: (
        (headers / "scale.cuh").rename(headers / "first" / "scale.cuh"),
        (headers / "first" / "scale.cuh").write_text("#define SCALE 7.0f\n"),
        patch.setenv("CPATH", str(headers)),
        patch.setenv("CPLUS_INCLUDE_PATH", str(headers / "first")),
    ),
    "NVCC_APPEND_FLAGS": lambda _, patch: patch.setenv("NVCC_APPEND_FLAGS", "-DSCALE=8.0f -USCALE"),
    "a flag of the compiler alone": lambda _, patch: patch.setenv("NVCC_APPEND_FLAGS", "--prec-div=false"),
    "NVCC_PREPEND_FLAGS": lambda _, patch: patch.setenv("NVCC_PREPEND_FLAGS", "--maxrregcount 32"),
    "a file of flags": lambda headers, patch: (
        (headers / "flags").write_text("--prec-sqrt=false"),
        patch.setenv("NVCC_APPEND_FLAGS", f"-optf {headers / 'flags'}"),
    ),
}


def test_what_nvcc_sees_is_what_a_kernel_is_kept_by(headers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each change comes on top of those before it, which saves half of the calls of nvcc.
    before = seen().key
    for name, change in CHANGES.items():
        change(headers, monkeypatch)
        after = seen()
        assert after.key != before, name
        assert not after.refused, name
        before = after.key


def test_what_nvcc_does_not_see_makes_nothing_be_compiled_again(
    headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = seen()
    image = first.build().image
    (headers / "other.cuh").write_text("#error")
    monkeypatch.setenv("OTHER", "1")
    monkeypatch.setattr(source, "_compiled", lambda _: pytest.fail("compiled again"))
    assert seen().key == first.key
    assert seen().build().image == image


def test_a_compiler_of_another_release_than_nvcc_counts(
    headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen().key
    monkeypatch.setattr(source, "_identity", lambda file: f"another {file}")
    assert seen().key != before


def test_a_changed_file_is_measured_and_not_what_was_kept_before(headers: Path) -> None:
    before = seen().build().image
    (headers / "scale.cuh").write_text("#define SCALE sqrtf(in[i] + n)\n")
    after = seen().build().image
    assert after != before
    (headers / "scale.cuh").write_text("#define SCALE 2.0f\n")
    assert seen().build().image == before


def searched(kind: str, path: Path, out: Path | None, resume: Path | None) -> object:
    if kind == "concurrent":
        spec = load_spec(path)
        return tune_concurrently(AddingGpu(), ConcurrentTuning((spec, spec), jobs=2), out, resume)
    return tune(AddingGpu(), tuning(path, budget=1), out, resume)


@pytest.mark.parametrize("kind", ["tune", "concurrent"])
def test_a_search_that_goes_on_notices_a_changed_file(headers: Path, tmp_path: Path, kind: str) -> None:
    path = cuda_spec(tmp_path / "spec")
    searched(kind, path, tmp_path / "t", None)
    searched(kind, path, None, tmp_path / "t")
    (headers / "hopper.cuh").write_text("#define HOPPER 4.0f\n")
    with pytest.raises(InputError, match="other included files or flags"):
        searched(kind, path, None, tmp_path / "t")


def test_what_no_variant_compiles_for_is_said_once(headers: Path, tmp_path: Path) -> None:
    path = cuda_spec(tmp_path / "spec")
    (headers / "hopper.cuh").rename(headers / "away")
    with pytest.raises(InputError, match=r"none of 1 variants .* can be built: .*hopper\.cuh: No such file"):
        tune(AddingGpu(), tuning(path, budget=1), tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_search_that_goes_on_notices_a_changed_file_of_the_reference(headers: Path, tmp_path: Path) -> None:
    checked = 'function = "add"\narguments = ["in", "in"]'
    by_kernel = 'kernel = "reference.cu"\nname = "twice"\ngrid = "ceil_div(N, 64)"\nblock = 64'
    path = write_spec(tmp_path / "spec", (checked, by_kernel), ("[64, 128]", "[64]"), ONE_MORE, *BY_MACRO)
    (tmp_path / "spec" / "reference.cu").write_text(CODE.replace("BLOCK", "64"))
    tune(AddingGpu(), tuning(path, budget=1), tmp_path / "t")
    (headers / "scale.cuh").write_text("#define SCALE 4.0f\n")
    with pytest.raises(InputError, match="other included files or flags"):
        tune(AddingGpu(), tuning(path, budget=1), resume=tmp_path / "t")


def doubled(first: str, again: str) -> str:
    """Return macros of which each holds the one before twice."""
    return "\n".join([first, *(again.format(new=n, old=n - 1) for n in range(1, 64)), "int A63;", CODE])


@pytest.mark.hostile
@pytest.mark.parametrize(
    "code",
    [
        doubled("#define A0 x", "#define A{new} A{old} A{old}"),
        '#include "twice.cu"\n#include "twice.cu"\n',
    ],
    ids=["macros", "includes"],
)
def test_macros_without_an_end_are_one_line(
    headers: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_PREPROCESSOR_CPU_S", 1)
    with pytest.raises(EndlessSourceError, match="do not come to an end") as error:
        seen(code)
    assert str(error.value).isprintable()


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not come to an end is ended sooner, by a process that starts with this limit."""
    monkeypatch.setattr(template_process, "_CPU_S", 0.25)
    monkeypatch.setattr(source, "_TEMPLATES", TemplateProcess())


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text",
    [
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
        "{{ 9 ** (9**9) }}",
        "{{ 'x' * 10**11 }}",
        "{{ 'x'|center(10**11) }}",
        "{{ [0] * 10**11 }}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    ],
)
def test_a_template_without_an_end_ends_the_search_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], short_limit: None, text: str
) -> None:
    path = write_spec(tmp_path / "spec")
    (tmp_path / "spec" / "twice.ptx.j2").write_text(text)
    assert run(["tune", "kernel", str(path), "--gpu", "simulated", "--out", str(tmp_path / "t")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ptxbench: error: twice.ptx.j2 does not come to an end")
    assert said.count("\n") == 1


def test_threads_that_render_an_endless_template_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
    short_limit: None,
) -> None:
    text, started = "{% for i in range(99999) %}{% for j in range(99999) %}.{% endfor %}{% endfor %}", []
    start = TemplateProcess._start
    monkeypatch.setattr(TemplateProcess, "_start", lambda self: (started.append(1), start(self))[1])
    process = TemplateProcess()
    with ThreadPoolExecutor(8) as pool:
        tried = [pool.submit(process.render, "a.j2", text, {"BLOCK": n}) for n in range(8)]
    assert all(isinstance(one.exception(), EndlessSourceError) for one in tried)
    assert len(started) == 1


def test_one_template_after_an_endless_one_is_rendered(short_limit: None) -> None:
    with pytest.raises(EndlessSourceError):
        seen("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "a.ptx.j2")
    assert seen("{{ BLOCK + 1 }}", "a.ptx.j2").code == b"65"
    assert "MORE" in seen("{{ MORE }}", "a.ptx.j2").refused


@pytest.mark.hostile
def test_text_of_a_source_in_another_encoding_is_refused_in_one_line(headers: Path) -> None:
    with pytest.raises(RefusedModuleError, match="nvcc failed"):
        variant_source(Source(Path("twice.cu"), b"#error \xe9\xff", "twice"), {}, "sm_90a").build()


@pytest.mark.hostile
def test_a_folder_of_temporary_files_may_have_any_name(
    headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "with a space:colon"
    (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
    monkeypatch.setenv("TMPDIR", str(tmp_path / name))
    assert seen().build().image.startswith(b"\x7fELF")


@pytest.mark.hostile
@pytest.mark.parametrize("key", ["source", "kernel"])
def test_a_nul_in_a_path_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    checked = 'function = "add"\narguments = ["in", "in"]'
    by_kernel = 'kernel = "a\\u0000.cu"\nname = "a"\ngrid = 1\nblock = 64'
    changes = {"source": ("twice.ptx.j2", "twice\\u0000.cu"), "kernel": (checked, by_kernel)}
    path = write_spec(tmp_path / "spec", changes[key])
    assert run(["tune", "kernel", str(path), "--gpu", "simulated", "--out", str(tmp_path / "t")]) == 2
    said = capsys.readouterr().err
    assert "NUL" in said
    assert said.count("\n") == 1
