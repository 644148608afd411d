#pragma once

#include "mica/nn/batch_norm.h"

namespace mica::distributed {

/// Batch norm of (N, features, …) by the statistics of all ranks' batches, which may differ in
/// size; evaluation and state are those of BatchNorm.
struct SyncBatchNormImpl : nn::ChannelNormImpl {
  explicit SyncBatchNormImpl(const nn::BatchNormOptions& options, int64_t group = 0);
  Tensor forward(const Tensor& x);
  std::string describe() const override;

 private:
  int64_t group_;
};

class SyncBatchNorm : public nn::Handle<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNorm(const nn::BatchNormOptions& options, int64_t group = 0);
  explicit SyncBatchNorm(int64_t features, int64_t group = 0);
};

/// The module with every BatchNorm in it replaced, with its parameters and statistics; itself where
/// it is one.
nn::Module convert_sync_batch_norm(const nn::Module& module, int64_t group = 0);

}  // namespace mica::distributed
