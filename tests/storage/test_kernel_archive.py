"""A finished run keeps its kernels in one file: the same for the same kernels, and never trusted."""

import shutil
import struct
import tracemalloc
import zipfile

import pytest
from fakes import run as fake

from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.model.solved import inputs_of
from ptxbench.storage.kernel_archive import KernelArchive, write_archive
from ptxbench.storage.kernels import KernelStore


def filled(run):
    run.mkdir(exist_ok=True)
    store = KernelStore(run)
    store.add("fma/target", fake.PTX, fake.SASS, fake.CUBIN)
    return store


def assert_holds(store):
    (entry,) = store.entries
    assert store.find(fake.PTX, OptLevel.O3) == entry
    assert (store.cubin(entry), store.ptx(entry), store.sass(entry)) == (fake.CUBIN, fake.PTX, fake.SASS)


@pytest.fixture
def packed(tmp_path):
    run = tmp_path / "run"
    store = filled(run)
    store.pack()
    store.sweep()
    return run


def rewritten(run, change):
    """Write the run's kernels.zip again with other members."""
    path = run / "kernels.zip"
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    change(members)
    write_archive(path, members)


def test_packed_kernels_come_back_and_are_still_those_that_a_solution_was_made_from(tmp_path):
    store = filled(tmp_path)
    before = inputs_of(tmp_path)
    store.pack()
    store.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["kernels.zip"]
    assert inputs_of(tmp_path) == before
    assert_holds(store)
    assert_holds(KernelStore(tmp_path))
    with pytest.raises(ValueError, match="takes no more kernels"):
        KernelStore(tmp_path).add("other", fake.PTX + " ", fake.SASS, fake.CUBIN)


def test_the_same_kernels_give_the_same_bytes(packed, tmp_path):
    other = tmp_path / "other"
    filled(other).pack()
    assert (other / "kernels.zip").read_bytes() == (packed / "kernels.zip").read_bytes()
    with zipfile.ZipFile(packed / "kernels.zip") as file:
        assert file.namelist() == sorted(file.namelist())
        assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_until_it_is_swept_the_folder_counts_and_takes_more(tmp_path):
    """As of a run that was killed while it was finished, and is resumed."""
    filled(tmp_path).pack()
    store = KernelStore(tmp_path)
    store.add("again", fake.PTX, fake.SASS, fake.CUBIN)
    store.pack()
    store.sweep()
    assert [entry.name for entry in KernelStore(tmp_path).entries] == ["fma/target", "again"]


def test_what_a_killed_sweep_left_is_not_read(packed):
    (packed / "kernels").mkdir()
    (packed / "kernels" / "0123.ptx.gz").write_bytes(b"torn")
    store = KernelStore(packed)
    assert_holds(store)
    store.sweep()
    assert not (packed / "kernels").exists()


def test_nothing_is_swept_that_is_not_packed(tmp_path):
    store = filled(tmp_path)
    store.sweep()
    assert_holds(KernelStore(tmp_path))


@pytest.mark.parametrize("kind", ["ptx", "sass", "cubin"])
def test_a_missing_or_other_member_is_one_line(packed, kind):
    (entry,) = KernelStore(packed).entries
    digest = entry.ptx_sha256 if kind == "ptx" else entry.cubin_sha256
    name = f"{digest[:16]}.{kind}"
    if kind != "sass":  # nothing says what the SASS of a cubin must be
        rewritten(packed, lambda members: members.update({name: b"other"}))
        with pytest.raises(InputError, match=f"{name}: the file is damaged"):
            getattr(KernelStore(packed), kind)(entry)
    rewritten(packed, lambda members: members.pop(name))
    with pytest.raises(InputError, match=f"kernels.zip holds no {name}; copy the run again"):
        getattr(KernelStore(packed), kind)(entry)


def read_all(path):
    archive = KernelArchive(path)
    with zipfile.ZipFile(path) as file:
        return [archive.read(name) for name in file.namelist()]


def lzma_packed(path, members):
    write_archive(path, members, small=True)
    return path


