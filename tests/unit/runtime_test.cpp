#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "mica/mica.h"
#include "mica/ops/linalg/lapack.h"
#include "mica/runtime/op_scope.h"
#include "mica/runtime/runtime.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

/// Whether one of these libraries is part of this process.
bool loaded(std::initializer_list<const char*> libraries) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line))
    for (const char* library : libraries)
      if (line.find(library) != std::string::npos) return true;
  return false;
}
bool cuda_is_loaded() {
  return loaded({"libcuda", "libcudart", "libcublas", "libcudnn", "libnvrtc", "libcufft",
                 "libcusolver", "libcusparse", "libmica_cuda"});
}
bool lapack_is_loaded() { return loaded({"lapack", "blas"}); }

// In processes of their own: other tests ask for CUDA and factor matrices.
TEST(CpuProcess, LoadsNoLibraryThatItDoesNotUse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        matmul(ones({8, 8}), ones({8, 8}));
        fft::rfftn(ones({8, 8}));
        to_sparse_csr(ones({8, 8})).to_dense();
        std::exit(cuda_is_loaded() || lapack_is_loaded() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}
TEST(CpuProcess, OpensLapackForTheFirstMatrixThatNeedsIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const bool before = lapack_is_loaded();
        linalg::eig(eye(40));
        // Without LAPACK the reference computes it.
        bool there = true;
        try {
          linalg::lapack();
        } catch (const Unsupported&) {
          there = false;
        }
        std::exit(!before && lapack_is_loaded() == there ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(CpuRuntime, CachesFreedBlocks) {
  DeviceRuntime& cpu = runtime(Device::cpu());
  void* a = cpu.allocate(5000, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0U);
  cpu.deallocate(a, 5000, 0);
  const size_t reserved = memory_stats(Device::cpu()).reserved;
  void* b = cpu.allocate(4900, 0);  // of the same class
  EXPECT_EQ(a, b);
  EXPECT_EQ(memory_stats(Device::cpu()).reserved, reserved);
  cpu.deallocate(b, 4900, 0);
  EXPECT_EQ(cpu.allocate(0, 0), nullptr);
  cpu.deallocate(nullptr, 0, 0);
}

TEST(CpuRuntime, CountsBytes) {
  DeviceRuntime& cpu = runtime(Device::cpu());
  const MemoryStats before = memory_stats(Device::cpu());
  cpu.reset_peak(0);
  {
    const Tensor t = empty({1000, 1000});
    const MemoryStats now = memory_stats(Device::cpu());
    EXPECT_GE(now.allocated, before.allocated + 4000000);
    EXPECT_LE(now.allocated, before.allocated + 4000000 * 4 / 3 + 64);
    EXPECT_GE(now.reserved, now.allocated);
  }
  const MemoryStats after = memory_stats(Device::cpu());
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_GE(after.peak, before.allocated + 4000000);
  cpu.empty_cache(0);
  EXPECT_EQ(memory_stats(Device::cpu()).reserved, memory_stats(Device::cpu()).allocated);
}

TEST(CpuRuntime, OutOfMemoryIsAnErrorOneCanGoOnFrom) {
  const MemoryStats before = memory_stats(Device::cpu());
  expect_error<OutOfMemory>("out of memory on cpu: ", [] { empty({int64_t{1} << 50}); });
  expect_error<OutOfMemory>("bytes requested", [] { empty({int64_t{1} << 60}); });
  EXPECT_EQ(memory_stats(Device::cpu()).allocated, before.allocated);
  EXPECT_EQ(memory_stats(Device::cpu()).reserved, before.reserved);
  EXPECT_EQ(sum(ones({10})).item(), 10);
}

TEST(CpuRuntime, TensorsThatDoNotFitTogetherAreRefused) {
  const auto half = static_cast<int64_t>(runtime(DeviceKind::cpu).properties(0).memory / 2 + 1);
  const Tensor first = empty({half}, {.dtype = DType::u8});  // never touched
  expect_error<OutOfMemory>("out of memory on cpu: ", [&] { empty({half}, {.dtype = DType::u8}); });
}

constexpr int64_t kHuge = int64_t{1} << 40;

TEST(CpuRuntime, OutOfMemoryNamesTheOperator) {
  expect_error<OutOfMemory>("full: out of memory on cpu: ", [] { zeros({kHuge}); });
  const Tensor wide = expand(ones({1}), {kHuge});
  expect_error<OutOfMemory>("copy: out of memory on cpu: ", [&] { contiguous(wide); });
  expect_error<OutOfMemory>("add: out of memory on cpu: ", [&] { add(wide, wide); });
  const Tensor row = expand(ones({1, 1}), {1 << 22, 1});
  expect_error<OutOfMemory>("matmul: out of memory on cpu: ",
                            [&] { matmul(row, transpose(row, 0, 1)); });
}

TEST(CpuRuntime, SizesThatCannotBeCountedAreRefused) {
  expect_error<ShapeError>("shape [1099511627776, 1099511627776] has more than 2^63 elements",
                           [] { empty({kHuge, kHuge}); });
  expect_error<OutOfMemory>("out of memory on cpu: ",
                            [] { empty({int64_t{1} << 61}, {.dtype = DType::f64}); });
  expect_error<ShapeError>(
      "full: a result of shape [1099511627776, 1099511627776] has more than 2^63 elements",
      [] { zeros({kHuge, kHuge}); });
  expect_error<OutOfMemory>("full: out of memory on cpu: ", [] { zeros({int64_t{1} << 62}); });
  const Tensor row = expand(ones({1, 1}), {kHuge, 1});
  expect_error<ShapeError>("matmul: a result of shape [1099511627776, 1099511627776] has more",
                           [&] { matmul(row, transpose(row, 0, 1)); });
  // Nothing is counted where there is nothing.
  EXPECT_EQ(zeros({0, kHuge, kHuge}).numel(), 0);
}

TEST(CpuRuntime, ServesSeveralThreads) {
  const size_t before = memory_stats(Device::cpu()).allocated;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int64_t i = 1; i < 300; ++i) EXPECT_EQ(sum(ones({i})).item(), static_cast<double>(i));
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(memory_stats(Device::cpu()).allocated, before);
}

TEST(CpuRuntime, TellsWhatItKeeps) {
  empty_cache(Device::cpu());
  EXPECT_EQ(memory_stats(Device::cpu()).fragmentation(), 0);
  reset_peak(Device::cpu());
  const MemoryStats before = memory_stats(Device::cpu());
  empty({1 << 20});
  empty({3 << 20});
  const MemoryStats after = memory_stats(Device::cpu());
  EXPECT_EQ(after.allocations, before.allocations + 2);
  EXPECT_EQ(after.cached, size_t{16} << 20);
  EXPECT_EQ(after.largest_free, size_t{12} << 20);
  EXPECT_EQ(after.fragmentation(), 0.25);
  EXPECT_EQ(after.peak_reserved, before.reserved + after.cached);
}

TEST(CpuRuntime, KeepsToTheLimit) {
  const size_t now = memory_stats(Device::cpu()).allocated;
  set_memory_limit(Device::cpu(), now + (1 << 20));
  expect_error<OutOfMemory>("allowed to this process", [] { empty({16 << 20}); });
  EXPECT_EQ(sum(ones({10})).item(), 10);
  set_memory_limit(Device::cpu(), 0);
  EXPECT_EQ(sum(ones({1 << 20})).item(), 1 << 20);
}

TEST(Streams, OfTheHostIsTheCallersOrder) {
  for (const Device device : {Device::cpu(), Device::null()}) {
    const Stream stream = Stream::create(device);
    EXPECT_EQ(stream.device(), device);
    const StreamGuard guard(stream);
    EXPECT_EQ(current_stream(device), stream);
    Event start;
    Event end;
    EXPECT_TRUE(start.query());
    expect_error<Error>("elapsed_ms: an event was not recorded", [&] { end.elapsed_ms(start); });
    start.record(stream);
    const Tensor x = add(ones({1000}, {.device = device}), ones({1000}, {.device = device}));
    end.record(stream);
    stream.wait(end);
    record_stream(x, stream);
    stream.synchronize();
    EXPECT_TRUE(stream.query());
    EXPECT_GE(end.elapsed_ms(start), 0);
  }
  expect_error<Error>("an undefined stream was used", [] { Stream().synchronize(); });
  expect_error<DeviceError>("record_stream: the tensor is on cpu, the stream on null",
                            [] { record_stream(ones({1}), default_stream(Device::null())); });
}

TEST(Runtime, NullCountsWhatItDoesNotHold) {
  const MemoryStats before = memory_stats(Device::null());
  const Tensor t = zeros({1000}, {.device = Device::null()});
  EXPECT_EQ(memory_stats(Device::null()).allocated, before.allocated + 4000);
  EXPECT_EQ(t.data(), nullptr);
}

TEST(Runtime, AskingForMissingCudaGivesOneSentence) {
  if (cuda_available()) GTEST_SKIP() << "this machine has a CUDA device";
  const std::string reason = cuda_unavailable_reason();
  EXPECT_FALSE(reason.empty());
  EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
  expect_error<DeviceError>("cuda: " + reason, [] { zeros({2}, {.device = Device::cuda()}); });
  expect_error<DeviceError>("cuda: ", [] { to(zeros({2}), Device::cuda()); });
  expect_error<DeviceError>("cuda: ", [] { pin_memory(zeros({2})); });
  expect_error<DeviceError>("cuda: ", [] { Stream::create(Device::cuda()); });
  EXPECT_EQ(sum(ones({3})).item(), 3);
}

}  // namespace
}  // namespace mica
