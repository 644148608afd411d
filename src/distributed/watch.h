#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mica/distributed/store.h"
#include "mica/ops/collective/communicator.h"

namespace mica::distributed {

/// Waits for others, and knows when they will not come.
class Watch {
 public:
  /// `compares`: each call with those of the other ranks.
  Watch(std::shared_ptr<Store> store, Peer self, double timeout_seconds, bool compares)
      : store_(std::move(store)),
        self_(std::move(self)),
        timeout_(timeout_seconds),
        compares_(compares) {}

  /// What one waits for: group 2's 17th call, "all_reduce sum f32[1024]".
  struct Wait {
    int64_t group = 0;
    int64_t number = 0;  ///< of the calls that all members make
    std::string words;
    std::vector<int> members;  ///< ranks among all
    double seconds = 0;        ///< since it began
  };
  /// In debug mode, before a call: waits until all members come to it, and raises where they make
  /// different ones.
  void compare(int64_t group, int64_t number, const std::string& words,
               const std::vector<int>& members);
  /// The same for a message, "f32[1024]", to another rank or from there: the sender says what it is
  /// and goes on, the receiver waits for that and raises where it expects something else.
  void compare_message(int64_t group, const std::string& what, int other, bool sends);
  /// Says to the others what this process is at.
  void note(int64_t group, int64_t number, const std::string& words);
  /// Raises where a process failed or left, or the wait takes too long: who, and what was waited
  /// for.
  void check_wait(const Wait& wait);
  /// After it raised: nothing more can be waited for.
  bool broken() const { return broken_; }
  double timeout() const { return timeout_; }

 private:
  [[noreturn]] void raise(const Wait& wait, const std::string& why);
  std::string missing(const Wait& wait);

  std::shared_ptr<Store> store_;
  Peer self_;
  double timeout_;
  bool compares_;
  std::atomic<bool> broken_ = false;
  std::mutex mutex_;
  std::map<std::string, int64_t> messages_;  ///< by group, sender and receiver
};

}  // namespace mica::distributed
