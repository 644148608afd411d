// What each pass changes and what it leaves alone: on the null device, where values do not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/graph/ops_of.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const TensorOptions kNull{.device = Device::null()};

TensorSpec on_null(const Shape& shape, DType dtype = DType::f32) {
  return TensorSpec::contiguous(shape, dtype, Device::null());
}

using Body = std::function<Tensors(const Tensor&)>;

/// The graph of a function after one pass, without what nobody uses.
Graph after(void (*pass)(Graph&), const Body& body, const TensorSpec& spec = on_null({4})) {
  Captured c = capture([&](std::span<const Tensor> in) { return body(in[0]); }, {&spec, 1});
  pass(c.graph);
  remove_dead_nodes(c.graph);
  return c.graph;
}

std::vector<std::string> ops_after(void (*pass)(Graph&), const Body& body,
                                   const TensorSpec& spec = on_null({4})) {
  return ops_of(after(pass, body, spec));
}

/// Elementwise calls stay nodes of their own while it lives.
struct Unfused {
  Unfused() { set_pass("fuse_elementwise", false); }
  ~Unfused() { set_pass("fuse_elementwise", true); }
  Unfused(const Unfused&) = delete;
  Unfused& operator=(const Unfused&) = delete;
};

Tensor number_on_null(double value) { return full({}, value, kNull); }

TEST(Passes, AreSwitchedByName) {
  for (const Pass& pass : passes()) EXPECT_TRUE(pass_is_on(pass.name)) << pass.name;
  expect_error<Error>("passes: there is none named 'nothing', only dead_nodes, constants",
                      [] { set_pass("nothing", false); });
  const Unfused unfused;
  auto f = compile([](const Tensor& x) { return add(exp(x), exp(x)); });
  const Tensor x = ones({3});
  f(x);
  EXPECT_EQ(f.function()->plan()->steps(), 2U);
  set_pass("common_subexpressions", false);
  f(x);
  EXPECT_EQ(f.function()->plan()->steps(), 3U);
  EXPECT_EQ(f.function()->captures(), 2);
  set_pass("common_subexpressions", false);  // nothing changes
  f(x);
  EXPECT_EQ(f.function()->captures(), 2);
  set_pass("common_subexpressions", true);
  f(x);
  EXPECT_EQ(f.function()->plan()->steps(), 2U);
}

// The environment is read once: each case needs a process of its own.
TEST(PassesDeathTest, AreSwitchedByTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("MICA_PASSES", "-views,-casts", 1);
        const bool as_told =
            !pass_is_on("views") && !pass_is_on("casts") && pass_is_on("constants");
        std::exit(as_told ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  const auto complain = [](const char* value) {
    setenv("MICA_PASSES", value, 1);
    try {
      pass_is_on("views");
    } catch (const Error& e) {
      std::fprintf(stderr, "%s", e.what());
    }
    std::exit(0);
  };
  EXPECT_EXIT(complain("views"), testing::ExitedWithCode(0),
              "MICA_PASSES: expected -name.*, got 'views'");
  EXPECT_EXIT(complain("-nothing"), testing::ExitedWithCode(0), "there is none named 'nothing'");
}

TEST(Passes, TellWhatTheyDo) {
  set_verbose_compile(true);
  testing::internal::CaptureStderr();
  auto f = compile([](const Tensor& x) { return add(exp(x), exp(x)); });
  f(ones({3}));
  set_verbose_compile(false);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr(
                  "mica: compile: common_subexpressions: of 3 nodes 1 removed, 1 changed\n"));
}

TEST(Passes, ThatRoundDifferentlyAreOffInDeterministicMode) {
  const Unfused unfused;
  const auto steps = [] {
    auto f = compile([](const Tensor& x) { return neg(add(x, 0.0)); });
    f(ones({3}));
    return f.function()->plan()->steps();
  };
  EXPECT_EQ(steps(), 1U);
  set_deterministic(true);
  EXPECT_EQ(steps(), 2U);
  set_deterministic(false);
}

