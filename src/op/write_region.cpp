#include "mica/op/write_region.h"

#include <algorithm>
#include <utility>

#include "mica/core/check.h"

namespace mica {
namespace {

thread_local const WriteRegion* t_region = nullptr;

/// Ops inside write freely.
class Suspended {
 public:
  Suspended() : region_(std::exchange(t_region, nullptr)) {}
  ~Suspended() { t_region = region_; }
  Suspended(const Suspended&) = delete;
  Suspended& operator=(const Suspended&) = delete;

 private:
  const WriteRegion* region_;
};

}  // namespace

WriteRegion::WriteRegion(Tensor where, Tensor number)
    : where_(std::move(where)), number_(std::move(number)), outer_(t_region) {
  check<DTypeError>(where_.defined() && where_.dtype() == DType::boolean && where_.numel() == 1,
                    "WriteRegion: where must be one bool, got {}",
                    where_.defined() ? to_string(where_.spec()) : "nothing");
  check(outer_ == nullptr, "WriteRegion: one stands in another");
  t_region = this;
}

WriteRegion::~WriteRegion() { t_region = outer_; }

const WriteRegion* WriteRegion::current() { return t_region; }

Outputs WriteRegion::dispatch(const OpDef& op, ParamsRef params,
                              std::span<const Tensor> inputs) const {
  const Suspended region;
  if (std::any_of(inputs.begin(), inputs.end(),
                  [&](const Tensor& t) { return t.defined() && t.impl() == number_.impl(); }))
    return mica::dispatch(op, params, inputs);
  const int n = static_cast<int>(inputs.size());
  std::vector<std::pair<Tensor, Tensor>> kept;
  for (int i = 0; i < n; ++i) {
    const Tensor& input = inputs[static_cast<size_t>(i)];
    if (input.defined() && op.writes(params.data, i, n)) kept.emplace_back(input, keep(input));
  }
  Outputs outputs = mica::dispatch(op, params, inputs);
  for (const auto& [written, before] : kept) put_back(where_, written, before);
  return outputs;
}

}  // namespace mica
