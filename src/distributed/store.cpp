#include "mica/distributed/store.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "mica/core/check.h"

namespace mica::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using Message = std::vector<std::string>;

constexpr double kHeartbeat = 1;  // seconds
constexpr double kSilence = 15;   // after which somebody counts as lost

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

std::string Peer::name() const {
  return fmt::format("rank {} (host {}, process {})", rank, host, pid);
}

struct StoreServer::Connection {
  Socket socket;
  std::string buffer = {};
  std::optional<Status> who = {};
  std::vector<std::string> wanted = {};  ///< keys that it waits for
  bool left = false;
  bool closed = false;
  Clock::time_point heard = Clock::now();

  void send(const Message& message) { closed = !socket.write(framed(message)) || closed; }
};

StoreServer::StoreServer(int port, std::string job)
    : listener_(listen_on(port)), port_(port_of(listener_)), job_(std::move(job)) {
  thread_ = std::thread([this] { run(); });
}

StoreServer::~StoreServer() {
  stop_ = true;
  thread_.join();
}

void StoreServer::answer(Connection& to, const std::string& key) {
  const auto it = values_.find(key);
  if (it == values_.end() || std::erase(to.wanted, key) == 0) return;
  to.send({"value", it->second});
}

void StoreServer::announce(const std::string& failure) {
  if (std::exchange(failed_, true)) return;
  // Rank 0 hears of it last: it may end at once, and the store with it.
  std::vector<Connection*> all;
  for (const auto& c : connections_)
    if (c->who && !c->closed) all.push_back(c.get());
  std::ranges::sort(
      all, [](const auto* a, const auto* b) { return a->who->peer.rank > b->who->peer.rank; });
  for (Connection* c : all) c->send({"failed", failure});
}

void StoreServer::take(Connection& from, const Message& m) {
  from.heard = Clock::now();
  const std::string& verb = m.empty() ? "" : m[0];
  if (verb == "hello" && m.size() == 5) {
    if (m[1] != job_) {  // somebody else's
      from.closed = true;
      return;
    }
    from.who = Status{.peer = {std::stoi(m[2]), m[3], std::stoi(m[4])}};
    from.send({"welcome"});
  } else if (!from.who) {
    from.closed = true;
  } else if (verb == "set" && m.size() == 3) {
    values_[m[1]] = m[2];
    for (const auto& c : connections_) answer(*c, m[1]);
  } else if (verb == "get" && m.size() == 2) {
    from.wanted.push_back(m[1]);
    answer(from, m[1]);
  } else if (verb == "status" && m.size() == 3) {
    from.who->at = m[1];
    from.who->words = m[2];
    from.send({"pong"});
  } else if (verb == "ask") {
    Message all = {"statuses"};
    for (const auto& c : connections_)
      if (c->who && !c->left)
        for (std::string part : {std::to_string(c->who->peer.rank), c->who->peer.host,
                                 std::to_string(c->who->peer.pid), c->who->at, c->who->words})
          all.push_back(std::move(part));
    from.send(all);
  } else if (verb == "fail" && m.size() == 2) {
    from.left = true;
    announce(fmt::format("{}: {}", from.who->peer.name(), m[1]));
  } else if (verb == "bye") {
    from.left = true;
    for (const auto& c : connections_)
      if (c->who && c.get() != &from) {
        Message left = m;
        left[0] = "left";
        left.insert(left.begin() + 1, std::to_string(from.who->peer.rank));
        c->send(left);
      }
  }
}

void StoreServer::ended(Connection& c) {
  c.closed = true;
  if (c.who && !std::exchange(c.left, true))
    announce(c.who->peer.name() + " ended without a word: it was killed, or crashed");
}

void StoreServer::run() {
  while (!stop_) {
    std::vector<pollfd> all = {{listener_.fd(), POLLIN, 0}};
    for (const auto& c : connections_) all.push_back({c->socket.fd(), POLLIN, 0});
    constexpr int kMilliseconds = 100;
    ::poll(all.data(), all.size(), kMilliseconds);
    const size_t known = connections_.size();
    if (all[0].revents & POLLIN) {
      auto c = std::make_unique<Connection>(
          Socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC)));
      const timeval limit{.tv_sec = 2, .tv_usec = 0};
      ::setsockopt(c->socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      if (c->socket) connections_.push_back(std::move(c));
    }
    for (size_t i = 0; i < known; ++i) {
      Connection& c = *connections_[i];
      if (all[i + 1].revents) {
        const std::optional<std::string> bytes = c.socket.read(0);
        if (bytes && bytes->empty()) {
          ended(c);
        } else if (bytes) {
          try {
            c.buffer += *bytes;
            while (const auto message = take_message(c.buffer)) take(c, *message);
          } catch (const std::exception&) {
            c.closed = true;  // it speaks another language
          }
        }
      }
      if (c.who && !c.left && !c.closed && seconds_since(c.heard) > kSilence) {
        announce(fmt::format("{} was not heard of for {} s", c.who->peer.name(), kSilence));
        c.left = true;
      }
    }
    std::erase_if(connections_, [](const auto& c) { return c->closed; });
  }
}

