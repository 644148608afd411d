#include "mica/runtime/cpu/openmp_waits.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

namespace mica {
namespace {

struct Times {
  double run = 0;
  double waited = 0;
};

/// Of all threads that there are, in seconds; nothing where the system does not tell.
std::optional<Times> read_times() {
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir("/proc/self/task"), closedir);
  if (!threads) return std::nullopt;
  Times all;
  bool any = false;
  while (const dirent* entry = readdir(threads.get())) {
    if (entry->d_name[0] == '.') continue;
    const int file =
        openat(dirfd(threads.get()), (std::string(entry->d_name) + "/schedstat").c_str(),
               O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;  // it ended meanwhile
    std::array<char, 96> text{};
    const ssize_t count = read(file, text.data(), text.size() - 1);
    close(file);
    unsigned long long run = 0;
    unsigned long long waited = 0;
    if (count <= 0 || std::sscanf(text.data(), "%llu %llu", &run, &waited) != 2) continue;
    all.run += 1e-9 * static_cast<double>(run);
    all.waited += 1e-9 * static_cast<double>(waited);
    any = true;
  }
  if (!any) return std::nullopt;
  return all;
}

/// While it lives, libgomp's threads hardly spin: they do not where there are more of them than
/// cores, so there is one more, which sleeps.
class OneThreadMore {
 public:
  OneThreadMore()
      : thread_([this] {
#pragma omp parallel num_threads(2)
          std::atomic_signal_fence(std::memory_order_seq_cst);  // an empty team would be left out
          there_ = true;
          there_.notify_all();
          leave_.wait(false);
        }) {
    there_.wait(false);
  }
  ~OneThreadMore() {
    leave_ = true;
    leave_.notify_all();
    thread_.join();
  }
  OneThreadMore(const OneThreadMore&) = delete;
  OneThreadMore& operator=(const OneThreadMore&) = delete;

 private:
  std::atomic<bool> there_{false};
  std::atomic<bool> leave_{false};
  std::thread thread_;
};

void watch() {
  using namespace std::chrono;
  constexpr milliseconds kBusy(20);
  constexpr milliseconds kIdle(500);
  CrowdedCores cores;
  std::unique_ptr<OneThreadMore> more;
  double run = 0;
  for (milliseconds pause = kBusy;;) {
    std::this_thread::sleep_for(pause);
    const std::optional<Times> times = read_times();
    if (!times) return;
    const double now = duration<double>(steady_clock::now().time_since_epoch()).count();
    if (cores.update(now, times->run, times->waited) != (more != nullptr)) try {
        more = more ? nullptr : std::make_unique<OneThreadMore>();
      } catch (const std::system_error&) {  // no thread is to be had: they go on as they do
      }
    pause = times->run - run > 0.002 ? kBusy : std::min(2 * pause, kIdle);
    run = times->run;
  }
}

}  // namespace

bool CrowdedCores::update(double now, double run, double waited) {
  constexpr double kEnoughToJudge = 0.3;
  const double ran = run - run_;
  const double lost = waited - waited_;
  const bool ended = crowded_ && now >= until_;
  if (!crowded_ && ran >= 0 && ran + lost < kEnoughToJudge) return false;
  // Threads that ended are missing from the sums; what was lost while threads slept tells nothing
  // of what they lose when they spin.
  const bool tells = !crowded_ && ran >= 0 && lost >= 0;
  run_ = run;
  waited_ = waited;
  if (ended) crowded_ = false;
  if (tells && lost > 0.25 * (ran + lost)) {
    lasts_ = now < until_ + 1 ? std::min(2 * lasts_, 60.0) : 1;
    until_ = now + lasts_;
    crowded_ = true;
  }
  return crowded_;
}

void watch_openmp_waits() {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      std::thread(watch).detach();
    } catch (const std::system_error&) {  // as above
    }
  });
}

}  // namespace mica
