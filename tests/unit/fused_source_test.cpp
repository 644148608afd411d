// The source of generated kernels; compiled for a GPU that need not be there.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "mica/mica.h"
#include "mica/ops/batch_norm/statistics.h"
#include "mica/ops/fused/generator.h"

namespace mica {
namespace {

using testing::HasSubstr;

template <class P = NoParams>
Instruction call(const char* op, std::vector<int> operands, const P& params = {}) {
  return {&find_op(op), AnyParams(ParamsRef::of(params)), std::move(operands)};
}

GeneratedKernel generate(const Program& program, const std::vector<TensorSpec>& in) {
  std::vector<TensorSpec> out;
  const std::vector<TensorSpec> values = program.infer(in);
  for (const int o : program.outputs) {
    out.push_back(values[static_cast<size_t>(program.inputs) + static_cast<size_t>(o)]);
    out.back().strides = contiguous_strides(out.back().shape);
  }
  return generate_kernel(program, {in, out});
}

TensorSpec spec(const Shape& shape, DType dtype = DType::f32) {
  return TensorSpec::contiguous(shape, dtype);
}

const Program& chain() {
  static const Program p{
      2,
      {call("mul", {0, 1}), call("leaky_relu", {2}, LeakyReluParams{0.5}), call("exp", {3})},
      {2}};
  return p;
}

TEST(FusedSource, CallsTheSharedFunctors) {
  const GeneratedKernel k = generate(chain(), {spec({10, 101}), spec({})});
  EXPECT_EQ(k.why_not, "");
  EXPECT_EQ(k.source,
            R"(#include "mica/ops/fused/device.h"
#include "mica/ops/activation/functors.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/math/functors.h"
using namespace mica::fused;

template <int V>
__device__ void compute(const KernelArgs& a, long long at) {
  const auto x0 = load<float, V>(a.in[0], at);
  const auto x1 = repeat<float, V>(a.in[1], 0);
  Vec<float, V> y0;
#pragma unroll
  for (int e = 0; e < V; ++e) {
    const float v0 = x0.v[e];
    const float v1 = x1.v[e];
    const float v2 = Into<float>::from(mica::functor::Mul{}(widen(v0), widen(v1)));
    const float v3 = Into<float>::from((*reinterpret_cast<const mica::functor::LeakyRelu*>(a.params + 0))(widen(v2)));
    const float v4 = Into<float>::from(mica::functor::Exp{}(widen(v3)));
    y0.v[e] = v4;
  }
  store<float, V>(a.out[0], at, y0);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    fused(const __grid_constant__ KernelArgs a) {
  wait_for_inputs();
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < a.steps) compute<4>(a, i * 4);
  if (i < a.tail) compute<1>(a, a.steps * 4 + i);
}
)");
  EXPECT_EQ(k.args.steps, 252);
  EXPECT_EQ(k.args.tail, 2);
  double slope = 0;
  std::memcpy(&slope, k.args.params, sizeof slope);
  EXPECT_EQ(slope, 0.5);
}

TEST(FusedSource, DependsOnTheLayoutAndNotOnTheSizes) {
  const std::string rows = generate(chain(), {spec({6, 64}), spec({64})}).source;
  EXPECT_EQ(rows, generate(chain(), {spec({8, 4}), spec({4})}).source);
  EXPECT_THAT(rows, HasSubstr("Place<unsigned, 2> place(a, at)"));
  EXPECT_THAT(rows, HasSubstr("load<float, V>(a.in[1], place.of(a, 1))"));
  EXPECT_THAT(rows, HasSubstr("compute<4>"));
  const std::string columns = generate(chain(), {spec({6, 64}), spec({6, 1})}).source;
  EXPECT_THAT(columns, HasSubstr("repeat<float, V>(a.in[1], place.of(a, 1))"));
  // Rows that are no whole vectors, and memory that starts anywhere, are read one by one.
  EXPECT_THAT(generate(chain(), {spec({6, 63}), spec({63})}).source,
              HasSubstr("compute<1>(a, i * 1)"));
  TensorSpec anywhere = spec({6, 64});
  anywhere.aligned = false;
  EXPECT_THAT(generate(chain(), {anywhere, spec({6, 64})}).source,
              HasSubstr("compute<1>(a, i * 1)"));
  EXPECT_THAT(generate(chain(), {spec({6, 64}, DType::f16), spec({6, 64}, DType::f16)}).source,
              HasSubstr("compute<8>"));
  const TensorSpec huge = spec({int64_t{1} << 20, 1 << 12});
  EXPECT_THAT(generate(chain(), {huge, spec({1 << 12})}).source, HasSubstr("Place<long long, 2>"));
}

GeneratedReduction reduction(Fold fold, const Program& program, const std::vector<TensorSpec>& in,
                             const Dims& axes) {
  const FusedReduceParams params{intern(program), fold, {axes, false}};
  TensorSpec out = reduced_tensor(program, in);
  Shape kept;
  for (int i = 0; i < out.rank(); ++i)
    if (!axes.contains(i)) kept.push_back(out.shape[i]);
  out.shape = kept;
  out.strides = contiguous_strides(kept);
  return generate_reduction(params, {in, {&out, 1}});
}

TEST(FusedSource, OfAReductionReadsARowByAWarpOrABlock) {
  const GeneratedReduction narrow =
      reduction(Fold::sum, chain(), {spec({640, 64}), spec({64})}, {1});
  EXPECT_THAT(narrow.kernel.source, HasSubstr("using Fold = Sum<Acc>;"));
  EXPECT_THAT(narrow.kernel.source, HasSubstr(R"(    all = Fold::join(all, widen(v4));
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    fused(const __grid_constant__ KernelArgs a) {
  wait_for_inputs();
  const long long i0 = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const int lane = threadIdx.x % 32;
  const long long row = i0 / 32;
  Acc all = Fold::none();
  const long long vectors = a.columns / 4;
  const long long begin = 0;
  const long long stop = row < a.rows ? vectors : 0;
#pragma unroll 4
  for (long long i = begin + lane; i < stop; i += 32)
    compute<4>(a, row * a.columns + i * 4, all);
  all = join_lanes<Fold, 32>(all);
  if (lane == 0 && row < a.rows)
    static_cast<float*>(a.out[0])[row] = Into<float>::from(all);
}
)"));
  EXPECT_EQ(narrow.kernel.threads, 640 * 32);
  EXPECT_EQ(narrow.finish, "");
  const GeneratedReduction wide =
      reduction(Fold::max, chain(), {spec({5000, 4096}), spec({4096})}, {1});
  EXPECT_THAT(wide.kernel.source, HasSubstr("join_lanes<Fold, 128>"));
  EXPECT_EQ(wide.kernel.threads, 5000 * 128);
  EXPECT_EQ(wide.kernel.args.parts, 1);
}

TEST(FusedSource, OfALargeReductionHasTwoStages) {
  const GeneratedReduction all = reduction(
      Fold::sum, chain(), {spec({4096, 4096}, DType::bf16), spec({}, DType::bf16)}, {0, 1});
  EXPECT_EQ(all.kernel.args.rows, 1);
  EXPECT_EQ(all.kernel.args.parts, 1056);
  EXPECT_EQ(all.kernel.threads, 1056 * 128);
  EXPECT_EQ(all.acc, DType::f32);
  EXPECT_THAT(all.kernel.source, HasSubstr("static_cast<Acc*>(a.out[0])[block]"));
  EXPECT_THAT(all.finish, HasSubstr("static_cast<bf16*>(a.out[0])[row]"));
  EXPECT_EQ(all.finish_threads, 32);
  EXPECT_EQ(reduction(Fold::sum, chain(), {spec({8, 8}), spec({})}, {0}).kernel.why_not,
            "the axes are not the last ones");
}

/// Ops of complex numbers, for which no code is generated.
bool of_complex_numbers(const OpDef& op) {
  static const std::set<std::string> names = {"complex", "real",  "imag",
                                              "conj",    "angle", "complex_abs"};
  return names.contains(op.name);
}

TEST(FusedSource, EveryElementwiseOpHasOne) {
  for (const OpDef* op : all_ops()) {
    if (op->elementwise == 0 || of_complex_numbers(*op)) continue;
    const bool known = op->functor || op == &find_op("copy") || op == &find_op("where");
    EXPECT_TRUE(known) << op->name;
  }
}

class Compiler : public testing::Test {
 protected:
  using Compile = bool (*)(const char* source, const char* architecture, char* reason, size_t);

  void SetUp() override {
    const auto library =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "compile_source.so";
    if (!std::filesystem::exists(library)) GTEST_SKIP() << "built without CUDA";
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    compile_ = reinterpret_cast<Compile>(dlsym(handle, "mica_compile_source"));
    ASSERT_NE(compile_, nullptr);
  }

  void expect_compiles(const GeneratedKernel& k, const char* architecture = "sm_90") const {
    ASSERT_EQ(k.why_not, "");
    std::string reason(4096, '\0');
    EXPECT_TRUE(compile_(k.source.c_str(), architecture, reason.data(), reason.size()))
        << reason.c_str() << "\n"
        << k.source;
  }

  Compile compile_ = nullptr;
};

/// Every elementwise op that takes a dtype, as many in a program as may be.
TEST_F(Compiler, TakesEveryOpInEveryDType) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16,
        DType::i8, DType::u64, DType::u32, DType::u16, DType::u8, DType::boolean}) {
    Program program{2, {}, {0}};
    const auto finish = [&] {
      if (program.instructions.empty()) return;
      expect_compiles(generate(program, {spec({64}, dtype), spec({64}, DType::boolean)}));
      program.instructions.clear();
    };
    for (const OpDef* op : all_ops()) {
      if (op->elementwise == 0 || of_complex_numbers(*op)) continue;
      const bool chooses = op == &find_op("where");
      // Whole numbers divided by zero raise, which a generated kernel cannot.
      const bool divides = op == &find_op("floor_divide") || op == &find_op("remainder");
      if (divides && !is_floating(dtype)) continue;
      if (!op->dtypes.contains(dtype) && !chooses) continue;
      const std::vector<std::byte> zeros(op->params_info->size);
      Instruction one{op, AnyParams({zeros.data(), op->params_info}),
                      std::vector<int>(static_cast<size_t>(op->elementwise), 0)};
      if (chooses) one.operands[0] = 1;
      program.instructions.push_back(std::move(one));
      if (program.instructions.size() == Program::kMostInstructions) finish();
    }
    finish();
  }
}

