// How a kernel is chosen, with an op whose kernels are made for the test: order, refusals that only
// `prepare` finds out, candidates, timing, and what of it is remembered.
#include "mica/op/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "mica/core/check.h"
#include "mica/op/choices.h"
#include "mica/op/settings.h"
#include "mica/op/tuning.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

int g_runs = 0;         // of any kernel
int g_unaligned = 0;    // runs on addresses that are no multiples of 16
bool g_broken = false;  // the library finds no plan

struct Named : KernelState {
  std::string name;
  int milliseconds = 0;
};

Candidate candidate(const std::string& name, double estimate, int milliseconds) {
  auto state = std::make_shared<Named>();
  state->name = name;
  state->milliseconds = milliseconds;
  return {name, estimate, state};
}

void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in[0].shape, in[0].dtype);
}

std::vector<Candidate> plans(const NoParams&, const Specs&, const CandidateRequest& request) {
  check<Unsupported>(!g_broken, "there is no plan");
  std::vector<Candidate> found;
  add_candidate(found, request, candidate("likely", 1, 3));
  if (request.count(2) > 1) add_candidate(found, request, candidate("unlikely", 2, 0));
  return found;
}

void run(const NoParams&, const KernelState& state, const Call& call) {
  ++g_runs;
  g_unaligned += reinterpret_cast<uintptr_t>(call.in[0].data) % 16 != 0;
  std::this_thread::sleep_for(
      std::chrono::milliseconds(static_cast<const Named&>(state).milliseconds));
}

std::shared_ptr<Named> prepare_own(const NoParams&, const Specs&) {
  auto state = std::make_shared<Named>();
  state->name = "own";
  state->milliseconds = 1;
  return state;
}
void run_own(const NoParams& p, const Named& state, const Call& call) { run(p, state, call); }

const OpDef& chosen_op() {
  static OpDef def =
      Op<NoParams>("chosen")
          .elementwise(1)
          .infer<infer>()
          .no_gradient("it computes nothing")
          .cpu({kernel_with_candidates<supports_all<NoParams>, plans, run>("library"),
                timed_kernel<supports_all<NoParams>, prepare_own, run_own>("own"),
                kernel<supports_all<NoParams>, prepare_own, run_own>("untimed")})
          .build();
  return def;
}

class Select : public testing::Test {
 protected:
  void SetUp() override {
    setenv("MICA_CACHE", directory_.file("cache").c_str(), 1);
    set_tuning_environment(DeviceKind::cpu, [](int) { return std::string("this test"); });
    g_runs = 0;
    g_unaligned = 0;
  }
  void TearDown() override {
    g_broken = false;
    set_autotune(false);
    set_deterministic(false);
    force_kernel("chosen", "");
    set_tuning_environment(DeviceKind::cpu, nullptr);
    unsetenv("MICA_CACHE");
    settings_changed();
  }

  /// "kernel candidate" for an input of this many elements.
  static std::string choice(int64_t size, bool aligned = true) {
    TensorSpec spec = TensorSpec::contiguous({size}, DType::f32);
    spec.aligned = aligned;
    const TensorSpec out = TensorSpec::contiguous({size}, DType::f32);
    const NoParams none;
    const auto prepared =
        select(chosen_op(), ParamsRef::of(none), {{&spec, 1}, {&out, 1}}, Device::cpu());
    const auto& state = dynamic_cast<const Named&>(*prepared->state);
    return fmt::format("{} {}", prepared->kernel->name, state.name);
  }

  const TemporaryDirectory directory_;
};

TEST_F(Select, WithoutTimingTakesTheFirstKernelAndItsBestEstimate) {
  EXPECT_EQ(choice(4), "library likely");
  set_autotune(true);
  set_deterministic(true);
  EXPECT_EQ(choice(4), "library likely");
  EXPECT_EQ(g_runs, 0);
}

TEST_F(Select, GoesOnWhereOnlyPrepareFindsThatThereIsNoWay) {
  g_broken = true;
  EXPECT_EQ(choice(5), "own own");
  force_kernel("chosen", "library");
  expect_error<Unsupported>("there is no plan", [] { choice(5); });
}

TEST_F(Select, TimesAllCandidatesOfAllKernelsThatMayBeTimed) {
  set_autotune(true);
  EXPECT_EQ(choice(6), "library unlikely");
  EXPECT_GT(g_runs, 0);
  g_broken = true;
  EXPECT_EQ(choice(7), "own own");
}

TEST_F(Select, RemembersWhatItTimed) {
  set_autotune(true);
  EXPECT_EQ(choice(8), "library unlikely");
  const int runs = g_runs;
  settings_changed();  // what was prepared is forgotten, what was timed is not
  EXPECT_EQ(choice(8), "library unlikely");
  EXPECT_EQ(g_runs, runs);
  // The candidate is gone, say with another version of the library: it is timed again.
  g_broken = true;
  settings_changed();
  EXPECT_EQ(choice(8), "own own");
}

TEST_F(Select, TimesAKernelThatIsForcedAmongItsOwnCandidates) {
  set_autotune(true);
  force_kernel("chosen", "own");
  EXPECT_EQ(choice(9), "own own");
  EXPECT_EQ(g_runs, 0);
  force_kernel("chosen", "untimed");
  EXPECT_EQ(choice(9), "untimed own");
  EXPECT_EQ(g_runs, 0);
}

TEST_F(Select, TimesAtAddressesAsTheSpecsHaveThem) {
  set_autotune(true);
  choice(10);
  EXPECT_EQ(g_unaligned, 0);
  choice(10, false);
  EXPECT_GT(g_unaligned, 0);
}

}  // namespace
}  // namespace mica