TEST(Constants, FoldToTheBit) {
  const Graph g = after(fold_constants, [](const Tensor& x) -> Tensors {
    const Tensor sum = add(full({4}, 0.1, kNull), full({4}, 0.2, kNull));
    return {mul(x, neg(sum))};
  });
  ASSERT_THAT(ops_of(g), ElementsAre("full", "mul"));
  EXPECT_EQ(g.nodes[0].params.as<FullParams>().value, static_cast<double>(-(0.1F + 0.2F)));
  const Graph cast_first = after(fold_constants, [](const Tensor& x) -> Tensors {
    return {mul(x, cast(cast(full({4}, 0.1, kNull), DType::f16), DType::f32))};
  });
  ASSERT_THAT(ops_of(cast_first), ElementsAre("full", "mul"));
  EXPECT_EQ(cast_first.nodes[0].params.as<FullParams>().value,
            static_cast<double>(static_cast<Half>(0.1)));
  // Numbers in the code and views of constants are constants too.
  EXPECT_THAT(ops_after(fold_constants,
                        [](const Tensor& x) -> Tensors {
                          return {mul(x, div(expand(full({1}, 1, kNull), {4}), 4.0))};
                        }),
              ElementsAre("full", "mul"));
}

TEST(Constants, AreNotWhatMayChange) {
  const Tensor outside = full({4}, 2, kNull);
  EXPECT_THAT(
      ops_after(fold_constants, [&](const Tensor& x) -> Tensors { return {mul(x, neg(outside))}; }),
      ElementsAre("neg", "mul"));
  EXPECT_THAT(ops_after(fold_constants,
                        [](const Tensor& x) -> Tensors {
                          const Tensor c = full({4}, 1, kNull);
                          copy_(c, x);
                          return {neg(c)};
                        }),
              ElementsAre("full", "copy_into", "neg"));
  EXPECT_THAT(
      ops_after(fold_constants,
                [](const Tensor& x) -> Tensors { return {mul(x, exp(full({4}, 1, kNull)))}; }),
      ElementsAre("full", "exp", "mul"));
}

TEST(Constants, OfIntegersDoNotOverflow) {
  const auto ops = [](double a, double b) {
    return ops_after(
        fold_constants,
        [=](const Tensor& x) -> Tensors {
          const TensorOptions options{DType::i32, Device::null()};
          return {add(x, mul(full({4}, a, options), full({4}, b, options)))};
        },
        on_null({4}, DType::i32));
  };
  EXPECT_THAT(ops(3, 5), ElementsAre("full", "add"));
  EXPECT_THAT(ops(1 << 20, 1 << 20), ElementsAre("full", "full", "mul", "add"));
}

TEST(ScalarOperands, AreMadeOfTensorsOfOneNumber) {
  const Graph g =
      after(shrink_constants, [](const Tensor& x) -> Tensors { return {mul(x, full_like(x, 2))}; });
  EXPECT_EQ(g[g.nodes[0].out[0]].spec.rank(), 0);
  EXPECT_EQ(g.nodes[0].params.as<FullParams>().shape, Shape{});
}

TEST(ScalarOperands, AreNotMadeWhereTheShapeCounts) {
  const auto rank = [](const Body& body) {
    const Graph g = after(shrink_constants, body, on_null({4, 4}));
    const auto constant = std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& node) {
      return node.op->name == std::string("full");
    });
    return g[constant->out[0]].spec.rank();
  };
  EXPECT_EQ(rank([](const Tensor& x) -> Tensors { return {mul(full_like(x, 2), x)}; }), 0);
  const auto constant = [] { return full({4, 4}, 2, kNull); };
  EXPECT_EQ(rank([&](const Tensor& x) -> Tensors { return {matmul(constant(), x)}; }), 2);
  EXPECT_EQ(rank([&](const Tensor& x) -> Tensors { return {mul(constant(), sum(x))}; }), 2);
  EXPECT_EQ(rank([&](const Tensor& x) -> Tensors {
              const Tensor c = constant();
              return {mul(x, c), c};
            }),
            2);
  EXPECT_EQ(rank([&](const Tensor& x) -> Tensors {
              const Tensor c = constant();
              return {mul(x, c), sum(c)};
            }),
            2);
  EXPECT_EQ(rank([&](const Tensor& x) -> Tensors {
              const Tensor c = constant();
              fill_(c, 3);
              return {mul(x, c)};
            }),
            2);
  EXPECT_EQ(rank([&](const Tensor& x) -> Tensors {
              const Tensor c = constant();
              return {mul(x, reshape(c, {16, 1, 1}))};
            }),
            2);
}

