"""Reads a file with the package `safetensors`, checks its values, and writes it anew with it.

The C++ test that made the file runs this and reads the second file. NumPy has no bfloat16, so
tensors go by `deserialize` and `serialize_file`, which know every dtype by its name and raw bytes.
"""

import math
import sys

import numpy as np
from safetensors import TensorSpec, deserialize, safe_open, serialize_file

# In the file -> for NumPy, for the package's writer.
DTYPES = {
    "F64": ("<f8", "float64"),
    "F32": ("<f4", "float32"),
    "F16": ("<f2", "float16"),
    "BF16": (None, "bfloat16"),
    "F8_E4M3": (None, "float8_e4m3fn"),
    "F8_E5M2": (None, "float8_e5m2"),
    "I64": ("<i8", "int64"),
    "I32": ("<i4", "int32"),
    "I16": ("<i2", "int16"),
    "I8": ("i1", "int8"),
    "U64": ("<u8", "uint64"),
    "U32": ("<u4", "uint32"),
    "U16": ("<u2", "uint16"),
    "U8": ("u1", "uint8"),
    "BOOL": ("?", "bool"),
    "C64": ("<c8", "complex64"),
}


def values_of(dtype, data):
    if dtype == "BF16":
        wide = np.frombuffer(data, "<u2").astype("<u4") << 16
        return wide.view("<f4")
    if dtype == "F8_E5M2":  # the upper half of a float16
        return (np.frombuffer(data, "u1").astype("<u2") << 8).view("<f2")
    if dtype == "F8_E4M3":
        bits = np.frombuffer(data, "u1").astype(int)
        exponent, mantissa = bits >> 3 & 15, bits & 7
        size = np.where(exponent == 0, mantissa / 512, (8 + mantissa) * 2.0 ** (exponent - 10))
        return np.where(bits < 128, size, -size)
    return np.frombuffer(data, DTYPES[dtype][0])


def expected(dtype, name):
    values = {"matrix": [0, 1, 2, 3, 4, 250], "scalar": [1], "empty": []}.get(
        name.partition(".")[2], [1.5, 0, 3]
    )
    if dtype == "BOOL":
        return [bool(v) for v in values]
    if dtype == "I8":  # wraps
        return [math.trunc(v) if v < 128 else v - 256 for v in values]
    if dtype.startswith("F8"):  # the nearest number to 250
        return [256 if v == 250 else v for v in values]
    return values if "F" in dtype or dtype == "C64" else [math.trunc(v) for v in values]


source, target = sys.argv[1:]
with open(source, "rb") as file:
    entries = deserialize(file.read())
assert {info["dtype"] for _, info in entries} == set(DTYPES), entries
for name, info in entries:
    got = values_of(info["dtype"], bytes(info["data"])).tolist()
    assert got == expected(info["dtype"], name), (name, got)
with safe_open(source, "numpy") as file:
    metadata = file.metadata()
buffers = {name: np.frombuffer(bytes(info["data"]), "u1") for name, info in entries}
tensors = {
    name: TensorSpec(
        dtype=DTYPES[info["dtype"]][1],
        shape=info["shape"],
        data_ptr=buffers[name].ctypes.data,
        data_len=buffers[name].nbytes,
    )
    for name, info in entries
}
serialize_file(tensors, target, metadata)
