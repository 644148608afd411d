#pragma once

#include "mica/op/dispatch.h"

namespace mica {

/// Within it, in this thread, ops write only where a flag on the device allows. An op that is given
/// the region's number leaves its writes out itself where that is 0, as updates of optimizers do;
/// what another one writes to is put back where the flag is false. Who writes knows nothing of it:
/// code that may use the number otherwise gets another handle to it.
class WriteRegion {
 public:
  /// where: bool []. number: i64 [], 0 where `where` is false.
  WriteRegion(Tensor where, Tensor number);
  ~WriteRegion();
  WriteRegion(const WriteRegion&) = delete;
  WriteRegion& operator=(const WriteRegion&) = delete;

  /// The innermost of this thread, or null.
  static const WriteRegion* current();

  /// Dispatch's side: calls an op that writes.
  Outputs dispatch(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs) const;

 private:
  Tensor where_;
  Tensor number_;
  const WriteRegion* outer_;
};

/// What the region does with a tensor that an op writes to: `keep` before, `put_back` after.
/// Implemented in ops/where.
Tensor keep(const Tensor& written);
void put_back(const Tensor& where, const Tensor& written, const Tensor& kept);

}  // namespace mica
