"""What concerns the CPU: kernels from C source."""

from mica._mica import cpu as _cpu

Kernel = _cpu.Kernel
kernel = _cpu.kernel
