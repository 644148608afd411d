// Collectives of a process alone, where each gives what it was given;
// tests/distributed has those of several.
#include "mica/ops/collective/collective.h"

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

std::vector<HostArray> same(const HostArgs& in) { return {in[0]}; }

std::vector<Sample> samples_of(const std::function<Tensor(const Tensor&)>& f, bool scalars) {
  std::vector<Sample> samples;
  const auto add = [&](const char* name, const Shape& shape) {
    samples.push_back({.name = name,
                       .in = {x(shape).in(0, 9)},
                       .call = [f](const Args& a) { return Tensors{f(a[0])}; },
                       .oracle = same,
                       .dtypes = kNumbers,
                       .exact = true});
  };
  add("a matrix", {3, 5});
  add("images", {2, 3, 4, 5});
  add("one element", {1});
  add("empty", {0, 4});
  if (scalars) add("a scalar", {});
  return samples;
}

OpCase all_reduce_case() {
  return {
      .op = "all_reduce",
      .samples = samples_of([](const Tensor& t) { return distributed::all_reduce(t); }, true),
      .bad = {bad<IndexError>("distributed: there is no group 99",
                              [](Device d) {
                                distributed::all_reduce(ones({1}, {.device = d}), {.group = 99});
                              }),
              bad<Unsupported>("all_reduce: only sum and avg have a gradient, not max",
                               [](Device d) {
                                 const Tensor t = ones({2}, {.device = d}).set_requires_grad();
                                 distributed::all_reduce(t, {.op = distributed::ReduceOp::max})
                                     .backward(ones({2}, {.device = d}));
                               }),
              bad<Error>("all_reduce: expected a group's token, u8[1], got f32[2]", [](Device d) {
                const Tensor t = ones({2}, {.device = d});
                call_op("all_reduce", CollectiveParams{}, {t, t});
              })}};
}

OpCase all_gather_case() {
  return {.op = "all_gather",
          .samples = samples_of([](const Tensor& t) { return distributed::all_gather(t); }, false),
          .bad = {bad<ShapeError>("all_gather: expected at least one axis", [](Device d) {
            distributed::all_gather(ones({}, {.device = d}));
          })}};
}

OpCase reduce_scatter_case() {
  return {
      .op = "reduce_scatter",
      .samples = samples_of([](const Tensor& t) { return distributed::reduce_scatter(t); }, false),
      .bad = {bad<ShapeError>(
          "reduce_scatter: the first axis must be divisible by the 2 ranks, got [3, 2]",
          [](Device d) {
            const Tensor token = distributed::token_of(0, d);
            call_op("reduce_scatter", CollectiveParams{.ranks = 2},
                    {ones({3, 2}, {.device = d}), token});
          })}};
}

OpCase broadcast_case() {
  return {.op = "broadcast",
          .samples = samples_of([](const Tensor& t) { return distributed::broadcast(t); }, true),
          .bad = {bad<IndexError>("broadcast: expected a rank below 1, got 1", [](Device d) {
            distributed::broadcast(ones({2}, {.device = d}), 1);
          })}};
}

OpCase all_to_all_case() {
  return {
      .op = "all_to_all",
      .samples = samples_of([](const Tensor& t) { return distributed::all_to_all(t); }, false),
      .bad = {bad<ShapeError>("all_to_all: the first axis must be divisible by the 1 ranks",
                              [](Device d) { distributed::all_to_all(ones({}, {.device = d})); })}};
}

/// To itself and back: both ops at once, whose gradients are each other.
std::vector<Sample> letters() {
  std::vector<Sample> samples = samples_of(
      [](const Tensor& t) {
        // In a group of its own: calls that were refused leave letters behind.
        distributed::Communicator alone;
        alone.engines[static_cast<size_t>(DeviceKind::cpu)] = distributed::make_self_engine();
        const int64_t group = distributed::add_communicator(alone);
        const Tensor sent = distributed::send(t, 0, group);
        return add(distributed::recv(t, 0, group), sum(sent));
      },
      true);
  for (Sample& s : samples) s.dtypes = kFloats;  // a sum of integers is wider than they are
  return samples;
}

OpCase send_case() {
  return {.op = "send",
          .samples = letters(),
          .bad = {bad<IndexError>("send: expected a rank below 1, got 4", [](Device d) {
            distributed::send(ones({2}, {.device = d}), 4);
          })}};
}

OpCase recv_case() {
  return {.op = "recv",
          .samples = letters(),
          .bad = {bad<Error>("recv: this process, alone, has sent itself nothing",
                             [](Device d) { distributed::recv(ones({2}, {.device = d}), 0); })}};
}

OpCase barrier_case() {
  return {.op = "barrier",
          .samples = {{.name = "alone",
                       .in = {x({2})},
                       .call =
                           [](const Args& a) {
                             distributed::barrier(0, a.device);
                             return Tensors{clone(a[0])};
                           },
                       .oracle = same,
                       .gradient = false,
                       .exact = true}},
          .bad = {bad<IndexError>("distributed: there is no group 99",
                                  [](Device d) { distributed::barrier(99, d); })},
          .no_empty = "it takes no tensor",
          .no_single = "it takes no tensor"};
}

OpCase collective_wait_case() {
  const auto call = [](const Args& a) {
    const Tensor result = distributed::start_all_reduce(a[0]);
    distributed::collective_wait(result, a[0]);
    return Tensors{result};
  };
  const auto sample = [&](const char* name, const Shape& shape) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 9)},
                  .call = call,
                  .oracle = same,
                  .dtypes = kNumbers,
                  .gradient = false,
                  .exact = true};
  };
  return {.op = "collective_wait",
          .samples = {sample("a row", {7}), sample("one element", {1}), sample("empty", {0})},
          .bad = {bad<Error>("undefined",
                             [](Device) { distributed::collective_wait(Tensor(), Tensor()); })}};
}

/// Copies are exact.
std::vector<OpCase> exact(std::vector<OpCase> cases) {
  for (OpCase& c : cases) c.tolerance = Tolerances{};
  return cases;
}

const Room kRoom([] {
  return exact({all_reduce_case(), all_gather_case(), reduce_scatter_case(), broadcast_case(),
                all_to_all_case(), send_case(), recv_case(), barrier_case(),
                collective_wait_case()});
});

}  // namespace
}  // namespace mica::cases
