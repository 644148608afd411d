#include "mica/distributed/mpi/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "mica/core/check.h"
#include "mica/distributed/mpi/reduce.h"

namespace mica::distributed {
namespace {

using Clock = std::chrono::steady_clock;

/// MPI counts in ints: more goes in several calls. Also what is exchanged at once for a sum.
constexpr int64_t kMostBytes = 16 << 20;
/// Up to here a sum takes one round: everybody gets everything and adds.
constexpr int64_t kOneRound = 16 << 10;

class MpiEngine final : public Engine {
 public:
  MpiEngine(std::shared_ptr<MpiThread> thread, MpiLibrary::Comm comm, std::shared_ptr<Watch> watch,
            const Communicator& group)
      : thread_(std::move(thread)),
        comm_(comm),
        watch_(std::move(watch)),
        group_(group.number),
        members_(group.members),
        rank_(group.rank),
        ranks_(group.size()) {}

  const char* name() const override { return "mpi"; }

  void start(const CollectiveCall& call) override {
    check<DeviceError>(!watch_->broken(),
                       "distributed: {}: the group's processes have lost each other, as an earlier "
                       "error said; end this one",
                       call.name());
    // Between two ranks: the others do not count it.
    const bool pair = call.kind == CollectiveKind::send || call.kind == CollectiveKind::recv;
    const Begun begun{pair ? number_.load() : ++number_,
                      call.words(),
                      pair ? std::vector{members_[static_cast<size_t>(call.peer)]} : members_,
                      {}};
    watch_->note(group_, begun.number, begun.words);
    auto task = thread_->post(call.out, [this, call, pair, n = begun.number] {
      if (pair) {
        watch_->compare_message(group_, fmt::format("{}[{}]", call.dtype, call.count),
                                members_[static_cast<size_t>(call.peer)],
                                call.kind == CollectiveKind::send);
      } else {
        watch_->compare(group_, n, call.words(), members_);
      }
      run(call);
    });
    const std::lock_guard lock(mutex_);
    open_.push_back(begun);
    open_.back().task = std::move(task);
  }

  void wait(const CollectiveCall& call) override {
    for (;;) {
      Begun begun;
      {
        const std::lock_guard lock(mutex_);
        const auto it =
            std::ranges::find_if(open_, [&](const Begun& b) { return b.task->key == call.out; });
        if (it == open_.end()) return;
        begun = *it;
        open_.erase(it);
      }
      // The patience for what was started long ago begins with the wait.
      const auto waiting = Clock::now();
      thread_->wait(begun.task, [&] {
        const double seconds = std::chrono::duration<double>(Clock::now() - waiting).count();
        try {
          watch_->check_wait({group_, begun.number, begun.words, begun.members, seconds});
        } catch (...) {
          thread_->give_up();
          throw;
        }
      });
    }
  }

 private:
  struct Begun {
    int64_t number = 0;
    std::string words;
    std::vector<int> members;  ///< who takes part
    std::shared_ptr<MpiThread::Task> task;
  };

  MpiLibrary& mpi() { return thread_->library(); }
  void finish(MpiLibrary::Request request) { thread_->finish(request); }

  void run(const CollectiveCall& c) {
    const auto size = static_cast<int64_t>(size_of(c.dtype));
    const auto* in = static_cast<const char*>(c.in);
    auto* out = static_cast<char*>(c.out);
    switch (c.kind) {
      case CollectiveKind::all_reduce:
        return all_reduce(in, out, c);
      case CollectiveKind::reduce_scatter:
        return reduce_scatter(in, out, c);
      case CollectiveKind::all_gather:
        return all_gather(in, out, c.count * size);
      case CollectiveKind::all_to_all:
        return all_to_all(in, out, c.count / ranks_ * size);
      case CollectiveKind::broadcast:
        if (rank_ == c.peer && out != in && c.count > 0)
          std::memcpy(out, in, static_cast<size_t>(c.count * size));
        return pieces(c.count * size, [&](int64_t at, int n) {
          finish(mpi().broadcast(out + at, n, c.peer, comm_));
        });
      case CollectiveKind::send:
        return pieces(c.count * size,
                      [&](int64_t at, int n) { finish(mpi().send(in + at, n, c.peer, comm_)); });
      case CollectiveKind::recv:
        return pieces(c.count * size,
                      [&](int64_t at, int n) { finish(mpi().recv(out + at, n, c.peer, comm_)); });
      case CollectiveKind::barrier:
        return finish(mpi().barrier(comm_));
    }
  }

