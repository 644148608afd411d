#include "mica/ops/fused/generator.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "mica/core/check.h"
#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {

const OpDef& copy_op();
const OpDef& floor_divide_op();
const OpDef& remainder_op();
const OpDef& where_op();

namespace {

static_assert(fused::kMostInputs == Program::kMostInputs);
static_assert(fused::kMostOutputs == Program::kMostOutputs);
static_assert(fused::kMostAxes == Dims::kMaxRank);

/// How an input is read.
enum class Reads {
  alike,     ///< it lies like the outputs
  value,     ///< it is one value
  vectors,   ///< it is dense along the innermost axis
  repeated,  ///< it repeats along the innermost axis
  elements,  ///< one by one
};

const char* type_of(DType t) { return info_of(t).source; }

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : "";
}

/// The header that defines a functor; null where none of the embedded ones does.
const EmbeddedHeader* header_of(const std::string& functor) {
  const size_t colon = functor.rfind(':');
  const std::string own = colon == std::string::npos ? functor : functor.substr(colon + 1);
  for (const EmbeddedHeader& h : embedded_headers()) {
    if (!std::string_view(h.name).ends_with("functors.h")) continue;
    for (const std::string& text :
         {"struct " + own + " {", "struct " + own + " : ", own + "::operator()"})
      if (std::strstr(h.text, text.c_str())) return &h;
  }
  return nullptr;
}

using Loop = StridedLoop<Program::kMostInputs + 1>;

Loop loop_of(const Specs& s) {
  std::array<Strides, Program::kMostInputs + 1> strides;
  strides.fill(s.out[0].strides);
  for (size_t k = 0; k < s.in.size(); ++k)
    strides[k + 1] = broadcast_strides(s.in[k], s.out[0].shape);
  return {s.out[0].shape, strides};
}

class Generator {
 public:
  Generator(const Program& program, const Specs& specs)
      : program_(program), specs_(specs), loop_(loop_of(specs)) {}

  /// Instead of results, their reduction, columns of a row at a time.
  void reduce(Fold fold, ReducedRows rows) {
    fold_ = fold;
    rows_ = rows;
  }

  /// Instead of a kernel, what another one does to the first input, which it has in registers.
  void carry(Carries how) { carries_ = how; }

