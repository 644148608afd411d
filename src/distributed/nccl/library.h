#pragma once

#include <cstddef>
#include <string>

#include "mica/core/dtype.h"
#include "mica/ops/collective/communicator.h"

namespace mica::distributed {

// What is used of nccl.h, whose values are part of the library's interface since NCCL 2.14.
using NcclComm = void*;
struct NcclUniqueId {
  char bytes[128];
};
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;  ///< of this layout
  int blocking = 0;
};
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclBytes = 1;  ///< as u8: what is only moved
inline constexpr int kNcclMax = 2;

/// libnccl.so.2, opened when first asked for. Its calls give a code; streams are cudaStream_t.
struct NcclLibrary {
  std::string why;  ///< it cannot be used; empty where it can

  int (*get_unique_id)(NcclUniqueId*) = nullptr;
  int (*comm_init_rank_config)(NcclComm*, int, NcclUniqueId, int, NcclConfig*) = nullptr;
  int (*comm_get_async_error)(NcclComm, int*) = nullptr;
  int (*comm_abort)(NcclComm) = nullptr;
  const char* (*get_error_string)(int) = nullptr;
  const char* (*get_last_error)(NcclComm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, NcclComm, void*) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int type, int op, NcclComm, void*) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int type, NcclComm, void*) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, NcclComm, void*) = nullptr;
  int (*send)(const void*, size_t, int type, int peer, NcclComm, void*) = nullptr;
  int (*recv)(void*, size_t, int type, int peer, NcclComm, void*) = nullptr;
};
const NcclLibrary& nccl_library();

/// How NCCL names a dtype and what is done with its numbers. A bool is a byte of 0 or 1, of which
/// the sum is the largest. Raise where NCCL cannot do it.
int nccl_type(DType dtype);
int nccl_op(ReduceOp op, DType dtype);

}  // namespace mica::distributed
