#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "mica/graph/plan.h"
#include "tests/distributed/scenario.h"

namespace mica::ranks {

using namespace mica::distributed;  // NOLINT(google-build-using-namespace)

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {{"collectives", collectives},
                                            {"gradients", gradients},
                                            {"compiled", compiled},
                                            {"groups", groups},
                                            {"letters", letters},
                                            {"large", large},
                                            {"training", training},
                                            {"accumulation", accumulation},
                                            {"unused", unused},
                                            {"compression", compression},
                                            {"sharding", sharding},
                                            {"checkpoints", checkpoints},
                                            {"batch_norm", batch_norm},
                                            {"loader", loader},
                                            {"trainer", trainer},
                                            {"buffers", buffers},
                                            {"hang", hang},
                                            {"die", die},
                                            {"raise", raise},
                                            {"mismatch", mismatch},
                                            {"mismatches", mismatches},
                                            {"bandwidth", bandwidth}};
  return all;
}

Device device() {
  static const Device device = [] {
    const char* name = std::getenv("MICA_TEST_DEVICE");
    return name && *name ? device_from_name(name) : Device();
  }();
  return device;
}

void expect_same(const Tensor& a, const Tensor& b, const std::string& what) {
  check<ShapeError>(a.shape() == b.shape() && a.dtype() == b.dtype(), "{}: {} and {}", what,
                    a.spec(), b.spec());
  const Tensor x = contiguous(to(a.detach(), Device()));
  const Tensor y = contiguous(to(b.detach(), Device()));
  const size_t bytes = static_cast<size_t>(x.numel()) * size_of(x.dtype());
  if (bytes > 0 && std::memcmp(x.data(), y.data(), bytes) != 0)
    fail("{}: bits differ, by up to {}", what,
         max(abs(sub(cast(x, DType::f64), cast(y, DType::f64)))).item());
}

void expect_sum(const Tensor& a, const Tensor& b, const std::string& what) {
  if (!on_cuda() || !is_floating(a.dtype())) return expect_same(a, b, what);
  const bool half = a.dtype() == DType::f16 || a.dtype() == DType::bf16;
  const double size = b.numel() > 0 ? max(abs(cast(b.detach(), DType::f64))).item() : 0;
  expect_close(a, b, (half ? 8e-3 : 1e-6) * (1 + size), what);
}

void expect_close(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  check<ShapeError>(a.shape() == b.shape(), "{}: {} and {}", what, a.spec(), b.spec());
  if (a.numel() == 0) return;
  const double worst =
      max(abs(sub(cast(a.detach(), DType::f64), cast(b.detach(), DType::f64)))).item();
  check(worst <= tolerance, "{}: differs by {}", what, worst);
}

Tensor drawn(const Shape& shape, uint64_t seed, DType dtype) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(numel(shape)));
  for (double& v : values) v = is_floating(dtype) ? normal(engine) : std::floor(9 * normal(engine));
  return to(cast(tensor(values, shape), dtype), device());
}

namespace {

/// The tensor that rank r has.
Tensor of_rank(const Shape& shape, int r, DType dtype = DType::f32) {
  return drawn(shape, 100 + static_cast<uint64_t>(r), dtype);
}

/// The sum in the order of the ranks.
Tensor sum_of(const Shape& shape, DType dtype = DType::f32) {
  Tensor sum = of_rank(shape, 0, dtype);
  for (int r = 1; r < world_size(); ++r) sum = add(sum, of_rank(shape, r, dtype));
  return sum;
}

}  // namespace

