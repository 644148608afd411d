#include "mica/distributed/data_parallel.h"

#include <algorithm>
#include <map>

#include "mica/autograd/after_backward.h"
#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/optim/clip_grad.h"

namespace mica::distributed {
namespace {

constexpr int64_t kFirstBucket = 1 << 20;  // small, so that traffic begins soon

/// Parameters whose gradients travel together.
struct Bucket {
  std::vector<size_t> parameters;  ///< by number, as they lie in it
  int64_t elements = 0;
  DType dtype = DType::f32;
  int missing = 0;   ///< gradients, in this pass
  Tensor sent = {};  ///< what is on its way, and what comes of it
  Tensor result = {};
  Tensor shard = {};  ///< this rank's part of the parameters, where they are divided
};

}  // namespace

class DataParallel::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(nn::Module module, const DataParallelOptions& o) : module_(std::move(module)), options(o) {
    const auto group = communicator(o.group);
    check(group->rank >= 0, "DataParallel: this process is not a member of group {}", o.group);
    rank_ = group->rank;
    ranks_ = group->size();
    check(o.bucket_bytes >= 1, "DataParallel: bucket_bytes must be at least 1, got {}",
          o.bucket_bytes);
    for (const auto& [name, p] : module_.named_parameters())
      if (p.requires_grad()) names_.push_back(name), parameters_.push_back(p);
    check(!parameters_.empty(), "DataParallel: the module has no parameters to train");
  }

  void start() {
    if (ranks_ == 1 && !sharded()) return;
    const NoGrad guard;
    for (const auto& [name, t] : module_.state_dict()) copy_(t, broadcast(t, 0, options.group));
    make_buckets();
    for (size_t i = 0; i < parameters_.size(); ++i)
      hooks_.push_back(
          add_post_accumulate_hook(parameters_[i], [self = weak_from_this(), i](const Tensor&) {
            if (const auto held = self.lock()) held->arrived(i);
          }));
  }

  ~Impl() {
    for (HookHandle& hook : hooks_) hook.remove();
    give_up();
  }

  bool sharded() const { return options.sharding != Sharding::none; }
  Tensors shards() const {
    Tensors all;
    for (const Bucket& b : buckets_) all.push_back(b.shard);
    return all;
  }

  void take_parameters() {
    if (!sharded()) return;
    const NoGrad guard;
    for (Bucket& b : buckets_) copy_(b.shard, part(flat(b, [](const Tensor& p) { return p; }), b));
  }

  /// Those of a dtype travel together.
  void broadcast_buffers() {
    if (ranks_ == 1) return;
    const NoGrad guard;
    std::map<DType, Tensors> kinds;
    for (const auto& [name, t] : module_.named_buffers()) kinds[t.dtype()].push_back(t);
    for (const auto& [dtype, buffers] : kinds) {
      Tensors rows;
      for (const Tensor& t : buffers) rows.push_back(reshape(t, {-1}));
      const Tensor all = broadcast(concat(rows, 0), 0, options.group);
      if (rank_ == 0) continue;
      int64_t at = 0;
      for (const Tensor& t : buffers) {
        copy_(t, reshape(slice(all, 0, at, at + t.numel()), t.shape()));
        at += t.numel();
      }
    }
  }
  void before_forward() {
    if (Recorder* recorder = current_recorder()) recorder->depends_on(syncs);
    if (options.broadcast_buffers && *syncs && module_.training()) broadcast_buffers();
  }

  void gather() {
    if (!sharded()) return;
    const NoGrad guard;
    for (const Bucket& b : buckets_)
      spread(all_gather(b.shard, options.group), b,
             [](const Tensor& p, const Tensor& value) { copy_(p, value); });
  }

  nn::Module module_;
  DataParallelOptions options;
  std::shared_ptr<bool> syncs = std::make_shared<bool>(true);
  Tensors parameters_;
  std::vector<Bucket> buckets_;
  int ranks_ = 1;

