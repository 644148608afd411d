"""Readers of files: whatever the bytes, a value, an IoError or an Unsupported that names the file,
within 1 GB and 5 s."""

import contextlib
import gzip
import json
import os
import random
import re
import struct
import sys
import tempfile
import time
import zlib

from child import HERE, in_child, limit_memory

READERS = [
    *("png", "jpeg", "idx", "gzip", "csv", "safetensors", "checkpoint", "saved", "torch"),
    *("engine", "onnx"),
    *("tokenizer", "vocab"),
]
SUFFIXES = {"gzip": ".gz", "tokenizer": ".json", "vocab": ".txt"}
GOLDEN = os.path.join(HERE, "../golden")


def seeds(reader):
    import mica

    if reader == "png":
        images = [mica.full((c, 5, 7), 90, dtype=mica.uint8) for c in (1, 3)]
        return [mica.io.encode_png(i) for i in images] + samples("Png")
    if reader == "jpeg":
        return samples("Jpeg")
    if reader == "idx":
        return [
            b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 4) + bytes(24),
            b"\0\0\x0e\x01" + struct.pack(">I", 2) + bytes(16),
        ]
    if reader == "gzip":
        return [gzip.compress(data) for data in seeds("idx")]
    if reader == "csv":
        return [b"a,b,c\n1,2,0\n-4.5e3, 5 ,1\n", b'"x ""y""";z\r\n1;2\r\n\r\n3;4']
    if reader == "torch":
        names = ("torch_archive.pt", "torch_legacy.pt", "torch_module.pt")
        return [contents(os.path.join(GOLDEN, name)) for name in names]
    if reader == "engine":
        return engines()
    if reader == "onnx":
        sys.path.insert(0, os.path.join(HERE, "../onnx"))
        import write

        return [write.classifier(), write.branches()]
    if reader in ("tokenizer", "vocab"):
        vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nwort\n"
        pieces = mica.text.Tokenizer.from_wordpiece(vocab).to_json().encode()
        pairs = mica.text.Tokenizer.train_bpe(["aa ab aab"], 260, special_tokens=["<e>"])
        return [vocab.encode()] if reader == "vocab" else [pieces, pairs.to_json().encode()]
    tensors = {"a": mica.ones(2, 3), "b": mica.zeros(4, dtype=mica.bool)}
    trees = [
        {"weights": {"a": mica.ones(3, 4), "b": [mica.zeros(2), None, 1.5]}, "epoch": 3},
        [("x", True), {1: mica.arange(5), "nested": {"deep": [[], {}, ()]}}],
    ]
    write = {
        "safetensors": [lambda p: mica.io.save_safetensors(p, tensors, {"key": "value"})],
        "checkpoint": [
            lambda p: mica.io.save_checkpoint(p, mica.io.Checkpoint(tensors, {}, {"config": "{}"}))
        ],
        "saved": [lambda p, tree=tree: mica.save(tree, p) for tree in trees],
    }[reader]
    with tempfile.TemporaryDirectory() as folder:
        path, written = os.path.join(folder, "file"), []
        for function in write:
            function(path)
            written.append(contents(path))
    return written


