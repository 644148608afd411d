#pragma once

// Groups of four warps and the products of compute capability 9.0 that they begin and wait for.
// Run-time compilation takes this file as it is.
#if defined(__CUDACC_RTC__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace mica::wgmma {

using u32 = unsigned;
using u64 = unsigned long long;

__device__ inline u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

/// Rows of 128 bytes, in shared memory from a multiple of 1024 on, whose 16-byte parts are
/// exchanged as the copy engine does it: part i of row r lies at i ^ r % 8. Operands have K along
/// the rows.
__device__ inline u64 descriptor(u32 at) {
  return (u64{(at & 0x3ffffU) >> 4}) | u64{1} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
}
/// The same of an operand whose rows are along K; 64 columns of it are `next` bytes from the next.
__device__ inline u64 descriptor_across(u32 at, u32 next) {
  return (u64{(at & 0x3ffffU) >> 4}) | u64{(next >> 4) & 0x3fffU} << 16 | u64{1024 >> 4} << 32 |
         u64{1} << 62;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until no more than `groups` are under way.
template <int groups>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}
/// Before products that overwrite them: sums whose registers are chosen here, and not between two
/// products, which would then have to wait for each other.
template <int n>
__device__ inline void choose_registers(float (&sums)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "=f"(sums[i])::"memory");
}
/// After a wait: what products read of registers may be overwritten from here on, and not before.
template <int n>
__device__ inline void write_from_here(u32 (&operands)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k) asm volatile("" : "+r"(operands[i][k])::"memory");
}
/// After a wait: sums are read from here on.
template <int n>
__device__ inline void read_from_here(float (&sums)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

}  // namespace mica::wgmma

#endif