 private:
  /// The order in which gradients come is about the reverse of that of the layers.
  void make_buckets() {
    for (size_t i = parameters_.size(); i-- > 0;) {
      const Tensor& p = parameters_[i];
      const int64_t bytes = p.numel() * static_cast<int64_t>(size_of(p.dtype()));
      const auto size = [&](const Bucket& b) {
        return b.elements * static_cast<int64_t>(size_of(b.dtype));
      };
      const int64_t most = buckets_.size() <= 1 ? std::min(kFirstBucket, options.bucket_bytes)
                                                : options.bucket_bytes;
      const bool fits = !buckets_.empty() && buckets_.back().dtype == p.dtype() &&
                        size(buckets_.back()) + bytes <= most;
      if (!fits) buckets_.push_back({.parameters = {}, .dtype = p.dtype()});
      buckets_.back().parameters.push_back(i);
      buckets_.back().elements += p.numel();
    }
    bucket_of_.resize(parameters_.size());
    for (size_t b = 0; b < buckets_.size(); ++b)
      for (const size_t i : buckets_[b].parameters) bucket_of_[i] = b;
    if (sharded())
      for (Bucket& b : buckets_) {
        b.shard = clone(part(flat(b, [](const Tensor& p) { return p.detach(); }), b));
        b.shard.set_requires_grad();
      }
    reset();
  }

  /// What a pass that raised left on its way reads and writes memory until it is there.
  void give_up() noexcept {
    try {
      if (!current_recorder()) settle();
    } catch (const std::exception&) {  // the others are lost: nothing comes any more
    }
  }

  void reset() {
    give_up();
    for (Bucket& b : buckets_) {
      b.missing = static_cast<int>(b.parameters.size());
      b.sent = b.result = {};
    }
    came_.assign(parameters_.size(), false);
    next_ = 0;
  }

  /// Elements of a rank's part; the last one is filled up.
  int64_t part_size(const Bucket& b) const { return (b.elements + ranks_ - 1) / ranks_; }
  Tensor part(const Tensor& whole, const Bucket& b) const {
    return slice(whole, 0, rank_ * part_size(b), (rank_ + 1) * part_size(b));
  }

  /// One row of f(p) for all parameters of a bucket, with parts for all ranks where it is divided.
  template <class F>
  Tensor flat(const Bucket& b, F&& f) const {
    Tensors rows;
    for (const size_t i : b.parameters) rows.push_back(reshape(f(parameters_[i]), {-1}));
    const int64_t rest = sharded() ? part_size(b) * ranks_ - b.elements : 0;
    if (rest > 0) rows.push_back(zeros({rest}, {b.dtype, rows[0].device()}));
    return rows.size() == 1 ? rows[0] : concat(rows, 0);
  }
  /// f(p, its part of the row) for all of them.
  template <class F>
  void spread(const Tensor& row, const Bucket& b, F&& f) const {
    int64_t at = 0;
    for (const size_t i : b.parameters) {
      const Tensor& p = parameters_[i];
      f(p, reshape(slice(row, 0, at, at + p.numel()), p.shape()));
      at += p.numel();
    }
  }

  void arrived(size_t i) {
    if (Recorder* recorder = current_recorder()) recorder->depends_on(syncs);
    if (!*syncs) return;
    if (pass_.expired()) {  // the first of a pass; one that raised never ends
      reset();
      const auto pass = std::make_shared<int>();
      pass_ = pass;
      after_backward([self = weak_from_this(), pass] {
        if (const auto held = self.lock()) held->finish();
      });
    }
    came_[i] = true;
    Bucket& bucket = buckets_[bucket_of_[i]];
    bucket.missing -= 1;
    send_ready();
  }

  /// In one order in all ranks, whatever order gradients come in.
  void send_ready() {
    for (; next_ < buckets_.size() && buckets_[next_].missing <= 0; ++next_) {
      Bucket& b = buckets_[next_];
      b.sent = contiguous(flat(b, [](const Tensor& p) {
        const Tensor g = p.grad();
        return g.defined() ? g : zeros_like(p.detach());
      }));
      if (options.bf16) b.sent = cast(b.sent, DType::bf16);
      const ReduceOptions mean{ReduceOp::avg, options.group};
      b.result = options.sharding == Sharding::gradients ? start_reduce_scatter(b.sent, mean)
                                                         : start_all_reduce(b.sent, mean);
    }
  }

