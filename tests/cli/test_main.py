import os
import re
import subprocess
import sys

import click
import pytest

from ptxbench import __version__
from ptxbench.cli import main as cli
from ptxbench.cli.main import run
from ptxbench.core.errors import GpuError, InputError, ToolError

HEAVY = {"cuda", "pynvml", "pandas", "numpy", "scipy", "pyarrow", "jinja2", "rich", "matplotlib"}


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, **options
    )


def failing(monkeypatch, error):
    """Make `ptxbench cost` raise."""

    @click.command(name="cost")
    def command():
        raise error

    monkeypatch.setattr(cli, "import_module", lambda _name: type("module", (), {"command": command}))
    return run(["cost"])


def test_help_names_every_command_and_loads_none_of_them():
    code = (
        "import sys\nfrom ptxbench.cli.main import run\ncode = run(['--help'])\n"
        "print(*sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    done = python(code)
    assert done.returncode == 0
    loaded = set(done.stderr.split())
    assert not {name.partition(".")[0] for name in loaded} & HEAVY
    assert {name for name in loaded if name.startswith("ptxbench.")} == {
        "ptxbench.catalogue",
        "ptxbench.catalogue.own_files",
        "ptxbench.cli",
        "ptxbench.cli.main",
        "ptxbench.cli.terminal",
        "ptxbench.core",
        "ptxbench.core.errors",
        "ptxbench.core.printable",
        "ptxbench.core.version",
        "ptxbench.core.wrap",
    }
    for name in cli._SUBCOMMANDS:
        assert re.search(rf"^  {name} +[A-Z].*\.$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "words", [["table"], ["tune", "gemm"], ["estimate"], ["roofline", "run"]], ids=" ".join
)
def test_help_of_a_command_loads_nothing_heavy(words):
    code = f"import sys\nfrom ptxbench.cli.main import run\nrun({[*words, '--help']})\n"
    done = python(code + "print(*sys.modules, file=sys.stderr)")
    assert not {name.partition(".")[0] for name in done.stderr.split()} & HEAVY


def test_importing_the_package_loads_nothing_heavy():
    done = python("import ptxbench, sys; print(*sys.modules)")
    assert not {name.partition(".")[0] for name in done.stdout.split()} & HEAVY


def test_every_command_has_a_help_and_imports_no_gpu_library(lacking_pandas):
    names = list(cli._SUBCOMMANDS)
    done = python(
        "import sys\nfrom ptxbench.cli.main import run\n"
        f"codes = [run([name, '--help']) for name in {names}]\n"
        "print(*sys.modules, file=sys.stderr)\nsys.exit(any(codes))",
        env=lacking_pandas,
    )
    assert done.returncode == 0
    assert re.findall(r"^Usage: ptxbench (\S+)", done.stdout, re.MULTILINE) == names
    assert not {module.partition(".")[0] for module in done.stderr.split()} & {"cuda", "pynvml", "pandas"}


def test_without_a_command_the_help_is_printed(capsys):
    assert run([]) == 0
    assert "\nLook up:\n" in capsys.readouterr().out


def test_the_version(capsys):
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(("old", "new"), cli._FORMER.items(), ids=lambda words: " ".join(words))
def test_a_former_command_is_the_present_one_and_says_so_on_one_line(old, new, capsys):
    assert old[0] not in cli._SUBCOMMANDS or len(old) > 1
    assert run([*old, "--help"]) == 0
    said = capsys.readouterr()
    assert said.err == f"ptxbench: `ptxbench {' '.join(old)}` is now `ptxbench {' '.join(new)}`\n"
    assert run([*new, "--help"]) == 0
    assert said.out == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["bogus"], "No such command 'bogus'. Try 'ptxbench --help'."),
        (["cots"], "No such command 'cots'. Did you mean 'cost'? Try 'ptxbench --help'."),
        (["--bogus"], "No such option"),
        (["run", "--bogus", "--", "true"], "No such option"),
        (["show"], "name an instruction, or a file of instructions by --catalogue"),
        (["show", "fma.rn.f32", "--opt-level", "O9"], "'O9' is not one of 'O0', 'O3'"),
        (["verify", "--target", "sm_1"], "'sm_1' is not one of 'sm_75'"),
        (["tune", "gemm", "--m", "0"], "0 is not in the range"),
        (["verify", "fma.rn.f23"], "no instruction fits 'fma.rn.f23'; did you mean fma.rn.f32"),
        (["cost", "--list", "--category", "poetry"], "unknown category 'poetry'; the catalogue has "),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(capsys, arguments, complaint):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ptxbench: error: ")
    assert captured.err.count("\n") == 1
    assert complaint in captured.err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("no such row"), 2, "ptxbench: error: no such row\n"),
        (ToolError("two\nlines"), 2, "ptxbench: error: two lines\n"),
        (GpuError("no driver"), 3, "ptxbench: error: no driver\n"),
        (
            PermissionError(13, "Permission denied", "/x"),
            2,
            "ptxbench: error: cannot use /x: Permission denied\n",
        ),
    ],
)
def test_an_expected_error_is_one_line_and_its_exit_code(monkeypatch, capsys, error, code, line):
    assert failing(monkeypatch, error) == code
    assert capsys.readouterr().err == line