def engines():
    import mica
    from mica import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(1, 2, 3), nn.Linear(8, 3)

        def forward(self, x):
            y = nn.functional.max_pool2d(mica.relu(self.conv(x)), 2).reshape(len(x), -1)
            return {"y": mica.softmax(self.fc(y), -1), "parts": (y[:, 1:], y.mean())}

    def many(x):
        f, y = nn.functional, x.reshape(2, 36)
        return [
            x.permute(0, 2, 3, 1).expand(2, 6, 6, 3),
            *(y.cumsum(1), y.amax(1), y.argmax(1), y.std(1), y.logsumexp(0), y.sort(-1)[0]),
            *(y.flip(1), y.roll(3, 1), mica.tril(x), mica.topk(y, 3)[1], mica.cat([y, y * 2], 1)),
            *(y.norm(dim=1), y.prod(0), (y > 0).any(1), y.diagonal()),
            *(f.pad(x, (1, 2), mode="reflect"), f.pad(x, (1, 2), value=3.0)),
            *(f.interpolate(x, size=(3, 9), mode=m) for m in ("nearest", "bilinear", "bicubic")),
            *(f.avg_pool2d(x, 2), f.adaptive_avg_pool2d(x, 4), f.unfold(x, 3, padding=1)),
            *(f.group_norm(x.expand(2, 4, 6, 6), 2), f.layer_norm(y, [36]), f.gelu(y)),
            *(f.one_hot(y.argmax(1), 40), mica.gather(y, 1, y.argsort(1)), y.clamp(-1, 1)),
            f.scaled_dot_product_attention(x, x, x, is_causal=True),
            f.embedding(y.argmax(1), mica.ones(40, 3)),
            f.conv_transpose2d(x, mica.ones(1, 2, 3, 3), stride=2),
        ]

    x, written = mica.ones(2, 1, 6, 6), []
    nets = [
        (Net(), x, {}),
        (Net(), x, {"dynamic": {"x": {0: "n"}}}),
        (Net(), x, {"precision": "bf16"}),
        (Net(), x, {"precision": "int8", "calibration": [x]}),
        (many, x, {}),
        (nn.LSTM(3, 2, bidirectional=True), mica.ones(4, 2, 3), {}),
    ]
    for net, example, options in nets:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.mica")
            mica.inference.optimize(net, example, **options).save(path)
            written.append(contents(path))
    return written


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def samples(kind):
    """The images of the unit tests."""
    text = contents(os.path.join(HERE, "../unit/image_samples.h")).decode()
    found = re.findall(rf"k\w+{kind}\b[^=]*=\s*((?:\"[0-9a-f]*\"\s*)+)", text)
    return [bytes.fromhex("".join(re.findall("[0-9a-f]+", hexes))) for hexes in found]