Store::Store(const std::vector<std::string>& addresses, int port, const std::string& job, Peer self,
             double seconds)
    : self_(std::move(self)) {
  const Message hello = {"hello", job, std::to_string(self_.rank), self_.host,
                         std::to_string(self_.pid)};
  const auto start = Clock::now();
  // An address may be another machine's too, as a loopback one is.
  const auto greet = [&](const std::string& address) {
    Socket socket = connect_to(address, port, 0);
    if (!socket || !socket.write(framed(hello))) return false;
    std::string buffer;
    for (const auto asked = Clock::now(); seconds_since(asked) < 2;) {
      const std::optional<std::string> bytes = socket.read(1);
      if (bytes && bytes->empty()) return false;
      buffer += bytes.value_or("");
      if (!take_message(buffer)) continue;
      socket_ = std::move(socket);
      return true;
    }
    return false;
  };
  while (!socket_) {
    for (const std::string& address : addresses)
      if (!socket_ && greet(address)) break;
    std::string tried;
    for (const std::string& address : addresses) tried += (tried.empty() ? "" : ", ") + address;
    check<IoError>(socket_ || seconds_since(start) < seconds,
                   "distributed: {} cannot reach rank 0 at {}, port {}", self_.name(), tried, port);
  }
  thread_ = std::thread([this] { read(); });
}

Store::~Store() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

bool Store::send(const Message& parts) {
  const std::lock_guard lock(writing_);
  return socket_.write(framed(parts));
}

void Store::read() {
  auto heard = Clock::now();
  auto told = Clock::now() - std::chrono::seconds(2);
  const auto lost = [&](const std::string& how) {
    const std::lock_guard lock(mutex_);
    // Where it has said good-bye, whoever still needs it will hear that it left.
    if (!failure_ && !left_.contains(0)) failure_ = "rank 0, which holds the store, " + how;
    arrived_.notify_all();
  };
  while (!stop_) {
    if (seconds_since(told) >= kHeartbeat) {
      Message status = {"status", "", ""};
      {
        const std::lock_guard lock(mutex_);
        status = {"status", at_, words_};
      }
      send(status);
      told = Clock::now();
    }
    const std::optional<std::string> bytes = socket_.read(0.2);
    if (bytes && bytes->empty()) return lost("ended");
    if (!bytes && seconds_since(heard) > kSilence) return lost("was not heard of for a while");
    if (!bytes) continue;
    heard = Clock::now();
    buffer_ += *bytes;
    try {
      while (const auto message = take_message(buffer_)) take(*message);
    } catch (const std::exception& e) {
      return lost(fmt::format("sent what cannot be read: {}", e.what()));
    }
  }
}

void Store::take(const Message& m) {
  const std::lock_guard lock(mutex_);
  if (m[0] == "failed" && m.size() == 2) {
    if (!failure_) failure_ = m[1];
  } else if (m[0] == "left" && m.size() >= 2) {
    std::map<int64_t, int64_t>& begun = left_[std::stoi(m[1])];
    for (size_t i = 2; i + 1 < m.size(); i += 2) begun[std::stoll(m[i])] = std::stoll(m[i + 1]);
  } else if (m[0] == "value" || m[0] == "statuses") {
    answer_ = m;
  }
  arrived_.notify_all();
}

Message Store::request(const Message& parts, const char* answer, double seconds) {
  const std::lock_guard one(asking_);
  {
    const std::lock_guard lock(mutex_);
    answer_.clear();
  }
  send(parts);
  std::unique_lock lock(mutex_);
  const bool came = arrived_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
    return failure_ || (!answer_.empty() && answer_[0] == answer);
  });
  if (!answer_.empty() && answer_[0] == answer) return answer_;
  check(!failure_, "distributed: {}", failure_.value_or(""));
  check(came, "distributed: waited {} s for the store's {}", seconds,
        parts.size() > 1 ? parts[1] : parts[0]);
  return {};
}

void Store::set(const std::string& key, const std::string& value) { send({"set", key, value}); }

std::string Store::get(const std::string& key, double seconds) {
  return request({"get", key}, "value", seconds).at(1);
}

std::vector<Status> Store::statuses() {
  const Message m = request({"ask"}, "statuses", 2);
  std::vector<Status> all;
  for (size_t i = 1; i + 4 < m.size(); i += 5)
    all.push_back({{std::stoi(m[i]), m[i + 1], std::stoi(m[i + 2])}, m[i + 3], m[i + 4]});
  return all;
}

void Store::note(int64_t group, int64_t number, std::string words) {
  const std::lock_guard lock(mutex_);
  at_ = fmt::format("{}:{}", group, number);
  words_ = std::move(words);
  begun_[group] = number;
}

void Store::report(const std::string& error) {
  send({"fail", error});
  std::unique_lock lock(mutex_);
  // This process is told after the others, rank 0 last of all.
  arrived_.wait_for(lock, std::chrono::seconds(1), [&] { return failure_.has_value(); });
}
void Store::leave() {
  Message bye = {"bye"};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [group, number] : begun_) {
      bye.push_back(std::to_string(group));
      bye.push_back(std::to_string(number));
    }
  }
  send(bye);
}

void Store::wait_for_leave(int others, double seconds) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return failure_ || static_cast<int>(left_.size()) >= others; });
}

std::optional<std::string> Store::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::map<int, int64_t> Store::left(int64_t group) const {
  const std::lock_guard lock(mutex_);
  std::map<int, int64_t> all;
  for (const auto& [rank, begun] : left_) {
    const auto it = begun.find(group);
    all[rank] = it == begun.end() ? 0 : it->second;
  }
  return all;
}

}  // namespace mica::distributed