def test_ctrl_c_is_one_line_and_exit_code_130(monkeypatch, capsys):
    assert failing(monkeypatch, KeyboardInterrupt()) == 130
    assert capsys.readouterr().err.strip() == "ptxbench: interrupted"


def test_an_exit_code_of_a_command_comes_through(monkeypatch):
    assert failing(monkeypatch, SystemExit(1)) == 1


def test_an_unknown_bug_keeps_its_traceback(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        failing(monkeypatch, ZeroDivisionError())


@pytest.mark.hostile
def test_a_reader_that_goes_away_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", "from ptxbench.cli.main import main; main()", "cost", "--list"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.hostile
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_behind_the_output_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-c", "from ptxbench.cli.main import main; main()", "cost", "--list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "ptxbench: error: cannot write the standard output: No space left on device\n"


def shell(script, **options):
    """Run a shell line in which $P is the command line."""
    start = f"{sys.executable} -c 'from ptxbench.cli.main import main; main()'"
    return subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {script.replace('$P', start)}"],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.mark.hostile
@pytest.mark.parametrize("arguments", ["--help", "cost --list"])
def test_a_closed_output_is_no_traceback(arguments):
    done = shell(f"$P {arguments} >&-")
    assert (done.returncode, shell(f"$P {arguments} 2>&- >&-").returncode) == (0, 0)
    assert "Traceback" not in done.stderr


@pytest.mark.hostile
def test_a_reader_that_ended_is_the_code_of_sigpipe_for_help_too():
    done = shell("(sleep 0.01; $P table --help) | true")
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.hostile
def test_a_deleted_working_directory_is_named(tmp_path):
    place = tmp_path / "gone"
    place.mkdir()
    done = shell(f"cd {place} && rmdir {place} && $P table --gpu simulated --out run")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("ptxbench: error: ")
    assert "run" in done.stderr or "working directory was deleted" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.hostile
def test_a_limit_on_file_size_names_the_file(tmp_path):
    done = shell(f"ulimit -f 1; $P cost --list > {tmp_path / 'all.txt'}")
    assert (done.returncode, done.stderr) == (
        2,
        "ptxbench: error: cannot write the standard output: File too large\n",
    )
    done = shell(f"ulimit -f 8; $P table fma.rn.f32 --gpu simulated --out {tmp_path / 'run'}")
    assert done.returncode == 2
    assert re.search(r"error: cannot write .*/|ptxas was stopped by SIGXFSZ.* file in /", done.stderr)
    assert "ulimit -f" in done.stderr
    assert done.stderr.count("error: ") == 1


@pytest.mark.parametrize("group", ["tune", "roofline", "clocks", "meter"])
def test_a_group_without_a_command_shows_its_commands_line_by_line(group, capsys):
    assert run([group]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"Usage: ptxbench {group}")
    assert not [line for line in said if line.endswith("...") and not line.startswith("Usage")]
    assert "Commands:" in said
