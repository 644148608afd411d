// NCCL makes its calls when the stream comes to them, and waits on the device, for ever, for ranks
// that are gone. So the device says how far it is (Progress), also in graphs, and a thread looks at
// that, at the other ranks and at NCCL's own errors; where a collective will not end it aborts the
// communicator, upon which the kernels that wait return, and notes that every later wait of the
// host raises. Communicators do not block: NCCL allows to abort such alone while a call is made.
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/distributed/nccl/cuda_progress.h"
#include "mica/distributed/nccl/engine.h"
#include "mica/distributed/nccl/library.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/lost.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/runtime.h"

namespace mica::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(50);
/// What NCCL notices itself has a reason that the store may know a little later.
constexpr auto kReason = std::chrono::seconds(3);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  check_cuda(cudaStreamIsCapturing(stream, &status));
  return status == cudaStreamCaptureStatusActive;
}

class NcclEngine final : public Engine {
 public:
  explicit NcclEngine(const NcclStart& start)
      : group_(start.group.number),
        members_(start.group.members),
        device_(start.device),
        watch_(start.watch),
        forks_(forks()) {
    (void)runtime(DeviceKind::cuda).encoder(device_);  // makes the device current
    NcclUniqueId id{};
    if (start.group.rank == 0) ask(nccl_.get_unique_id(&id), "ncclGetUniqueId");
    const std::string told = start.exchange(std::string(id.bytes, sizeof id.bytes));
    check(told.size() == sizeof id.bytes, "distributed: NCCL's first rank sent {} bytes",
          told.size());
    std::memcpy(id.bytes, told.data(), told.size());
    NcclConfig config;
    ask(nccl_.comm_init_rank_config(&comm_, ranks(), id, start.group.rank, &config),
        "ncclCommInitRankConfig");
    until_ready({group_, 0, "NCCL's beginning", members_, 0});
    progress_ = std::make_unique<Progress>();
    int lowest = 0;
    int highest = 0;  // priority, a smaller number: what computes leaves it room
    check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    check_cuda(cudaStreamCreateWithPriority(&own_, cudaStreamNonBlocking, highest));
    std::thread([this] { look(); }).detach();  // as long as the process: groups never go
  }

  const char* name() const override { return "nccl"; }

  void start(const CollectiveCall& c) override {
    check<DeviceError>(forks_ == forks(),
                       "distributed: {}: the child of a process is none of those that compute "
                       "together",
                       c.name());
    check<DeviceError>(c.device == device_,
                       "distributed: {}: the tensor is on cuda:{}, and group {} works on cuda:{}",
                       c.name(), c.device, group_, device_);
    if (c.count == 0 && c.kind != CollectiveKind::barrier) return;
    const std::lock_guard order(calls_);
    if (const std::string why = lost(); !why.empty()) throw DeviceError(why);
    const bool reduces =
        c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce_scatter;
    const int type = reduces ? nccl_type(c.dtype) : kNcclBytes;
    const int op = reduces ? nccl_op(c.reduce, c.dtype) : kNcclMax;
    const bool numbered = c.kind != CollectiveKind::send && c.kind != CollectiveKind::recv;
    if (numbered) {
      watch_->compare(group_, ++made_, c.words(), members_);
    } else {
      watch_->compare_message(group_, fmt::format("{}[{}]", c.dtype, c.count),
                              members_[static_cast<size_t>(c.peer)],
                              c.kind == CollectiveKind::send);
    }
    auto* const callers = static_cast<cudaStream_t>(c.stream);
    const bool aside = c.deferred && !is_recorded(callers);  // the caller's goes on meanwhile
    cudaStream_t stream = aside ? own_ : callers;
    if (aside) {
      wait_for(own_, record(callers));
    } else if (!pending_.empty() && !is_recorded(callers)) {
      wait_for(callers, record(own_));  // NCCL makes them in this order too
    }
    const int64_t what = kind_of(c);
    progress_->begin(stream, what, numbered);
    launch(c, type, op, stream);
    until_ready(waited_for(what, progress_->read().number, 0));
    progress_->end(stream);
    if (aside) pending_[c.out] = record(own_);
  }

  /// What was not done aside has its place in the stream.
  void wait(const CollectiveCall& c) override {
    const std::lock_guard order(calls_);
    const auto it = pending_.find(c.out);
    if (it == pending_.end()) return;
    wait_for(static_cast<cudaStream_t>(c.stream), it->second);
    pending_.erase(it);
  }

