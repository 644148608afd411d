// Where a region of writes (op/write_region.h) leaves a write out.
#include "mica/op/write_region.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/where/where.h"

namespace mica {

Tensor keep(const Tensor& written) { return clone(written); }

void put_back(const Tensor& where, const Tensor& written, const Tensor& kept) {
  copy_(written, mica::where(where, written, kept));
}

}  // namespace mica
