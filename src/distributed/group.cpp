#include "mica/distributed/group.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string_view>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/distributed/mpi/engine.h"
#include "mica/distributed/nccl/engine.h"
#include "mica/runtime/devices.h"
#include "mica/runtime/runtime.h"

namespace mica::distributed {
namespace {

constexpr double kTimeout = 25;       // seconds
constexpr double kStartTimeout = 60;  // until all have come
constexpr double kEndTimeout = 10;    // until all have gone

struct Process {
  Environment environment;
  std::string backend = "self";
  Peer self;
  std::unique_ptr<StoreServer> server;
  std::shared_ptr<Store> store;
  std::shared_ptr<Watch> watch;
  std::shared_ptr<MpiThread> mpi;
  std::vector<std::shared_ptr<Engine>> engines;  ///< of CUDA
  bool ended = false;
  int groups = 0;  ///< made so far: names keys of the store
};

Mutex& guard() {
  static auto* mutex = new Mutex;
  return *mutex;
}
/// Null before init; never destroyed.
Process*& process() {
  static Process* process = nullptr;
  return process;
}

double timeout_from(const InitOptions& options) {
  if (options.timeout_seconds > 0) return options.timeout_seconds;
  const char* text = std::getenv("MICA_DISTRIBUTED_TIMEOUT");
  if (!text || !*text) return kTimeout;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  check(*end == 0 && seconds > 0, "MICA_DISTRIBUTED_TIMEOUT: expected seconds, got '{}'", text);
  return seconds;
}

bool compares() {
  const char* text = std::getenv("MICA_DISTRIBUTED_DEBUG");
  return text && std::string_view(text) == "1";
}

std::string choose_backend(const std::string& asked, const Environment& e) {
  const bool known = asked.empty() || asked == "mpi" || asked == "nccl" || asked == "self";
  check(known, "distributed::init: the backend must be \"mpi\", \"nccl\" or \"self\", got \"{}\"",
        asked);
  if (asked == "self" || (asked.empty() && e.world_size == 1 && !e.by_mpi())) return "self";
  if (!asked.empty()) return asked;
  // srun starts MPI's processes too.
  const bool by_mpi = e.by_mpi() || (e.launcher == "slurm" && !cuda_available());
  return by_mpi ? "mpi" : "nccl";
}

/// Where rank 0 listens and the name of the job, told by MPI.
std::string told_by_mpi(MpiThread& mpi, std::string text) {
  return mpi.run([&](MpiLibrary& m) {
    text.resize(1024);
    mpi.finish(m.broadcast(text.data(), static_cast<int>(text.size()), 0, m.world()));
    return std::string(text.c_str());
  });
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

void open_store(Process& p) {
  const Environment& e = p.environment;
  std::string job = fmt::format("{}:{}", e.master_address, e.master_port);
  std::vector<std::string> addresses = {e.master_address};
  int port = e.master_port;
  // torchrun's agent may listen on the port it tells.
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent && std::string_view(agent) == "True") port += 1;
  if (p.mpi) {
    std::string text;
    if (e.rank == 0) {
      job = fmt::format("{}-{}-{}", host_name(), ::getpid(), std::time(nullptr));
      p.server = std::make_unique<StoreServer>(0, job);
      text = fmt::format("{} {}", job, p.server->port());
      for (const std::string& address : own_addresses()) text += " " + address;
    }
    const std::vector<std::string> words = words_of(told_by_mpi(*p.mpi, text));
    job = words[0];
    port = std::stoi(words.at(1));
    addresses.assign(words.begin() + 2, words.end());
  } else if (e.rank == 0) {
    p.server = std::make_unique<StoreServer>(port, job);
    addresses = {"127.0.0.1"};
  }
  p.store = std::make_shared<Store>(addresses, port, job, p.self, kStartTimeout);
}

std::vector<int> all_ranks(int n) {
  std::vector<int> ranks;
  for (int i = 0; i < n; ++i) ranks.push_back(i);
  return ranks;
}

int gpu_of(int local_rank) {
  return runtime(DeviceKind::cuda).device_count() == 1 ? 0 : local_rank;
}

/// NCCL for the tensors of CUDA. Beside MPI, only when there are any.
std::shared_ptr<Engine> cuda_engine(Process& p, const Communicator& group) {
  NcclStart start;
  start.group = group;
  start.watch = p.watch;
  start.exchange = [store = p.store, key = fmt::format("nccl:{}", p.groups),
                    first = group.rank == 0](const std::string& own) {
    if (first) store->set(key, own);
    return first ? own : store->get(key, kStartTimeout);
  };
  if (p.backend == "nccl") start.device = gpu_of(p.environment.local_rank);
  p.engines.push_back(p.backend == "nccl" ? make_nccl_engine(start)
                                          : make_nccl_engine_later(start));
  return p.engines.back();
}

void open_world(Process& p) {
  Communicator world;
  world.rank = p.environment.rank;
  world.members = all_ranks(p.environment.world_size);
  if (p.mpi)
    world.engines[static_cast<size_t>(DeviceKind::cpu)] =
        make_mpi_engine(p.mpi, p.mpi->library().world(), p.watch, world);
  world.engines[static_cast<size_t>(DeviceKind::cuda)] = cuda_engine(p, world);
  p.groups += 1;
  set_world(std::move(world));
}

/// Whether there is an engine of NCCL in this process.
bool computes_on_cuda() {
  Process* p = process();
  return p && ::getpid() == p->self.pid && p->backend == "nccl";
}

Process& opened(const char* what) {
  Process* p = process();
  check(p != nullptr, "distributed::{}: call distributed::init() first", what);
  return *p;
}

}  // namespace

void init(const InitOptions& options) {
  const std::lock_guard lock(guard());
  if (process()) return;
  auto p = std::make_unique<Process>();
  p->environment = environment_from(process_variables());
  p->backend = choose_backend(options.backend, p->environment);
  if (p->backend == "self") {
    p->environment = {};
  } else {
    const Environment& e = p->environment;
    const double timeout = timeout_from(options);
    p->self = {e.rank, host_name(), ::getpid()};
    try {
      if (p->backend == "mpi") {
        p->mpi = std::make_shared<MpiThread>();
        p->mpi->open(e.launcher);
        const auto [rank, size] =
            p->mpi->run([](MpiLibrary& m) { return std::pair(m.rank(), m.size()); });
        check(
            rank == e.rank && size == e.world_size,
            "distributed::init: the environment says rank {} of {} ({}), MPI rank {} of {}: start "
            "the program with this MPI's mpirun, with `mica launch`, or with srun --mpi=pmix",
            e.rank, e.world_size, e.launcher, rank, size);
      } else {
        check<Unsupported>(
            cuda_available() && nccl_available(),
            "distributed::init: there is no backend nccl (launcher: {}): {}; processes on the CPU "
            "are "
            "started by mpirun or `mica launch`",
            e.launcher, cuda_available() ? nccl_unavailable_reason() : cuda_unavailable_reason());
      }
      open_store(*p);
      p->watch = std::make_shared<Watch>(p->store, p->self, timeout, compares());
      open_world(*p);
    } catch (const std::exception& error) {
      if (p->store) p->store->report(error.what());
      (void)p.release();  // its threads go on
      throw;
    }
    // Not std::atexit, which the library does without (core/exit.cpp).
    ::on_exit(
        [](int status, void*) {
          if (status != 0) report_failure(fmt::format("it ended with status {}", status));
          shutdown();
          if (status == 0 || !computes_on_cuda()) return;
          // Kernels and threads of NCCL may still wait for others: taking CUDA down would wait too.
          std::fflush(nullptr);
          ::_exit(status);
        },
        nullptr);
  }
  process() = p.release();
}

bool is_initialized() { return process() != nullptr; }
int rank() { return process() ? process()->environment.rank : 0; }
int world_size() { return process() ? process()->environment.world_size : 1; }
int local_rank() { return process() ? process()->environment.local_rank : 0; }
int gpu() { return gpu_of(local_rank()); }
std::string backend() { return process() ? process()->backend : "self"; }

int64_t new_group(const std::vector<int>& ranks) {
  const std::lock_guard lock(guard());
  Process& p = opened("new_group");
  const int size = p.environment.world_size;
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  check(!ranks.empty() && sorted.front() >= 0 && sorted.back() < size &&
            std::ranges::adjacent_find(sorted) == sorted.end(),
        "distributed::new_group: expected different ranks below {}", size);
  Communicator group;
  group.members = ranks;
  const auto own = std::ranges::find(ranks, p.environment.rank);
  group.rank = own == ranks.end() ? -1 : static_cast<int>(own - ranks.begin());
  group.number = p.groups;
  const size_t cpu = static_cast<size_t>(DeviceKind::cpu);
  if (p.backend == "self") group.engines[cpu] = make_self_engine();
  if (p.mpi) {
    const MpiLibrary::Comm comm = p.mpi->run(
        [&](MpiLibrary& m) { return m.split(group.rank < 0 ? -1 : 0, std::max(group.rank, 0)); });
    if (group.rank >= 0) group.engines[cpu] = make_mpi_engine(p.mpi, comm, p.watch, group);
  }
  if (p.backend != "self" && group.rank >= 0)
    group.engines[static_cast<size_t>(DeviceKind::cuda)] = cuda_engine(p, group);
  p.groups += 1;
  return add_communicator(std::move(group));
}

int group_rank(int64_t group) { return communicator(group)->rank; }
int group_size(int64_t group) { return communicator(group)->size(); }

void report_failure(const std::string& error) {
  Process* p = process();
  if (p && p->store && !p->ended && ::getpid() == p->self.pid) {  // not its forked children
    p->ended = true;
    p->store->report(error);
  }
}

std::string failure() {
  Process* p = process();
  return p && p->store ? p->store->failure().value_or("") : "";
}

void shutdown() {
  Process* p = process();
  if (!p || !p->store || ::getpid() != p->self.pid || std::exchange(p->ended, true)) return;
  for (const std::shared_ptr<Engine>& engine : p->engines) engine->finish();
  p->store->leave();
  if (p->store->failure()) return;
  if (p->mpi) {
    p->mpi->finalize();
  } else {
    // What was sent may not have arrived before all have said that it did.
    p->store->wait_for_leave(p->environment.world_size - 1, kEndTimeout);
  }
}

}  // namespace mica::distributed
