"""Small files that ask for much, and what errors say of files."""

import os
import struct
import subprocess
import sys
import textwrap
import zlib

import mica
import pytest
from mica import data, io


def peak(code):
    """MiB that a program takes beyond what importing takes; it must end well."""
    prelude = """
    import resource, sys
    import mica
    def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    mica.ones(1000).sum().item()
    before = peak()
    """
    program = textwrap.dedent(prelude) + textwrap.dedent(code) + "\nprint(peak() - before)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, *extra, pixels=None):
    header = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(pixels if pixels is not None else bytes((width + 1) * height), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", header), *extra, chunk(b"IDAT", packed), chunk(b"IEND", b"")]
    )


def test_texts_of_an_image_are_not_unpacked(tmp_path):
    text = chunk(b"zTXt", b"key\0\0" + zlib.compress(bytes(7 << 20), 9))
    path = tmp_path / "texts.png"
    path.write_bytes(png(4, 4, *[text] * 250))
    assert path.stat().st_size < 3 << 20
    assert peak(f"assert mica.io.read_image({str(path)!r}).shape == (1, 4, 4)") < 64


def test_padding_allows_no_more_pixels(tmp_path):
    path = tmp_path / "padded.png"
    path.write_bytes(png(9000, 9000, chunk(b"prVt", bytes(4 << 20))))
    with pytest.raises(mica.IoError, match=r"9000 x 9000 pixels are more than .* MICA_READ_BUDGET"):
        io.read_image(path)


@pytest.mark.parametrize("read", [io.read_image, data.read_idx, data.read_csv])
def test_what_a_file_is_comes_before_its_size(tmp_path, read):
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 3 << 30)  # of zeros, which take no room on the disk
    name = f"mica.{read.__module__.split('.')[-1]}.{read.__name__}"
    code = f"""
    try: {name}({str(path)!r})
    except mica.IoError as e: assert "expected" in str(e)
    else: sys.exit("no error")
    """
    assert peak(code) < 64


def test_header_of_commas(tmp_path, monkeypatch):
    path = tmp_path / "commas.csv"
    path.write_bytes(b"," * (4 << 20))
    monkeypatch.setenv("MICA_READ_BUDGET", "64M")
    code = f"""
    try: mica.data.read_csv({str(path)!r}, header=True)
    except mica.IoError as e: assert "MICA_READ_BUDGET" in str(e)
    else: sys.exit("no error")
    """
    assert peak(code) < 64


def test_header_of_safetensors(tmp_path):
    path = tmp_path / "large.safetensors"
    path.write_bytes(struct.pack("<Q", 90_000_000) + b"{")
    os.truncate(path, 90_000_008)
    with pytest.raises(mica.IoError, match=r"may take 16 times that .* MICA_READ_BUDGET"):
        io.load_safetensors(path)


def test_the_budget_can_be_raised(tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(png(3000, 3000))
    code = f"import mica; print(mica.io.read_image({str(path)!r}).shape)"
    for budget, good in (("16M", False), ("1G", True)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "MICA_READ_BUDGET": budget},
        )
        assert (done.returncode == 0) == good
        assert good or "MICA_READ_BUDGET allows 16777216 bytes" in done.stderr


def test_loaded_tensors_are_copies(tmp_path):
    path = tmp_path / "a.safetensors"
    io.save_safetensors(path, {"a": mica.ones(1 << 20)})
    loaded = io.load_safetensors(path).tensors["a"]
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(bytes(1 << 20))
        file.truncate(4096)
    assert loaded.sum().item() == 1 << 20


def test_names_that_are_no_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/\x1b[2J\xff.png"
    with pytest.raises(mica.IoError, match=r"\\x1b\[2J\\xff.png: cannot be opened: No such file"):
        io.read_image(os.fsdecode(path))
    with open(path, "wb") as file:
        file.write(b"no image")
    with pytest.raises(mica.IoError, match=r"\\xff.png: expected a PNG or JPEG file"):
        io.read_image(os.fsdecode(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path):
    path = tmp_path / "secret.png"
    path.write_bytes(b"")
    path.chmod(0)
    with pytest.raises(mica.IoError, match="Permission denied"):
        io.read_image(path)


def test_folders_whose_names_are_no_text(tmp_path):
    folder = os.fsencode(tmp_path) + b"/set/\xff"
    os.makedirs(folder)
    with open(folder + b"/a.png", "wb") as file:
        file.write(png(2, 2))
    assert data.image_folder(tmp_path / "set").class_names == [os.fsdecode(b"\xff")]


def segment(kind, body):
    return bytes([0xFF, kind]) + struct.pack(">H", len(body) + 2) + body


def progressive_jpeg(side, scans):
    """A grey square whose coefficients are all zero, in that many scans: first the means of its
    blocks, then each frequency, and bits of them that come later."""
    blocks = (side // 8) ** 2
    one_code = bytes([1]) + bytes(15)  # a table of a single code, the bit 0
    tables = b"".join(
        segment(0xC4, bytes([table]) + one_code + symbol)
        for table, symbol in (
            (0x00, b"\x00"),
            (0x10, b"\xe0"),  # no difference; 16384 blocks or more without coefficients
        )
    )
    frame = segment(0xC2, struct.pack(">BHHB", 8, side, side, 1) + bytes([1, 0x11, 0]))
    head = b"\xff\xd8" + segment(0xDB, bytes([0]) + bytes([1] * 64)) + frame + tables

    def scan(first, last, high, low, bits):
        header = segment(0xDA, bytes([1, 1, 0, first, last, high << 4 | low]))
        return header + bytes(-(-bits // 8) * [0])

    assert blocks == 16384  # one code and 14 bits for the run
    orders = [(k, low) for low in range(13, -1, -1) for k in range(1, 64)]
    rest = [scan(k, k, low + 1 if low < 13 else 0, low, 15) for k, low in orders[: scans - 1]]
    return head + scan(0, 0, 0, 0, blocks) + b"".join(rest) + b"\xff\xd9"


def test_many_scans_of_an_image(tmp_path):
    path = tmp_path / "scans.jpeg"
    path.write_bytes(progressive_jpeg(1024, 60))
    assert io.read_image(path).shape == (1, 1024, 1024)
    path.write_bytes(progressive_jpeg(1024, 800))
    assert path.stat().st_size < 20000
    with pytest.raises(mica.IoError, match=r"scans\.jpeg: .*more than 500 scans of 1024 x 1024"):
        io.read_image(path)