TEST(Casts, MergeWhereTheFirstKeepsEveryValue) {
  const auto ops = [](DType first, DType second, DType third) {
    return ops_after(
        merge_casts, [=](const Tensor& x) -> Tensors { return {cast(cast(x, second), third)}; },
        on_null({4}, first));
  };
  EXPECT_THAT(ops(DType::f16, DType::f32, DType::f64), ElementsAre("copy"));
  EXPECT_THAT(ops(DType::f16, DType::f32, DType::bf16), ElementsAre("copy"));
  EXPECT_THAT(ops(DType::u8, DType::f32, DType::i64), ElementsAre("copy"));
  EXPECT_THAT(ops(DType::f32, DType::f16, DType::f32), ElementsAre("copy", "copy"));
  EXPECT_THAT(ops(DType::i64, DType::f64, DType::i64), ElementsAre("copy", "copy"));
  EXPECT_THAT(ops(DType::f32, DType::f64, DType::i32), ElementsAre("copy", "copy"));
}

TEST(Casts, ThereAndBackAreNothing) {
  EXPECT_THAT(
      ops_after(
          [](Graph& g) {
            merge_casts(g);
            remove_identities(g);
          },
          [](const Tensor& x) -> Tensors { return {neg(cast(cast(x, DType::f64), DType::f32))}; }),
      ElementsAre("neg"));
}

TEST(Casts, OfWhatIsWrittenOrUsedElsewhereStay) {
  const Tensor state = zeros({4}, kNull);
  EXPECT_THAT(ops_after(merge_casts,
                        [&](const Tensor& x) -> Tensors {
                          const Tensor before = cast(state, DType::f64);
                          copy_(state, x);
                          return {neg(cast(before, DType::f32))};
                        }),
              ElementsAre("copy", "copy_into", "copy", "neg"));
  EXPECT_THAT(ops_after(merge_casts,
                        [](const Tensor& x) -> Tensors {
                          const Tensor wide = cast(x, DType::f64);
                          return {exp(wide), cast(wide, DType::f16)};
                        }),
              ElementsAre("copy", "exp", "copy"));
}

TEST(Views, ThatComeBackAreTheirBase) {
  EXPECT_THAT(ops_after(
                  collapse_views,
                  [](const Tensor& x) -> Tensors {
                    return {neg(transpose(transpose(x, 0, 1), 0, 1)),
                            exp(reshape(reshape(x, {15}), {3, 5})), sin(slice(x, 0, 0, 3))};
                  },
                  on_null({3, 5})),
              ElementsAre("neg", "exp", "sin"));
}

TEST(Views, OfViewsBecomeOne) {
  const Graph g = after(
      collapse_views,
      [](const Tensor& x) -> Tensors {
        return {neg(permute(permute(x, {1, 2, 0}), {1, 2, 0})),
                exp(reshape(reshape(x, {6, 5}), {30})),
                cos(expand(expand(x, {7, 2, 3, 5}), {8, 7, 2, 3, 5}))};
      },
      on_null({2, 3, 5}));
  ASSERT_THAT(ops_of(g), ElementsAre("permute", "neg", "reshape", "exp", "expand", "cos"));
  EXPECT_EQ(g.nodes[0].params.as<DimsParams>().dims, (Dims{2, 0, 1}));
  for (const size_t i : {0, 2, 4}) {
    EXPECT_EQ(g.nodes[i].in[0], g.inputs[0]);
    EXPECT_EQ(g[g.nodes[i].out[0]].base, g.inputs[0]);
  }
}

