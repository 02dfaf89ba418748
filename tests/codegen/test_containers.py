"""Device code inside of fat binaries, and of what a host's compiler makes of them."""

import struct

import pyarrow as pa
import pytest
from fakes.fat_binary import HOST, entry, fatbin

from ptxbench.codegen.containers import DeviceImage, device_images, is_cubin
from ptxbench.core.errors import InputError

PTX_TEXT = b".version 8.0\n.target sm_80\n.address_size 64\n" * 20
CUBIN = b"\x7fELF" + bytes(14) + struct.pack("<H", 190) + bytes(44)
BOTH = (entry(2, 90, CUBIN), entry(1, 80, PTX_TEXT))


def test_machine_code_and_ptx_are_told_apart_with_their_architecture():
    images = device_images(fatbin(*BOTH), "f")
    assert images == (DeviceImage(90, False, CUBIN), DeviceImage(80, True, PTX_TEXT))
    assert [one.name for one in images] == ["machine code of sm_90", "PTX of sm_80"]


@pytest.mark.parametrize(("codec", "flag"), [("zstd", 0x8000), ("lz4_raw", 0x2000)])
def test_what_nvcc_compressed_is_unpacked(codec, flag):
    packed = pa.compress(PTX_TEXT, codec=codec, asbytes=True)
    images = device_images(fatbin(entry(1, 80, packed, 0x11 | flag, len(PTX_TEXT))), "f")
    assert images[0].data == PTX_TEXT


def test_a_host_program_may_hold_several():
    code = HOST + bytes(8) + fatbin(BOTH[0]) + bytes(16) + fatbin(BOTH[1])
    assert [one.arch for one in device_images(code, "f")] == [90, 80]
    assert device_images(HOST, "f") == ()


def test_the_objects_in_a_static_library_are_looked_into():
    def member(data):
        return f"{'a.o/':16}{0:<32}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)

    objects = b"odd", HOST + bytes(8) + fatbin(BOTH[0]), HOST + bytes(8) + fatbin(BOTH[1])
    library = b"!<arch>\n" + b"".join(map(member, objects))
    assert [one.arch for one in device_images(library, "f")] == [90, 80]
    with pytest.raises(InputError, match="its fat binary is cut"):
        device_images(library[:-60], "f")
    for _ in range(1100):
        library = b"!<arch>\n" + member(library)
    assert device_images(library, "f") == ()


def test_what_a_link_makes_code_of_is_said():
    (image,) = device_images(fatbin(entry(8, 90, b"packed by nobody knows", 0x18011, 100)), "f")
    assert (image.name, image.data) == ("code of sm_90 that is not linked yet", b"")


@pytest.mark.parametrize("cut", [1, 70, 200])
def test_a_cut_fat_binary_is_refused(cut):
    with pytest.raises(InputError, match="its fat binary is cut"):
        device_images(fatbin(*BOTH)[:-cut], "f")


def test_what_does_not_unpack_is_refused():
    broken = fatbin(entry(1, 80, b"no zstd at all", 0x8011, 100))
    with pytest.raises(InputError, match="does not unpack"):
        device_images(broken, "f")


def test_a_cubin_is_no_host_program():
    assert is_cubin(CUBIN)
    assert not is_cubin(HOST)
    assert not is_cubin(PTX_TEXT)
