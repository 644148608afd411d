#include "mica/profile/profile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "mica/core/range.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/profile/memory.h"
#include "mica/profile/slices.h"
#include "tests/sample_profile.h"

namespace mica {
namespace {

using profiler::By;
using profiler::Profile;
using profiler::Profiler;

struct NetImpl : nn::ModuleImpl {
  NetImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) { return second(relu(first(x))); }
  nn::Linear first{8, 16};
  nn::Linear second{16, 4};
};
using Net = nn::Handle<NetImpl>;

struct Step {
  Net net;
  optim::SGD optimizer{net.parameters(), {.lr = 0.1}};
  Tensor x = ones({32, 8});

  void operator()() {
    optimizer.zero_grad();
    mean(net(x)).backward();
    optimizer.step();
  }
};

Profile record(const std::function<void()>& step, int steps = 3,
               const profiler::Schedule& schedule = {}) {
  Profiler p(schedule);
  p.start();
  for (int i = 0; i < steps; ++i) {
    step();
    p.step();
  }
  p.stop();
  return p.profile();
}

/// Calls of an op that belong to a module in a phase.
int64_t calls(const Profile& p, const std::string& op, const std::string& module, Phase phase) {
  return std::ranges::count_if(p.runs, [&](const profiler::Run& r) {
    const Scope& s = p.scopes[static_cast<size_t>(r.scope)];
    return p.kinds[static_cast<size_t>(r.kind)].op == op && s.module == module && s.phase == phase;
  });
}

TEST(Profile, SaysWhichModuleAndPassAnOpIsOf) {
  Step step;
  step();
  const Profile p = record([&] { step(); });
  EXPECT_EQ(calls(p, "linear", "first", Phase::forward), 3);
  EXPECT_EQ(calls(p, "linear", "second", Phase::forward), 3);
  EXPECT_EQ(calls(p, "linear_wgrad", "first", Phase::backward), 3);
  EXPECT_EQ(calls(p, "linear_wgrad", "second", Phase::backward), 3);
  EXPECT_EQ(p.steps.size(), 4U);
  int64_t update = 0;
  for (const profiler::Run& r : p.runs) {
    EXPECT_LE(r.begin, r.end);
    EXPECT_LE(r.end, p.end);
    EXPECT_GE(r.self, 0);
    update += p.scopes[static_cast<size_t>(r.scope)].phase == Phase::update;
  }
  EXPECT_GT(update, 0);
  const auto linear = std::ranges::find(p.kinds, "linear", &profiler::Kind::op);
  ASSERT_NE(linear, p.kinds.end());
  EXPECT_EQ(linear->flops, 2.0 * 32 * 8 * 16);
  EXPECT_NE(linear->shapes.find("f32[32, 8]"), std::string::npos) << linear->shapes;
}

TEST(Profile, ACompiledStepIsSeenInside) {
  Step step;
  const auto compiled = compile([&] { step(); });
  compiled();
  const Profile p = record([&] { compiled(); });
  EXPECT_GT(p.runs.size(), 0U);
  bool of_second = false;
  for (const Scope& s : p.scopes) of_second = of_second || s.module == "second";
  EXPECT_TRUE(of_second);
}

TEST(Profile, WhatLiesAroundTheNetworkHasAPathToo) {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const Tensor x = ones({32, 8});
  const Tensor last = zeros({});
  const auto step = [&] {
    const Tensor scaled = mul(x, 0.5);
    optimizer.zero_grad();
    const Tensor loss = mean(cumsum(net(scaled), 0));
    loss.backward();
    optimizer.step();
    copy_(last, loss.detach());
  };
  const auto compiled = compile(step);
  step();
  compiled();
  for (const bool eager : {true, false}) {
    const Profile p = record([&] { eager ? step() : compiled(); });
    double known = 0;
    std::map<std::string, double> shares;
    for (const profiler::Row& r : profiler::rows(p, By::module)) shares[r.name] = r.share;
    for (const auto& [path, share] : shares) known += path == "(none)" ? 0 : share;
    EXPECT_GE(known, 0.98) << profiler::table(p, By::module);
    for (const char* path : {"first", "second", "(loss)", "(update)"})
      EXPECT_GT(shares[path], 0) << path << "\n" << profiler::table(p, By::module);
    EXPECT_EQ(calls(p, "cumsum", "(loss)", Phase::forward), 3);
    if (!eager) continue;  // where passes join some
    EXPECT_EQ(calls(p, "mul", "(data)", Phase::forward), 3);
    EXPECT_EQ(calls(p, "relu", "(top)", Phase::forward), 3);
  }
  // Where nothing is trained there is no loss.
  const Profile p = record([&] { (void)exp(net(x)); });
  EXPECT_EQ(calls(p, "exp", "", Phase::forward), 3);
}

TEST(Profile, ThePeakOfEagerStepsIsToldByWhatItIsFor) {
  Net net;
  optim::Adam optimizer(net.parameters());
  const Tensor x = ones({4096, 8});
  const auto step = [&] {
    optimizer.zero_grad();
    mean(net(x)).backward();
    optimizer.step();
  };
  step();
  const Profile profile = record(step);
  const profiler::PeakMemory& p = profile.peak;
  const size_t parameters = 4 * (8 * 16 + 16 + 16 * 4 + 4);
  const auto is_about = [](size_t bytes, size_t expected) {
    EXPECT_GE(bytes, expected);
    EXPECT_LE(bytes, expected + 1024);  // storages are rounded up, and a count of steps
  };
  EXPECT_TRUE(p.device.is_cpu());
  is_about(p.weights, parameters);
  is_about(p.optimizer, 2 * parameters);
  is_about(p.data, x.numel() * sizeof(float));
  EXPECT_GE(p.activations, 4096 * 16 * sizeof(float));
  EXPECT_GT(p.gradients, 0U);
  int64_t most = 0;
  for (const profiler::Run& r : profile.runs) most = std::max(most, r.allocated);
  EXPECT_GE(p.total(), static_cast<size_t>(most) * 49 / 50);
  EXPECT_LE(p.total(), static_cast<size_t>(most));
  ASSERT_FALSE(p.holders.empty());
  EXPECT_EQ(p.holders[0].bytes, 4096 * 16 * sizeof(float));
  for (const auto& [who, module] :
       {std::pair("weights", "first"), {"data", "(data)"}, {"state of the optimizer", "(update)"}})
    EXPECT_TRUE(std::ranges::any_of(p.holders, [&](const profiler::Holder& h) {
      return h.op == who && h.module == module;
    })) << who;
}

TEST(Profile, AStepsMemoryIsToldByWhatItIsFor) {
  Net net;
  optim::Adam optimizer(net.parameters());
  const Tensor x = ones({32, 8});
  const auto compiled = compile([&] {
    optimizer.zero_grad();
    const Tensor loss = mean(net(x));
    loss.backward();
    optimizer.step();
    return loss.detach();
  });
  compiled();
  const Plan& plan = *compiled.function()->plan();
  const profiler::StepMemory m = profiler::memory_of(plan);
  const size_t parameters = 4 * (8 * 16 + 16 + 16 * 4 + 4);
  EXPECT_GE(m.weights, parameters);  // storages are rounded up
  EXPECT_LT(m.weights, parameters + 4 * 64);
  EXPECT_GE(m.optimizer, 2 * parameters);
  EXPECT_GE(m.others, 32 * 8 * 4U);
  EXPECT_EQ(m.arena, plan.planned_bytes());
  const size_t fullest = m.arguments + m.activations + m.gradients + m.updates + m.workspace;
  EXPECT_GT(m.activations, 0U);
  EXPECT_LE(fullest, m.arena);
  size_t held = 0;
  for (const profiler::Holder& h : m.holders) held += h.bytes;
  EXPECT_EQ(held, fullest);
  ASSERT_EQ(m.levels.size(), plan.steps());
  EXPECT_TRUE(m.levels[0].call.starts_with(plan.step(0).op)) << m.levels[0].call;
  size_t highest = 0;
  for (const profiler::StepMemory::Level& l : m.levels) {
    EXPECT_LE(l.total(), m.arena) << l.call;
    highest = std::max(highest, l.total());
  }
  EXPECT_EQ(highest, fullest);
  size_t outside = 0;
  for (const profiler::Holder& h : m.outside) outside += h.bytes;
  EXPECT_EQ(outside, m.weights + m.optimizer + m.others);
  const auto of_first = std::ranges::find(m.outside, "first", &profiler::Holder::module);
  ASSERT_NE(of_first, m.outside.end());
  EXPECT_GE(of_first->bytes, 4 * (8 * 16 + 16));
  EXPECT_NE(profiler::table(m).find("state of the optimizer"), std::string::npos);
}

TEST(Profile, TheLargestBatchIsFoundByPlanningAlone) {
  Net net;
  net.to(Device::null());
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  int planned = 0;
  const auto step = [&](int64_t batch) {
    ++planned;
    optimizer.zero_grad();
    mean(net(ones({batch, 8}, {.device = Device::null()}))).backward();
    optimizer.step();
  };
  const auto needs = [&](int64_t batch) {
    return profiler::memory_of(Plan(capture(
                                   [&](std::span<const Tensor>) -> Tensors {
                                     step(batch);
                                     return {};
                                   },
                                   std::span<const TensorSpec>())))
        .total();
  };
  const size_t room = needs(1000);
  const int64_t batch = profiler::largest_batch(step, room);
  EXPECT_GE(batch, 1000);
  EXPECT_GT(needs(batch + 1), room);
  EXPECT_LT(planned, 40);
  EXPECT_EQ(profiler::largest_batch(step, 10), 0);
  Net elsewhere;
  EXPECT_THROW(profiler::largest_batch([&](int64_t n) { (void)elsewhere(ones({n, 8})); }, 1 << 20),
               Error);
}

TEST(Profile, SlicesNestAndEndWithTheirStep) {
  Step step;
  const Profile p = record([&] { step(); });
  const std::vector<profiler::Slice> all = profiler::slices(p);
  ASSERT_FALSE(all.empty());
  std::vector<profiler::Slice> open;
  for (const profiler::Slice& s : all) {
    EXPECT_LT(s.begin, s.end);
    while (!open.empty() && open.back().end <= s.begin) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(s.end, open.back().end);
    }
    EXPECT_EQ(static_cast<size_t>(s.depth), open.size());
    EXPECT_EQ(s.is_phase, open.empty());
    open.push_back(s);
    for (const int64_t border : p.steps) EXPECT_FALSE(s.begin < border && border < s.end);
  }
}