TEST(Views, ThatSeeSomethingElseStay) {
  EXPECT_THAT(ops_after(
                  collapse_views,
                  [](const Tensor& x) -> Tensors {
                    const Tensor right = slice(x, 1, 2, 4);
                    return {neg(slice(x, 1, 1, 3)), exp(slice(right, 0, 0, 4)),
                            sin(reshape(transpose(x, 0, 1), {2, 2, 4}))};
                  },
                  on_null({4, 4})),
              ElementsAre("slice", "slice", "neg", "exp", "permute", "reshape", "sin"));
}

TEST(Views, ThatAreResultsDoNotBecomeTheArgument) {
  EXPECT_THAT(
      ops_after(collapse_views, [](const Tensor& x) -> Tensors { return {reshape(x, {4})}; }),
      ElementsAre("reshape"));
}

TEST(Identities, Vanish) {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> same = {
      {"x * 1", [](const Tensor& x) { return mul(x, 1.0); }},
      {"1 * x", [](const Tensor& x) { return mul(number_on_null(1), x); }},
      {"x * ones", [](const Tensor& x) { return mul(x, ones_like(x)); }},
      {"x / 1", [](const Tensor& x) { return div(x, 1.0); }},
      {"x - 0", [](const Tensor& x) { return sub(x, number_on_null(0)); }},
      {"x + -0", [](const Tensor& x) { return add(x, number_on_null(-0.0)); }},
      {"--x", [](const Tensor& x) { return neg(neg(x)); }},
      {"copy", [](const Tensor& x) { return clone(x); }},
      {"chain", [](const Tensor& x) { return clone(div(mul(neg(neg(x)), 1.0), 1.0)); }},
  };
  for (const auto& [name, f] : same)
    EXPECT_THAT(
        ops_after(remove_identities, [&](const Tensor& x) -> Tensors { return {exp(f(x))}; }),
        ElementsAre("exp"))
        << name;
  EXPECT_THAT(ops_after(remove_identities,
                        [](const Tensor& x) -> Tensors { return {exp(relu(relu(relu(x))))}; }),
              ElementsAre("relu", "exp"));
  EXPECT_THAT(ops_after(
                  remove_identities, [](const Tensor& x) -> Tensors { return {neg(add(x, 0))}; },
                  on_null({4}, DType::i64)),
              ElementsAre("neg"));
}

TEST(Identities, AreNotWhatLooksLikeThem) {
  const Tensor one = scalar(1, kNull);
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> other = {
      {"a parameter may change", [&](const Tensor& x) { return mul(x, one); }},
      {"-0 + 0 is 0", [](const Tensor& x) { return add(x, number_on_null(0)); }},
      {"-0 - -0 is 0", [](const Tensor& x) { return sub(x, number_on_null(-0.0)); }},
      {"0 - x", [](const Tensor& x) { return sub(number_on_null(0), x); }},
      {"1 / x", [](const Tensor& x) { return div(number_on_null(1), x); }},
      {"broadcast", [](const Tensor& x) { return mul(x, ones({3, 4}, kNull)); }},
      {"another rank", [](const Tensor& x) { return mul(x, ones({1, 4}, kNull)); }},
      {"another layout",
       [](const Tensor& x) { return clone(transpose(reshape(x, {2, 2}), 0, 1)); }},
      {"another dtype", [](const Tensor& x) { return cast(x, DType::f64); }},
  };
  for (const auto& [name, f] : other) {
    const Body body = [&](const Tensor& x) -> Tensors { return {exp(f(x))}; };
    EXPECT_EQ(ops_after(remove_identities, body), ops_after(remove_dead_nodes, body)) << name;
  }
}

