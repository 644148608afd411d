#pragma once

#include <array>
#include <memory>
#include <string>
#include <typeinfo>

#include "mica/core/tensor.h"
#include "mica/op/kernel.h"

namespace mica {

class KernelCache;  // op/select.h

/// Output specs an op infers. Only shape and dtype are needed: dispatch adds the device and, for an
/// output left without strides, the memory format of the first 4-d input.
class OutSpecs {
 public:
  static constexpr int kMaxOutputs = 4;
  explicit OutSpecs(const char* op) : op_(op) {}
  /// The op's name, for the messages of checks that several ops share.
  const char* op() const { return op_; }
  /// Raises ShapeError when a size is negative or the bytes cannot be counted.
  void add(const Shape& shape, DType dtype);
  int size() const { return count_; }
  TensorSpec& operator[](int i) { return specs_[static_cast<size_t>(i)]; }
  std::span<TensorSpec> span() { return {specs_.data(), static_cast<size_t>(count_)}; }

 private:
  const char* op_;
  std::array<TensorSpec, kMaxOutputs> specs_;
  int count_ = 0;
};

/// What a gradient is computed from. Tensors the op does not save are undefined here.
struct VjpArgs {
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  std::span<const Tensor> grad;  ///< one cotangent per output; undefined means zero
  std::span<const TensorSpec> in_specs;
  std::span<const TensorSpec> out_specs;
  uint64_t needed = 0;
  /// False when nobody asks for the gradient of input i.
  bool needs(int i) const { return (needed >> i & 1) != 0; }
};

/// How a view lies in its base: its spec and the elements it starts after.
struct ViewSpec {
  TensorSpec spec;
  int64_t offset = 0;
};

/// The definition of an operator: data and functions, no inheritance. See docs/adding-an-op.md.
struct OpDef {
  const char* name = nullptr;
  const ParamsInfo* params_info = nullptr;
  static constexpr int kUndeclared = -1;
  /// How many inputs a call has, left-out ones included; dispatch checks it.
  int inputs = kUndeclared;
  bool more_inputs = false;  ///< or any larger number, which infer checks
  uint64_t optional = 0;  ///< bit i: input i may be left out; dispatch checks that others are there
  /// What the first input may be (of an op without inputs: the output); dispatch checks it.
  DTypeSet dtypes = kAllDTypes;
  /// Checks the arguments and gives the outputs' shapes and dtypes.
  void (*infer)(const void* params, std::span<const TensorSpec> in, OutSpecs& out) = nullptr;
  /// One gradient per input, undefined where none is needed. Written with ops.
  Tensors (*vjp)(const void* params, const VjpArgs& args) = nullptr;
  const char* no_gradient = nullptr;  ///< the reason, for an op without vjp
  uint64_t saved_inputs = 0;          ///< bit i: vjp reads input i
  uint64_t saved_outputs = 0;
  /// For an op whose output shares its input's memory: no kernel runs.
  ViewSpec (*view)(const void* params, const TensorSpec& in) = nullptr;
  /// True for inputs the op writes to.
  bool (*mutates)(const void* params, int input, int count) = nullptr;
  /// The number of operands of an op whose output element i depends on elements i of them alone, so
  /// that it may be written over one that lies in memory alike; 0 for other ops.
  int elementwise = 0;
  /// Of other ops: whether an output may be written over an input that lies in memory alike.
  bool (*overwrites)(const void* params, int input, int output) = nullptr;
  /// The functor that computes an element, where the op is made of one; its Params are the functor.
  const std::type_info* functor = nullptr;
  std::array<KernelList, kDeviceKinds> kernels;
  std::shared_ptr<KernelCache> cache;

  bool writes(const void* params, int input, int count) const {
    return mutates && mutates(params, input, count);
  }
  bool may_overwrite(const void* params, int input, int output) const {
    return elementwise > 0 || (overwrites && overwrites(params, input, output));
  }
};

namespace detail {

constexpr uint64_t bits(std::initializer_list<int> list) {
  uint64_t m = 0;
  for (const int i : list) m |= uint64_t{1} << i;
  return m;
}

}  // namespace detail

/// Builds an OpDef from typed functions: `Op<ReluParams>("relu").infer<infer>().vjp<vjp>({.out =
/// {0}})`.
template <class P>
class Op {
 public:
  struct Saves {
    std::initializer_list<int> in = {};
    std::initializer_list<int> out = {};
  };

  explicit Op(const char* name) {
    static_assert(sizeof(P) <= AnyParams::kMaxBytes, "Params are too large for AnyParams");
    def_.name = name;
    def_.params_info = &mica::params_info<P>();
  }

  struct MayBeAbsent {
    std::initializer_list<int> optional = {};
  };

  /// How many inputs a call has: `.inputs(3, {.optional = {2}})`. Views and elementwise ops need
  /// not say it.
  Op& inputs(int count, MayBeAbsent which = {}) {
    def_.inputs = count;
    def_.optional = detail::bits(which.optional);
    return *this;
  }
  /// This number of inputs, or more as infer allows.
  Op& inputs_at_least(int count, MayBeAbsent which = {}) {
    def_.more_inputs = true;
    return inputs(count, which);
  }
  Op& dtypes(DTypeSet set) {
    def_.dtypes = set;
    return *this;
  }
  template <auto fn>
  Op& infer() {
    def_.infer = [](const void* p, std::span<const TensorSpec> in, OutSpecs& out) {
      fn(*static_cast<const P*>(p), in, out);
    };
    return *this;
  }
  template <auto fn>
  Op& vjp(Saves saves) {
    def_.vjp = [](const void* p, const VjpArgs& a) {
      return Tensors(fn(*static_cast<const P*>(p), a));
    };
    def_.saved_inputs = detail::bits(saves.in);
    def_.saved_outputs = detail::bits(saves.out);
    return *this;
  }
  Op& no_gradient(const char* reason) {
    def_.no_gradient = reason;
    return *this;
  }
  template <auto fn>
  Op& view() {
    def_.inputs = 1;
    def_.view = [](const void* p, const TensorSpec& in) {
      return fn(*static_cast<const P*>(p), in);
    };
    return *this;
  }
  template <auto fn>
  Op& mutates() {
    def_.mutates = [](const void* p, int i, int n) { return fn(*static_cast<const P*>(p), i, n); };
    return *this;
  }
  template <auto fn>
  Op& overwrites() {
    def_.overwrites = [](const void* p, int input, int output) {
      return fn(*static_cast<const P*>(p), input, output);
    };
    return *this;
  }
  Op& elementwise(int operands) {
    def_.inputs = operands;
    def_.elementwise = operands;
    return *this;
  }
  template <class F>
  Op& functor() {
    def_.functor = &typeid(F);
    return *this;
  }
  Op& cpu(KernelList kernels) {
    def_.kernels[static_cast<int>(DeviceKind::cpu)] = std::move(kernels);
    return *this;
  }
  OpDef build();

 private:
  OpDef def_;
};

std::shared_ptr<KernelCache> make_kernel_cache();

template <class P>
OpDef Op<P>::build() {
  def_.cache = make_kernel_cache();
  return std::move(def_);
}

/// Every operator, in the order of ops/op_list.h, with the kernels of all providers that were
/// built. Implemented in ops/all_ops.cpp.
std::span<OpDef* const> all_ops();

/// Functions that are made of other ops alone and have no definition of their own, by name.
std::span<const char* const> composite_ops();

/// The op named `name`; raises Unsupported.
OpDef& find_op(const std::string& name);

}  // namespace mica