  GeneratedKernel run() {
    for (const TensorSpec& o : specs_.out)
      if (!o.lies_like(specs_.out[0])) return no("its outputs do not lie in memory alike");
    values_ = program_.infer(specs_.in);
    for (const TensorSpec& v : values_)
      if (!type_of(v.dtype)) return no(fmt::format("{} is not computed with", v.dtype));
    lay_out();
    std::string body;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      body += instruction(i);
      if (!kernel_.why_not.empty()) return std::move(kernel_);
    }
    for (const EmbeddedHeader& h : embedded_headers())
      if (headers_.contains(h.name)) kernel_.source += fmt::format("#include \"{}\"\n", h.name);
    kernel_.source += "using namespace mica::fused;\n\n";
    if (rows_) kernel_.source += acc_types();
    kernel_.source += compute(body);
    kernel_.source += carries_ ? carried() : rows_ ? launch_reduction() : launch();
    return std::move(kernel_);
  }

  /// The kernel that makes results of parts.
  std::string finish() const {
    return "#include \"mica/ops/fused/device.h\"\nusing namespace mica::fused;\n\n" + acc_types() +
           start(32, "row") +
           "  const auto* parts = static_cast<const Acc*>(a.in[0]) + row * a.parts;\n"
           "  for (long long i = lane; row < a.rows && i < a.parts; i += 32)\n"
           "    all = Fold::join(all, parts[i]);\n" +
           end(32, type_of(specs_.out[0].dtype), "row");
  }
  DType acc() const { return specs_.out[0].dtype == DType::f64 ? DType::f64 : DType::f32; }

 private:
  GeneratedKernel no(std::string reason) {
    kernel_.why_not = std::move(reason);
    return std::move(kernel_);
  }

  int64_t stride(size_t input, int axis) const {
    return loop_.stride[input + 1][static_cast<size_t>(loop_.rank - 1 - axis)];
  }
  int64_t size(int axis) const { return loop_.size[static_cast<size_t>(loop_.rank - 1 - axis)]; }

  Reads reads(size_t input, int vector) const {
    bool alike = true;
    bool value = true;
    for (int d = 0; d < loop_.rank; ++d) {
      const int64_t own = loop_.stride[0][static_cast<size_t>(loop_.rank - 1 - d)];
      alike = alike && stride(input, d) == own;
      value = value && stride(input, d) == 0;
    }
    if (specs_.in[input].numel() == 1 || value) return Reads::value;
    if (alike) return Reads::alike;
    if (vector == 1) return Reads::elements;
    return stride(input, 0) == 0 ? Reads::repeated : Reads::vectors;
  }

  /// Whether V elements at a time can be read and written, V a power of two.
  bool takes_vectors(int vector) const {
    if (loop_.numel < vector || (loop_.rank > 1 && size(0) % vector != 0)) return false;
    if (rows_ && rows_->columns % vector != 0) return false;
    if (!std::all_of(specs_.out.begin(), specs_.out.end(),
                     [](const TensorSpec& o) { return o.aligned; }))
      return false;
    for (size_t k = 0; k < specs_.in.size(); ++k) {
      const Reads how = reads(k, vector);
      if (how == Reads::value) continue;
      if (how == Reads::alike && !specs_.in[k].aligned) return false;
      if (how == Reads::vectors) {
        if (stride(k, 0) != 1 || !specs_.in[k].aligned) return false;
        for (int d = 1; d < loop_.rank; ++d)
          if (stride(k, d) % vector != 0) return false;
      }
    }
    return true;
  }

  /// Decides how everything is read, and fills the arguments.
  void lay_out() {
    size_t widest = 1;
    for (const TensorSpec& o : specs_.out) widest = std::max(widest, size_of(o.dtype));
    for (size_t k = 0; k < specs_.in.size(); ++k)
      if (reads(k, 1) != Reads::value) widest = std::max(widest, size_of(specs_.in[k].dtype));
    vector_ = static_cast<int>(16 / widest);
    if (!takes_vectors(vector_)) vector_ = 1;
    fused::KernelArgs& a = kernel_.args;
    a.steps = loop_.numel / vector_;
    a.tail = loop_.numel % vector_;
    kernel_.threads = std::max(a.steps, a.tail);
    if (rows_) divide_rows();
    narrow_ = loop_.numel < int64_t{1} << 31;
    for (size_t k = 0; k < specs_.in.size(); ++k) {
      how_.push_back(reads(k, vector_));
      for (int d = 0; d < loop_.rank; ++d) a.stride[k][d] = stride(k, d);
    }
    for (int d = 0; d < loop_.rank; ++d) {
      a.size[d] = size(d);
      if (!narrow_ || a.size[d] == 0) continue;
      // The smallest shift with 2^shift >= size: then a product's high word, and a sum, divide.
      const auto divisor = static_cast<uint64_t>(a.size[d]);
      unsigned shift = 0;
      while ((uint64_t{1} << shift) < divisor) ++shift;
      a.shift[d] = shift;
      a.magic[d] = static_cast<unsigned>(
          (uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor) / divisor + 1);
    }
  }

  /// Rows of few columns get a warp each, others a block, or several where rows are few. A thread
  /// adds no more than some hundred elements: sums of floats stay exact to their last digits.
  void divide_rows() {
    constexpr int64_t kBlocks = 1056;  // eight for each multiprocessor of a large GPU
    constexpr int64_t kLeast = 4;      // vectors of a thread that are worth another block
    constexpr int64_t kMost = 64;
    fused::KernelArgs& a = kernel_.args;
    const int64_t vectors = rows_->columns / vector_;
    lanes_ = vectors >= 2 * fused::kThreads ? fused::kThreads : 32;
    a.rows = rows_->count;
    a.columns = rows_->columns;
    a.parts = 1;
    if (lanes_ == fused::kThreads) {
      const int64_t fitting = std::max<int64_t>(1, vectors / (fused::kThreads * kLeast));
      const int64_t wanted = (kBlocks + a.rows - 1) / a.rows;
      const int64_t needed = vectors / (fused::kThreads * kMost);
      a.parts = std::max(std::min(wanted, fitting), std::max<int64_t>(1, needed));
    }
    kernel_.threads = a.rows * a.parts * lanes_;
  }

  /// "const float v3 = …;"
  std::string instruction(size_t i) {
    const Instruction& one = program_.instructions[i];
    const size_t value = specs_.in.size() + i;
    const bool divides = one.op == &floor_divide_op() || one.op == &remainder_op();
    if (divides && !is_floating(values_[value].dtype)) {
      kernel_.why_not = fmt::format("{} raises where an integer is divided by zero", one.op->name);
      return {};
    }
    const auto operand = [&](size_t k) { return fmt::format("v{}", one.operands[k]); };
    std::string result;
    if (one.op == &where_op()) {
      result = fmt::format("{} ? {} : {}", operand(0), operand(1), operand(2));
    } else {
      std::string arguments;
      for (size_t k = 0; k < one.operands.size(); ++k)
        arguments += fmt::format("{}widen({})", k == 0 ? "" : ", ", operand(k));
      result = arguments;
      if (one.op != &copy_op()) {
        const std::string f = functor(one);
        if (f.empty()) return {};
        result = fmt::format("{}({})", f, arguments);
      }
      result = fmt::format("Into<{}>::from({})", type_of(values_[value].dtype), result);
    }
    return fmt::format("    const {} v{} = {};\n", type_of(values_[value].dtype), value, result);
  }

  /// The functor of an instruction as an expression; its state lies among the arguments.
  std::string functor(const Instruction& one) {
    const std::string name = one.op->functor ? name_of(*one.op->functor) : "";
    const EmbeddedHeader* header = name.empty() ? nullptr : header_of(name);
    if (!header) {
      kernel_.why_not = fmt::format("{} has no functor that can be compiled", one.op->name);
      return {};
    }
    headers_.insert(header->name);
    if (one.op->params_info == &params_info<NoParams>()) return name + "{}";
    const size_t bytes = one.params.ref().info->size;
    const size_t at = state_bytes_;
    state_bytes_ += (bytes + 7) / 8 * 8;
    if (state_bytes_ > sizeof kernel_.args.params) {
      kernel_.why_not = "its functors have too much state";
      return {};
    }
    std::memcpy(kernel_.args.params + at, one.params.ref().data, bytes);
    return fmt::format("(*reinterpret_cast<const {}*>(a.params + {}))", name, at);
  }

  std::string compute(const std::string& body) const {
    const bool given = carries_.has_value();
    std::string s = fmt::format(
        "template <int V{}>\n__device__ void compute(const KernelArgs& a, long long at{}) "
        "{{\n",
        given ? ", class X" : "",
        rows_   ? ", Acc& all"
        : given ? ", X* x"
                : "");
    const size_t loaded = given ? 1 : 0;  // the first input that is
    const bool placed =
        std::any_of(how_.begin() + static_cast<ptrdiff_t>(loaded), how_.end(),
                    [](Reads how) { return how != Reads::alike && how != Reads::value; });
    if (placed)
      s += fmt::format("  const Place<{}, {}> place(a, at);\n", narrow_ ? "unsigned" : "long long",
                       loop_.rank);
    for (size_t k = loaded; k < specs_.in.size(); ++k) {
      const Reads how = how_[k];
      const bool one = how == Reads::value || how == Reads::repeated;
      const std::string at = how == Reads::alike   ? "at"
                             : how == Reads::value ? "0"
                                                   : fmt::format("place.of(a, {})", k);
      s += fmt::format("  const auto x{} = {}<{}, V>(a.in[{}], {});\n", k, one ? "repeat" : "load",
                       type_of(specs_.in[k].dtype), k, at);
    }
    const size_t stored = rows_ || (given && !carries_->stores) ? 0 : specs_.out.size();
    for (size_t k = 0; k < stored; ++k)
      s += fmt::format("  Vec<{}, V> y{};\n", type_of(specs_.out[k].dtype), k);
    s += "#pragma unroll\n  for (int e = 0; e < V; ++e) {\n";
    if (given)
      s += fmt::format("    const {0} v0 = Into<{0}>::from(x[e]);\n", type_of(specs_.in[0].dtype));
    for (size_t k = loaded; k < specs_.in.size(); ++k)
      s += fmt::format("    const {} v{} = x{}.v[e];\n", type_of(specs_.in[k].dtype), k, k);
    s += body;
    if (rows_)
      return s + fmt::format("    all = Fold::join(all, widen(v{}));\n  }}\n}}\n\n",
                             specs_.in.size() + static_cast<size_t>(program_.outputs[0]));
    // What is kept of the first input comes after the program's results.
    const auto result = [&](size_t k) {
      return k < program_.outputs.size()
                 ? specs_.in.size() + static_cast<size_t>(program_.outputs[k])
                 : 0;
    };
    for (size_t k = 0; k < stored; ++k) s += fmt::format("    y{}.v[e] = v{};\n", k, result(k));
    if (given && carries_->returns) s += fmt::format("    x[e] = widen(v{});\n", result(0));
    s += "  }\n";
    for (size_t k = 0; k < stored; ++k)
      s += fmt::format("  store<{}, V>(a.out[{}], at, y{});\n", type_of(specs_.out[k].dtype), k, k);
    return s + "}\n\n";
  }

  std::string launch() const {
    std::string s =
        "extern \"C\" __global__ void __launch_bounds__(kThreads)\n"
        "    fused(const __grid_constant__ KernelArgs a) {\n"
        "  wait_for_inputs();\n"
        "  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;\n";
    s += fmt::format("  if (i < a.steps) compute<{}>(a, i * {});\n", vector_, vector_);
    if (vector_ > 1)
      s += fmt::format("  if (i < a.tail) compute<1>(a, a.steps * {} + i);\n", vector_);
    return s + "}\n";
  }

  std::string carried() const {
    return fmt::format(
        "struct Carried {{\n"
        "  const KernelArgs& a;\n"
        "  template <int V, class X>\n"
        "  __device__ void operator()(long long at, X (&x)[V]) const {{\n"
        "    constexpr int kTogether = V < {0} ? V : {0};\n"
        "#pragma unroll\n"
        "    for (int e = 0; e < V; e += kTogether) compute<kTogether>(a, at + e, x + e);\n"
        "  }}\n"
        "}};\n\n",
        vector_);
  }

  std::string acc_types() const {
    constexpr const char* kFolds[] = {"Sum", "Max", "Min"};
    return fmt::format("using Acc = {};\nusing Fold = {}<Acc>;\n\n", type_of(acc()),
                       kFolds[static_cast<size_t>(fold_)]);
  }
  /// Names what a thread works for, a row or a part of one, and its lane.
  static std::string start(int lanes, const char* what) {
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(kThreads)\n"
        "    fused(const __grid_constant__ KernelArgs a) {{\n"
        "  wait_for_inputs();\n"
        "  const long long i0 = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;\n"
        "  const int lane = threadIdx.x % {};\n"
        "  const long long {} = i0 / {};\n"
        "  Acc all = Fold::none();\n",
        lanes, what, lanes);
  }
  /// The first lane stores what the lanes have.
  static std::string end(int lanes, const char* type, const char* at) {
    return fmt::format(
        "  all = join_lanes<Fold, {}>(all);\n"
        "  if (lane == 0 && row < a.rows)\n"
        "    static_cast<{}*>(a.out[0])[{}] = Into<{}>::from(all);\n"
        "}}\n",
        lanes, type, at, type);
  }
  std::string launch_reduction() const {
    const bool divided = kernel_.args.parts > 1;
    std::string s = start(lanes_, divided ? "block" : "row");
    if (divided)
      s += "  const long long row = block / a.parts;\n"
           "  const long long part = block - row * a.parts;\n";
    s += fmt::format("  const long long vectors = a.columns / {};\n", vector_);
    s += divided ? "  const long long begin = vectors * part / a.parts;\n"
                   "  const long long stop = vectors * (part + 1) / a.parts;\n"
                 : "  const long long begin = 0;\n"
                   "  const long long stop = row < a.rows ? vectors : 0;\n";
    s += fmt::format(
        "#pragma unroll 4\n"
        "  for (long long i = begin + lane; i < stop; i += {})\n"
        "    compute<{}>(a, row * a.columns + i * {}, all);\n",
        lanes_, vector_, vector_);
    return s + (divided ? end(lanes_, "Acc", "block")
                        : end(lanes_, type_of(specs_.out[0].dtype), "row"));
  }

  const Program& program_;
  const Specs& specs_;
  Loop loop_;
  GeneratedKernel kernel_;
  std::vector<TensorSpec> values_;
  std::vector<Reads> how_;
  std::set<std::string> headers_ = {"mica/ops/fused/device.h"};
  int vector_ = 1;
  bool narrow_ = true;
  Fold fold_ = Fold::sum;
  std::optional<ReducedRows> rows_;  ///< of a reduction
  std::optional<Carries> carries_;
  int lanes_ = 0;  ///< threads of a row, or of a part of it
  size_t state_bytes_ = 0;
};

}  // namespace

