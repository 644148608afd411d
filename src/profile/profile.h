#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mica/core/device.h"
#include "mica/core/dtype.h"
#include "mica/core/range.h"
#include "mica/core/scope.h"
#include "mica/profile/memory.h"
#include "mica/runtime/device_trace.h"

// Where the time of a program goes: what ran when, for which layer, and how far from what the
// machine can do. See docs/profiling.md.
namespace mica::profiler {

/// Calls that are alike: the same kernel with the same parameters, shapes and dtypes. Work on a
/// device that is of no op, such as a copy, has a kind too, with the name of what sent it.
struct Kind {
  std::string op;
  std::string kernel;
  std::string params;
  std::string shapes;  ///< "f32[64, 784], f32[784, 10] → f32[64, 10]"
  Device device;
  DType dtype = DType::f32;  ///< of its first floats
  double flops = 0;          ///< of a call; 0 where memory decides how long it takes
  double bytes = 0;          ///< read and written, each tensor once
  bool copies = false;       ///< into another layout or dtype, or from one device to another
};

// Paths of what a training step calls outside of modules; in a profile without gradients, or
// without modules, such calls have none.
inline constexpr const char* kDataPath = "(data)";  ///< before its network, and copies
inline constexpr const char* kLossPath = "(loss)";  ///< after it, and the gradients of that
inline constexpr const char* kUpdatePath = "(update)";

/// A kernel that ran, on the host's clock: nanoseconds since the profile began.
struct Run {
  int kind = 0;
  int scope = 0;
  int thread = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t self = 0;       ///< without the runs inside it
  int64_t allocated = 0;  ///< bytes that tensors held on the device when it ended
  uint64_t id = 0;        ///< no other run or span has it
};

/// A named stretch of time.
struct Span {
  std::string name;
  RangeKind kind = RangeKind::user;
  int thread = 0;
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t id = 0;  ///< no other run or span has it
};

/// A kernel, a copy or a fill that a device did, on the host's clock.
struct DeviceRun {
  DeviceWork::What what = DeviceWork::What::kernel;
  bool in_graph = false;
  bool is_first = false;  ///< of the call it is of
  bool is_known = false;  ///< for whom it was done
  int name = 0;           ///< of Profile::device_names: the kernel's
  int kind = 0;
  int scope = 0;
  int track = 0;  ///< what overlaps has tracks of its own
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;    ///< of copies and fills
  uint64_t sender = 0;  ///< the run or span that sent it, or launched its graph; 0: not recorded
};

/// An order of work on a device.
struct Track {
  Device device;
  std::string name;
};

// Reasons why a device did nothing; others are the names of spans.
inline constexpr const char* kWithinGraph = "between the kernels of a graph";
inline constexpr const char* kWaitingForBatch = "waiting for a batch";
inline constexpr const char* kHostWaited = "the host waits for the device, or has just done so";
inline constexpr const char* kCallingOps = "calling ops";
inline constexpr const char* kBetweenCalls = "the program, between calls";

/// A stretch of time in which a device did nothing, and what the host did meanwhile.
struct Gap {
  Device device;
  std::string why;
  int64_t begin = 0;
  int64_t end = 0;
};

/// What was recorded.
struct Profile {
  std::vector<Kind> kinds;
  std::vector<Scope> scopes;           ///< of calls outside of modules too: see kLossPath
  std::vector<Run> runs;               ///< by thread, and there by time
  std::vector<Span> spans;             ///< the same
  std::vector<DeviceRun> device_runs;  ///< by when they began
  std::vector<std::string> device_names;
  std::vector<Track> tracks;
  std::string device_source;         ///< how devices were seen; empty where none was
  uint64_t dropped = 0;              ///< device runs that did not fit in memory
  std::vector<MemoryUse> memory;     ///< of every compiled function that ran, largest first
  PeakMemory peak;                   ///< of eager execution
  std::vector<HeldBlock> blocks;     ///< of the caching allocator when the profile ended
  std::vector<std::string> threads;  ///< their names
  std::vector<int64_t> steps;        ///< when each step began, and the last one's end
  int64_t end = 0;                   ///< how long it took, without what was not recorded
  std::vector<std::pair<std::string, std::string>> facts;  ///< machine, threads, versions
};

/// How a device spent its time.
struct DeviceTime {
  Device device;
  int64_t busy = 0;        ///< with anything
  int64_t work = 0;        ///< of all that was done, also side by side
  int64_t attributed = 0;  ///< of this, what is known to be of an op or a copy of the program
  int64_t in_modules = 0;  ///< of this, what has a path: of a module, or of what lies around them
  std::vector<std::pair<std::string, int64_t>> gaps;  ///< why it did nothing, longest first
};
/// When a device did nothing between its first work and its last.
std::vector<Gap> gaps(const Profile& profile);
std::vector<DeviceTime> device_times(const Profile& profile);

/// Which steps to record: of wait + warmup + active the last ones, again and again, or `repeat`
/// times. active = 0: all there are.
struct Schedule {
  int wait = 0;
  int warmup = 0;  ///< as wait, but with devices traced: afterwards things are as they stay
  int active = 0;
  int repeat = 0;
};

/// Records from start() to stop(), in every thread. One at a time in a process: another raises.
class Profiler {
 public:
  explicit Profiler(const Schedule& schedule = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void start();
  /// A training step ends here, and the next begins.
  void step();
  /// May be called twice.
  void stop();
  /// What was recorded until stop().
  const Profile& profile() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The times of calls that belong together.
struct Row {
  std::string name;
  std::string detail;  ///< what the group has in common beside its name
  int64_t calls = 0;
  double seconds = 0;
  double share = 0;  ///< of all rows' seconds
  double flops = 0;
  double bytes = 0;
  double floor = 0;  ///< the seconds that the machine needs for the same; 0: unknown
};
enum class By { op, kernel, module, shape, gpu };  // gpu: kernels of the device, by their names
By by_of(const std::string& name);                 ///< raises for another name

/// What a device can do, measured once in a process by a large product and a large copy; zeros
/// where there is nothing to measure with.
struct Peaks {
  double flops = 0;  ///< per second, in a product of this dtype
  double bytes = 0;
};
Peaks peaks_of(Device device, DType dtype = DType::f32);
/// The seconds that a call needs at these rates; 0: unknown.
double floor_of(const Kind& kind);

/// The time of calls of one kind for one module and pass: the device's where that was seen, else
/// the host's.
struct Cost {
  int kind = 0;
  int scope = 0;
  int64_t calls = 0;
  int64_t time = 0;
};
std::vector<Cost> costs(const Profile& profile);

/// Longest first; times as `costs` has them.
std::vector<Row> rows(const Profile& profile, By by);
/// As text for a terminal.
std::string table(const Profile& profile, By by = By::op, int most = 25);
/// What stands out, in words: a line each.
std::vector<std::string> advice(const Profile& profile);
/// Everything for programs.
std::string to_json(const Profile& profile);
/// For chrome://tracing and Perfetto: phases, modules and ops of a thread as nested slices, its
/// ranges on a track beside, memory as a counter. Replaces the file all or nothing.
void export_chrome_trace(const Profile& profile, const std::string& path);
/// One HTML file that loads nothing from elsewhere: timeline, layers, kernels, memory, advice.
void write_report(const Profile& profile, const std::string& path);

}  // namespace mica::profiler
