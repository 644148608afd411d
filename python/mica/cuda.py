"""What concerns CUDA devices only."""

from mica._mica import cuda as _cuda

device_count = _cuda.device_count
get_device_name = _cuda.get_device_name
is_available = _cuda.is_available
synchronize = _cuda.synchronize
unavailable_reason = _cuda.unavailable_reason