  void finish() override {
    // Returns where others are gone too: then look() aborts.
    if (lost().empty() && cudaSetDevice(device_) == cudaSuccess) cudaDeviceSynchronize();
    const Progress::Counts at = progress_->read();
    watch_->note(group_, at.number, waited_for(at, 0).words);
    stop_ = true;
  }

 private:
  /// A call of which there may be many, as those who wait see it.
  struct Kind {
    std::string words;
    std::vector<int> members;  ///< who takes part
  };

  int ranks() const { return static_cast<int>(members_.size()); }

  /// NCCL's answer to a call on the communicator, which may be that it is still at it.
  void ask(int code, const char* name) const {
    if (code == kNcclSuccess || code == kNcclInProgress) return;
    fail<DeviceError>("distributed: {}: {}", name, words(code));
  }
  std::string words(int code) const {
    const char* more = nccl_.get_last_error(nullptr);
    return fmt::format("{}{}{}", nccl_.get_error_string(code), more && *more ? ": " : "",
                       more ? more : "");
  }

  /// Until NCCL has done what it was asked for, which may take connections to other ranks.
  void until_ready(Watch::Wait wait) {
    constexpr int kSpins = 1000;
    constexpr auto kNap = std::chrono::microseconds(20);
    const auto begin = Clock::now();
    auto looked = begin;
    for (int i = 0;; ++i) {
      const int code = state();
      if (code == kNcclSuccess) return;
      if (code != kNcclInProgress) lose(reason(wait, code));
      if (const std::string why = lost(); !why.empty()) throw DeviceError(why);
      if (i < kSpins) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(kNap);
      if (Clock::now() - looked < kLook) continue;
      looked = Clock::now();
      wait.seconds = seconds_since(begin);
      if (const std::string why = broken(wait); !why.empty()) lose(why);
    }
  }

  int state() {
    const std::lock_guard lock(communicator_);
    int code = kNcclSuccess;
    if (!aborted_) ask(nccl_.comm_get_async_error(comm_, &code), "ncclCommGetAsyncError");
    return code;
  }

  void launch(const CollectiveCall& c, int type, int op, cudaStream_t s) {
    const auto n = static_cast<size_t>(c.count);
    const size_t bytes = n * size_of(c.dtype);
    const size_t part = bytes / static_cast<size_t>(ranks());
    const std::lock_guard lock(communicator_);
    if (aborted_) return;  // until_ready says so
    switch (c.kind) {
      case CollectiveKind::all_reduce:
        return ask(nccl_.all_reduce(c.in, c.out, n, type, op, comm_, s), "ncclAllReduce");
      case CollectiveKind::reduce_scatter:
        return ask(
            nccl_.reduce_scatter(c.in, c.out, n / static_cast<size_t>(ranks()), type, op, comm_, s),
            "ncclReduceScatter");
      case CollectiveKind::all_gather:
        return ask(nccl_.all_gather(c.in, c.out, bytes, type, comm_, s), "ncclAllGather");
      case CollectiveKind::broadcast:
        return ask(nccl_.broadcast(c.in, c.out, bytes, type, c.peer, comm_, s), "ncclBroadcast");
      case CollectiveKind::all_to_all:
        ask(nccl_.group_start(), "ncclGroupStart");
        for (int r = 0; r < ranks(); ++r) {
          const size_t at = part * static_cast<size_t>(r);
          ask(nccl_.send(static_cast<const char*>(c.in) + at, part, type, r, comm_, s), "ncclSend");
          ask(nccl_.recv(static_cast<char*>(c.out) + at, part, type, r, comm_, s), "ncclRecv");
        }
        return ask(nccl_.group_end(), "ncclGroupEnd");
      case CollectiveKind::send:
        return ask(nccl_.send(c.in, bytes, type, c.peer, comm_, s), "ncclSend");
      case CollectiveKind::recv:
        return ask(nccl_.recv(c.out, bytes, type, c.peer, comm_, s), "ncclRecv");
      case CollectiveKind::barrier:  // of the token; who waits for the stream waits for all
        return ask(nccl_.all_reduce(c.out, c.out, 1, type, op, comm_, s), "ncclAllReduce");
    }
  }

