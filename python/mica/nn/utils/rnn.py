"""Sequences of several lengths, padded and packed."""

from mica._mica import nn as _nn

PackedSequence = _nn.PackedSequence
pack_padded_sequence = _nn.pack_padded_sequence
pack_sequence = _nn.pack_sequence
pad_packed_sequence = _nn.pad_packed_sequence
pad_sequence = _nn.pad_sequence
unpack_sequence = _nn.unpack_sequence
unpad_sequence = _nn.unpad_sequence
