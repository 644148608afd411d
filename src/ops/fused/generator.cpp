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

const char* type_of(DType t) {
  switch (t) {
    case DType::f64:
      return "double";
    case DType::f32:
      return "float";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "long long";
    case DType::i32:
      return "int";
    case DType::u8:
      return "unsigned char";
    case DType::boolean:
      break;
  }
  return "bool";
}

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
  for (const EmbeddedHeader& h : embedded_headers())
    for (const char* end : {" {", " : "})
      if (std::strstr(h.text, ("struct " + own + end).c_str())) return &h;
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

  GeneratedKernel run() {
    for (const TensorSpec& o : specs_.out)
      if (!o.lies_like(specs_.out[0])) return no("its outputs do not lie in memory alike");
    values_ = program_.infer(specs_.in);
    lay_out();
    std::string body;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      body += instruction(i);
      if (!kernel_.why_not.empty()) return std::move(kernel_);
    }
    for (const EmbeddedHeader& h : embedded_headers())
      if (headers_.contains(h.name)) kernel_.source += fmt::format("#include \"{}\"\n", h.name);
    kernel_.source += "using namespace mica::fused;\n\n";
    kernel_.source += compute(body);
    kernel_.source += launch();
    return std::move(kernel_);
  }

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

  /// "const float v3 = …;"
  std::string instruction(size_t i) {
    const Instruction& one = program_.instructions[i];
    const size_t value = specs_.in.size() + i;
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
    std::string s =
        "template <int V>\n__device__ void compute(const KernelArgs& a, long long at) {\n";
    const bool placed = std::any_of(how_.begin(), how_.end(), [](Reads how) {
      return how != Reads::alike && how != Reads::value;
    });
    if (placed)
      s += fmt::format("  const Place<{}, {}> place(a, at);\n", narrow_ ? "unsigned" : "long long",
                       loop_.rank);
    for (size_t k = 0; k < specs_.in.size(); ++k) {
      const Reads how = how_[k];
      const bool one = how == Reads::value || how == Reads::repeated;
      const std::string at = how == Reads::alike   ? "at"
                             : how == Reads::value ? "0"
                                                   : fmt::format("place.of(a, {})", k);
      s += fmt::format("  const auto x{} = {}<{}, V>(a.in[{}], {});\n", k, one ? "repeat" : "load",
                       type_of(specs_.in[k].dtype), k, at);
    }
    for (size_t k = 0; k < specs_.out.size(); ++k)
      s += fmt::format("  Vec<{}, V> y{};\n", type_of(specs_.out[k].dtype), k);
    s += "#pragma unroll\n  for (int e = 0; e < V; ++e) {\n";
    for (size_t k = 0; k < specs_.in.size(); ++k)
      s += fmt::format("    const {} v{} = x{}.v[e];\n", type_of(specs_.in[k].dtype), k, k);
    s += body;
    for (size_t k = 0; k < specs_.out.size(); ++k)
      s += fmt::format("    y{}.v[e] = v{};\n", k,
                       specs_.in.size() + static_cast<size_t>(program_.outputs[k]));
    s += "  }\n";
    for (size_t k = 0; k < specs_.out.size(); ++k)
      s += fmt::format("  store<{}, V>(a.out[{}], at, y{});\n", type_of(specs_.out[k].dtype), k, k);
    return s + "}\n\n";
  }

  std::string launch() const {
    std::string s =
        "extern \"C\" __global__ void __launch_bounds__(kThreads)\n"
        "    fused(const __grid_constant__ KernelArgs a) {\n"
        "  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;\n";
    s += fmt::format("  if (i < a.steps) compute<{}>(a, i * {});\n", vector_, vector_);
    if (vector_ > 1)
      s += fmt::format("  if (i < a.tail) compute<1>(a, a.steps * {} + i);\n", vector_);
    return s + "}\n";
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
  size_t state_bytes_ = 0;
};

}  // namespace

GeneratedKernel generate_kernel(const Program& program, const Specs& specs) {
  return Generator(program, specs).run();
}

}  // namespace mica