TEST(Identities, DoNotMakeResultsShareMemory) {
  const Tensor weight = zeros({4}, kNull);
  EXPECT_THAT(ops_after(remove_identities,
                        [&](const Tensor& x) -> Tensors {
                          return {mul(x, 1.0), clone(weight), reshape(clone(weight), {2, 2})};
                        }),
              ElementsAre("mul", "copy", "copy", "reshape"));
  // What the graph computes itself is copied out.
  const Graph g = after(remove_identities, [](const Tensor& x) -> Tensors {
    const Tensor y = exp(x);
    return {y, clone(y)};
  });
  EXPECT_THAT(ops_of(g), ElementsAre("exp"));
  EXPECT_EQ(g.outputs[0], g.outputs[1]);
}

TEST(Identities, KeepACopyBesideAWrite) {
  const Tensor state = zeros({4}, kNull);
  const auto with_write = [&](const Body& body) { return ops_after(remove_identities, body); };
  EXPECT_THAT(with_write([&](const Tensor& x) -> Tensors {  // the state before
                const Tensor before = clone(state);
                copy_(state, x);
                return {neg(before)};
              }),
              ElementsAre("copy", "copy_into", "neg"));
  EXPECT_THAT(with_write([](const Tensor& x) -> Tensors {  // the copy is what is written
                const Tensor y = exp(x);
                const Tensor copy = clone(y);
                fill_(copy, 1);
                return {neg(y), copy};
              }),
              ElementsAre("exp", "copy", "full", "copy_into", "neg"));
  EXPECT_THAT(with_write([&](const Tensor& x) -> Tensors {  // written between the two
                const Tensor once = neg(state);
                copy_(state, x);
                return {exp(neg(once))};
              }),
              ElementsAre("neg", "copy_into", "neg", "exp"));
}

TEST(Identities, ReadBeforeAWriteAreOrderedBeforeIt) {
  const Tensor state = zeros({4}, kNull);
  const Graph g = after(remove_identities, [&](const Tensor& x) -> Tensors {
    const Tensor read = exp(clone(state));
    copy_(state, x);
    return {read};
  });
  ASSERT_THAT(ops_of(g), ElementsAre("exp", "copy_into"));
}

TEST(AddedZeros, Vanish) {
  const auto ops = [](const Body& body) { return ops_after(remove_added_zeros, body); };
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors { return {neg(add(x, 0.0))}; }),
              ElementsAre("neg"));
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors { return {neg(add(zeros_like(x), x))}; }),
              ElementsAre("neg"));
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors { return {neg(add(x, zeros({3, 4}, kNull)))}; }),
              ElementsAre("full", "add", "neg"));
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors { return {neg(sub(zeros_like(x), x))}; }),
              ElementsAre("full", "sub", "neg"));
}

TEST(CommonSubexpressions, AreComputedOnce) {
  const auto ops = [](const Body& body) { return ops_after(merge_common_subexpressions, body); };
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors {
                return {add(neg(exp(x)), neg(exp(x))), clamp(x, 0, 1), clamp(x, 0, 1)};
              }),
              ElementsAre("exp", "neg", "add", "clamp"));
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors {
                const Tensor y = exp(x);
                return {sub(add(x, y), add(y, x))};
              }),
              ElementsAre("exp", "add", "sub"));
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors {
                return {add(neg(reshape(x, {2, 2})), neg(reshape(x, {2, 2})))};
              }),
              ElementsAre("reshape", "neg", "add"));
}

TEST(CommonSubexpressions, AreNotCallsThatDiffer) {
  const auto ops = [](const Body& body) { return ops_after(merge_common_subexpressions, body); };
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors { return {clamp(x, 0, 1), clamp(x, 0, 2)}; }),
              ElementsAre("clamp", "clamp"));
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors {
                const Tensor y = exp(x);
                return {sub(x, y), sub(y, x)};
              }),
              ElementsAre("exp", "sub", "sub"));
  EXPECT_THAT(
      ops([](const Tensor&) -> Tensors { return {full({4}, 0, kNull), full({4}, -0.0, kNull)}; }),
      ElementsAre("full", "full"));
}

