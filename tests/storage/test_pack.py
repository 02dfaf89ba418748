"""A run as one file: what is in it, what is not, and whose file is refused."""

import hashlib
import io
import json
import platform
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from pack_file import read_pack

from ptxbench.core.errors import InputError
from ptxbench.storage import codec
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.pack import MEMBERS, write_pack

KEPT = Path(__file__).parents[2] / "results" / "nvidia-h200" / "repeat-1"


@pytest.fixture
def run(tmp_path):
    """A kept run whose manifest says where it was made."""
    folder = tmp_path / "secret-name"
    shutil.copytree(KEPT, folder)
    manifest = replace(
        read_run_manifest(folder), command=("ptxbench", "table", "--out", "/home/jane/secret-name")
    )
    (folder / "manifest.json").write_text(codec.to_text(manifest))
    return folder


def members_of(path):
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def written(path, members):
    """A tar of (name or TarInfo, content)."""
    with tarfile.open(path, "w") as tar:
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_a_pack_holds_what_the_run_found_and_is_the_same_each_time(run, tmp_path):
    first, second = write_pack(run, tmp_path / "one.tar"), write_pack(run, tmp_path / "two.tar")
    assert first.read_bytes() == second.read_bytes()
    pack = read_pack(first)
    assert tuple(members_of(first)) == MEMBERS
    assert pack.files["table.csv"] == (KEPT / "table.csv").read_bytes()
    assert pack.manifest.sensors == read_run_manifest(KEPT).sensors
    assert {row.instruction for row in pack.rows} < {name for name, _ in pack.measured_code}
    assert pack.is_solved
    assert write_pack(run) == run.with_suffix(".tar")


def test_it_does_not_say_who_made_it_and_where(run, tmp_path):
    data = write_pack(run, tmp_path / "one.tar").read_bytes().decode()
    manifest = json.loads(members_of(tmp_path / "one.tar")["manifest.json"])
    assert not manifest.get("command")
    assert not manifest.get("host")
    for word in ("jane", "secret", str(tmp_path), platform.node() + "\n", "root"):
        assert word not in data


def test_a_path_that_is_left_is_named(run, tmp_path):
    table = run / "table.csv"
    table.write_text(table.read_text().replace(",ok,", ",ok,see /home/jane/log.txt", 1))
    with pytest.raises(InputError, match=r"table\.csv holds the path '/home/jane/log.txt'"):
        write_pack(run, tmp_path / "one.tar")


def test_a_run_without_its_kernels_or_its_end_cannot_be_packed(run, tmp_path):
    (run / "partial").mkdir()
    (run / "partial" / "records.jsonl").write_text("")
    with pytest.raises(InputError, match="is not finished"):
        write_pack(run, tmp_path / "one.tar")
    shutil.rmtree(run / "partial")
    (run / "kernels.zip").unlink()
    with pytest.raises(InputError, match="without its kernels"):
        write_pack(run, tmp_path / "one.tar")


@pytest.mark.parametrize("name", [name for name in MEMBERS if name != "sha256.json"])
def test_what_was_changed_is_named(run, tmp_path, name):
    members = members_of(write_pack(run, tmp_path / "one.tar"))
    members[name] = members[name].replace(b"1", b"2")
    changed = written(tmp_path / "changed.tar", members.items())
    with pytest.raises(InputError, match=f"{name} is not as it was packed"):
        read_pack(changed)


def link(kind):
    info = tarfile.TarInfo("table.csv")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.hostile
@pytest.mark.parametrize(
    "member",
    [
        "/etc/passwd",
        "../table.csv",
        "results/../../table.csv",
        "records.parquet",
        link(tarfile.SYMTYPE),
        link(tarfile.LNKTYPE),
        link(tarfile.FIFOTYPE),
        link(tarfile.DIRTYPE),
    ],
    ids=lambda member: member if isinstance(member, str) else f"table.csv of type {member.type.decode()}",
)
def test_members_that_have_no_place_there_are_refused(run, tmp_path, member):
    members = list(members_of(write_pack(run, tmp_path / "one.tar")).items())
    data = b"x"
    if isinstance(member, tarfile.TarInfo):
        members, data = [(name, held) for name, held in members if name != member.name], b""
    hostile = written(tmp_path / "hostile.tar", [(member, data), *members])
    with pytest.raises(InputError, match="has no place in a pack"):
        read_pack(hostile)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hostile.tar", "one.tar", "secret-name"]


@pytest.mark.hostile
@pytest.mark.parametrize(
    "smuggled",
    [
        {"command": ["ptxbench", "table"]},
        {"host": {"name_hash": "0" * 12, "python": "3.12", "os": "Linux"}},
        {"part": {"catalogue": [["mine.toml", "[[row]]"]]}},
    ],
    ids=str,
)
def test_a_manifest_that_pack_does_not_write_is_refused(run, tmp_path, smuggled):
    members = members_of(write_pack(run, tmp_path / "one.tar"))
    manifest = json.loads(members["manifest.json"])
    manifest |= {key: {**manifest[key], **of} if key == "part" else of for key, of in smuggled.items()}
    members["manifest.json"] = json.dumps(manifest).encode()
    sums = [
        {"name": name, "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
        if name != "sha256.json"
    ]
    members["sha256.json"] = json.dumps(sums).encode()
    with pytest.raises(InputError, match="its manifest is not one that"):
        read_pack(written(tmp_path / "smuggled.tar", members.items()))


@pytest.mark.hostile
@pytest.mark.parametrize("data", [b"", b"\0" * 10240, b"PK\3\4", b"x" * 600])
def test_what_is_no_tar_or_an_empty_one_is_said(tmp_path, data):
    path = tmp_path / "no.tar"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"no\.tar (is no pack|lacks)"):
        read_pack(path)


@pytest.mark.hostile
def test_a_member_twice_is_refused(run, tmp_path):
    members = list(members_of(write_pack(run, tmp_path / "one.tar")).items())
    twice = written(tmp_path / "twice.tar", [*members, members[0]])
    with pytest.raises(InputError, match=r"manifest\.json' has no place"):
        read_pack(twice)