TEST_F(Compiler, TakesEveryWayToRead) {
  expect_compiles(generate(chain(), {spec({6, 64}), spec({6, 1})}));
  expect_compiles(generate(chain(), {spec({6, 5, 63}), spec({5, 1})}));
  expect_compiles(generate(chain(), {spec({int64_t{1} << 20, 1 << 12}), spec({1 << 12})}));
  expect_compiles(generate({2,
                            {call("copy", {0}, CopyParams{DType::f16}),
                             call("copy", {1}, CopyParams{DType::u8}), call("lt", {0, 1})},
                            {0, 1, 2}},
                           {spec({640}), spec({640})}));
}

TEST_F(Compiler, TakesEveryReduction) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Fold fold : {Fold::sum, Fold::max, Fold::min}) {
      const std::vector<TensorSpec> large = {spec({4, 1 << 16}, dtype), spec({4, 1}, dtype)};
      const GeneratedReduction divided = reduction(fold, chain(), large, {1});
      expect_compiles(divided.kernel);
      expect_compiles({.why_not = {}, .source = divided.finish});
    }
  expect_compiles(reduction(Fold::sum, chain(), {spec({90, 7}), spec({7})}, {1}).kernel);
  expect_compiles(reduction(Fold::max, chain(), {spec({9000, 3000}), spec({3000})}, {1}).kernel);
}

