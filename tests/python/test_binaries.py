"""What the linker put into the binaries, read from their ELF headers."""

import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from mica import _mica

PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
DT_FLAGS, DT_FLAGS_1, DT_RPATH, DT_RUNPATH, DT_STRTAB, DT_TEXTREL = 30, 0x6FFFFFFB, 15, 29, 5, 22
DF_BIND_NOW, DF_1_NOW = 8, 1


def binaries():
    extension = Path(_mica.__file__)
    around = [extension.parent, extension.parents[2] / "lib", extension.parents[2] / "bin"]
    names = ["libmica.so", "libmica_cuda.so", "mica", "bin/mica"]
    found = [extension] + [folder / name for folder in around for name in names]
    return sorted({p.resolve() for p in found if p.is_file()})


def segments(file):
    """Of a 64-bit little-endian file: (type, flags, offset, size, address)."""
    assert file[:6] == b"\x7fELF\x02\x01"
    start, size, count = *struct.unpack_from("<Q", file, 32), *struct.unpack_from("<2H", file, 54)
    for i in range(count):
        kind, flags, offset, address, _, length = struct.unpack_from(
            "<2I4Q", file, start + i * size
        )
        yield kind, flags, offset, length, address


@pytest.mark.parametrize("path", binaries(), ids=lambda p: p.name)
def test_binaries_are_hardened(path):
    file = path.read_bytes()
    by_kind = {kind: (flags, offset, length) for kind, flags, offset, length, _ in segments(file)}
    assert PT_GNU_RELRO in by_kind
    assert by_kind[PT_GNU_STACK][0] & 1 == 0, "an executable stack"
    _, offset, length = by_kind[PT_DYNAMIC]
    entries = dict(struct.iter_unpack("<2Q", file[offset : offset + length // 16 * 16]))
    assert entries.get(DT_FLAGS, 0) & DF_BIND_NOW or entries.get(DT_FLAGS_1, 0) & DF_1_NOW
    assert DT_TEXTREL not in entries
    assert all(not (flags & 1 and flags & 2) for kind, flags, *_ in segments(file) if kind == 1)


def symbols_of(path, *options):
    """The dynamic symbols of a file: (address, kind, name)."""
    if not shutil.which("nm"):
        pytest.skip("nm is not installed")
    command = ["nm", "-D", *options, path]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    split = [line.split() for line in lines]
    return [(int(words[0], 16) if len(words) > 2 else 0, *words[-2:]) for words in split]


@pytest.mark.parametrize("path", binaries(), ids=lambda p: p.name)
def test_stacks_and_jumps_are_protected(path):
    needed = {name.split("@")[0] for _, _, name in symbols_of(path, "--undefined-only")}
    assert "__stack_chk_fail" in needed
    of_library = path.name.startswith("libmica.so")
    if of_library:
        assert any(name.endswith("_chk") for name in needed), "FORTIFY"
    if platform.machine() != "x86_64" or not path.name.startswith("libmica"):
        return
    # The host's part of .cu files, most of libmica_cuda, is compiled without it.
    file = path.read_bytes()
    loads = [s for s in segments(file) if s[0] == 1]
    starts = [
        file[address - at + offset : address - at + offset + 4]
        for address, kind, name in symbols_of(path, "--defined-only")
        if kind == "T" and name.startswith("_ZN4mica")
        for _, _, offset, length, at in loads
        if at <= address < at + length
    ]
    marked = sum(start == b"\xf3\x0f\x1e\xfa" for start in starts)  # endbr64
    assert starts and marked / len(starts) > (0.99 if of_library else 0.3)


def test_there_are_binaries():
    names = {p.name for p in binaries()}
    assert any(n.startswith("libmica.so") for n in names)
    assert any(n.startswith("_mica") for n in names)


# What is in the namespace mica, and what the compiler makes for it.
OF_MICA = re.compile(r"_Z(GV|GR|TI|TS|TV|TT|TH|TW|Thn?\d+_|Tvn?\d+_n?\d+_)?P?K?Z*N[KORV]*4mica")


@pytest.mark.parametrize("path", binaries(), ids=lambda p: p.name)
def test_libraries_export_nothing_but_the_namespace_and_the_c_interface(path):
    if not path.name.startswith("libmica"):
        pytest.skip("a program, or Python's module")
    symbols = {name for _, _, name in symbols_of(path, "--defined-only")}
    functions_of_c = {"mica_cuda_open"}  # what libmica looks for in libmica_cuda
    if path.name.startswith("libmica.so"):
        functions_of_c = set((Path(__file__).parent / "c_symbols.txt").read_text().split())
    assert any(OF_MICA.match(name) for name in symbols)
    assert {name for name in symbols if not OF_MICA.match(name)} == functions_of_c
