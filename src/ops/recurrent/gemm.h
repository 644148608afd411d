#pragma once

#include <array>
#include <memory>

#include "mica/op/select.h"
#include "mica/ops/recurrent/steps.h"

// The kernel `gemm`: the input's products of all steps at once, then for each step a product, by
// whichever kernel the ops for products choose, and one pass over the units. What differs between
// devices is the table of passes.
namespace mica {

/// Parts of a workspace, each on a boundary of 256 bytes.
class WorkspaceParts {
 public:
  size_t add(int64_t bytes) {
    const size_t at = bytes_;
    bytes_ += (static_cast<size_t>(bytes) + 255) / 256 * 256;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

/// A product whose right operand is brought into a library's order once and serves all steps.
class PackedProduct {
 public:
  class Steps {
   public:
    virtual ~Steps() = default;
    virtual void product(const void* a, void* out) = 0;
  };
  virtual ~PackedProduct() = default;
  virtual size_t packed_bytes() const = 0;
  virtual size_t workspace_bytes() const = 0;
  /// Brings b into that order.
  virtual void pack(const void* b, void* packed, void* workspace) const = 0;
  /// For the products with what was packed that follow.
  virtual std::unique_ptr<Steps> start(const void* packed, void* workspace) const = 0;
};
/// Of (rows, depth) and (depth, cols), which lies transposed or not. Raises Unsupported where the
/// library has none.
using MakePacked = std::unique_ptr<PackedProduct>(int64_t rows, int64_t cols, int64_t depth,
                                                  bool transposed);

/// The products of a layer with their kernels.
class RecurrentProducts {
 public:
  RecurrentProducts(const RecurrentPasses& table, const RecurrentProblem& p, DType of,
                    Device device, MakePacked* make_packed = nullptr)
      : passes(table), problem(p), dtype(of), device_(device), make_packed_(make_packed) {}

  /// Chooses a kernel for it; `bias` of the input's, which may be made in `chunks` of its rows.
  void add(RecurrentProduct which, bool bias = false, int64_t chunks = 1);
  size_t workspace_bytes() const { return workspace_bytes_; }
  /// Of a step's product; null where it takes the weights as they are.
  const PackedProduct* packed(RecurrentProduct which) const {
    return entries_[static_cast<size_t>(which)].packed.get();
  }

  const RecurrentPasses& passes;
  const RecurrentProblem problem;
  const DType dtype;

 private:
  friend class RecurrentEngine;
  struct Entry {
    std::shared_ptr<const Prepared> prepared;
    std::unique_ptr<PackedProduct> packed;  ///< instead
    std::array<TensorSpec, 3> in;
    std::array<TensorSpec, 2> out;
    size_t inputs = 2, outputs = 1;
  };
  TensorSpec matrix(int64_t rows, int64_t cols) const;

  Device device_;
  MakePacked* make_packed_;
  std::array<Entry, static_cast<size_t>(RecurrentProduct::count)> entries_;
  size_t workspace_bytes_ = 0;
};

/// What the walks (steps.h) compute with.
class RecurrentEngine {
 public:
  RecurrentEngine(const RecurrentProducts& products, const void* bias, void* unused_bias_gradient,
                  void* workspace, Encoder* on)
      : passes(products.passes),
        dtype(products.dtype),
        size(static_cast<int64_t>(size_of(products.dtype))),
        encoder(on),
        products_(products),
        bias_(bias),
        unused_bias_gradient_(unused_bias_gradient),
        workspace_(workspace) {}

  void product(RecurrentProduct which, const void* a, const void* b, void* out) const;
  void weight_gradient(RecurrentProduct which, const void* dy, const void* x, void* dw,
                       void* db) const;
  /// Where the product of the steps is packed, its right operand is what lies there from now on.
  void start(RecurrentProduct which, const void* packed);

  const RecurrentPasses& passes;
  const DType dtype;
  const int64_t size;
  Encoder* const encoder;

 private:
  void run(RecurrentProduct which, std::array<const void*, 3> in, std::array<void*, 2> out) const;

  const RecurrentProducts& products_;
  const void* bias_;
  void* unused_bias_gradient_;
  void* workspace_;
  std::unique_ptr<PackedProduct::Steps> steps_;
};

struct RecurrentGemmState : KernelState {
  explicit RecurrentGemmState(RecurrentProducts p) : products(std::move(p)) {}
  RecurrentProducts products;
  int64_t parts = 1;         ///< of the batch, each walked by a thread of its own
  int64_t chunks = 1;        ///< of the rows of a part's input product
  size_t library_bytes = 0;  ///< of each
  // Where parts of the workspace begin; of a part that is not needed it does not matter.
  size_t w_ih = 0, w_hh = 0, bias = 0, gates = 0, cells = 0, step = 0, hidden = 0, projected = 0;
  size_t state = 0, library = 0, packed = 0;
  size_t dw_ih = 0, dw_hh = 0, db = 0, carry = 0, dc = 0, back = 0, dgates = 0, before = 0;
  size_t dh = 0, dhidden = 0, unused = 0;
};

Support supports_recurrent_gemm(const Specs& specs);
/// On the CPU the batch may be walked in parts, which it must be divisible by: sequences have
/// nothing to do with each other, so that no step waits for the other threads.
std::shared_ptr<RecurrentGemmState> prepare_recurrent_gemm(const RecurrentPasses& passes,
                                                           const RecurrentParams& params,
                                                           const Specs& specs,
                                                           MakePacked* make_packed = nullptr,
                                                           int64_t batch_parts = 1);
std::shared_ptr<RecurrentGemmState> prepare_recurrent_grad_gemm(const RecurrentPasses& passes,
                                                                const RecurrentGradParams& params,
                                                                const Specs& specs,
                                                                MakePacked* make_packed = nullptr);
void run_recurrent_gemm(const RecurrentParams& params, const RecurrentGemmState& state,
                        const Call& call);
/// Keeps what is made of the weights.
void keep_recurrent_gemm(const RecurrentParams& params, const RecurrentGemmState& state,
                         const Call& call);
void run_recurrent_grad_gemm(const RecurrentGradParams& params, const RecurrentGemmState& state,
                             const Call& call);

/// A device's kernels.
template <const RecurrentPasses& (*passes)()>
struct RecurrentGemm {
  static Support supports(const RecurrentParams&, const Specs& s) {
    return supports_recurrent_gemm(s);
  }
  static Support supports_grad(const RecurrentGradParams&, const Specs& s) {
    return supports_recurrent_gemm(s);
  }
  static std::shared_ptr<RecurrentGemmState> prepare(const RecurrentParams& p, const Specs& s) {
    return prepare_recurrent_gemm(passes(), p, s);
  }
  static std::shared_ptr<RecurrentGemmState> prepare_grad(const RecurrentGradParams& p,
                                                          const Specs& s) {
    return prepare_recurrent_grad_gemm(passes(), p, s);
  }
  static Kernel kernel() { return mica::kernel<supports, prepare, run_recurrent_gemm>("gemm"); }
  static Kernel grad_kernel() {
    return mica::kernel<supports_grad, prepare_grad, run_recurrent_grad_gemm>("gemm");
  }
};

}  // namespace mica
