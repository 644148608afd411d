// Runs every operator's case on one device.
//   mica_test_op_cases [--device cpu|cuda|null] [--filter TEXT] [--time] [GoogleTest's own flags]
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "mica/core/check.h"
#include "tests/op_cases/complex_pairs.h"
#include "tests/op_cases/device.h"
#include "tests/op_cases/harness.h"
#include "tests/op_cases/tolerance.h"

namespace mica::cases {
namespace {

std::vector<std::vector<OpCase> (*)()>& rooms() {
  static std::vector<std::vector<OpCase> (*)()> list;
  return list;
}

std::vector<std::vector<MoreSample> (*)()>& more_rooms() {
  static std::vector<std::vector<MoreSample> (*)()> list;
  return list;
}
std::map<std::pair<std::string, std::string>, Tolerances>& own_tolerances() {
  static std::map<std::pair<std::string, std::string>, Tolerances> all;
  return all;
}

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> list = all_cases();
  return list;
}

/// Prints what the suite took at the end, and which operators took most of it.
class TimeReport : public ::testing::EmptyTestEventListener {
 public:
  void OnTestIterationEnd(const ::testing::UnitTest& suite, int /*iteration*/) override {
    constexpr size_t kShown = 8;
    std::vector<std::pair<int64_t, std::string>> slowest;
    for (int i = 0; i < suite.total_test_suite_count(); ++i) {
      const ::testing::TestSuite& s = *suite.GetTestSuite(i);
      slowest.emplace_back(s.elapsed_time(), s.name());
    }
    std::sort(slowest.rbegin(), slowest.rend());
    const auto core_seconds = static_cast<int>(std::clock() / CLOCKS_PER_SEC);
    std::printf("the op suite took %.1f s, %d core-seconds:",
                static_cast<double>(suite.elapsed_time()) / 1000, core_seconds);
    for (size_t i = 0; i < std::min(kShown, slowest.size()); ++i)
      std::printf(" %s %.1f", slowest[i].second.c_str(),
                  static_cast<double>(slowest[i].first) / 1000);
    std::printf("\n");
    ::testing::Test::RecordProperty("core_seconds", core_seconds);
  }
};

class CaseTest : public ::testing::Test {
 public:
  CaseTest(const OpCase& op_case, Device device, void (Harness::*aspect)())
      : case_(op_case), device_(device), aspect_(aspect) {}

  void TestBody() override {
    if (device_.is_cuda() && !cuda_available())
      GTEST_SKIP() << "skipped: no CUDA device: " << cuda_unavailable_reason();
    Harness harness(case_, device_);
    if (const OpDef* op = definition_of(case_); device_.is_cuda() && op && !op->view)
      if (op->kernels[static_cast<size_t>(DeviceKind::cuda)].empty())
        GTEST_SKIP() << "skipped: " << case_.op << " has no kernels on CUDA";
    (harness.*aspect_)();
  }