/// The kernels of the rooms, with a program after them that reads more tensors, casts and keeps
/// the kernel's own result.
TEST_F(Compiler, TakesEveryKernelThatCarries) {
  const Program program{3,
                        {call("add", {0, 1}), call("mul", {3, 2}), call("silu", {4}),
                         call("copy", {5}, CopyParams{DType::f16})},
                        {3}};
  const auto compiles = [&](DType dtype, const CarryingSource& source) {
    const std::vector<TensorSpec> in = {spec({6, 64}, dtype), spec({6, 64}, dtype),
                                        spec({64}, dtype)};
    const std::vector<TensorSpec> out = {spec({6, 64}, DType::f16), spec({6, 64}, dtype)};
    const GeneratedKernel one = generate_carried(program, {in, out}, {});
    ASSERT_EQ(one.why_not, "");
    expect_compiles({.why_not = {}, .source = carrying_kernel(source, one)}, "sm_90a");
  };
  for (const auto& [header, kernel] :
       {std::pair{"split_k", "product<mica::small_product::Blocks<32, 32, 8, 16, 3>, true, false>"},
        std::pair{"direct", "direct_product<true>"}, std::pair{"thin", "dots<2, 10, 4>"},
        std::pair{"thin", "spread<2, 4, 1>"}, std::pair{"thin", "columns<16>"}})
    compiles(DType::f32,
             {.header = fmt::format("mica/ops/matmul/cuda_{}.cuh", header),
              .parameters = "const mica::SmallProduct p",
              .body = fmt::format("mica::small_product::{}(p, Carried{{end}});", kernel),
              .bounds = "256"});
  compiles(DType::f32, {.header = "mica/ops/conv2d/cuda_implicit_gemm.cuh",
                        .parameters = "const __grid_constant__ mica::implicit_gemm::ForwardPlan p, "
                                      "const float* x, const float* weight, const float* bias",
                        .body = "mica::implicit_gemm::conv_forward<4, false>(p, x, weight, bias, "
                                "Carried{end});",
                        .bounds = "512"});
  compiles(DType::f32,
           {.header = "mica/ops/conv2d/cuda_implicit_dgrad.cuh",
            .parameters = "const __grid_constant__ mica::implicit_dgrad::Plan p, const float* dy, "
                          "const int* positions, const float* weight",
            .body = "mica::implicit_dgrad::conv2d_dgrad_rows<3, 4, 16, 4>(p, dy, positions, "
                    "weight, mica::implicit_dgrad::ProgramEnd<Carried>{Carried{end}});",
            .bounds = "512, 1"});
  for (const char* types :
       {"float, float, float, 4", "f16, f16, float, 8", "bf16, float, float, 1"})
    for (const char* ends :
         {"Nothing{}, Carried{end}", "Carried{end}, mica::row_norm::Store<f16>{y}"})
      compiles(DType::f32,
               {.header = "mica/ops/layer_norm/cuda_row_norm.cuh",
                .parameters = "const __grid_constant__ mica::row_norm::RowNorm p, f16* y",
                .body = fmt::format("using mica::row_norm::Nothing;\n  "
                                    "mica::row_norm::normalise<{}>(p, {});",
                                    types, ends),
                .bounds = "512"});
  for (const auto& [dtype, type] : {std::pair{DType::f32, "float"}, std::pair{DType::f16, "f16"},
                                    std::pair{DType::bf16, "bf16"}})
    for (const int tile : {128, 192})
      compiles(dtype, {.header = "mica/ops/matmul/cuda_wgmma.cuh",
                       .parameters = "const __grid_constant__ mica::wgmma::Problem p, "
                                     "const __grid_constant__ mica::wgmma::TensorMap a, "
                                     "const __grid_constant__ mica::wgmma::TensorMap b",
                       .body = fmt::format("mica::wgmma::product<{}, {}>(p, a, b, Carried{{end}});",
                                           type, tile),
                       .bounds = "384, 1",
                       .few_digits = true});
}

