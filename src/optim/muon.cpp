#include "mica/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::optim {
namespace {

/// The matrix with its singular values brought near 1: a polynomial of odd powers is applied to
/// them, which pulls them there.
Tensor orthogonalized(const Tensor& matrix, const MuonOptions& o) {
  const bool tall = matrix.shape()[0] > matrix.shape()[1];
  Tensor x = tall ? transpose(matrix, 0, 1) : matrix;
  x = div(x, clamp(sqrt(sum(square(x))), o.eps, {}));
  const auto [a, b, c] = o.ns_coefficients;
  for (int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = matmul(x, transpose(x, 0, 1));
    x = add(mul(x, a), matmul(add(mul(gram, b), mul(matmul(gram, gram), c)), x));
  }
  return tall ? transpose(x, 0, 1) : x;
}

double scale_of(MuonScale scale, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  switch (scale) {
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonScale::spectral_unclamped:
      return std::sqrt(rows / columns);
    default:
      return std::sqrt(std::max(1.0, rows / columns));
  }
}

}  // namespace

Muon::Muon(Tensors parameters, const MuonOptions& options)
    : Muon(std::vector<Group>{{std::move(parameters), options}}) {}

Muon::Muon(const std::vector<Group>& groups) : OptimizerWith("optim::Muon") { add_groups(groups); }

void Muon::check_options(const MuonOptions& o) const {
  check(o.weight_decay >= 0, "{}: weight_decay must not be negative, got {}", name(),
        o.weight_decay);
  check(o.momentum >= 0, "{}: momentum must not be negative, got {}", name(), o.momentum);
  check(o.eps >= 0, "{}: eps must not be negative, got {}", name(), o.eps);
  check(o.ns_steps >= 0 && o.ns_steps < 100, "{}: ns_steps must be below 100, got {}", name(),
        o.ns_steps);
}

void Muon::check_parameters(const Tensors& parameters) const {
  for (const Tensor& p : parameters)
    check<ShapeError>(!p.defined() || (p.rank() == 2 && p.numel() > 0),
                      "{}: parameters must be matrices, got {}", name(), p.spec());
}

std::vector<Optimizer::State> Muon::states_for(const MuonOptions&) const { return {{"momentum"}}; }

void Muon::update(size_t group, const Tensor& lr, const Tensor&, const Lists& lists) {
  const MuonOptions& o = options(group);
  for (size_t i = 0; i < lists.parameters.size(); ++i) {
    const Tensor& p = lists.parameters[i];
    const Tensor& g = lists.grads[i];
    const Tensor& mean = lists.states[0][i];
    const Tensor rate = cast(reshape(lr, {}), p.dtype());
    copy_(mean, add(mul(mean, o.momentum), mul(g, 1 - o.momentum)));
    const Tensor ahead =
        o.nesterov ? add(mul(mean, o.momentum), mul(g, 1 - o.momentum)) : Tensor(mean);
    const Tensor change = mul(orthogonalized(ahead, o), mul(rate, scale_of(o.scale, p.shape())));
    copy_(p, sub(mul(p, sub(1.0, mul(rate, o.weight_decay))), change));
  }
}

}  // namespace mica::optim