TEST(CommonSubexpressions, AreNotRandomNumbers) {
  EXPECT_THAT(
      ops_after(merge_common_subexpressions,
                [](const Tensor& x) -> Tensors { return {add(dropout(x, 0.5), dropout(x, 0.5))}; }),
      ElementsAre("rng_take", "dropout", "rng_take", "dropout", "add"));
}

TEST(CommonSubexpressions, HaveNoWriteBetweenThem) {
  const Tensor state = zeros({4}, kNull);
  const auto ops = [](const Body& body) { return ops_after(merge_common_subexpressions, body); };
  EXPECT_THAT(ops([&](const Tensor& x) -> Tensors {
                const Tensor before = exp(state);
                copy_(state, x);
                return {sub(exp(state), before)};
              }),
              ElementsAre("exp", "copy_into", "exp", "sub"));
  EXPECT_THAT(ops([&](const Tensor& x) -> Tensors {  // a view sees the write
                const Tensor view = reshape(state, {2, 2});
                const Tensor before = exp(view);
                copy_(state, x);
                return {sub(exp(view), before)};
              }),
              ElementsAre("reshape", "exp", "copy_into", "exp", "sub"));
  EXPECT_THAT(ops([](const Tensor& x) -> Tensors {  // one of the results is written
                const Tensor a = exp(x);
                const Tensor b = exp(x);
                fill_(a, 1);
                return {sub(a, b)};
              }),
              ElementsAre("exp", "exp", "full", "copy_into", "sub"));
  EXPECT_THAT(
      ops([&](const Tensor& x) -> Tensors {  // effects happen as often as they are asked for
        copy_(state, x);
        copy_(state, x);
        return {x};
      }),
      ElementsAre("copy_into", "copy_into"));
}

TEST(CommonSubexpressions, DoNotUndoACheckpoint) {
  const Unfused unfused;
  const Tensor weight = ones({64, 64}, kNull).set_requires_grad();
  const TensorSpec spec = on_null({64, 64});
  const auto layer = [](const Tensor& x) {
    Tensor h = x;
    for (int i = 0; i < 6; ++i) h = exp(sin(h));
    return h;
  };
  const auto step = [&](std::span<const Tensor> in) -> Tensors {
    Tensor h = mul(in[0], weight);
    for (int i = 0; i < 3; ++i) h = checkpoint(layer, h);
    const Tensor loss = sum(h);
    loss.backward();
    return {loss};
  };
  const Plan merged(capture(step, {&spec, 1}));
  set_pass("common_subexpressions", false);
  const Plan plain(capture(step, {&spec, 1}));
  set_pass("common_subexpressions", true);
  EXPECT_LE(merged.live_bytes(), plain.live_bytes());
  EXPECT_LT(merged.steps(), plain.steps());  // as much as fits
  const auto ops = ops_of(merged.graph());
  EXPECT_GT(std::count(ops.begin(), ops.end(), "exp"), 18);
}

TEST(Accumulation, IsInPlace) {
  const Unfused unfused;
  const TensorSpec spec = on_null({1024});
  const auto sum_of_products = [](std::span<const Tensor> in) -> Tensors {
    Tensor t = neg(in[0]);
    for (int i = 2; i < 8; ++i) t = add(t, mul(in[0], i));
    return {t};
  };
  const Plan plan(capture(sum_of_products, {&spec, 1}));
  EXPECT_EQ(plan.planned_bytes(), 3U * 1024 * 4);  // the argument, the sum, a product
}

TEST(Passes, LeaveNothingOfAnEmptyFunction) {
  EXPECT_THAT(ops_after(run_passes, [](const Tensor& x) -> Tensors { return {x}; }), IsEmpty());
}

}  // namespace
}  // namespace mica
