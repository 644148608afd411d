#pragma once

#include "mica/data/dataset.h"

namespace mica::data {

/// What an Epoch consists of: batches, one after the other.
class BatchWalk {
 public:
  BatchWalk() = default;
  BatchWalk(const BatchWalk&) = delete;
  BatchWalk& operator=(const BatchWalk&) = delete;
  virtual ~BatchWalk() = default;

  /// After prepare(): whether there is no batch where the walk is.
  virtual bool done() const = 0;
  /// See Epoch::stop().
  virtual bool stop() = 0;
  virtual void next() = 0;
  /// Has the batch that the walk is at, if it has not yet. What raises leads past that batch.
  virtual void prepare() = 0;
  virtual Batch batch() const = 0;
  /// See Epoch::whole_batch().
  virtual int64_t whole() const = 0;
};

/// While it lives its thread makes a batch of that walk; a data set may walk over another.
class Making {
 public:
  explicit Making(const void* walk);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  static bool is_making(const void* walk);

 private:
  const void* walk_;
  const Making* outer_;
};

}  // namespace mica::data