  template <class F>
  static void pieces(int64_t bytes, F&& f) {
    for (int64_t at = 0; at < bytes; at += kMostBytes)
      f(at, static_cast<int>(std::min(kMostBytes, bytes - at)));
  }

  char* scratch(int64_t bytes) {
    if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(static_cast<size_t>(bytes));
    return scratch_.data();
  }

  /// Part r of n bytes goes to rank r; what comes from it is part r of `out`.
  void exchange(const char* in, int64_t stride, int n, char* out) {
    std::vector<int> counts(static_cast<size_t>(ranks_), n);
    std::vector<int> offsets(static_cast<size_t>(ranks_));
    std::vector<int> dense(static_cast<size_t>(ranks_));
    for (int r = 0; r < ranks_; ++r) {
      offsets[static_cast<size_t>(r)] = static_cast<int>(r * stride);
      dense[static_cast<size_t>(r)] = r * n;
    }
    finish(mpi().all_to_all(in, counts, offsets, out, counts, dense, comm_));
  }

  /// Bytes of one rank that go at once where all ranks' must be counted in an int.
  int64_t share() const { return std::max<int64_t>(kMostBytes / ranks_ / 64 * 64, 64); }

  /// Of parts of n bytes in `in`, piece by piece: f is given what all ranks have for this one, one
  /// after the other.
  template <class F>
  void exchanged(const char* in, int64_t n, F&& f) {
    const int64_t most = share();
    const bool once = n <= most;
    for (int64_t at = 0; at < n; at += most) {
      const int64_t bytes = std::min(most, n - at);
      char* got = scratch((once ? 1 : 2) * bytes * ranks_);
      const char* from = in;
      if (!once) {
        char* packed = got + bytes * ranks_;
        for (int r = 0; r < ranks_; ++r)
          std::memcpy(packed + r * bytes, in + r * n + at, static_cast<size_t>(bytes));
        from = packed;
      }
      exchange(from, bytes, static_cast<int>(bytes), got);
      f(at, bytes, got);
    }
  }

  void all_to_all(const char* in, char* out, int64_t n) {
    exchanged(in, n, [&](int64_t at, int64_t bytes, const char* got) {
      for (int r = 0; r < ranks_; ++r)
        std::memcpy(out + r * n + at, got + r * bytes, static_cast<size_t>(bytes));
    });
  }

  void reduce_scatter(const char* in, char* out, const CollectiveCall& c) {
    const auto size = static_cast<int64_t>(size_of(c.dtype));
    exchanged(in, c.count / ranks_ * size, [&](int64_t at, int64_t bytes, const char* got) {
      reduce_parts(got, ranks_, bytes / size, c.dtype, c.reduce, out + at);
    });
  }

  void all_gather(const char* in, char* out, int64_t n) {
    const int64_t most = share();
    if (n == 0) return;
    if (n <= most) return finish(mpi().all_gather(in, out, static_cast<int>(n), comm_));
    for (int64_t at = 0; at < n; at += most) {
      const int64_t bytes = std::min(most, n - at);
      char* got = scratch(bytes * ranks_);
      finish(mpi().all_gather(in + at, got, static_cast<int>(bytes), comm_));
      for (int r = 0; r < ranks_; ++r)
        std::memcpy(out + r * n + at, got + r * bytes, static_cast<size_t>(bytes));
    }
  }

  void all_reduce(const char* in, char* out, const CollectiveCall& c) {
    const auto size = static_cast<int64_t>(size_of(c.dtype));
    const int64_t most = kMostBytes / size;
    for (int64_t at = 0; at < c.count; at += most)
      all_reduce_piece(in + at * size, out + at * size, std::min(most, c.count - at), c);
  }