def test_kernels_packed_by_lzma_are_read_the_same(packed, tmp_path):
    archive = KernelArchive(packed / "kernels.zip")
    members = {name: archive.read(name) for name in archive.names}
    assert not archive.is_lzma
    again = KernelArchive(lzma_packed(packed / "kernels.zip", members))
    assert again.is_lzma
    assert {name: again.read(name) for name in again.names} == members
    assert_holds(KernelStore(packed))


@pytest.mark.parametrize(
    ("place", "bytes_"),
    [
        ((0, 6), struct.pack("<H", 0x803)),  # encrypted, in the header before the member alone
        ((0, 30), b"b.ptx"),  # another name there
        ((0, 22), struct.pack("<L", 7)),  # another size there
        ((0, 35), b"\0\0\6\0"),  # 6 bytes of LZMA properties
        ((0, 39), b"\xff"),  # lc, lp and pb that LZMA does not have
        ((0, 40), struct.pack("<L", 2**31)),  # a dictionary of 2 GiB
        ((0, 48), b"\xff\xff\xff\xff"),  # other data
        ((1, 16), b"\0\0\0\0"),  # another checksum in the directory
        ((1, 8), struct.pack("<H", 0x803)),  # encrypted, in the directory
        ((1, 20), struct.pack("<L", 2**30)),  # goes on beyond the file
    ],
)
def test_a_damaged_lzma_member_is_one_line(tmp_path, place, bytes_):
    path = lzma_packed(tmp_path / "kernels.zip", {"a.ptx": bytes(range(256)) * 40})
    data = bytearray(path.read_bytes())
    begin = (0, data.index(b"PK\x01\x02"))[place[0]] + place[1]
    data[begin : begin + len(bytes_)] = bytes_
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"kernels\.zip: .*copy the run again") as error:
        KernelArchive(path).read("a.ptx")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("said", [100, 2**20 + 1])
def test_an_lzma_bomb_that_lies_about_its_size_is_not_unpacked(tmp_path, said):
    size = 24 * 2**20
    path = lzma_packed(tmp_path / "kernels.zip", {"a.ptx": bytes(size)})
    path.write_bytes(path.read_bytes().replace(struct.pack("<L", size), struct.pack("<L", said)))
    tracemalloc.start()
    with pytest.raises(InputError, match="the file is damaged"):
        KernelArchive(path).read("a.ptx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20  # 8 MiB of it are the dictionary


@pytest.mark.parametrize(
    "damage",
    [lambda d: d[:-30], lambda d: b"", lambda d: b"no zip", lambda d: d[:60] + b"\xff" * 9 + d[69:]],
)
def test_a_damaged_file_is_one_line(packed, damage):
    path = packed / "kernels.zip"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"kernels\.zip: the file is damaged") as error:
        read_all(path)
    assert "\n" not in str(error.value)


def test_a_bomb_is_refused_before_it_is_unpacked(packed):
    rewritten(packed, lambda members: members.update({"index.json": bytes(80 * 2**20)}))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"index\.json has more than 64 MiB"):
        KernelStore(packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


def test_a_bomb_that_lies_about_its_size_is_not_unpacked_either(packed):
    size = 80 * 2**20
    rewritten(packed, lambda members: members.update({"index.json": bytes(size)}))
    path = packed / "kernels.zip"
    path.write_bytes(path.read_bytes().replace(struct.pack("<L", size), struct.pack("<L", 100)))
    tracemalloc.start()
    with pytest.raises(InputError, match="the file is damaged"):
        KernelStore(packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


def test_no_name_in_the_file_becomes_a_path(packed, tmp_path):
    rewritten(packed, lambda members: members.update({"../../evil": b"x", "/etc/evil": b"x"}))
    before = sorted(tmp_path.rglob("*"))
    store = KernelStore(packed)
    assert_holds(store)
    store.sweep()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_copy_of_the_run_is_whole(packed, tmp_path):
    shutil.copytree(packed, tmp_path / "copy")
    assert_holds(KernelStore(tmp_path / "copy"))