GeneratedKernel generate_kernel(const Program& program, const Specs& specs) {
  return Generator(program, specs).run();
}

GeneratedKernel generate_carried(const Program& program, const Specs& specs, Carries how) {
  Generator generator(program, specs);
  generator.carry(how);
  return generator.run();
}

std::string carrying_kernel(const CarryingSource& source, const GeneratedKernel& program) {
  return fmt::format(
      "{}#include \"{}\"\n{}"
      "extern \"C\" __global__ void __launch_bounds__({})\n"
      "    fused({}, const __grid_constant__ KernelArgs end) {{\n  {}\n}}\n",
      source.few_digits ? "#include \"mica/ops/fused/few_digits.h\"\n" : "", source.header,
      program.source, source.bounds, source.parameters, source.body);
}

GeneratedReduction generate_reduction(const FusedReduceParams& params, const Specs& specs) {
  GeneratedReduction all;
  const TensorSpec whole = reduced_tensor(*params.program, specs.in);
  const std::optional<ReducedRows> rows = rows_of(whole.shape, params.reduce.axes);
  if (whole.numel() == 0) all.kernel.why_not = "there is nothing to reduce";
  if (!rows) all.kernel.why_not = "the axes are not the last ones";
  if (!all.kernel.why_not.empty()) return all;
  const Specs inside{specs.in, {&whole, 1}};
  Generator generator(*params.program, inside);
  generator.reduce(params.fold, *rows);
  all.kernel = generator.run();
  all.acc = generator.acc();
  if (all.kernel.args.parts > 1) {
    all.finish = generator.finish();
    all.finish_threads = rows->count * 32;
  }
  return all;
}

}  // namespace mica
