#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mica/distributed/mpi/library.h"
#include "mica/distributed/watch.h"
#include "mica/ops/collective/communicator.h"

namespace mica::distributed {

/// The one thread that calls MPI, for all groups, in the order the calls were made.
class MpiThread {
 public:
  /// Lives as long as the process: its thread does.
  MpiThread();
  /// Opens the library and starts it.
  void open(const std::string& launcher);

  /// Something that is done there; `key` names it.
  struct Task {
    const void* key = nullptr;
    std::function<void()> run;
    bool done = false;
    std::exception_ptr error = nullptr;
  };
  std::shared_ptr<Task> post(const void* key, std::function<void()> run);
  /// Until a task is done, or `stop` says that it will not be, by raising; looks every so often.
  void wait(const std::shared_ptr<Task>& task, const std::function<void()>& stop);
  /// Runs f there and gives what it returns.
  template <class F>
  auto run(F&& f, const std::function<void()>& stop = [] {}) {
    std::optional<decltype(f(library()))> result;
    const std::shared_ptr<Task> task = post(nullptr, [&] { result.emplace(f(library())); });
    wait(task, stop);
    return std::move(*result);
  }

  /// Of the thread's own tasks: until a request is done.
  void finish(MpiLibrary::Request request);
  MpiLibrary& library() { return *library_; }
  /// No task will end any more: requests that are on their way are given up.
  void give_up();
  /// Ends MPI where all others do too; gives up after some seconds.
  void finalize();

 private:
  void loop();

  std::unique_ptr<MpiLibrary> library_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable ended_;
  std::deque<std::shared_ptr<Task>> tasks_;
  std::atomic<bool> given_up_ = false;
};

/// Collectives of a group by MPI. Sums are made here, in the order of the ranks: parts are
/// exchanged (MPI_Ialltoallv), added and gathered (MPI_Iallgatherv), so that every rank has the
/// same bits whichever way MPI goes.
std::shared_ptr<Engine> make_mpi_engine(std::shared_ptr<MpiThread> thread, MpiLibrary::Comm comm,
                                        std::shared_ptr<Watch> watch, const Communicator& group);

}  // namespace mica::distributed