def mutated(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(8)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            data[at:at] = data[at : at + rng.randrange(1, 64)] * rng.choice((1, 2, 50))
        elif kind == 5:
            order = rng.choice("<>")
            number = rng.choice((0, 1, 255, 65535, 2**31 - 1, 2**32 - 1, rng.randrange(2**32)))
            data[at : at + 4] = struct.pack(order + "I", number)
        elif kind == 6:
            data[at : at + 8] = struct.pack("<Q", rng.choice((2**63, 2**64 - 1, 2**40, 100, 8)))
        else:
            data[at:at] = rng.choice((b"\0", b"\n", b",", b'"', b"[[", b"\xff\xd9", b"1e999", b"{"))
    return bytes(data)


def spliced(a, b, rng):
    """The beginning of one file with the end of another."""
    return a[: rng.randrange(len(a))] + b[rng.randrange(len(b)) :]


def repaired(png):
    """A PNG file with the checksums of its chunks put right."""
    data, at = bytearray(png), 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if length > len(data) - at - 12:
            break
        data[at + 8 + length : at + 12 + length] = zlib.crc32(
            data[at + 4 : at + 8 + length]
        ).to_bytes(4, "big")
        at += length + 12
    return bytes(data)


def rehashed(engine):
    """An engine's file with the hash put right, where its head can be read."""
    try:
        length = int.from_bytes(engine[:8], "little")
        head = json.loads(engine[8 : 8 + length])
        pieces = [head["__metadata__"]["network"].encode()]
        for name, entry in head.items():
            if name != "__metadata__":
                begin, end = (8 + length + at for at in entry["data_offsets"])
                pieces += [name.encode(), engine[begin:end]]
        old = head["__metadata__"]["hash"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return engine
    if not isinstance(old, str) or len(old) != 16:
        return engine
    return engine.replace(old.encode(), hash_of(pieces).encode(), 1)


def altered(engine, rng):
    """An engine's file in which numbers and words of its network are others."""
    import mica

    length = int.from_bytes(engine[:8], "little")
    head = json.loads(engine[8 : 8 + length])
    network = json.loads(head["__metadata__"]["network"])

    def leaves(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            if isinstance(node[key], (dict, list)):
                yield from leaves(node[key])
            else:
                yield node, key

    places = list(leaves(network))
    numbers = (-1, 0, 1, 2, 3, 7, 100, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
    words = ("f16", "bf16", "i64", "bool", "x", *(op["name"] for op in mica._mica._ops()))
    for _ in range(rng.choice((1, 1, 2, 3))):
        node, key = rng.choice(places)
        old = node[key]
        if isinstance(old, bool):
            node[key] = not old
        elif isinstance(old, (int, float)):
            node[key] = rng.choice((*numbers, old + 1, old - 1, old * 2))
        elif isinstance(old, str):
            node[key] = rng.choice(words)
    head["__metadata__"]["network"] = json.dumps(network)
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + engine[8 + length :]


def hash_of(pieces):
    """What src/inference/engine_file.cpp computes."""
    mask, lanes = 2**64 - 1, [1, 2, 3, 4]

    def mixed(h, v):
        h = (h ^ v) * 0x9E3779B97F4A7C15 & mask
        return h ^ h >> 29

    for piece in pieces:
        lanes[0] = mixed(lanes[0], len(piece))
        padded = piece + bytes(32 - len(piece) % 32)
        for i, word in enumerate(struct.unpack(f"<{len(padded) // 8}Q", padded)):
            lanes[i % 4] = mixed(lanes[i % 4], word)
    h = 0
    for lane in lanes:
        h = mixed(h, lane)
    return f"{h:016x}"


def tokenize(path):
    import mica

    tokenizer = mica.text.Tokenizer.load(path)
    with contextlib.suppress(mica.Error):  # a byte may have no token
        tokenizer.encode("a wort ab")


def attack(reader, seed, seconds):
    import mica

    mica.ones(1000).sum().item()
    rng = random.Random(f"{reader} {seed}")
    begun = seeds(reader)
    idx = seeds("idx")
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    path = os.path.join(folder, "file" + SUFFIXES.get(reader, ""))
    limit_memory(1 << 30)
    read = {
        "png": mica.io.read_image,
        "jpeg": mica.io.read_image,
        "idx": mica.data.read_idx,
        "gzip": mica.data.read_idx,
        "csv": lambda p: mica.data.read_csv(
            p, header=rng.random() < 0.5, delimiter=rng.choice(",;")
        ),
        "safetensors": mica.io.load_safetensors,
        "checkpoint": mica.io.load_checkpoint,
        "saved": mica.load,
        "torch": mica.load,
        "engine": mica.inference.load,
        "onnx": mica.onnx.load,
        "tokenizer": tokenize,
        "vocab": tokenize,
    }[reader]
    count, end = 0, time.monotonic() + seconds
    begin = time.monotonic()
    while begin < end:
        data = rng.choice(begun)
        if reader == "engine" and rng.random() < 0.7:
            data = altered(data, rng)
        else:
            if rng.random() < 0.05:
                data = spliced(data, rng.choice(begun), rng)
            data = mutated(data, rng)
        if reader == "png" and rng.random() < 0.7:
            data = repaired(data)
        if reader == "engine" and rng.random() < 0.9:
            data = rehashed(data)
        if reader == "gzip" and rng.random() < 0.5:
            data = gzip.compress(mutated(rng.choice(idx), rng), 1)
        with open(path, "wb") as file:  # what is left there is what killed the process
            file.write(data)
        try:
            read(path)
        except (mica.IoError, mica.Unsupported) as e:
            if path not in str(e):
                print("found", reader, seed, count, "no file name:", e)
        except Exception as e:
            print("found", reader, seed, count, type(e).__name__, e)
        took, begin = time.monotonic() - begin, time.monotonic()
        if took > 5:
            print("found", reader, seed, count, "took", took, "s")
        count += 1
    os.remove(path)
    os.rmdir(folder)
    print(count)


def torture(group):
    group.turns(
        READERS,
        lambda reader, number: in_child(
            group, reader, "files.py", reader, group.seed * 100_000 + number
        ),
    )


if __name__ == "__main__":
    attack(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
