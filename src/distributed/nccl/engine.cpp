#include "mica/distributed/nccl/engine.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "mica/core/check.h"
#include "mica/runtime/runtime.h"

namespace mica::distributed {
namespace {

// What is used of nccl.h, whose values are part of the library's interface.
using Comm = void*;
struct UniqueId {
  char bytes[128];
};
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;

struct Nccl {
  void* library = nullptr;
  std::string why;

  Nccl() : library(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) {
    if (!library) why = fmt::format("NCCL cannot be opened: {}", dlerror());
  }
  template <class... Args>
  int raw(const char* name, Args... args) const {
    void* found = dlsym(library, name);
    check<Unsupported>(found != nullptr, "distributed: NCCL has no {}", name);
    return reinterpret_cast<int (*)(Args...)>(found)(args...);
  }
  template <class... Args>
  void call(const char* name, Args... args) const {
    const int code = raw(name, args...);
    if (code == kSuccess || code == kInProgress) return;
    fail<DeviceError>("distributed: {}: {}", name, words(code));
  }
  const char* words(int code) const {
    return reinterpret_cast<const char* (*)(int)>(dlsym(library, "ncclGetErrorString"))(code);
  }
};

const Nccl& nccl() {
  static const auto* nccl = new Nccl;
  return *nccl;
}

int type_of(DType t) {
  switch (t) {
    case DType::i8:
      return 0;
    case DType::u8:
    case DType::boolean:
      return 1;
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

int op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return 0;
    case ReduceOp::product:
      return 1;
    case ReduceOp::max:
      return 2;
    case ReduceOp::min:
      return 3;
    case ReduceOp::avg:
      return 4;
  }
  return 0;
}

class NcclEngine final : public Engine {
 public:
  NcclEngine(const Communicator& group, const NcclExchange& exchange, std::shared_ptr<Watch> watch)
      : group_(group.number),
        members_(group.members),
        ranks_(group.size()),
        watch_(std::move(watch)) {
    UniqueId id{};
    if (group.rank == 0) nccl().call("ncclGetUniqueId", &id);
    const std::string told = exchange(std::string(id.bytes, sizeof id.bytes));
    check(told.size() == sizeof id.bytes, "distributed: NCCL's first rank sent {} bytes",
          told.size());
    std::memcpy(id.bytes, told.data(), told.size());
    nccl().call("ncclCommInitRank", &comm_, ranks_, id, group.rank);
    std::thread([this] { look(); }).detach();  // as long as the process: groups never go
  }

  const char* name() const override { return "nccl"; }

  void start(const CollectiveCall& c) override {
    {
      const std::lock_guard lock(mutex_);
      check<DeviceError>(!error_, "distributed: {}: {}", c.name(), error_.value_or(""));
    }
    watch_->note(group_, ++number_, c.words());
    const auto n = static_cast<size_t>(c.count);
    const size_t bytes = n * size_of(c.dtype);
    constexpr int kBytes = 1;  // as u8: nothing is computed with them
    switch (c.kind) {
      case CollectiveKind::all_reduce:
        return nccl().call("ncclAllReduce", c.in, c.out, n, type_of(c.dtype), op_of(c.reduce),
                           comm_, c.stream);
      case CollectiveKind::reduce_scatter:
        return nccl().call("ncclReduceScatter", c.in, c.out, n / static_cast<size_t>(ranks_),
                           type_of(c.dtype), op_of(c.reduce), comm_, c.stream);
      case CollectiveKind::all_gather:
        return nccl().call("ncclAllGather", c.in, c.out, bytes, kBytes, comm_, c.stream);
      case CollectiveKind::broadcast:
        return nccl().call("ncclBroadcast", c.in, c.out, bytes, kBytes, c.peer, comm_, c.stream);
      case CollectiveKind::all_to_all: {
        const size_t part = bytes / static_cast<size_t>(ranks_);
        nccl().call("ncclGroupStart");
        for (int r = 0; r < ranks_; ++r) {
          const size_t at = part * static_cast<size_t>(r);
          const void* from = static_cast<const char*>(c.in) + at;
          void* to = static_cast<char*>(c.out) + at;
          nccl().call("ncclSend", from, part, kBytes, r, comm_, c.stream);
          nccl().call("ncclRecv", to, part, kBytes, r, comm_, c.stream);
        }
        return nccl().call("ncclGroupEnd");
      }
      case CollectiveKind::send:
        return nccl().call("ncclSend", c.in, bytes, kBytes, c.peer, comm_, c.stream);
      case CollectiveKind::recv:
        return nccl().call("ncclRecv", c.out, bytes, kBytes, c.peer, comm_, c.stream);
      case CollectiveKind::barrier:  // of the token; who waits for the stream waits for all
        return nccl().call("ncclAllReduce", static_cast<const void*>(c.out), c.out, size_t{1},
                           kBytes, op_of(ReduceOp::max), comm_, c.stream);
    }
  }

  /// The stream keeps the order.
  void wait(const CollectiveCall&) override {}

 private:
  /// NCCL waits for ever for a rank that is gone: somebody has to look, and to end it.
  void look() {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      int code = kSuccess;
      nccl().raw("ncclCommGetAsyncError", comm_, &code);
      std::optional<std::string> why;
      if (code != kSuccess && code != kInProgress) why = nccl().words(code);
      try {
        watch_->check_wait({group_, number_, "a collective by NCCL", members_, 0});
      } catch (const Error& e) {
        why = e.what();
      }
      if (!why) continue;
      const std::lock_guard lock(mutex_);
      error_ = why;
      nccl().raw("ncclCommAbort", comm_);
      return;
    }
  }

  int64_t group_;
  std::vector<int> members_;
  int ranks_;
  std::shared_ptr<Watch> watch_;
  Comm comm_ = nullptr;
  std::atomic<int64_t> number_ = 0;
  std::mutex mutex_;
  std::optional<std::string> error_;
};

}  // namespace

bool nccl_available() { return nccl().library != nullptr; }
std::string nccl_unavailable_reason() { return nccl().why; }

std::shared_ptr<Engine> make_nccl_engine(const Communicator& group, int device,
                                         const NcclExchange& exchange,
                                         std::shared_ptr<Watch> watch) {
  (void)runtime(DeviceKind::cuda).encoder(device);  // makes the device current
  return std::make_shared<NcclEngine>(group, exchange, std::move(watch));
}

}  // namespace mica::distributed
