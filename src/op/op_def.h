#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "mica/core/index_set.h"
#include "mica/core/inline_vector.h"
#include "mica/core/tensor.h"
#include "mica/op/kernel.h"
#include "mica/op/precision.h"

namespace mica {

class KernelCache;  // op/select.h

/// Output specs an op infers. Only shape and dtype are needed: dispatch adds the device and, for an
/// output left without strides, the memory format of the first 4-d input.
class OutSpecs {
 public:
  explicit OutSpecs(const char* op) : op_(op) {}
  /// The op's name, for the messages of checks that several ops share.
  const char* op() const { return op_; }
  /// Raises ShapeError when a size is negative or the bytes cannot be counted.
  void add(const Shape& shape, DType dtype);
  int size() const { return specs_.size(); }
  TensorSpec& operator[](int i) { return specs_[i]; }
  std::span<TensorSpec> span() { return specs_.span(); }

 private:
  const char* op_;
  InlineVector<TensorSpec, 4> specs_;
};

/// What a gradient is computed from. Tensors the op does not save are undefined here.
struct VjpArgs {
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  std::span<const Tensor> grad;  ///< one cotangent per output; undefined means zero
  std::span<const TensorSpec> in_specs;
  std::span<const TensorSpec> out_specs;
  IndexSet needed;
  /// False when nobody asks for the gradient of input i.
  bool needs(int i) const { return needed.contains(i); }
};

/// An input or output that a vjp reads, and for the gradients of which inputs; for all of them,
/// where none is named. It is kept until backward only where one of those is wanted.
class Saved {
 public:
  Saved(int i) : i_(i), for_all_(true) {}  // NOLINT(google-explicit-constructor)
  Saved(int i, std::initializer_list<int> gradients) : i_(i), gradients_(gradients) {}
  int index() const { return i_; }
  bool serves(const IndexSet& needed) const { return for_all_ || gradients_.intersects(needed); }

 private:
  int i_;
  bool for_all_ = false;
  IndexSet gradients_;
};

/// How a view lies in its base: its spec and the elements it starts after.
struct ViewSpec {
  TensorSpec spec;
  int64_t offset = 0;
};

/// Whether the memory format (row-major or channels_last) of an input or output is the op's affair.
enum class Format : uint8_t {
  none,    ///< not an image: no axis of channels, or none that matters
  images,  ///< (N, C, H, W) in either format; results have that of the images that come in
  weight,  ///< (O, C, kH, kW), best in the format of the images
  fixed,   ///< in the format that the op's parameters say
};

/// One input or output of an op.
struct Slot {
  std::string name;
  bool optional = false;  ///< an input that may be left out, an output that is not always there
  Format format = Format::none;
};

/// What simplification may take for granted of an op, element by element.
struct Algebra {
  bool commutes = false;    ///< f(a, b) = f(b, a)
  bool involution = false;  ///< f(f(x)) = x
  bool idempotent = false;  ///< f(f(x)) = f(x)
  /// f(e, x) = x and f(x, e) = x for every x, to the bit: of floats the sign of a zero counts.
  std::optional<double> left_identity = {};
  std::optional<double> right_identity = {};
  /// The value for numbers, where rounding it to any dtype gives what the op gives in that dtype.
  double (*fold)(double a, double b) = nullptr;
};

/// An op that sums products of its first input with a weight: result channel c is made with row c
/// of the weight, input 1, and element c of the bias, input 2.
struct Contraction {
  int channel_axis = 1;  ///< of the first output; -1: the last
};

/// An op that takes a number from each channel of its first input, axis 1, multiplies what is left
/// by one and adds one: (x - centre) * scale + shift.
struct ChannelScale {
  /// Whether it does, with these parameters.
  bool (*applies)(const OpDef& op, const void* params);
  /// {centre, scale, shift}, each (C), made of the other inputs; the first one is undefined here.
  /// The shift may be undefined.
  Tensors (*numbers)(const OpDef& op, const void* params, std::span<const Tensor> in);
};

/// The definition of an operator: data and functions, no inheritance. Whatever anybody has to know
/// of an op is asked for here, never by its name. See docs/adding-an-op.md.
struct OpDef {
  // Compiled in op_def.cpp, not in every room.
  OpDef();
  OpDef(const OpDef& other);
  OpDef(OpDef&& other) noexcept;
  OpDef& operator=(const OpDef& other);
  OpDef& operator=(OpDef&& other) noexcept;
  ~OpDef();

