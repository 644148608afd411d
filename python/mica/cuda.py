"""What concerns CUDA devices: which there are, streams and events."""

from mica._mica import cuda as _cuda

Event = _cuda.Event
Stream = _cuda.Stream
current_stream = _cuda.current_stream
default_stream = _cuda.default_stream
device_count = _cuda.device_count
get_device_name = _cuda.get_device_name
get_device_properties = _cuda.get_device_properties
is_available = _cuda.is_available
record_stream = _cuda.record_stream
stream = _cuda.stream
synchronize = _cuda.synchronize
unavailable_reason = _cuda.unavailable_reason