TEST(Profile, RecordsTheStepsOfItsSchedule) {
  const Tensor x = ones({4});
  int runs = 0;
  const auto step = [&] {
    ++runs;
    (void)add(x, runs);
  };
  const Profile p = record(step, 10, {.wait = 1, .warmup = 1, .active = 2, .repeat = 2});
  EXPECT_EQ(p.runs.size(), 4U);
  // Two times two steps, each with its end.
  EXPECT_EQ(p.steps.size(), 6U);
  EXPECT_THROW(Profiler({.wait = -1}), Error);
}

TEST(Profile, ThreadsHaveLogsOfTheirOwn) {
  const Tensor x = ones({4});
  Profiler p;
  p.start();
  (void)add(x, 1);
  std::thread([&] { (void)mul(x, 2); }).join();
  p.stop();
  ASSERT_EQ(p.profile().runs.size(), 2U);
  EXPECT_NE(p.profile().runs[0].thread, p.profile().runs[1].thread);
  EXPECT_EQ(p.profile().threads.size(), 2U);
}

TEST(Profile, OneAtATime) {
  Profiler a;
  Profiler b;
  a.start();
  EXPECT_THROW(b.start(), Error);
  EXPECT_THROW(a.start(), Error);
  EXPECT_THROW((void)a.profile(), Error);
  a.stop();
  b.start();
  b.stop();
  EXPECT_THROW(b.step(), Error);
}

