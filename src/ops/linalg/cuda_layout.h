#pragma once

#include "mica/core/dtype.h"
#include "mica/ops/linalg/cuda_complaint.h"

// What goes before and after a library that has its matrices column-major.
namespace mica::linalg {

enum class Keep : uint8_t { all, lower, upper };

/// Copies `count` matrices (rows, columns). Elements of a row lie side by side, rows `ld` apart,
/// matrices `step`.
struct MatrixCopy {
  struct Place {
    void* data;
    int64_t ld;
    int64_t step;
  };
  Place from;
  Place to;
  int64_t rows, columns;  ///< of what is read
  int64_t count;
  bool transposed = false;
  bool conjugated = false;
  Keep keep = Keep::all;  ///< of what is written; zeros in the place of the rest
  Complaint finite = {};  ///< about what is no finite number, which becomes 0
};
void copy_matrices(Encoder& encoder, DType dtype, const MatrixCopy& copy);

/// Complains about each info that is not 0.
void note_infos(Encoder& encoder, const int32_t* infos, int64_t count, const Complaint& complaint);
void narrow_pivots(Encoder& encoder, const int64_t* from, int32_t* to, int64_t count);
/// The eigenvectors of `count` real matrices (n, n), by columns and with the parts of complex ones
/// in two, as complex numbers by rows. `dtype` is that of the matrices.
void unpack_eigenvectors(Encoder& encoder, DType dtype, const void* values, const void* from,
                         void* to, int64_t n, int64_t count);

}  // namespace mica::linalg
