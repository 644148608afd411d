#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mica/distributed/socket.h"

namespace mica::distributed {

/// Who a process is, for messages.
struct Peer {
  int rank = 0;
  std::string host = {};
  int pid = 0;
  std::string name() const;  ///< "rank 1 (host b, process 71)"
};

/// What a process does, as the others see it within a second.
struct Status {
  Peer peer;
  std::string at = {};     ///< group and number of the collective that it began last
  std::string words = {};  ///< what that is
};

/// Runs in the process of rank 0: keeps values by key, and notices who ends.
class StoreServer {
 public:
  explicit StoreServer(int port, std::string job);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  int port() const { return port_; }

 private:
  struct Connection;
  void run();
  void take(Connection& from, const std::vector<std::string>& message);
  void ended(Connection& connection);
  void announce(const std::string& failure);
  void answer(Connection& to, const std::string& key);

  Socket listener_;
  int port_;
  std::string job_;
  std::map<std::string, std::string> values_;
  std::vector<std::unique_ptr<Connection>> connections_;
  bool failed_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// A process's connection to the store. Any thread may use it.
class Store {
 public:
  /// Tries the addresses one after the other until the server of this job answers; raises IoError
  /// after so many seconds.
  Store(const std::vector<std::string>& addresses, int port, const std::string& job, Peer self,
        double seconds);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  void set(const std::string& key, const std::string& value);
  /// Waits until somebody sets it; raises where that takes longer, or somebody failed.
  std::string get(const std::string& key, double seconds);
  /// Of all ranks.
  std::vector<Status> statuses();

  /// What this process does now.
  void note(int64_t group, int64_t number, std::string words);
  /// Says that this process ends because of an error; returns when the others have been told, or
  /// after a second. Rank 0 would take the store with it.
  void report(const std::string& error);
  /// Says that it is done.
  void leave();
  /// Until so many others are, or one failed; at most so many seconds.
  void wait_for_leave(int others, double seconds);

  /// What went wrong first with any of the processes.
  std::optional<std::string> failure() const;
  /// Who is done, and the number of the last collective of a group that each of them began.
  std::map<int, int64_t> left(int64_t group) const;

 private:
  void read();
  void take(const std::vector<std::string>& message);
  bool send(const std::vector<std::string>& parts);
  std::vector<std::string> request(const std::vector<std::string>& parts, const char* answer,
                                   double seconds);

  Peer self_;
  Socket socket_;
  std::string buffer_;
  std::mutex writing_;
  std::mutex asking_;  ///< one request at a time
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::string> answer_;
  std::string at_, words_;
  std::map<int64_t, int64_t> begun_;  ///< collectives of each group
  std::optional<std::string> failure_;
  std::map<int, std::map<int64_t, int64_t>> left_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace mica::distributed
