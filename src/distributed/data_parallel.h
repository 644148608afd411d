#pragma once

#include <memory>

#include "mica/distributed/group.h"
#include "mica/nn/module.h"
#include "mica/optim/optimizer.h"

namespace mica::distributed {

/// What of the optimizer's work is divided among the ranks (ZeRO).
enum class Sharding : uint8_t {
  none,       ///< each rank has all of it
  states,     ///< each updates its part of the parameters and has the states of that alone
  gradients,  ///< and keeps the gradients of that part alone
};

struct DataParallelOptions {
  int64_t group = 0;
  /// Gradients travel together up to about so many bytes; the first ones in smaller buckets.
  int64_t bucket_bytes = 25 << 20;
  bool bf16 = false;          ///< gradients travel as bf16: half the bytes
  bool allow_unused = false;  ///< parameters that got no gradient count as if it were zero
  Sharding sharding = Sharding::none;
  /// A forward pass in training begins with rank 0's buffers in all ranks: what batch norms have
  /// seen so far is one thing.
  bool broadcast_buffers = true;
};

/// A network that several processes train, each on its part of the batch:
///
///     distributed::DataParallel parallel(net);
///     optim::Adam optimizer(parallel.parameters());
///     cross_entropy(parallel(x), y).backward();  // gradients are now those of all ranks, averaged
///     parallel.step(optimizer);
///
/// Parameters and buffers are rank 0's to begin with. While backward still runs, gradients go out
/// in buckets, the last layers' first. The mean is made in the order of the ranks: the bits are
/// those of one process that adds up the ranks' gradients in that order and divides. In a group of
/// one nothing happens at all, unless sharding is asked for.
class DataParallel {
 public:
  explicit DataParallel(nn::Module module, const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  Tensor operator()(const Tensor& x) const;
  Values operator()(const Values& inputs) const;
  const nn::Module& module() const;
  const DataParallelOptions& options() const;

  /// What the optimizer is to be made of: the module's parameters or, with sharding, this rank's
  /// part of each bucket of them, in which only optimizers that treat elements one by one (SGD,
  /// Adam, …) do what they would with the whole.
  Tensors parameters() const;
  /// Elements of each bucket, those of all ranks together; of parameters() with sharding.
  std::vector<int64_t> bucket_sizes() const;
  /// optimizer.step(), and where parameters are sharded, the others' parts.
  void step(optim::Optimizer& optimizer, const Tensor& where = {}) const;
  /// Of the module and of parameters().
  void zero_grad() const;
  /// As optim::clip_grad_norm_ does of all gradients, sharded or not.
  Tensor clip_grad_norm_(double max_norm) const;
  /// What a call does first, for who calls the module itself: see broadcast_buffers.
  void before_forward() const;
  /// Rank 0's buffers to all, as before an evaluation that ranks share; all call it.
  void broadcast_buffers() const;
  /// After the module's parameters were written to, as by load_state_dict: the shards follow.
  void take_parameters() const;

  /// While it lives gradients add up in each process without traffic; the backward after it sends
  /// the sums.
  class NoSync {
   public:
    explicit NoSync(std::shared_ptr<bool> syncs) : syncs_(std::move(syncs)), before_(*syncs_) {
      *syncs_ = false;
    }
    ~NoSync() { *syncs_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    std::shared_ptr<bool> syncs_;
    bool before_;
  };
  NoSync no_sync() const;
  void set_sync(bool on) const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace mica::distributed
