import gzip
import hashlib
import json
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.storage.kernels import KernelStore


@pytest.fixture
def run(tmp_path):
    return tmp_path


@pytest.fixture
def folder(run):
    return run / "kernels"


@pytest.fixture
def store(run):
    store = KernelStore(run)
    store.add("fma/target", fake.PTX, fake.SASS, fake.CUBIN)
    return store


def test_kernel_comes_back_from_disk(store, run):
    again = KernelStore(run)
    entry = again.find(fake.PTX, OptLevel.O3)
    assert entry is not None
    assert again.cubin(entry) == fake.CUBIN
    assert again.ptx(entry) == fake.PTX
    assert again.sass(entry) == fake.SASS


def test_files_are_named_by_hash(store, folder):
    ptx = hashlib.sha256(fake.PTX.encode()).hexdigest()[:16]
    cubin = hashlib.sha256(fake.CUBIN.image).hexdigest()[:16]
    assert {p.name for p in folder.iterdir()} == {
        f"{ptx}.ptx.gz",
        f"{cubin}.sass.gz",
        f"{cubin}.cubin.gz",
        "index.json",
    }


def test_other_text_or_level_is_not_found(store):
    assert store.find(fake.PTX + " ", OptLevel.O3) is None
    assert store.find(fake.PTX, OptLevel.O0) is None


def test_same_ptx_at_two_levels(store, run):
    at_o0 = replace(fake.CUBIN, image=b"slow", opt_level=OptLevel.O0)
    store.add("fma/target", fake.PTX, "slow sass", at_o0)
    again = KernelStore(run)
    for cubin in (fake.CUBIN, at_o0):
        entry = again.find(fake.PTX, cubin.opt_level)
        assert entry is not None
        assert again.cubin(entry) == cubin


def test_same_kernel_again_is_no_change_and_files_are_reproducible(store, folder, tmp_path):
    store.add("fma/target", fake.PTX, fake.SASS, fake.CUBIN)
    assert len(store.entries) == 1
    for packed in folder.glob("*.gz"):
        assert packed.read_bytes()[4:8] == bytes(4)  # gzip's time stamp
    (tmp_path / "second").mkdir()
    KernelStore(tmp_path / "second").add("fma/target", fake.PTX, fake.SASS, fake.CUBIN)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "second" / "kernels" / path.name).read_bytes()


def test_other_machine_code_for_the_same_ptx_is_refused(store):
    with pytest.raises(InputError, match=r"fma/target -O3 is not .*made other machine code.*start a new run"):
        store.add("fma/target", fake.PTX, fake.SASS, replace(fake.CUBIN, image=b"other"))
    assert len(store.entries) == 1


def test_changed_ptx_under_the_same_name_is_refused(store):
    with pytest.raises(InputError, match=r"fma/target -O3 is not .*its PTX has changed"):
        store.add("fma/target", fake.PTX + "//", fake.SASS, fake.CUBIN)


def test_two_names_may_share_ptx(store, run):
    store.add("fma/again", fake.PTX, fake.SASS, fake.CUBIN)
    assert [e.name for e in KernelStore(run).entries] == ["fma/target", "fma/again"]


def test_files_that_a_killed_process_tore_are_written_again(store, run, folder):
    (folder / "index.json").unlink()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    again = KernelStore(run)
    assert again.entries == ()
    again.add("fma/target", fake.PTX, fake.SASS, fake.CUBIN)
    assert again.cubin(again.entries[0]) == fake.CUBIN
    assert again.ptx(again.entries[0]) == fake.PTX
    assert again.sass(again.entries[0]) == fake.SASS


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-9], lambda d: b"", lambda d: b"no gzip", lambda d: d[:30] + b"!!" + d[32:]]
)
def test_damaged_cubin_is_one_line(store, folder, damage):
    (path,) = folder.glob("*.cubin.gz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match="the file is damaged") as error:
        store.cubin(store.entries[0])
    assert "\n" not in str(error.value)


def test_a_small_file_that_unpacks_to_more_than_a_kernel_has_is_refused(store, folder):
    (path,) = folder.glob("*.cubin.gz")
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(65):
            file.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    with pytest.raises(InputError, match="has more than 64 MiB: it is no kernel; copy the run again"):
        store.cubin(store.entries[0])


def test_missing_files_and_strict_index(store, run, folder):
    entry = store.entries[0]
    for path in folder.glob("[0-9a-f]*.*"):
        path.unlink()
    for read in (store.cubin, store.ptx, store.sass):
        with pytest.raises(InputError, match=r"without its kernels .* copy it again"):
            read(entry)
    index = folder / "index.json"
    plain = json.loads(index.read_text())
    del plain[0]["target"]
    index.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=r"index.json: \[0\].target is missing"):
        KernelStore(run)
