#include "mica/ops/collective/communicator.h"

#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "mica/core/check.h"
#include "mica/core/fork.h"

namespace mica::distributed {
namespace {

class SelfEngine final : public Engine {
 public:
  const char* name() const override { return "self"; }
  void start(const CollectiveCall& c) override {
    const size_t bytes = static_cast<size_t>(c.count) * size_of(c.dtype);
    const std::lock_guard lock(mutex_);
    if (c.kind == CollectiveKind::send) {
      letters_.emplace_back(static_cast<const char*>(c.in), bytes);
    } else if (c.kind == CollectiveKind::recv) {
      check(!letters_.empty() && letters_.front().size() == bytes,
            "recv: this process, alone, has sent itself {}",
            letters_.empty() ? "nothing" : fmt::format("{} bytes", letters_.front().size()));
      letters_.front().copy(static_cast<char*>(c.out), bytes);
      letters_.pop_front();
    } else if (c.out != c.in && bytes > 0) {
      std::memcpy(c.out, c.in, bytes);
    }
  }
  void wait(const CollectiveCall&) override {}

 private:
  Mutex mutex_;
  std::deque<std::string> letters_;  ///< to itself
};

Communicator alone() {
  Communicator world;
  world.engines[static_cast<size_t>(DeviceKind::cpu)] = make_self_engine();
  return world;
}

struct Groups {
  Mutex mutex;
  std::vector<std::shared_ptr<const Communicator>> all = {
      std::make_shared<const Communicator>(alone())};
  std::map<std::tuple<int64_t, DeviceKind, int>, Tensor> tokens;
};

/// Never destroyed: ops may be called until the process ends.
Groups& groups() {
  static auto* groups = new Groups;
  return *groups;
}

}  // namespace

std::string CollectiveCall::words() const {
  if (kind == CollectiveKind::barrier) return name();
  std::string text = name();
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter)
    text += fmt::format(" {}", kReduceOpNames[static_cast<size_t>(reduce)]);
  text += fmt::format(" {}[{}]", dtype, count);
  if (kind == CollectiveKind::broadcast) text += fmt::format(" from rank {}", peer);
  if (kind == CollectiveKind::send) text += fmt::format(" to rank {}", peer);
  if (kind == CollectiveKind::recv) text += fmt::format(" from rank {}", peer);
  return text;
}

std::shared_ptr<Engine> make_self_engine() { return std::make_shared<SelfEngine>(); }

std::shared_ptr<const Communicator> communicator(int64_t number) {
  Groups& g = groups();
  const std::lock_guard lock(g.mutex);
  check<IndexError>(number >= 0 && number < static_cast<int64_t>(g.all.size()),
                    "distributed: there is no group {}, only {}", number, g.all.size());
  return g.all[static_cast<size_t>(number)];
}

int64_t add_communicator(Communicator group) {
  Groups& g = groups();
  const std::lock_guard lock(g.mutex);
  group.number = static_cast<int64_t>(g.all.size());
  g.all.push_back(std::make_shared<const Communicator>(std::move(group)));
  return g.all.back()->number;
}

void set_world(Communicator world) {
  Groups& g = groups();
  const std::lock_guard lock(g.mutex);
  world.number = 0;
  g.all[0] = std::make_shared<const Communicator>(std::move(world));
}

Engine& engine_for(int64_t number, DeviceKind kind) {
  const std::shared_ptr<const Communicator> group = communicator(number);
  check(group->rank >= 0, "distributed: this process is not a member of group {}", number);
  Engine* engine = group->engines[static_cast<size_t>(kind)].get();
  check<Unsupported>(
      engine != nullptr,
      "distributed: group {} has no engine for tensors on {}: those on the CPU go by "
      "MPI (start the program with `mica launch` or mpirun), those on CUDA by NCCL",
      number, kind == DeviceKind::cpu ? "the CPU" : "CUDA");
  return *engine;
}

Tensor token_of(int64_t group, Device device) {
  Groups& g = groups();
  const std::lock_guard lock(g.mutex);
  Tensor& token = g.tokens[{group, device.kind, device.index}];
  if (!token.defined()) token = empty({1}, {.dtype = DType::u8, .device = device});
  return token;
}

}  // namespace mica::distributed