  const char* name = nullptr;
  const ParamsInfo* params_info = nullptr;
  /// The inputs in order, left-out ones included; dispatch checks their number. The outputs that
  /// `infer` gives.
  std::vector<Slot> in;
  std::vector<Slot> out;
  bool more_inputs = false;  ///< the last input may come any number of times, which infer checks
  bool more_outputs = false;
  /// What the first input may be (of an op without inputs: the output); dispatch checks it.
  DTypeSet dtypes = kComputedDTypes;
  Precision precision = Precision::any;
  /// Checks the arguments and gives the outputs' shapes and dtypes.
  void (*infer)(const OpDef& op, const void* params, std::span<const TensorSpec> in,
                OutSpecs& out) = nullptr;
  /// One gradient per input, undefined where none is needed. Written with ops.
  Tensors (*vjp)(const OpDef& op, const void* params, const VjpArgs& args) = nullptr;
  const char* no_gradient = nullptr;  ///< the reason, for an op without vjp
  std::vector<Saved> saved_inputs;    ///< what vjp reads
  std::vector<Saved> saved_outputs;
  /// For an op whose output shares its input's memory: no kernel runs.
  ViewSpec (*view)(const OpDef& op, const void* params, const TensorSpec& in) = nullptr;
  /// Of a view: its parameters alone say what is seen, so that a view of a view of this op is one
  /// such view of the first tensor, where that shows the same (reshape, expand).
  bool view_absorbs = false;
  /// Of a view that only puts the axes of its input in another order: which of them each of its own
  /// is.
  Dims (*axis_order)(const OpDef& op, const void* params) = nullptr;
  /// True for inputs the op writes to. An op that must keep its place among others of its kind
  /// writes to a token that they share.
  bool (*mutates)(const OpDef& op, const void* params, int input, int count) = nullptr;
  /// The number of operands of an op whose output element i depends on elements i of them alone, so
  /// that it may be written over one that lies in memory alike; 0 for other ops.
  int elementwise = 0;
  /// Of other ops: whether an output may be written over an input that lies in memory alike.
  bool (*overwrites)(const OpDef& op, const void* params, int input, int output) = nullptr;
  /// The functor that computes an element, where the op is made of one; its Params are the functor.
  const std::type_info* functor = nullptr;
  /// The result has the values of the input, in another dtype or layout: a cast or a copy.
  bool copies = false;
  /// Input 0 is overwritten with the values of input 1, in the dtype and layout it has.
  bool copies_over = false;
  /// Values are only moved: every kernel takes every dtype.
  bool moves = false;
  /// The result has the elements of all inputs, which are of one dtype: a cast may come before or
  /// after.
  bool joins = false;
  /// Of an op without inputs: the number that every element of its result is.
  Number (*fills_with)(const OpDef& op, const void* params) = nullptr;
  bool reduction = false;  ///< sums or otherwise folds axes of its input away
  std::optional<Contraction> contraction;
  std::optional<ChannelScale> channel_scale;
  Algebra algebra;
  /// Inputs that elementwise calls may come before, outputs that they may follow, in one kernel
  /// with the op.
  IndexSet carries_before;
  IndexSet carries_after;
  /// Multiplications and additions of a call; null where memory decides how long it takes.
  double (*flops)(const OpDef& op, const void* params, const Specs& specs) = nullptr;
  const char* in_bytes = nullptr;  ///< the op that computes it with int8, where there is one
  std::array<KernelList, kDeviceKinds> kernels;
  std::shared_ptr<KernelCache> cache;
  std::shared_ptr<const void> data;  ///< what the functions of an op made at run time work with

  int inputs() const { return static_cast<int>(in.size()); }
  const Slot& input(int i) const { return in[std::min(static_cast<size_t>(i), in.size() - 1)]; }
  bool writes(const void* params, int input, int count) const {
    return mutates && mutates(*this, params, input, count);
  }
  bool may_overwrite(const void* params, int input, int output) const {
    return elementwise > 0 || (overwrites && overwrites(*this, params, input, output));
  }
};

std::shared_ptr<KernelCache> make_kernel_cache();

/// What of building an OpDef knows nothing of its Params.
class OpBuilder {
 public:
  using Names = std::initializer_list<const char*>;
  struct Saves {
    std::initializer_list<Saved> in = {};
    std::initializer_list<Saved> out = {};
  };

 protected:
  OpBuilder(const char* name, const ParamsInfo& params);
  ~OpBuilder();
  void set_inputs(Names names);
  void set_outputs(Names names);
  void set_formats(std::initializer_list<Format> in, std::initializer_list<Format> out);
  void set_saves(Saves saves);
  void set_view();
  void set_elementwise(int operands);
  void set_moves();
  void add_complex(Kernel kernel);
  void set_cpu(KernelList kernels);
  OpDef finish();

  OpDef def_;
};

/// Builds an OpDef from typed functions: `Op<ReluParams>("relu").infer<infer>().vjp<vjp>({.out =
/// {0}})`. Each function may take the `const OpDef&` before its Params.
template <class P>
class Op : private OpBuilder {
 public:
  using OpBuilder::Names;
  using OpBuilder::Saves;

  explicit Op(const char* name) : OpBuilder(name, mica::params_info<P>()) {
    static_assert(sizeof(P) <= AnyParams::kMaxBytes, "Params are too large for AnyParams");
  }

