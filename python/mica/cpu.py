"""What concerns the CPU: kernels from C source."""

from mica._mica import cpu as _cpu

kernel = _cpu.kernel
