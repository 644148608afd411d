#pragma once

// Code that is compiled for the host and, by nvcc or NVRTC, for the device.
#if defined(__CUDACC__)
#define MICA_PORTABLE __host__ __device__
#else
#define MICA_PORTABLE
#endif