  /// The inputs by name; a "?" follows one that may be left out, "..." the last where any number of
  /// them may come: `.inputs({"x", "weight", "bias?"})`. Views and elementwise ops need not say it.
  Op& inputs(Names names) {
    set_inputs(names);
    return *this;
  }
  /// The outputs; one that is always there and called "y" need not be said.
  Op& outputs(Names names) {
    set_outputs(names);
    return *this;
  }
  /// The formats of inputs and outputs, of the first ones on; `none` for the rest.
  Op& formats(std::initializer_list<Format> in, std::initializer_list<Format> out) {
    set_formats(in, out);
    return *this;
  }
  Op& dtypes(DTypeSet set) {
    def_.dtypes = set;
    return *this;
  }
  Op& precision(Precision precision) {
    def_.precision = precision;
    return *this;
  }
  template <auto fn>
  Op& infer() {
    def_.infer = [](const OpDef& op, const void* p, std::span<const TensorSpec> in, OutSpecs& out) {
      detail::call<fn, P>(op, p, in, out);
    };
    return *this;
  }
  /// The gradient and what it reads: `.vjp<fn>({.in = {0}, .out = {{0, {1}}}})` reads the first
  /// input always, and the output for the gradient of input 1 alone.
  template <auto fn>
  Op& vjp(Saves saves) {
    def_.vjp = [](const OpDef& op, const void* p, const VjpArgs& a) {
      return Tensors(detail::call<fn, P>(op, p, a));
    };
    set_saves(saves);
    return *this;
  }
  Op& no_gradient(const char* reason) {
    def_.no_gradient = reason;
    return *this;
  }
  template <auto fn>
  Op& view() {
    set_view();
    def_.view = [](const OpDef& op, const void* p, const TensorSpec& in) {
      return detail::call<fn, P>(op, p, in);
    };
    return *this;
  }
  Op& view_absorbs() {
    def_.view_absorbs = true;
    return *this;
  }
  template <auto fn>
  Op& axis_order() {
    def_.axis_order = [](const OpDef& op, const void* p) { return detail::call<fn, P>(op, p); };
    return *this;
  }
  template <auto fn>
  Op& mutates() {
    def_.mutates = [](const OpDef& op, const void* p, int i, int n) {
      return detail::call<fn, P>(op, p, i, n);
    };
    return *this;
  }
  template <auto fn>
  Op& overwrites() {
    def_.overwrites = [](const OpDef& op, const void* p, int input, int output) {
      return detail::call<fn, P>(op, p, input, output);
    };
    return *this;
  }
  Op& elementwise(int operands) {
    set_elementwise(operands);
    return *this;
  }
  template <class F>
  Op& functor() {
    def_.functor = &typeid(F);
    return *this;
  }
  Op& copies() {
    def_.copies = true;
    return *this;
  }
  Op& copies_over() {
    def_.copies_over = true;
    return *this;
  }
  Op& joins() {
    def_.joins = true;
    return *this;
  }
  template <auto fn>
  Op& fills_with() {
    def_.fills_with = [](const OpDef& op, const void* p) { return detail::call<fn, P>(op, p); };
    return *this;
  }
  /// Every kernel takes complex numbers too, since values are only moved.
  Op& moves() {
    set_moves();
    return *this;
  }
  Op& reduction() {
    def_.reduction = true;
    return *this;
  }
  Op& contraction(Contraction contraction) {
    def_.contraction = contraction;
    return *this;
  }
  template <auto applies, auto numbers>
  Op& channel_scale() {
    def_.channel_scale = {
        [](const OpDef& op, const void* p) { return detail::call<applies, P>(op, p); },
        [](const OpDef& op, const void* p, std::span<const Tensor> in) {
          return detail::call<numbers, P>(op, p, in);
        }};
    return *this;
  }
  Op& algebra(const Algebra& algebra) {
    def_.algebra = algebra;
    return *this;
  }
  Op& carries(std::initializer_list<int> before, std::initializer_list<int> after) {
    def_.carries_before = before;
    def_.carries_after = after;
    return *this;
  }
  template <auto fn>
  Op& flops() {
    def_.flops = [](const OpDef& op, const void* p, const Specs& specs) -> double {
      return detail::call<fn, P>(op, p, specs);
    };
    return *this;
  }
  Op& in_bytes(const char* op) {
    def_.in_bytes = op;
    return *this;
  }
  Op& data(std::shared_ptr<const void> data) {
    def_.data = std::move(data);
    return *this;
  }
  Op& cpu(KernelList kernels) {
    set_cpu(std::move(kernels));
    return *this;
  }
  /// A kernel that takes complex numbers, after the others of the CPU.
  Op& complex(Kernel kernel) {
    add_complex(kernel);
    return *this;
  }
  OpDef build() { return finish(); }
};

/// Every operator, in the order of ops/op_list.h, with the kernels of all providers that were
/// built, then those that were added. Implemented in ops/all_ops.cpp.
std::vector<OpDef*> all_ops();

/// Functions that are made of other ops alone and have no definition of their own, by name.
std::span<const char* const> composite_ops();

/// The op named `name`; raises Unsupported.
OpDef& find_op(const std::string& name);

/// Adds an operator at run time, which lasts as long as the process. Raises Unsupported where an op
/// has that name already.
const OpDef& register_op(const std::string& name, OpDef def);

}  // namespace mica
