#include "mica/ops/linalg/cuda_complaint.h"

#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/fault_kinds.h"

namespace mica::linalg {
namespace {

template <Failure failure>
int64_t kind_of() {
  static const int64_t kind = add_fault_kind([](const Fault& f) {
    fail_factor(failure, f.index >> 32, f.size, static_cast<int>(static_cast<uint32_t>(f.index)));
  });
  return kind;
}

int64_t kind_of(Failure failure) {
  switch (failure) {
    case Failure::cholesky:
      return kind_of<Failure::cholesky>();
    case Failure::lu_factor:
      return kind_of<Failure::lu_factor>();
    case Failure::solve:
      return kind_of<Failure::solve>();
    case Failure::inverse:
      return kind_of<Failure::inverse>();
    case Failure::svd:
      return kind_of<Failure::svd>();
    case Failure::eigh:
      return kind_of<Failure::eigh>();
    case Failure::eig:
      break;
  }
  return kind_of<Failure::eig>();
}

}  // namespace

Complaint complaint_of(const Encoder& encoder, Failure failure, int64_t count) {
  return {encoder.fault(), {.axis = kind_of(failure), .size = count, .op = "linalg"}};
}

void raise_complaints(Encoder& encoder) {
  if (!encoder.recording()) encoder.synchronize();
}

}  // namespace mica::linalg
