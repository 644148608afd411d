#pragma once

#include <dnnl.hpp>
#include <functional>
#include <optional>
#include <unordered_map>

#include "mica/ops/anchored/anchored.h"

// Programs as what oneDNN does to a result; included only by files that are built with it.
namespace mica::onednn {

/// A program that is a chain from the result on, in the library's words.
struct PostOps {
  struct Operand {
    int post_op;
    int input;  ///< of the call
    dnnl::memory::desc desc;
  };
  dnnl::post_ops ops;
  std::vector<Operand> operands;
  bool costly = false;  ///< the program by our own kernels, after the library's, is faster

  void add_arguments(const dnnl::engine& engine, const Call& call,
                     std::unordered_map<int, dnnl::memory>& arguments) const;
};

/// How an operand lies beside the result; none where the library cannot take it.
using Describe = std::function<std::optional<dnnl::memory::desc>(const TensorSpec& operand)>;

/// The program after a call of `anchor`, all in f32 or all in bf16, which is computed in f32 and
/// rounded once; none where it is not such a chain, or the anchor's result is kept.
std::optional<PostOps> post_ops_of(const AnchoredParams& params, const OpDef& anchor,
                                   const Specs& specs, const Describe& describe);

}  // namespace mica::onednn
