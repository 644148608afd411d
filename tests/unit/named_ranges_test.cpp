// Ranges for the timelines of other profilers, and NVTX, by which they go there.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "mica/core/range.h"
#include "mica/mica.h"
#include "mica/profile/profile.h"
#include "mica/profile/recorder.h"
#include "mica/runtime/cuda_library.h"

namespace mica {
namespace {

std::vector<std::string> open_ranges;
std::vector<std::string> seen_paths;

/// One whose tool keeps the paths of its ranges.
CudaLibrary watched_library() {
  CudaLibrary library;
  library.push_range = [](const char* name) {
    open_ranges.emplace_back(name);
    std::string path;
    for (const std::string& part : open_ranges) path += (path.empty() ? "" : "/") + part;
    seen_paths.push_back(path);
  };
  library.pop_range = [] { open_ranges.pop_back(); };
  return library;
}

bool saw(const std::string& end) {
  return std::ranges::any_of(seen_paths, [&](const std::string& s) { return s.ends_with(end); });
}

TEST(NamedRanges, AreOfStepsPassesModulesAndOps) {
  name_ranges_for(watched_library());
  const nn::Sequential net(nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const Tensor x = ones({32, 8});
  for (int i = 0; i < 2; ++i) {
    optimizer.zero_grad();
    mean(net(x)).backward();
    optimizer.step();
  }
  {
    const Range range("mine");
    (void)add(x, 1);
  }
  EXPECT_EQ(open_ranges.back().find("mine"), std::string::npos);
  profiler::watch_besides(nullptr, nullptr);
  for (const char* path : {"step 0/forward/0/linear", "step 0/backward/2/linear_wgrad",
                           "step 1/forward/2/linear", "mine/forward/add"})
    EXPECT_TRUE(saw(path)) << path;
  EXPECT_TRUE(std::ranges::any_of(
      seen_paths, [](const std::string& s) { return s.starts_with("step 0/update/"); }));
}

TEST(NamedRanges, OfALibraryThatIsOpenedInAProfileStay) {
  const Tensor x = ones({4});
  profiler::Profiler p;
  p.start();
  (void)add(x, 1);
  name_ranges_for(watched_library());
  seen_paths.clear();
  (void)mul(x, 2);
  {
    const Range range("inside");
  }
  p.stop();
  EXPECT_TRUE(saw("/mul") && saw("inside"));
  EXPECT_EQ(p.profile().runs.size(), 2U);
  EXPECT_EQ(p.profile().spans.size(), 1U);
  (void)sub(x, 2);
  p.start();
  (void)div(x, 2);
  p.stop();
  EXPECT_TRUE(saw("/sub") && saw("/div"));
  EXPECT_EQ(p.profile().runs.size(), 1U);
  profiler::watch_besides(nullptr, nullptr);
}

TEST(NamedRanges, GoToAToolThatReadsNvtxInADomainOfTheirOwn) {
  const std::string library =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "nvtx_listener.so";
  if (!std::filesystem::exists(library)) GTEST_SKIP() << library << " was not built: no CUDA";
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  const auto wants = reinterpret_cast<bool (*)()>(dlsym(handle, "mica_wants_nvtx"));
  const auto push = reinterpret_cast<void (*)(const char*)>(dlsym(handle, "mica_push_nvtx"));
  const auto pop = reinterpret_cast<void (*)()>(dlsym(handle, "mica_pop_nvtx"));
  const auto seen = reinterpret_cast<const char* (*)()>(dlsym(handle, "mica_nvtx_seen"));
  ASSERT_TRUE(wants && push && pop && seen);
  setenv("NVTX_INJECTION64_PATH", library.c_str(), 1);
  EXPECT_TRUE(wants());
  setenv("MICA_NVTX", "0", 1);
  EXPECT_FALSE(wants());
  unsetenv("MICA_NVTX");
  push("step 0");
  push("forward");
  pop();
  push("backward");
  pop();
  pop();
  push("step 1");
  pop();
  unsetenv("NVTX_INJECTION64_PATH");
  EXPECT_FALSE(wants());
  EXPECT_STREQ(seen(), "mica/step 0\nmica/step 0/forward\nmica/step 0/backward\nmica/step 1\n");
}

}  // namespace
}  // namespace mica
