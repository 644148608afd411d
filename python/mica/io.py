"""Tensors, checkpoints, images and measurements in files."""

import mica._mica as _mica
from mica._mica import io as _io

Checkpoint = _io.Checkpoint
EventWriter = _io.EventWriter
MetricsLog = _io.MetricsLog
Safetensors = _io.Safetensors
decode_image = _io.decode_image
encode_png = _io.encode_png
load = _mica.load
load_checkpoint = _io.load_checkpoint
load_safetensors = _io.load_safetensors
random_state = _io.random_state
read_image = _io.read_image
save = _mica.save
save_checkpoint = _io.save_checkpoint
save_safetensors = _io.save_safetensors
set_random_state = _io.set_random_state
write_png = _io.write_png