 private:
  const OpCase& case_;
  Device device_;
  void (Harness::*aspect_)();
};

void register_tests(Device device, bool time) {
  struct Aspect {
    const char* name;
    void (Harness::*run)();
  };
  std::vector<Aspect> aspects = {
      {"forward", &Harness::forward},           {"gradient", &Harness::gradient},
      {"second_order", &Harness::second_order}, {"saves", &Harness::saves},
      {"compiled", &Harness::compiled},         {"bad_arguments", &Harness::bad_arguments}};
  if (device.is_cpu()) aspects.push_back({"hostile", &Harness::hostile});
  if (device.is_null()) aspects = {{"specs", &Harness::specs}};
  if (time) aspects = {{"time", &Harness::timing}};
  for (const OpCase& c : cases())
    for (const Aspect& a : aspects)
      ::testing::RegisterTest(c.op, a.name, nullptr, nullptr, __FILE__, __LINE__,
                              [&c, device, run = a.run]() {
                                return static_cast<::testing::Test*>(new CaseTest(c, device, run));
                              });
}

TEST(Coverage, EveryOperatorHasOneCase) {
  std::vector<std::string> names(composite_ops().begin(), composite_ops().end());
  for (const OpDef* op : all_ops()) names.emplace_back(op->name);
  for (const std::string& name : names) {
    const auto n = std::count_if(cases().begin(), cases().end(),
                                 [&](const OpCase& c) { return c.op == name; });
    EXPECT_EQ(n, 1) << name << " needs one OpCase in tests/op_cases";
  }
}

TEST(Coverage, EveryOperatorHasAGradientOrAReason) {
  for (const OpDef* op : all_ops())
    EXPECT_TRUE(op->vjp || (op->no_gradient && *op->no_gradient)) << op->name << " has neither";
}

TEST(Coverage, EveryOperatorNamesItsInputsAndOutputs) {
  for (const OpDef* op : all_ops())
    for (const auto* slots : {&op->in, &op->out}) {
      std::set<std::string> names;
      for (const Slot& slot : *slots) {
        EXPECT_TRUE(names.insert(slot.name).second)
            << op->name << " names two of them " << slot.name;
        EXPECT_EQ(slot.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos)
            << op->name << ": " << slot.name;
      }
    }
}

TEST(Coverage, EveryToleranceIsUsed) {
  for (const ToleranceRow& row : kTolerances)
    EXPECT_TRUE(std::any_of(cases().begin(), cases().end(),
                            [&](const OpCase& c) { return c.op == row.op; }))
        << "tolerance.h has a row for " << row.op << ", which no case tests";
}

TEST(Coverage, EveryCaseHasAnEmptyAndAOneElementSample) {
  for (const OpCase& c : cases()) {
    bool empty = false;
    bool single = false;
    for (const Sample& s : c.samples)
      for (const Input& in : s.in) {
        empty = empty || (in.defined && numel(in.shape) == 0);
        single = single || (in.defined && numel(in.shape) == 1);
      }
    EXPECT_TRUE(empty || c.no_empty) << c.op << " has no sample with an empty input";
    EXPECT_TRUE(single || c.no_single) << c.op << " has no sample with an input of one element";
    EXPECT_FALSE(c.bad.empty()) << c.op << " has no bad arguments";
  }
}

TEST(Coverage, GradientsAreChecked) {
  for (const OpCase& c : cases()) {
    if (!has_gradient(c)) continue;
    bool inputs = false;
    bool checked = false;
    for (const Sample& s : c.samples)
      for (const Input& in : s.in) {
        inputs = true;
        checked = checked || (s.gradient && in.defined && in.differentiable && numel(in.shape) > 1);
      }
    EXPECT_TRUE(checked || !inputs) << c.op << " has a gradient that no sample checks";
  }
}

}  // namespace

Device& tested_device() {
  static Device device;
  return device;
}

Room::Room(std::vector<OpCase> (*list)()) { rooms().push_back(list); }

MoreSamples::MoreSamples(std::vector<MoreSample> (*list)()) { more_rooms().push_back(list); }

const Tolerances* own_tolerance(const OpCase& c, const Sample& s) {
  const auto found = own_tolerances().find({c.op, s.name});
  return found == own_tolerances().end() ? nullptr : &found->second;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> list;
  for (const auto room : rooms())
    for (OpCase& c : room()) list.push_back(std::move(c));
  std::sort(list.begin(), list.end(),
            [](const OpCase& a, const OpCase& b) { return std::string(a.op) < b.op; });
  for (const auto room : more_rooms())
    for (MoreSample& more : room()) {
      const auto of = std::find_if(list.begin(), list.end(), [&](const OpCase& c) {
        return std::string_view(c.op) == more.op;
      });
      check(of != list.end(), "more samples of {}, which has no case", more.op);
      own_tolerances().insert_or_assign({more.op, more.sample.name}, more.tolerance);
      of->samples.push_back(std::move(more.sample));
    }
  return list;
}

}  // namespace mica::cases

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mica::Device& device = mica::cases::tested_device();
  bool time = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--time") {
      time = true;
    } else if (argument == "--device" &&
               (value == "cpu" || value == "null" || value.starts_with("cuda"))) {
      device = mica::device_from_name(argv[++i]);
    } else if (argument == "--filter" && !value.empty()) {
      ::testing::GTEST_FLAG(filter) = std::string("*").append(argv[++i]).append("*");
    } else {
      std::cerr << "usage: " << argv[0] << " [--device cpu|cuda|null] [--filter TEXT] [--time]\n";
      return 2;
    }
  }
  mica::cases::register_tests(device, time);
  ::testing::UnitTest::GetInstance()->listeners().Append(new mica::cases::TimeReport);
  return RUN_ALL_TESTS();
}