  void all_reduce_piece(const char* in, char* out, int64_t n, const CollectiveCall& c) {
    const auto size = static_cast<int64_t>(size_of(c.dtype));
    if (n * size <= kOneRound) {
      char* all = scratch(n * size * ranks_);
      finish(mpi().all_gather(in, all, static_cast<int>(n * size), comm_));
      return reduce_parts(all, ranks_, n, c.dtype, c.reduce, out);
    }
    // Rank r adds the elements [begin(r), begin(r + 1)).
    const auto begin = [&](int r) { return n * r / ranks_; };
    const int64_t own = begin(rank_ + 1) - begin(rank_);
    std::vector<int> counts, offsets, own_counts, own_offsets;
    for (int r = 0; r < ranks_; ++r) {
      counts.push_back(static_cast<int>((begin(r + 1) - begin(r)) * size));
      offsets.push_back(static_cast<int>(begin(r) * size));
      own_counts.push_back(static_cast<int>(own * size));
      own_offsets.push_back(static_cast<int>(r * own * size));
    }
    char* got = scratch(own * size * ranks_);
    finish(mpi().all_to_all(in, counts, offsets, got, own_counts, own_offsets, comm_));
    reduce_parts(got, ranks_, own, c.dtype, c.reduce, got);
    finish(mpi().all_gather(got, static_cast<int>(own * size), out, counts, offsets, comm_));
  }

  std::shared_ptr<MpiThread> thread_;
  MpiLibrary::Comm comm_;
  std::shared_ptr<Watch> watch_;
  int64_t group_;
  std::vector<int> members_;
  int rank_;
  int ranks_;
  std::atomic<int64_t> number_ = 0;
  std::vector<char> scratch_;  ///< of the thread
  std::mutex mutex_;
  std::vector<Begun> open_;
};

}  // namespace

MpiThread::MpiThread() {
  std::thread([this] { loop(); }).detach();  // MPI may hold it for good where others are gone
}

void MpiThread::open(const std::string& launcher) {
  const auto task = post(nullptr, [this, launcher] { library_ = open_mpi(launcher); });
  wait(task, [] {});
}

std::shared_ptr<MpiThread::Task> MpiThread::post(const void* key, std::function<void()> run) {
  auto task = std::make_shared<Task>();
  task->key = key;
  task->run = std::move(run);
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
  posted_.notify_one();
  return task;
}

void MpiThread::wait(const std::shared_ptr<Task>& task, const std::function<void()>& stop) {
  constexpr auto kLook = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kLook, [&] { return task->done; })) {
    lock.unlock();
    stop();
    lock.lock();
  }
  if (task->error) std::rethrow_exception(task->error);
}

void MpiThread::loop() {
  for (;;) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [&] { return !tasks_.empty(); });
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    try {
      task->run();
    } catch (...) {
      task->error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    task->done = true;
    task->run = {};
    ended_.notify_all();
  }
}

void MpiThread::finish(MpiLibrary::Request request) {
  // Looks often at first, then leaves the processor to who computes.
  constexpr int kSpins = 2000;
  constexpr auto kNap = std::chrono::microseconds(20);
  for (int i = 0; !library_->test(request); ++i) {
    check<DeviceError>(!given_up_, "distributed: given up");
    if (i < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

void MpiThread::give_up() { given_up_ = true; }

void MpiThread::finalize() {
  if (given_up_) return;
  const auto task = post(nullptr, [this] { library_->finalize(); });
  constexpr double kSeconds = 10;
  const auto start = Clock::now();
  try {
    wait(task, [&] {
      check(std::chrono::duration<double>(Clock::now() - start).count() < kSeconds,
            "distributed: MPI does not end");
    });
  } catch (const Error&) {
    given_up_ = true;  // the process ends without it
  }
}

std::shared_ptr<Engine> make_mpi_engine(std::shared_ptr<MpiThread> thread, MpiLibrary::Comm comm,
                                        std::shared_ptr<Watch> watch, const Communicator& group) {
  return std::make_shared<MpiEngine>(std::move(thread), comm, std::move(watch), group);
}

}  // namespace mica::distributed