void collectives(const Words&) {
  const int n = world_size();
  const int r = rank();
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8})
    for (const int64_t size : {0, 1, 5, 1000, 100003}) {
      const Tensor x = of_rank({size}, r, dtype);
      const std::string what = fmt::format("all_reduce {}[{}]", dtype, size);
      expect_sum(all_reduce(x), sum_of({size}, dtype), what);
      if (is_floating(dtype))
        expect_sum(all_reduce(x, {.op = ReduceOp::avg}), div(sum_of({size}, dtype), n), what);
    }
  for (const DType dtype : {DType::f16, DType::bf16}) {  // in f32, rounded once
    Tensor sum = constant({333}, 0);
    for (int i = 0; i < n; ++i) sum = add(sum, cast(of_rank({333}, i, dtype), DType::f32));
    expect_sum(all_reduce(of_rank({333}, r, dtype)), cast(sum, dtype), "all_reduce of halves");
  }
  Tensor largest = of_rank({77}, 0);
  for (int i = 1; i < n; ++i) largest = maximum(largest, of_rank({77}, i));
  expect_same(all_reduce(of_rank({77}, r), {.op = ReduceOp::max}), largest, "all_reduce max");
  expect_same(neg(all_reduce(neg(of_rank({77}, r)), {.op = ReduceOp::min})), largest,
              "all_reduce min");
  // A tensor that does not lie dense.
  expect_sum(all_reduce(permute(of_rank({4, 6}, r), {1, 0})), permute(sum_of({4, 6}), {1, 0}),
             "all_reduce of a transposed tensor");

  Tensors all;
  for (int i = 0; i < n; ++i) all.push_back(of_rank({3, 5}, i));
  expect_same(all_gather(of_rank({3, 5}, r)), concat(all, 0), "all_gather");
  expect_sum(reduce_scatter(of_rank({2 * n, 7}, r)), slice(sum_of({2 * n, 7}), 0, 2 * r, 2 * r + 2),
             "reduce_scatter");
  for (int root = 0; root < n; ++root)
    expect_same(broadcast(of_rank({9}, r), root), of_rank({9}, root), "broadcast");
  Tensors parts;
  for (int i = 0; i < n; ++i) parts.push_back(slice(of_rank({2 * n, 3}, i), 0, 2 * r, 2 * r + 2));
  expect_same(all_to_all(of_rank({2 * n, 3}, r)), concat(parts, 0), "all_to_all");
  if (r == 0)
    for (int i = 1; i < n; ++i) send(of_rank({11}, i), i);
  else
    expect_same(recv(constant({11}, 0), 0), of_rank({11}, r), "send and recv");
  barrier(0, device());
  // Two at once.
  const Tensor a = of_rank({5000}, r);
  const Tensor b = of_rank({50}, r);
  const Tensor sum_a = start_all_reduce(a);
  const Tensor sum_b = start_all_reduce(b);
  collective_wait(sum_b, b);
  collective_wait(sum_a, a);
  expect_sum(sum_a, sum_of({5000}), "the first that was started");
  expect_sum(sum_b, sum_of({50}), "the second that was started");
}

void gradients(const Words&) {
  const int n = world_size();
  const int r = rank();
  const auto leaf = [&](const Shape& shape) {
    return of_rank(shape, r, DType::f64).set_requires_grad();
  };
  // Of sum over ranks of <w_r, f(x)_r>: what comes back is f's transpose of the cotangents.
  const auto weight = [](const Shape& shape, int i) {
    return drawn(shape, 900 + static_cast<uint64_t>(i), DType::f64);
  };
  const auto total = [&](const Shape& shape) {
    Tensor sum = weight(shape, 0);
    for (int i = 1; i < n; ++i) sum = add(sum, weight(shape, i));
    return sum;
  };
  Tensor x = leaf({4});
  all_reduce(x).backward(weight({4}, r));
  expect_sum(x.grad(), total({4}), "gradient of all_reduce");
  x = leaf({3});
  all_gather(x).backward(weight({3 * n}, r));
  expect_sum(x.grad(), slice(total({3 * n}), 0, 3 * r, 3 * r + 3), "gradient of all_gather");
  x = leaf({3 * n});
  reduce_scatter(x, {.op = ReduceOp::avg}).backward(weight({3}, r));
  Tensors all;
  for (int i = 0; i < n; ++i) all.push_back(weight({3}, i));
  expect_same(x.grad(), div(concat(all, 0), n), "gradient of reduce_scatter");
  x = leaf({4});
  broadcast(x, n - 1).backward(weight({4}, r));
  expect_sum(x.grad(), r == n - 1 ? total({4}) : zeros_like(x.grad()), "gradient of broadcast");
  x = leaf({2 * n});
  all_to_all(x).backward(weight({2 * n}, r));
  Tensors parts;
  for (int i = 0; i < n; ++i) parts.push_back(slice(weight({2 * n}, i), 0, 2 * r, 2 * r + 2));
  expect_same(x.grad(), concat(parts, 0), "gradient of all_to_all");
  // A pipeline of two ranks; the second makes the loss.
  if (r == 0) {
    x = leaf({5});
    sum(send(mul(x, 3.0), 1)).backward();
    expect_same(x.grad(), mul(weight({5}, 0), 6.0), "gradient through send");
  } else if (r == 1) {
    const Tensor got = recv(zeros({5}, here(DType::f64)).set_requires_grad(), 0);
    sum(mul(mul(got, 2.0), weight({5}, 0))).backward();
  }
  // Second order: the gradient of a gradient crosses the ranks twice.
  x = leaf({3});
  const Tensor y = all_reduce(mul(mul(x, x), x));
  const Tensor first = grad({sum(y)}, {x}, {}, {.create_graph = true})[0];
  sum(first).backward();
  expect_close(x.grad(), mul(x.detach(), 6.0 * n), 1e-12, "second order");
}

