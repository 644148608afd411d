#include "mica/train/loss.h"

#include "mica/core/values_check.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/view/view.h"

namespace mica::train {

Tensor total_of(const Values& loss) {
  Tensor total;
  for_each_leaf(loss, ValuesPath("loss"), [&](const Tensor& t, const ValuesPath& path) {
    check<ShapeError>(t.numel() == 1, "train: {} must be one number, got {}", path, t.spec());
    const Tensor part = t.rank() == 0 ? t : reshape(t, {});
    total = total.defined() ? add(total, part) : part;
  });
  check(total.defined(), "train: the loss must give a tensor, got {}", loss);
  return total;
}

int64_t examples_in(const Values& batch) {
  const Tensors leaves = flatten(batch);
  check(!leaves.empty() && leaves[0].rank() >= 1, "train: expected a batch of tensors, got {}",
        batch);
  return leaves[0].size(0);
}

Parts split_batch(const Values& batch) {
  const auto entries = batch.entries();
  if (batch.is_list() && entries.size() >= 2) {
    const auto inputs = entries.first(entries.size() - 1);
    return {inputs.size() == 1 ? inputs[0] : Values::list({inputs.begin(), inputs.end()}),
            entries.back()};
  }
  const Values* target = batch.find("target");
  if (!target || entries.size() < 2) return {batch, batch};
  std::vector<Values::Entry> inputs;
  for (size_t i = 0; i < entries.size(); ++i)
    if (&entries[i] != target) inputs.emplace_back(batch.keys()[i], entries[i]);
  return {inputs.size() == 1 ? inputs[0].second : Values::dict(std::move(inputs)), *target};
}

}  // namespace mica::train
