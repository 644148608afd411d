#include "mica/op/settings.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/runtime/cpu/openmp_waits.h"

namespace mica {
namespace {

constexpr int kMostThreads = 1024;  // far more end the process when the system has no more to give
constexpr int kForked = -1;         // in g_threads: this process has none of those it counts on
constexpr int kUnknown = -2;        // in t_threads: this thread has called no kernel yet
std::atomic<int> g_threads{0};      // 0: OpenMP's own choice
thread_local int t_threads = kUnknown;  // the g_threads that this thread's OpenMP was last told
std::atomic<bool> g_parallel{false};    // OpenMP may have started threads

/// How many threads, the calling one among them, a kernel can have at the moment. OpenMP ends the
/// process where the system refuses one. oneDNN's are beside those of the pool, and two sleep.
int threads_to_be_had(int wanted) {
  if (wanted == 1) return 1;
  const int all = 2 * wanted + 2;
  std::vector<std::thread> threads;
  std::mutex gate;
  {
    const std::lock_guard closed(gate);
    try {
      while (static_cast<int>(threads.size()) + 1 < all)
        threads.emplace_back([&] { const std::lock_guard wait(gate); });
    } catch (const std::system_error&) {  // no more
    }
  }
  for (std::thread& t : threads) t.join();
  return std::max(1, (static_cast<int>(threads.size()) + 1 - 2) / 2);
}

void check_not_forked() {
  check<DeviceError>(g_threads.load(std::memory_order_relaxed) != kForked,
                     "mica: this process was forked from one that had computed with several "
                     "threads, which a fork leaves behind: start others by exec (in Python by "
                     "multiprocessing.get_context(\"spawn\")), or call set_num_threads(1) before "
                     "anything is computed and forked");
}

void watch_forks() {
  [[maybe_unused]] static const int once = pthread_atfork(nullptr, nullptr, [] {
    if (g_parallel) g_threads = kForked;
  });
}

/// "conv2d:direct,matmul:reference" as a map.
std::map<std::string, std::string> parse_forced(const char* text) {
  std::map<std::string, std::string> forced;
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string entry = rest.substr(0, comma);
    const auto colon = entry.find(':');
    check(colon != std::string::npos, "MICA_KERNEL: expected op:kernel[,op:kernel…], got '{}'",
          text);
    forced[entry.substr(0, colon)] = entry.substr(colon + 1);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  return forced;
}

struct Settings {
  std::atomic<bool> deterministic{false};
  std::atomic<bool> tf32{false};
  std::atomic<bool> autotune{false};
  std::atomic<bool> verbose{false};
  std::atomic<bool> verbose_compile{false};
  std::atomic<int64_t> conv_workspace{int64_t{1} << 30};
  std::atomic<uint64_t> stamp{0};
  Mutex mutex;
  std::map<std::string, std::string> forced = parse_forced(std::getenv("MICA_KERNEL"));

  Settings() {
    const char* v = std::getenv("MICA_VERBOSE");
    verbose = v && std::string(v).find("dispatch") != std::string::npos;
    verbose_compile = v && std::string(v).find("compile") != std::string::npos;
    const auto is_on = [](const char* variable) {
      const char* value = std::getenv(variable);
      return value && std::string(value) == "1";
    };
    autotune = is_on("MICA_AUTOTUNE");
    tf32 = is_on("MICA_TF32");
  }
};

Settings& settings() {
  static Settings s;
  return s;
}

void set(std::atomic<bool>& flag, bool on) {
  if (flag.exchange(on) != on) ++settings().stamp;
}

}  // namespace

void set_deterministic(bool on) { set(settings().deterministic, on); }
bool deterministic() { return settings().deterministic; }
void set_allow_tf32(bool on) { set(settings().tf32, on); }
bool allow_tf32() { return settings().tf32; }
void set_autotune(bool on) { set(settings().autotune, on); }
bool autotune() { return settings().autotune; }
void set_conv_workspace_limit(int64_t bytes) {
  check(bytes >= 0, "set_conv_workspace_limit: expected a number of bytes, got {}", bytes);
  if (settings().conv_workspace.exchange(bytes) != bytes) ++settings().stamp;
}
int64_t conv_workspace_limit() { return settings().conv_workspace; }
void set_verbose_dispatch(bool on) { set(settings().verbose, on); }
bool verbose_dispatch() { return settings().verbose; }
void set_verbose_compile(bool on) { settings().verbose_compile = on; }
bool verbose_compile() { return settings().verbose_compile; }

void force_kernel(const std::string& op, const std::string& kernel) {
  Settings& s = settings();
  const std::lock_guard lock(s.mutex);
  if (kernel.empty()) {
    s.forced.erase(op);
  } else {
    s.forced[op] = kernel;
  }
  ++s.stamp;
}

std::string forced_kernel(const std::string& op) {
  Settings& s = settings();
  const std::lock_guard lock(s.mutex);
  const auto it = s.forced.find(op);
  return it == s.forced.end() ? "" : it->second;
}

void settings_changed() { ++settings().stamp; }

uint64_t settings_stamp() { return settings().stamp.load(std::memory_order_relaxed); }

void set_num_threads(int threads) {
  check(threads >= 1 && threads <= kMostThreads, "set_num_threads: expected 1 to {}, got {}",
        kMostThreads, threads);
  check_not_forked();
  if (g_threads.exchange(threads) != threads) ++settings().stamp;
  adopt_num_threads();
}

int num_threads() {
  adopt_num_threads();
  return omp_get_max_threads();
}

void adopt_num_threads() {
  const int set = g_threads.load(std::memory_order_relaxed);
  if (set == t_threads) [[likely]]
    return;
  check_not_forked();
  watch_forks();
  const int wanted = set > 0 ? set : omp_get_max_threads();
  const int threads = threads_to_be_had(wanted);
  if (set > 0 || threads < wanted) omp_set_num_threads(threads);
  if (threads > 1) {
    g_parallel = true;
    watch_openmp_waits();
  }
  t_threads = set;
}

void use_one_thread() {
  omp_set_num_threads(1);
  const int set = g_threads.load(std::memory_order_relaxed);
  t_threads = set == kForked ? kUnknown : set;
}

}  // namespace mica