void compiled(const Words&) {
  const int r = rank();
  auto step = compile([](const Tensor& x) {
    const Tensor a = all_reduce(mul(x, 2.0));
    barrier(0, device());
    const Tensor b = broadcast(add(a, x), 1);
    const Tensor pending = start_all_reduce(b);
    const Tensor beside = exp(neg(abs(x)));  // work while it is on its way
    collective_wait(pending, b);
    all_reduce(beside);  // nobody looks at it, and yet all ranks take part
    return Tensors{a, b, pending, beside};
  });
  const auto eager = [](const Tensor& x) {
    const Tensor a = all_reduce(mul(x, 2.0));
    const Tensor b = broadcast(add(a, x), 1);
    return Tensors{a, b, all_reduce(b), exp(neg(abs(x)))};
  };
  for (int i = 0; i < 5; ++i) {
    const Tensor x = drawn({40}, static_cast<uint64_t>(10 * i + r));
    const Tensors got = step(x);
    const Tensors wanted = eager(x);
    for (size_t k = 0; k < got.size(); ++k)
      expect_sum(got[k], wanted[k], fmt::format("compiled result {} of run {}", k, i));
  }
  // Those whose results nobody reads are in the plan too.
  int64_t calls = 0;
  for (const std::string& kernel : step.function()->plan()->kernels())
    calls += kernel.find(on_cuda() ? ": nccl" : ": engine") != std::string::npos ? 1 : 0;
  check(calls == 6, "the plan has {} collectives, not 6", calls);
}

void groups(const Words&) {
  const int n = world_size();
  const int r = rank();
  std::vector<int> even, reversed;
  for (int i = 0; i < n; i += 2) even.push_back(i);
  for (int i = n - 1; i >= 0; --i) reversed.push_back(i);
  const int64_t evens = new_group(even);
  const int64_t back = new_group(reversed);
  check(group_rank(back) == n - 1 - r && group_size(back) == n, "the ranks of a reversed group");
  expect_same(broadcast(of_rank({4}, r), 0, back), of_rank({4}, n - 1), "broadcast in a group");
  if (r % 2 == 0) {
    Tensor sum = of_rank({6}, 0);
    for (int i = 2; i < n; i += 2) sum = add(sum, of_rank({6}, i));
    expect_sum(all_reduce(of_rank({6}, r), {.group = evens}), sum, "all_reduce in a group");
  } else {
    bool raised = false;
    try {
      all_reduce(constant({1}, 1), {.group = evens});
    } catch (const Error& e) {
      raised = std::strstr(e.what(), "not a member") != nullptr;
    }
    check(raised, "a process that is not a member was let in");
  }
  barrier(0, device());
}

/// Some that the last rank takes no part in, which may be gone before they come.
void letters(const Words&) {
  const int r = rank();
  all_reduce(constant({3}, 1));
  if (r == world_size() - 1) return;
  const Tensor x = constant({5}, 7);
  for (int i = 0; i < 4; ++i)
    if (r == 0)
      send(x, 1);
    else if (r == 1)
      expect_same(recv(constant({5}, 0), 0), x, "a letter");
  if (r == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
  if (r == 1)
    send(x, 0);
  else if (r == 0)
    expect_same(recv(constant({5}, 0), 1), x, "the answer");
}

void large(const Words&) {
  // More than goes at once, and sizes that no number divides.
  const int n = world_size();
  const int r = rank();
  const int64_t size = 9'000'001;
  const Tensor x = constant({size}, r + 1);
  const Tensor sum = all_reduce(x);
  expect_same(sum, constant({size}, n * (n + 1) / 2), "a large all_reduce");
  const Tensor all = all_gather(x);
  for (int i = 0; i < n; ++i)
    expect_same(slice(all, 0, i * size, (i + 1) * size), constant({size}, i + 1),
                "a large all_gather");
  expect_same(slice(reduce_scatter(all), 0, 0, 1000), constant({1000}, n * (r + 1)),
              "a large reduce_scatter");
  expect_same(broadcast(x, n - 1), constant({size}, n), "a large broadcast");
}

void bandwidth(const Words&) {
  for (int64_t bytes = 1 << 10; bytes <= 64 << 20; bytes *= 8) {
    const Tensor x = constant({bytes / 4}, 1);
    const int rounds = bytes < (1 << 20) ? 200 : 10;
    all_reduce(x);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) all_reduce(x);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / rounds;
    if (rank() == 0)
      std::printf("%9lld bytes: %8.1f us, %6.2f GB/s\n", static_cast<long long>(bytes),
                  1e6 * seconds, static_cast<double>(bytes) / seconds / 1e9);
  }
}

}  // namespace mica::ranks