  // Events, which may be recorded again as soon as a stream was told to wait for them.
  cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    if (spare_.empty()) {
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    } else {
      event = spare_.back();
      spare_.pop_back();
    }
    check_cuda(cudaEventRecord(event, stream));
    return event;
  }
  void wait_for(cudaStream_t stream, cudaEvent_t event) {
    check_cuda(cudaStreamWaitEvent(stream, event));
    spare_.push_back(event);
  }

  int64_t kind_of(const CollectiveCall& c) {
    const bool pair = c.kind == CollectiveKind::send || c.kind == CollectiveKind::recv;
    const std::string text = c.words();
    const std::lock_guard lock(state_);
    const auto [it, made] = numbers_.try_emplace(text, static_cast<int64_t>(kinds_.size()));
    if (made)
      kinds_.push_back(
          {text, pair ? std::vector<int>{members_[static_cast<size_t>(c.peer)]} : members_});
    return it->second;
  }
  Watch::Wait waited_for(int64_t what, int64_t number, double seconds) {
    const std::lock_guard lock(state_);
    const Kind& kind = kinds_[static_cast<size_t>(what)];
    return {group_, number, kind.words, kind.members, seconds};
  }
  Watch::Wait waited_for(const Progress::Counts& at, double seconds) {
    if (at.begun == 0) return {group_, 0, "", members_, seconds};
    return waited_for(at.what, at.number, seconds);
  }

  /// Why a wait will not end; empty where it may.
  std::string broken(const Watch::Wait& wait) {
    try {
      watch_->check_wait(wait);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  }
  std::string reason(const Watch::Wait& wait, int code) {
    for (const auto begin = Clock::now(); Clock::now() - begin < kReason;) {
      if (std::string why = broken(wait); !why.empty()) return why;
      std::this_thread::sleep_for(kLook);
    }
    return fmt::format("distributed: waited for {} (call {} of group {}): NCCL: {}", wait.words,
                       wait.number, wait.group, words(code));
  }

  std::string lost() {
    const std::lock_guard lock(state_);
    return lost_;
  }
  void lose(const std::string& why) {
    const std::lock_guard lock(state_);
    if (lost_.empty()) lost_ = why;
    note_lost(device_, lost_);
  }

  void abort() {
    {
      const std::lock_guard lock(communicator_);
      if (std::exchange(aborted_, true)) return;
    }
    // Waits until the graphs that were recorded with it are gone.
    std::thread([this] { nccl_.comm_abort(comm_); }).detach();
  }

  void look() {
    int64_t last = 0;  // that was begun
    auto since = Clock::now();
    for (; !stop_; std::this_thread::sleep_for(kLook)) {
      const Progress::Counts at = progress_->read();
      if (std::exchange(last, at.begun) != at.begun) {
        since = Clock::now();
        watch_->note(group_, at.number, waited_for(at, 0).words);
        continue;
      }
      const bool waits = at.ended < at.begun;
      const std::string why = lost().empty() ? trouble(at, waits, seconds_since(since)) : lost();
      if (why.empty()) continue;
      lose(why);  // again and again: streams may be made
      if (waits) abort();
    }
  }
  /// What is wrong now; empty: nothing.
  std::string trouble(const Progress::Counts& at, bool waits, double seconds) {
    const Watch::Wait wait = waited_for(at, seconds);
    try {
      const int code = state();
      if (code != kNcclSuccess && code != kNcclInProgress) return reason(wait, code);
    } catch (const Error& e) {
      return e.what();
    }
    return waits ? broken(wait) : "";
  }

  const NcclLibrary& nccl_ = nccl_library();
  int64_t group_;
  std::vector<int> members_;
  int device_;
  std::shared_ptr<Watch> watch_;
  int forks_;
  std::unique_ptr<Progress> progress_;
  cudaStream_t own_ = nullptr;

  std::mutex calls_;  ///< one at a time, in the order they are made
  int64_t made_ = 0;
  std::map<const void*, cudaEvent_t> pending_;  ///< done aside, by their results
  std::vector<cudaEvent_t> spare_;

  std::mutex communicator_;  ///< of NCCL's calls on it, which are short
  NcclComm comm_ = nullptr;
  bool aborted_ = false;

  std::mutex state_;
  std::deque<Kind> kinds_;
  std::map<std::string, int64_t> numbers_;  ///< of kinds, by their words
  std::string lost_;                        ///< why nothing will come any more
  std::atomic<bool> stop_ = false;
};

}  // namespace
}  // namespace mica::distributed

namespace mica {

std::shared_ptr<distributed::Engine> own_nccl_engine(const distributed::NcclStart& start) {
  return std::make_shared<distributed::NcclEngine>(start);
}

}  // namespace mica
