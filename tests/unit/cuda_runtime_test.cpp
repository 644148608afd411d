// Streams, memory and errors of CUDA devices.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "mica/mica.h"
#include "mica/runtime/runtime.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kMiB = size_t{1} << 20;
constexpr int64_t kBlock = 16 << 20;  // elements of a tensor with a segment of its own, 64 MiB

const Device kCuda = Device::cuda();

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "skipped: no CUDA device: " << cuda_unavailable_reason();
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child is a new process, not a fork
  }
};

Tensor block() { return empty({kBlock}, {.device = kCuda}); }

/// Keeps the current stream busy for tens of milliseconds and returns at once.
void keep_busy() {
  static const Tensor x = full({8192, 8192}, 1e-3, {.device = kCuda});
  static const Tensor warm = matmul(x, x);
  for (int i = 0; i < 4; ++i) matmul(x, x);
}

void expect_all(const Tensor& x, double value) {
  const Tensor host = to(x, Device::cpu());
  EXPECT_EQ(min(host).item(), value);
  EXPECT_EQ(max(host).item(), value);
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

TEST_F(Cuda, GradientsFlowBetweenDevices) {
  const Tensor x = full({2, 3}, 2).set_requires_grad();
  const Tensor there = to(x, kCuda);
  EXPECT_TRUE(there.requires_grad());
  const Tensor y = sum(to(mul(there, there), Device::cpu()));
  const Tensor once = grad({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_TRUE(once.device().is_cpu());
  expect_all(once, 4);
  expect_all(grad({sum(once)}, {x})[0], 2);
  EXPECT_FALSE(to(x.detach(), kCuda).requires_grad());
}

TEST_F(Cuda, TheCurrentStreamIsTheThreadsOwn) {
  EXPECT_EQ(current_stream(kCuda), default_stream(kCuda));
  const Stream stream = Stream::create(kCuda);
  const Stream other = Stream::create(kCuda);
  EXPECT_FALSE(stream == other);
  {
    const StreamGuard guard(stream);
    EXPECT_EQ(current_stream(kCuda), stream);
    {
      const StreamGuard inner(other);
      EXPECT_EQ(current_stream(kCuda), other);
    }
    EXPECT_EQ(current_stream(kCuda), stream);
    std::thread([] { EXPECT_EQ(current_stream(kCuda), default_stream(kCuda)); }).join();
    EXPECT_EQ(sum(ones({1000}, {.device = kCuda})).item(), 1000);
  }
  EXPECT_EQ(current_stream(kCuda), default_stream(kCuda));
}

TEST_F(Cuda, EventsOrderStreams) {
  const Stream side = Stream::create(kCuda);
  for (int i = 0; i < 20; ++i) {
    const Tensor x = full({kBlock}, i, {.device = kCuda});
    const Tensor y = add(x, x);
    Event made;
    made.record(current_stream(kCuda));
    Tensor z;
    {
      const StreamGuard guard(side);
      side.wait(made);
      record_stream(y, side);
      z = add(y, y);
    }
    side.synchronize();
    expect_all(z, 4 * i);
  }
}

TEST_F(Cuda, EventsMeasureTimeOnTheDevice) {
  const Stream stream = current_stream(kCuda);
  keep_busy();
  Event start;
  Event end;
  start.record(stream);
  keep_busy();
  end.record(stream);
  EXPECT_FALSE(end.query());
  EXPECT_FALSE(stream.query());
  EXPECT_GT(end.elapsed_ms(start), 1);
  EXPECT_TRUE(end.query());
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

TEST_F(Cuda, StreamsWorkInSeveralThreads) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      const StreamGuard guard(Stream::create(kCuda));
      for (int i = 0; i < 50; ++i) {
        const Tensor x = full({1 << 16}, t, {.device = kCuda});
        EXPECT_EQ(mean(mul(x, x)).item(), t * t);
        EXPECT_EQ(matmul(full({64, 64}, t, {.device = kCuda}), ones({64, 64}, {.device = kCuda}))
                      .to_vector<float>()
                      .back(),
                  64.0F * static_cast<float>(t));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_F(Cuda, StreamsDrawDifferentNumbers) {
  std::vector<Tensor> counters;
  counters.reserve(400);
  std::vector<Stream> streams;
  streams.reserve(4);
  for (int i = 0; i < 4; ++i) streams.push_back(Stream::create(kCuda));
  for (int i = 0; i < 400; ++i) {
    const StreamGuard guard(streams[static_cast<size_t>(i % 4)]);
    counters.push_back(rng_take(4, kCuda));
  }
  synchronize(kCuda);
  std::set<int64_t> blocks;
  for (const Tensor& c : counters) blocks.insert(c.to_vector<int64_t>()[1]);
  EXPECT_EQ(blocks.size(), 400U);
}

TEST_F(Cuda, CompiledFunctionsRunOnTheCurrentStream) {
  auto twice = compile([](const Tensor& x) { return sum(add(mul(x, x), x), {0}); });
  const Stream side = Stream::create(kCuda);
  const Tensor x = full({64, 4096}, 3, {.device = kCuda});
  synchronize(kCuda);
  std::vector<Tensor> results;
  for (int i = 0; i < 20; ++i) {
    results.push_back(twice(x));
    const StreamGuard guard(side);
    results.push_back(twice(x));
  }
  synchronize(kCuda);
  for (const Tensor& r : results) expect_all(r, 64 * 12);
}

TEST_F(Cuda, AFreedBlockIsUsedAgainAtOnceOnItsStreamAlone) {
  synchronize(kCuda);
  empty_cache(kCuda);
  const void* first = block().data();
  EXPECT_EQ(block().data(), first);
  const StreamGuard guard(Stream::create(kCuda));
  EXPECT_NE(block().data(), first);
}

TEST_F(Cuda, ABlockWaitsForTheStreamsThatUseIt) {
  synchronize(kCuda);
  empty_cache(kCuda);
  const Stream side = Stream::create(kCuda);
  Tensor spare = block();
  Tensor x = block();
  const void* address = x.data();
  spare = {};
  synchronize(kCuda);
  {
    const StreamGuard guard(side);
    keep_busy();
    add(x, x);
  }
  record_stream(x, side);
  x = {};
  const Tensor y = block();
  ASSERT_FALSE(side.query()) << "the side stream was done too soon to see anything";
  EXPECT_NE(y.data(), address);
  side.synchronize();
  EXPECT_EQ(block().data(), address);
}

TEST_F(Cuda, MemoryIsCounted) {
  synchronize(kCuda);
  empty_cache(kCuda);
  reset_peak(kCuda);
  const MemoryStats before = memory_stats(kCuda);
  EXPECT_EQ(before.peak, before.allocated);
  EXPECT_EQ(before.peak_reserved, before.reserved);
  {
    const Tensor x = block();
    const MemoryStats now = memory_stats(kCuda);
    EXPECT_EQ(now.allocated, before.allocated + 64 * kMiB);
    EXPECT_GE(now.reserved, now.allocated);
    EXPECT_EQ(now.allocations, before.allocations + 1);
  }
  const MemoryStats after = memory_stats(kCuda);
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.peak, before.allocated + 64 * kMiB);
  EXPECT_GE(after.peak_reserved, before.reserved + 64 * kMiB);
  EXPECT_GE(after.largest_free, 64 * kMiB);
  EXPECT_GE(after.cached, after.largest_free);
  EXPECT_EQ(after.reserved, after.allocated + after.cached);
  EXPECT_GE(after.fragmentation(), 0);
  EXPECT_LT(after.fragmentation(), 1);
  empty_cache(kCuda);
  EXPECT_LE(memory_stats(kCuda).reserved, before.reserved);
}

TEST_F(Cuda, TooLargeATensorIsAnErrorOneCanGoOnFrom) {
  const Tensor held = zeros({kBlock}, {.device = kCuda});
  const MemoryStats before = memory_stats(kCuda);
  const auto much = [] { zeros({int64_t{50} << 30}, {.device = kCuda}); };  // 200 GiB
  expect_error<OutOfMemory>("full: cuda:0: out of memory: 214748364800 bytes (200.0 GiB) were",
                            much);
  expect_error<OutOfMemory>(" are reserved", much);
  expect_error<OutOfMemory>("x 64.0 MiB by full", much);
  EXPECT_EQ(memory_stats(kCuda).allocated, before.allocated);
  EXPECT_EQ(sum(ones({10}, {.device = kCuda})).item(), 10);
  expect_error<OutOfMemory>("out of memory", [] { empty({int64_t{1} << 62}, {.device = kCuda}); });
}

TEST_F(Cuda, CachedBlocksMakeRoomForOthers) {
  synchronize(kCuda);
  empty_cache(kCuda);
  const size_t free = runtime(kCuda).properties(0).free_memory;
  const auto half = static_cast<int64_t>(free / 10 * 6);
  const auto bytes = [](int64_t n) { return empty({n}, {.dtype = DType::u8, .device = kCuda}); };
  bytes(half);
  const StreamGuard guard(Stream::create(kCuda));  // which cannot use the block itself
  bytes(half);
  EXPECT_LE(memory_stats(kCuda).reserved, free);
}

TEST_F(Cuda, TheLimitHolds) {
  synchronize(kCuda);
  empty_cache(kCuda);
  set_memory_limit(kCuda, memory_stats(kCuda).reserved + 100 * kMiB);
  {
    const Tensor fits = block();
    expect_error<OutOfMemory>(" allowed to this process", [] { block(); });
    EXPECT_EQ(sum(ones({10}, {.device = kCuda})).item(), 10);
  }
  block();
  set_memory_limit(kCuda, 0);
  const Tensor a = block();
  const Tensor b = block();
  EXPECT_EQ(memory_stats(kCuda).limit, 0U);
}

TEST_F(Cuda, TheLimitComesFromTheEnvironment) {
  setenv("MICA_CUDA_MEMORY_LIMIT", "100M", 1);
  EXPECT_EXIT(
      {
        const Tensor fits = block();
        expect_error<OutOfMemory>(" of 100.0 MiB allowed to this process", [] { block(); });
        std::exit(HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  setenv("MICA_CUDA_MEMORY_LIMIT", "much", 1);
  EXPECT_EXIT(
      {
        expect_error<Error>("MICA_CUDA_MEMORY_LIMIT: expected bytes", [] { block(); });
        std::exit(HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("MICA_CUDA_MEMORY_LIMIT");
}

TEST_F(Cuda, PinnedMemoryIsOfTheCpu) {
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_FALSE(is_pinned(x));
  const Tensor pinned = pin_memory(transpose(x, 0, 1));
  EXPECT_TRUE(is_pinned(pinned));
  EXPECT_EQ(pinned.device(), Device::cpu());
  EXPECT_EQ(pin_memory(pinned).impl(), pinned.impl());
  EXPECT_EQ(add(pinned, pinned).to_vector<float>(), (std::vector<float>{2, 8, 4, 10, 6, 12}));
  EXPECT_EQ(pin_memory(zeros({0, 3})).numel(), 0);
  expect_error<DeviceError>("pin_memory: expected a tensor on the CPU, got one on cuda:0",
                            [] { pin_memory(ones({1}, {.device = kCuda})); });
}

TEST_F(Cuda, NonBlockingCopiesReturnAtOnce) {
  const Tensor pinned = pin_memory(full({kBlock}, 7));
  const Tensor there = ones({kBlock}, {.device = kCuda});
  const Stream stream = current_stream(kCuda);
  // Once before, so that the cache has all that is needed: the driver may wait when it makes more.
  to(add(there, to(pinned, kCuda)), Device::cpu(), {.non_blocking = true});
  stream.synchronize();
  keep_busy();
  const Tensor sent = to(pinned, kCuda, {.non_blocking = true});
  const Tensor back = to(add(there, sent), Device::cpu(), {.non_blocking = true});
  EXPECT_FALSE(stream.query());
  EXPECT_TRUE(is_pinned(back));
  stream.synchronize();
  expect_all(back, 8);
}

TEST_F(Cuda, FreedPinnedBlocksWaitForTheirCopies) {
  std::vector<Tensor> sent;
  sent.reserve(16);
  keep_busy();
  for (int i = 0; i < 16; ++i)
    sent.push_back(to(pin_memory(full({1 << 18}, i)), kCuda, {.non_blocking = true}));
  for (int i = 0; i < 16; ++i) expect_all(sent[static_cast<size_t>(i)], i);
  std::set<const void*> addresses;
  for (int i = 0; i < 16; ++i) addresses.insert(pin_memory(zeros({1 << 18})).data());
  EXPECT_EQ(addresses.size(), 1U);
}

TEST_F(Cuda, CopiesBetweenDevices) {
  if (runtime(kCuda).device_count() < 2) GTEST_SKIP() << "skipped: one CUDA device";
  const Tensor x = full({kBlock}, 3, {.device = kCuda});
  const Tensor y = to(add(x, x), Device::cuda(1));
  EXPECT_EQ(y.device(), Device::cuda(1));
  expect_all(to(add(y, y), kCuda), 12);
}

TEST_F(Cuda, WrongCallsAreErrorsOneCanGoOnFrom) {
  const Tensor x = ones({3}, {.device = kCuda});
  expect_error<DeviceError>("add: inputs are on different devices, cuda:0 and cpu",
                            [&] { add(x, ones({3})); });
  expect_error<DTypeError>("softmax: expected a floating dtype, got i64",
                           [] { softmax(zeros({3}, {DType::i64, kCuda}), 0); });
  expect_error<ShapeError>("add", [&] { add(x, ones({4}, {.device = kCuda})); });
  expect_error<DeviceError>("cuda:99: there ", [] { ones({3}, {.device = Device::cuda(99)}); });
  expect_error<DeviceError>("elapsed_ms: one event is on cuda:0, the other on cpu", [] {
    Event here;
    Event there;
    here.record(current_stream(kCuda));
    there.record(current_stream(Device::cpu()));
    here.elapsed_ms(there);
  });
  EXPECT_EQ(sum(x).item(), 3);
}

TEST_F(Cuda, AFailedLaunchNamesItselfAndDoesNoHarm) {
  const auto library =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "failing_launch.so";
  if (!std::filesystem::exists(library)) GTEST_SKIP() << "skipped: " << library << " was not built";
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  const auto launch = reinterpret_cast<void (*)(unsigned)>(dlsym(handle, "mica_failing_launch"));
  ASSERT_NE(launch, nullptr);
  launch(32);
  EXPECT_THAT(message_of([&] { launch(2048); }),
              AllOf(HasSubstr("failing_launch: cuda: "), HasSubstr("launching "),
                    HasSubstr("grid (7, 1, 1), block (2048, 1, 1), 64 bytes of shared memory")));
  EXPECT_EQ(sum(ones({10}, {.device = kCuda})).item(), 10);
  synchronize(kCuda);
}

/// A tensor at an address the device cannot read.
Tensor nowhere() {
  auto impl = make_ref<TensorImpl>();
  impl->spec = TensorSpec::contiguous({1024}, DType::f32, kCuda);
  impl->storage =
      make_ref<Storage>(reinterpret_cast<void*>(0x1000), 4096, kCuda, std::make_shared<int>(0));
  return Tensor(std::move(impl));
}

/// Loses the context, tries everything and prints what it was told. Gives the exit status.
int lose_context() {
  const Tensor x = ones({1024}, {.device = kCuda});
  const Stream stream = Stream::create(kCuda);
  const Tensor pinned = pin_memory(ones({1024}));
  auto compiled = compile([](const Tensor& t) { return add(t, t); });
  compiled(x);
  synchronize(kCuda);
  const std::string first = message_of([&] {
    add(x, nowhere());
    synchronize(kCuda);
  });
  std::fprintf(stderr, "first: %s\n", first.c_str());
  const std::vector<std::function<void()>> calls = {
      [&] { add(x, x); },
      [] { empty({1}, {.device = kCuda}); },
      [&] { x.to_vector<float>(); },
      [] { to(ones({3}), kCuda); },
      [&] { to(pinned, kCuda, {.non_blocking = true}); },
      [] { synchronize(kCuda); },
      [&] { compiled(x); },
      [&] { matmul(reshape(x, {32, 32}), reshape(x, {32, 32})); },
      [] { Stream::create(kCuda); },
      [&] { stream.synchronize(); },
      [&] { Event().record(stream); },
      [] { memory_stats(kCuda); },
      [] { empty_cache(kCuda); },
      [] { runtime(kCuda).properties(0); }};
  int failures = first.empty() ? 1 : 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string told = message_of(calls[i]);
    if (told.find("the CUDA context was lost by an earlier error") != std::string::npos) continue;
    std::fprintf(stderr, "call %zu: '%s'\n", i, told.c_str());
    ++failures;
  }
  if (sum(ones({3})).item() != 3) ++failures;
  return failures;
}

TEST_F(Cuda, ALostContextIsToldByEveryCallAndTheCpuGoesOn) {
  EXPECT_EXIT(std::exit(lose_context()), testing::ExitedWithCode(0),
              AllOf(HasSubstr("illegal memory access"), HasSubstr("newest first: add"),
                    HasSubstr("MICA_LAUNCH_BLOCKING=1 finds the one"), Not(HasSubstr("call "))));
}

TEST_F(Cuda, BlockingLaunchesNameTheOp) {
  setenv("MICA_LAUNCH_BLOCKING", "1", 1);
  EXPECT_EXIT(
      {
        const Tensor x = ones({1024}, {.device = kCuda});
        mul(x, x);
        const std::string told = message_of([&] { add(x, nowhere()); });
        std::fprintf(stderr, "%s\n", told.c_str());
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      AllOf(HasSubstr("illegal memory access"), HasSubstr("newest first: add"),
            Not(HasSubstr(", mul")), Not(HasSubstr("MICA_LAUNCH_BLOCKING"))));
  unsetenv("MICA_LAUNCH_BLOCKING");
}

}  // namespace
}  // namespace mica
