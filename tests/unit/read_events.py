"""Reads a TensorBoard event file, checks its checksums, and prints a line for each event.

Written from the formats' descriptions and without their libraries; where `tensorboard` is
installed, its own reader must find the same events.
"""

import importlib.util
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, check = struct.unpack_from("<QI", data)
        assert check == masked(data[:8]), "checksum of a length"
        record, (check,) = data[12 : 12 + length], struct.unpack_from("<I", data, 12 + length)
        assert check == masked(record), "checksum of an event"
        yield record
        data = data[16 + length :]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire)
            if wire == 2:
                size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def describe(record):
    event = dict(fields(record))
    (time,) = struct.unpack("<d", event[1])
    assert 1.6e9 < time < 1e10, time
    line = f"step {event[2]}"
    if 3 in event:
        line += f" version {event[3].decode()}"
    if 5 in event:
        scalar = dict(fields(dict(fields(event[5]))[1]))
        line += f" {scalar[1].decode()} {struct.unpack('<f', scalar[2])[0]:g}"
    if 7 in event:
        line += f" session {dict(fields(event[7]))[1]}"
    return line


def describe_by_tensorboard(event):
    line = f"step {event.step}"
    if event.file_version:
        line += f" version {event.file_version}"
    for value in event.summary.value:
        # Its reader turns simple values into tensors.
        number = value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value
        line += f" {value.tag} {number:g}"
    if event.HasField("session_log"):
        line += f" session {event.session_log.status}"
    return line


assert crc32c(b"123456789") == 0xE3069283
with open(sys.argv[1], "rb") as file:
    lines = [describe(record) for record in records(file.read())]
if importlib.util.find_spec("tensorboard"):
    from tensorboard.backend.event_processing import event_file_loader

    events = event_file_loader.EventFileLoader(sys.argv[1]).Load()
    assert [describe_by_tensorboard(event) for event in events] == lines
print("\n".join(lines))
