#include "mica/nn/summary.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/nn/eval_mode.h"
#include "mica/op/dispatch.h"

namespace mica::nn {
namespace {

/// Of one call: each product of two numbers that goes into a sum.
int64_t multiply_adds_of(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                         std::span<const TensorSpec> out) {
  if (!op.flops) return 0;
  std::vector<TensorSpec> in;
  for (const Tensor& t : inputs) in.push_back(t.defined() ? t.spec() : TensorSpec{});
  return static_cast<int64_t>(op.flops(op, params.data, {in, out}) / 2);
}

/// Gives every op's outputs out as tensors without values, and counts for the innermost module that
/// is being called.
class Tracer final : public Recorder, public CallWatcher {
 public:
  explicit Tracer(const Module& root) {
    check<Unsupported>(current_recorder() == nullptr,
                       "nn::summary: cannot be made while a function is captured");
    for (const auto& [name, module] : root.named_modules())
      names_.emplace(module.impl().get(), name);
    before_recorder_ = exchange_recorder(this);
    before_watcher_ = exchange_call_watcher(this);
  }
  ~Tracer() override {
    exchange_recorder(before_recorder_);
    exchange_call_watcher(before_watcher_);
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  static Tensor traced(const TensorSpec& spec) {
    auto impl = make_ref<TensorImpl>();
    impl->spec = spec;
    impl->spec.defined = true;
    impl->trace = 0;  // of no capture: those count from one
    return Tensor(std::move(impl));
  }

  Outputs record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                 std::span<const TensorSpec> out) override {
    Outputs outputs;
    for (const TensorSpec& spec : out) outputs.add(traced(spec));
    if (!calls_.empty())
      rows_[calls_.back()].multiply_adds += multiply_adds_of(op, params, inputs, out);
    return outputs;
  }
  void depends_on(const std::shared_ptr<const bool>&) override {}

  void enter(const ModuleImpl& module) override {
    int64_t parameters = 0;
    for (const auto& [own, tensor] : module.own_parameters())
      if (counted_.insert(tensor.impl()).second) parameters += tensor.numel();
    calls_.push_back(rows_.size());
    containers_.push_back(!module.children().empty());
    rows_.push_back({names_[&module], module.type_name(), {}, parameters, 0});
  }
  void leave(const ModuleImpl&, const Values& result) override {
    // Of several tensors the first stands for all.
    if (const Tensors leaves = flatten(result); !leaves.empty())
      rows_[calls_.back()].output = leaves[0].shape();
    calls_.pop_back();
  }

  std::vector<Summary::Row> rows() const {
    std::vector<Summary::Row> rows;
    for (size_t i = 0; i < rows_.size(); ++i)
      if (!containers_[i] || rows_[i].parameters > 0 || rows_[i].multiply_adds > 0)
        rows.push_back(rows_[i]);
    return rows;
  }

 private:
  Recorder* before_recorder_ = nullptr;
  CallWatcher* before_watcher_ = nullptr;
  std::map<const ModuleImpl*, std::string> names_;
  std::set<const TensorImpl*> counted_;
  std::vector<Summary::Row> rows_;
  std::vector<bool> containers_;
  std::vector<size_t> calls_;  ///< rows of the modules being called
};

/// "431,080".
std::string grouped(int64_t n) {
  const std::string digits = std::to_string(n);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

Summary summary(const Module& module, const Shape& input, DType dtype) {
  const Tensors parameters = module.parameters();
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].device();
  Summary s;
  for (const Tensor& p : parameters) {
    s.parameters += p.numel();
    if (p.requires_grad()) s.trainable += p.numel();
  }
  const NoGrad no_grad;
  const EvalMode eval(module);
  Tracer tracer(module);
  module(Tracer::traced(TensorSpec::contiguous(input, dtype, device)));
  s.rows = tracer.rows();
  for (const Summary::Row& row : s.rows) s.multiply_adds += row.multiply_adds;
  return s;
}

std::string to_string(const Summary& summary) {
  std::vector<std::array<std::string, 5>> lines = {
      {"layer", "type", "output", "parameters", "multiply-adds"}};
  for (const Summary::Row& row : summary.rows)
    lines.push_back({row.name, row.type, to_string(row.output), grouped(row.parameters),
                     grouped(row.multiply_adds)});
  lines.push_back({"total", "", "", grouped(summary.parameters), grouped(summary.multiply_adds)});
  std::array<size_t, 5> widths = {};
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines)
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", line[0], widths[0], line[1],
                        widths[1], line[2], widths[2], line[3], widths[3], line[4], widths[4]);
  if (summary.trainable != summary.parameters)
    text += fmt::format("{} of the parameters are trained\n", grouped(summary.trainable));
  return text;
}

}  // namespace mica::nn