TEST(Profile, TablesAddUp) {
  Step step;
  const Profile p = record([&] { step(); });
  for (const By by : {By::op, By::kernel, By::module, By::shape}) {
    double share = 0;
    int64_t count = 0;
    for (const profiler::Row& r : profiler::rows(p, by)) {
      share += r.share;
      count += r.calls;
    }
    EXPECT_NEAR(share, 1, 1e-9);
    EXPECT_EQ(count, static_cast<int64_t>(p.runs.size()));
  }
  EXPECT_NE(profiler::table(p).find("linear"), std::string::npos);
  EXPECT_THROW(profiler::by_of("colour"), Error);
}

std::string said(const Profile& p) {
  std::string all;
  for (const std::string& line : profiler::advice(p)) all += line + "\n";
  return all;
}

class SlowDataset : public data::DatasetImpl {
 public:
  int64_t size() const override { return 8; }
  data::Example get(int64_t) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return ones({2});
  }
};

TEST(Profile, NamesASlowLoader) {
  const data::Loader loader(data::Dataset(std::make_shared<SlowDataset>()), {.batch = 4});
  const Profile p = record(
      [&] {
        for (const data::Batch& batch : loader.epoch(0)) (void)add(batch.tensor(), 1);
      },
      2);
  EXPECT_NE(said(p).find("Waiting for data"), std::string::npos) << said(p);
}