  void finish() {
    if (next_ < buckets_.size()) {
      std::string unused;
      for (size_t i = 0; i < came_.size(); ++i)
        if (!came_[i]) unused += (unused.empty() ? "" : ", ") + names_[i];
      if (!options.allow_unused) {
        settle();
        fail(
            "DataParallel: no gradient came to {}: the loss does not depend on them; freeze them, "
            "or say allow_unused",
            unused);
      }
      for (Bucket& b : buckets_) b.missing = 0;
      send_ready();
    }
    settle();
    for (Bucket& b : buckets_) {
      const Tensor mean = cast(b.result, b.dtype);
      if (options.sharding == Sharding::gradients) {
        b.shard.set_grad(mean);
        for (const size_t i : b.parameters) parameters_[i].set_grad({});
      } else {
        if (sharded()) b.shard.set_grad(part(mean, b));
        spread(mean, b, [](const Tensor& p, const Tensor& g) { p.set_grad(g); });
      }
      b.sent = b.result = {};
    }
  }

  /// Until all that was sent has come.
  void settle() {
    for (Bucket& b : buckets_)
      if (b.result.defined()) collective_wait(b.result, b.sent, options.group);
  }

  int rank_ = 0;
  std::vector<std::string> names_;
  std::vector<size_t> bucket_of_;
  std::vector<bool> came_;  ///< in this pass
  size_t next_ = 0;         ///< bucket to be sent
  std::weak_ptr<int> pass_;
  std::vector<HookHandle> hooks_;
};

DataParallel::DataParallel(nn::Module module, const DataParallelOptions& options)
    : impl_(std::make_shared<Impl>(std::move(module), options)) {
  impl_->start();
}
DataParallel::~DataParallel() = default;

Tensor DataParallel::operator()(const Tensor& x) const {
  impl_->before_forward();
  return impl_->module_(x);
}
Values DataParallel::operator()(const Values& inputs) const {
  impl_->before_forward();
  return impl_->module_(inputs);
}
void DataParallel::before_forward() const { impl_->before_forward(); }
void DataParallel::broadcast_buffers() const { impl_->broadcast_buffers(); }
const nn::Module& DataParallel::module() const { return impl_->module_; }
const DataParallelOptions& DataParallel::options() const { return impl_->options; }
DataParallel::NoSync DataParallel::no_sync() const { return NoSync(impl_->syncs); }
void DataParallel::set_sync(bool on) const { *impl_->syncs = on; }
void DataParallel::take_parameters() const { impl_->take_parameters(); }

Tensors DataParallel::parameters() const {
  return impl_->sharded() ? impl_->shards() : impl_->module_.parameters();
}

std::vector<int64_t> DataParallel::bucket_sizes() const {
  std::vector<int64_t> sizes;
  for (const Bucket& b : impl_->buckets_) sizes.push_back(b.elements);
  return sizes;
}

void DataParallel::step(optim::Optimizer& optimizer, const Tensor& where) const {
  optimizer.step(where);
  impl_->gather();
}

void DataParallel::zero_grad() const {
  impl_->module_.zero_grad();
  if (impl_->sharded())
    for (const Tensor& shard : impl_->shards()) shard.set_grad({});
}

Tensor DataParallel::clip_grad_norm_(double max_norm) const {
  if (!impl_->sharded()) return optim::clip_grad_norm_(impl_->parameters_, max_norm);
  const NoGrad guard;
  Tensor squares;
  for (const Tensor& shard : impl_->shards()) {
    if (!shard.grad().defined()) continue;
    const Tensor own = sum(square(cast(shard.grad(), DType::f32)));
    squares = squares.defined() ? add(squares, own) : own;
  }
  check(squares.defined(), "DataParallel: there are no gradients to clip");
  const Tensor norm = sqrt(all_reduce(squares, {.group = impl_->options.group}));
  const Tensor scale =
      minimum(div(scalar(max_norm, {DType::f32, norm.device()}), add(norm, 1e-6)), ones_like(norm));
  for (const Tensor& shard : impl_->shards())
    if (shard.grad().defined()) shard.set_grad(mul(shard.grad(), cast(scale, shard.dtype())));
  return norm;
}

}  // namespace mica::distributed