TEST_F(Compiler, TakesTheLastPassOfABatchNorm) {
  Anchored whole{.op = &find_op("batch_norm"),
                 .params = AnyParams(ParamsRef::of(BatchNormParams{.training = true}))};
  whole.after = intern(Program{2, {call("add", {0, 1}), call("silu", {2})}, {1}});
  whole.keeps_result = true;
  const AnchoredParams params{intern(whole)};
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const DType statistics = dtype == DType::f64 ? DType::f64 : DType::f32;
    const TensorSpec images = spec({4, 8, 5, 6}, dtype);
    const TensorSpec channels = spec({8}, statistics);
    const std::vector<TensorSpec> in = {images, channels, channels, channels, channels, images};
    const std::vector<TensorSpec> out = {images, images, channels, channels};
    const auto pass = batch_norm_pass(params, {in, out});
    ASSERT_TRUE(pass.has_value());
    EXPECT_EQ(pass->from, (std::vector<int>{0, -1, -2, 1, 2, 5}));
    expect_compiles(generate_kernel(pass->program, {pass->in, std::span(out).first(2)}));
  }
}

TEST_F(Compiler, SaysWhatIsWrong) {
  char reason[1024] = {};
  EXPECT_FALSE(compile_("nonsense", "sm_90", reason, sizeof reason));
  EXPECT_THAT(reason,
              HasSubstr("NVRTC: NVRTC_ERROR_COMPILATION for sm_90: generated.cu(1): error"));
}

}  // namespace
}  // namespace mica
