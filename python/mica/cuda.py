"""What concerns CUDA devices: their memory, streams and events, kernels from source."""

from mica._mica import cuda as _cuda

Event = _cuda.Event
Stream = _cuda.Stream
current_device = _cuda.current_device
current_stream = _cuda.current_stream
default_stream = _cuda.default_stream
device_count = _cuda.device_count
elementwise = _cuda.elementwise
empty_cache = _cuda.empty_cache
get_device_name = _cuda.get_device_name
get_device_properties = _cuda.get_device_properties
is_available = _cuda.is_available
kernel = _cuda.kernel
manual_seed = _cuda.manual_seed
manual_seed_all = _cuda.manual_seed_all
max_memory_allocated = _cuda.max_memory_allocated
max_memory_reserved = _cuda.max_memory_reserved
mem_get_info = _cuda.mem_get_info
memory_allocated = _cuda.memory_allocated
memory_reserved = _cuda.memory_reserved
record_stream = _cuda.record_stream
reduction = _cuda.reduction
reset_peak_memory_stats = _cuda.reset_peak_memory_stats
stream = _cuda.stream
synchronize = _cuda.synchronize
unavailable_reason = _cuda.unavailable_reason
