// As `gemm`, with the weights of the steps' products in the order that oneDNN's products read them
// in: they are brought there once, not at every step.
#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <string_view>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/recurrent/gemm.h"
#include "mica/runtime/cpu/callers.h"
#include "mica/runtime/cpu/onednn.h"

namespace mica {
namespace {

using dnnl::memory;
using onednn::engine;
using onednn::stream;

// A product of less takes about as long as waking a thread does.
constexpr int64_t kFlopsForThreads = 1 << 20;
// Of fewer sequences a product reads the weights for too little.
constexpr int64_t kLeastOfThread = 8;
// Of fewer the preparation does not come back.
constexpr int64_t kSteps = 4;

memory::desc matrix(int64_t rows, int64_t cols, bool transposed = false) {
  return {{rows, cols},
          memory::data_type::f32,
          transposed ? memory::dims{1, rows} : memory::dims{cols, 1}};
}

class Product : public PackedProduct {
 public:
  Product(int64_t rows, int64_t cols, int64_t depth, bool transposed)
      : threads_(2 * rows * cols * depth < kFlopsForThreads ? 1 : num_threads()),
        plain_(matrix(depth, cols, transposed)) {
    dnnl::primitive_attr attr;
    // The caller gives the scratch memory, so that one primitive can run in several threads.
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const ThreadLimit limit(threads_);
    try {
      const memory::desc any({depth, cols}, memory::data_type::f32, memory::format_tag::any);
      const dnnl::matmul::primitive_desc desc({matrix(rows, depth), any, matrix(rows, cols)}, attr,
                                              engine());
      check<Unsupported>(
          std::string_view(desc.impl_info_str()).find("brg") != std::string_view::npos,
          "recurrent: oneDNN has no product with prepared weights on this processor");
      a_ = desc.src_desc();
      packed_ = desc.weights_desc();
      out_ = desc.dst_desc();
      scratch_ = desc.scratchpad_desc();
      product_ = dnnl::matmul(desc);
      const dnnl::reorder::primitive_desc reorder(engine(), plain_, engine(), packed_, attr);
      reorder_scratch_ = reorder.scratchpad_desc();
      reorder_ = dnnl::reorder(reorder);
    } catch (const dnnl::error& e) {
      fail<Unsupported>("recurrent: oneDNN has no such product: {}", e.what());
    }
  }

  size_t packed_bytes() const override { return packed_.get_size(); }
  size_t workspace_bytes() const override {
    return std::max(scratch_.get_size(), reorder_scratch_.get_size());
  }
  void pack(const void* b, void* packed, void* workspace) const override {
    const ThreadLimit limit(threads_);
    reorder_.execute(stream(), {{DNNL_ARG_FROM, at(plain_, b)},
                                {DNNL_ARG_TO, at(packed_, packed)},
                                {DNNL_ARG_SCRATCHPAD, at(reorder_scratch_, workspace)}});
  }
  std::unique_ptr<Steps> start(const void* packed, void* workspace) const override {
    return std::make_unique<OfSteps>(*this, packed, workspace);
  }

 private:
  /// Its memory objects serve all steps: making them takes longer than a small product.
  class OfSteps : public Steps {
   public:
    OfSteps(const Product& p, const void* packed, void* workspace)
        : threads_(p.threads_),
          product_(p.product_.get()),
          a_(at(p.a_, nullptr)),
          packed_(at(p.packed_, packed)),
          out_(at(p.out_, nullptr)),
          scratch_(at(p.scratch_, workspace)),
          arguments_{{{DNNL_ARG_SRC, a_.get()},
                      {DNNL_ARG_WEIGHTS, packed_.get()},
                      {DNNL_ARG_DST, out_.get()},
                      {DNNL_ARG_SCRATCHPAD, scratch_.get()}}} {}
    void product(const void* a, void* out) override {
      const ThreadLimit limit(threads_);
      a_.set_data_handle(const_cast<void*>(a));
      out_.set_data_handle(out);
      dnnl::error::wrap_c_api(
          dnnl_primitive_execute(product_, stream().get(), static_cast<int>(arguments_.size()),
                                 arguments_.data()),
          "recurrent: a product of a step failed");
    }

   private:
    int threads_;
    dnnl_primitive_t product_;
    memory a_, packed_, out_, scratch_;
    std::array<dnnl_exec_arg_t, 4> arguments_;
  };

  static memory at(const memory::desc& desc, const void* data) {
    return {desc, engine(), const_cast<void*>(data)};
  }

  int threads_;
  memory::desc plain_, a_, packed_, out_, scratch_, reorder_scratch_;
  dnnl::matmul product_;
  dnnl::reorder reorder_;
};

std::unique_ptr<PackedProduct> make_product(int64_t rows, int64_t cols, int64_t depth,
                                            bool transposed) {
  return std::make_unique<Product>(rows, cols, depth, transposed);
}

Support supports_specs(const Specs& specs) {
  const TensorSpec& x = specs.in[0];
  if (x.dtype != DType::f32) return Support::no("computes f32 only");
  Support support = supports_recurrent_gemm(specs);
  // Of one sequence a step's product reads the weights once as they are.
  if (x.shape[0] < kSteps || x.shape[1] == 1) support.kind = Support::Kind::possible;
  return support;
}
Support supports(const RecurrentParams&, const Specs& specs) { return supports_specs(specs); }
Support supports_grad(const RecurrentGradParams&, const Specs& specs) {
  return supports_specs(specs);
}

std::shared_ptr<RecurrentGemmState> prepare(const RecurrentParams& params, const Specs& specs) {
  const TensorSpec& x = specs.in[recurrent_io::kX];
  const int64_t batch = x.shape[1];
  const RecurrentProblem p(params.mode, params.reverse, x, specs.in[recurrent_io::kWHh], false);
  const bool splits = batch % num_threads() == 0 && batch >= kLeastOfThread * num_threads() &&
                      2 * batch * p.rows() * p.outputs >= kFlopsForThreads;
  return prepare_recurrent_gemm(recurrent_cpu_passes(), params, specs, make_product,
                                splits ? num_threads() : 1);
}
std::shared_ptr<RecurrentGemmState> prepare_grad(const RecurrentGradParams& params,
                                                 const Specs& specs) {
  return prepare_recurrent_grad_gemm(recurrent_cpu_passes(), params, specs, make_product);
}

}  // namespace

Kernel recurrent_onednn_kernel() {
  return kernel<supports, prepare, run_recurrent_gemm, keep_recurrent_gemm>("onednn");
}
Kernel recurrent_grad_onednn_kernel() {
  return kernel<supports_grad, prepare_grad, run_recurrent_grad_gemm>("onednn");
}

}  // namespace mica
