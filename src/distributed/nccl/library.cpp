#include "mica/distributed/nccl/library.h"

#include <dlfcn.h>

#include "mica/core/check.h"

namespace mica::distributed {
namespace {

template <class F>
void find(void* library, const char* name, F*& function, std::string& why) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (!function && why.empty()) why = fmt::format("this NCCL is too old: it has no {}", name);
}

NcclLibrary open() {
  NcclLibrary n;
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    n.why = fmt::format("NCCL cannot be opened: {}", dlerror());
    return n;
  }
  const auto take = [&](const char* name, auto& function) { find(library, name, function, n.why); };
  take("ncclGetUniqueId", n.get_unique_id);
  take("ncclCommInitRankConfig", n.comm_init_rank_config);
  take("ncclCommGetAsyncError", n.comm_get_async_error);
  take("ncclCommAbort", n.comm_abort);
  take("ncclGetErrorString", n.get_error_string);
  take("ncclGetLastError", n.get_last_error);
  take("ncclGroupStart", n.group_start);
  take("ncclGroupEnd", n.group_end);
  take("ncclAllReduce", n.all_reduce);
  take("ncclReduceScatter", n.reduce_scatter);
  take("ncclAllGather", n.all_gather);
  take("ncclBroadcast", n.broadcast);
  take("ncclSend", n.send);
  take("ncclRecv", n.recv);
  return n;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const auto* library = new NcclLibrary(open());
  return *library;
}

int nccl_type(DType t) {
  switch (t) {
    case DType::i8:
      return 0;
    case DType::u8:
    case DType::boolean:
      return kNcclBytes;
    case DType::i32:
      return 2;
    case DType::u32:
      return 3;
    case DType::i64:
      return 4;
    case DType::u64:
      return 5;
    case DType::f16:
      return 6;
    case DType::f32:
      return 7;
    case DType::f64:
      return 8;
    case DType::bf16:
      return 9;
    default:
      fail<DTypeError>("distributed: NCCL does not reduce {}", t);
  }
}

int nccl_op(ReduceOp op, DType dtype) {
  const bool logical = dtype == DType::boolean;
  switch (op) {
    case ReduceOp::sum:
      return logical ? kNcclMax : 0;
    case ReduceOp::product:
      return logical ? 3 : 1;
    case ReduceOp::max:
      return kNcclMax;
    case ReduceOp::min:
      return 3;
    case ReduceOp::avg:
      break;
  }
  check<DTypeError>(!logical, "distributed: there is no mean of {}", dtype);
  return 4;
}

}  // namespace mica::distributed
