#pragma once

// What the blocks of a cluster do together (Encoder::launch_clusters). Before compute
// capability 9.0 there are none.
#include <cuda_runtime.h>

#include <cstdint>

namespace mica::cuda {

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
/// Where `p` of this block lies in the shared memory of another.
__device__ inline uint32_t of_block(const void* p, int rank) {
  uint32_t at = 0;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(p)), "r"(rank));
#endif
  return at;
}
__device__ inline void send(uint32_t to, float4 v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w));
#endif
}
__device__ inline void send(uint32_t to, float v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(v));
#endif
}

}  // namespace mica::cuda