TEST(Profile, NamesWaitsOfTheHost) {
  const Tensor x = ones({4});
  const Profile p = record([&] {
    (void)add(x, 1);
    const Range wait("copy to the host", RangeKind::wait);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  EXPECT_NE(said(p).find("The host waits for the device for"), std::string::npos) << said(p);
  const Profile without = record([&] { (void)add(x, 1); });
  EXPECT_EQ(said(without).find("The host waits"), std::string::npos) << said(without);
}

TEST(Profile, NamesLayoutCopiesAndReferenceKernels) {
  const Tensor large = ones({256, 256});
  const Profile copies = record([&] { (void)contiguous(transpose(large, 0, 1)); });
  EXPECT_NE(said(copies).find("Copies to another layout"), std::string::npos) << said(copies);
  const Tensor a = ones({64, 64});
  force_kernel("matmul", "reference");
  const Profile slow = record([&] { (void)matmul(a, a); });
  force_kernel("matmul", "");
  EXPECT_NE(said(slow).find("matmul runs by its reference kernel"), std::string::npos)
      << said(slow);
}

/// The events of a trace, whose slices of each track lie in one another or side by side as Perfetto
/// reads them: it cuts times off after nanoseconds, and takes process 0 and thread 0 for the idle
/// one of the system.
nlohmann::json nested_events_of(const Profile& p) {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("mica_trace_{}.json", getpid());
  profiler::export_chrome_trace(p, path);
  std::ifstream file(path);
  nlohmann::json events = nlohmann::json::parse(file)["traceEvents"];
  std::filesystem::remove(path);
  struct Named {
    int64_t begin, end;
    std::string name;
  };
  const auto ns = [](double microseconds) { return static_cast<int64_t>(microseconds * 1000); };
  std::map<std::pair<int, int>, std::vector<Named>> tracks;
  for (const auto& e : events) {
    EXPECT_TRUE(e["pid"] > 0 && e.value("tid", 1) > 0) << e;
    if (e["ph"] != "X") continue;
    const int64_t begin = ns(e["ts"]);
    tracks[{e["pid"], e["tid"]}].push_back({begin, begin + ns(e["dur"]), e["name"]});
  }
  for (auto& [track, slices] : tracks) {
    std::ranges::sort(slices, {}, [](const Named& s) { return std::pair(s.begin, -s.end); });
    std::vector<Named> open;
    for (const Named& s : slices) {
      while (!open.empty() && open.back().end <= s.begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(s.end, open.back().end)
            << s.name << " in " << open.back().name << ", process " << track.first;
      }
      open.push_back(s);
    }
  }
  return events;
}

TEST(Profile, SlicesOfATraceNestBesideRangesOverHalfAPass) {
  Step step;
  const Profile p = record(
      [&] {
        Tensor h;
        {
          const Range range("the first layer");
          h = relu(step.net->first(step.x));
          const Range wait("a wait", RangeKind::wait);
          (void)h.to_vector<float>();
        }
        mean(step.net->second(h)).backward();
      },
      6, {.wait = 1, .active = 1});
  std::map<std::string, int> categories;
  for (const auto& e : nested_events_of(p))
    if (e["ph"] == "X") ++categories[e["cat"].get<std::string>()];
  EXPECT_EQ(categories["range"], 3);
  EXPECT_EQ(categories["wait"], 3);
  EXPECT_GT(categories["module"], 6);
}

TEST(Profile, TimesOfATraceAreReadToTheNanosecond) {
  Profile p;
  p.threads = {"main"};
  for (int64_t begin = 4007; begin < 5000; begin += 8)  // 4.007 * 1000 is less than 4007
    p.spans.push_back({std::to_string(begin), RangeKind::user, 0, begin, begin + 5, 2});
  p.end = 5000;
  for (const auto& e : nested_events_of(p)) {
    if (e["ph"] != "X") continue;
    EXPECT_EQ(std::to_string(static_cast<int64_t>(e["ts"].get<double>() * 1000)),
              e["name"].get<std::string>());
    EXPECT_EQ(static_cast<int64_t>(e["dur"].get<double>() * 1000), 5);
  }
}

TEST(Profile, ARangeThatLastsOverStepsThatAreLeftOutEndsBeforeTheNext) {
  const Tensor x = ones({4});
  Profiler p({.wait = 1, .active = 1});
  p.start();
  p.step();
  {
    const Range range("long");
    (void)add(x, 1);
    p.step();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  p.step();
  (void)add(x, 2);
  p.stop();
  ASSERT_EQ(p.profile().runs.size(), 2U);
  ASSERT_EQ(p.profile().spans.size(), 1U);
  EXPECT_LE(p.profile().spans[0].end, p.profile().runs[1].begin);
  nested_events_of(p.profile());
}

TEST(Profile, WritesATraceAndAPage) {
  const std::string begin =
      std::filesystem::temp_directory_path() / ("mica_profile_" + std::to_string(getpid()) + "_");
  Step step;
  const Profile p = record([&] {
    const Range range("mine <b>");
    step();
  });
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  profiler::export_chrome_trace(p, begin + "trace.json");
  const auto trace = nlohmann::json::parse(text_of(begin + "trace.json"));
  std::map<std::string, int> categories;
  for (const auto& e : trace["traceEvents"])
    if (e["ph"] == "X") ++categories[e["cat"].get<std::string>()];
  EXPECT_EQ(categories["step"], 3);
  EXPECT_EQ(categories["range"], 3);
  EXPECT_GT(categories["op"], 10);
  EXPECT_GT(categories["module"], 6);
  EXPECT_GT(categories["phase"], 6);
  profiler::write_report(p, begin + "page.html");
  const std::string page = text_of(begin + "page.html");
  EXPECT_EQ(page.find("{{profile}}"), std::string::npos);
  EXPECT_EQ(page.find("mine <b>"), std::string::npos);
  EXPECT_NE(page.find("mine \\u003cb>"), std::string::npos);
  EXPECT_THROW(profiler::write_report(p, "/nowhere/profile.html"), Error);
  std::filesystem::remove(begin + "trace.json");
  std::filesystem::remove(begin + "page.html");
}

/// A profile of a GPU, which this machine need not have.
Profile sample() { return profiler::sample_profile(); }

TEST(Profile, TellsWhatADeviceDidAndForWhom) {
  const Profile p = sample();
  const std::vector<profiler::DeviceTime> times = profiler::device_times(p);
  ASSERT_EQ(times.size(), 1U);
  const profiler::DeviceTime& t = times[0];
  int64_t sum = 0;
  int64_t end = 0;
  for (const profiler::DeviceRun& r : p.device_runs) {
    sum += r.end - r.begin;
    end = std::max(end, r.end);
  }
  EXPECT_EQ(t.work, sum);
  EXPECT_EQ(t.attributed, sum);
  EXPECT_EQ(t.in_modules, sum);
  EXPECT_LT(t.busy, t.work);  // two branches ran side by side
  int64_t idle = 0;
  for (const auto& [why, time] : t.gaps) idle += time;
  EXPECT_EQ(t.busy + idle, end - p.device_runs.front().begin);
  EXPECT_EQ(t.gaps.front().first, profiler::kWaitingForBatch);
  EXPECT_TRUE(
      std::ranges::any_of(t.gaps, [](const auto& g) { return g.first == profiler::kWithinGraph; }));

  int64_t conv = 0;
  for (const profiler::Cost& c : profiler::costs(p)) {
    const profiler::Kind& k = p.kinds[static_cast<size_t>(c.kind)];
    if (k.op == "conv2d") conv += c.calls;
    if (k.op == "sort") {
      EXPECT_EQ(c.calls, 1);
      EXPECT_EQ(c.time, 100'000);  // the device's, not the host's
    }
  }
  EXPECT_EQ(conv, 6);
  const std::vector<profiler::Row> kernels = profiler::rows(p, profiler::by_of("gpu"));
  EXPECT_EQ(kernels.front().name, "void implicit_gemm<float, 3>(Operands)");
  const std::string text = profiler::table(p);
  EXPECT_NE(text.find("100.0 % is known to be of an op"), std::string::npos) << text;
  EXPECT_NE(text.find(profiler::kWaitingForBatch), std::string::npos) << text;
}

TEST(Profile, WorkThatNobodyIsKnownForIsNotAttributed) {
  Profile p = sample();
  const int64_t all = profiler::device_times(p)[0].work;
  p.device_runs[3].is_known = false;
  const int64_t lost = p.device_runs[3].end - p.device_runs[3].begin;
  EXPECT_EQ(profiler::device_times(p)[0].attributed, all - lost);
}

TEST(Profile, AdviceNamesWhyADeviceIsIdle) {
  for (const char* text : {"Waiting for data: cuda:0 is idle", "The host waits for the device",
                           "Copies to another layout", "sort runs by its reference kernel"})
    EXPECT_NE(said(sample()).find(text), std::string::npos) << text << "\n" << said(sample());
  Profile program = sample();
  program.spans.clear();
  EXPECT_NE(said(program).find(profiler::kBetweenCalls), std::string::npos) << said(program);
}

TEST(Profile, ATraceHasTracksOfDevicesAndArrows) {
  const Profile p = sample();
  std::map<uint64_t, double> sent;
  size_t arrows = 0;
  size_t kernels = 0;
  for (const auto& e : nested_events_of(p)) {
    if (e["ph"] == "s") sent[e["id"]] = e["ts"];
    if (e["ph"] == "f") {
      ++arrows;
      ASSERT_TRUE(sent.contains(e["id"]));
      EXPECT_EQ(e["bp"], "e");
    }
    if (e["ph"] == "X") kernels += e["cat"] == "kernel";
  }
  EXPECT_EQ(arrows, 10U);  // of the op, and of copy, launch and loss of each step
  EXPECT_EQ(kernels, 22U);
}

}  // namespace
}  // namespace mica
