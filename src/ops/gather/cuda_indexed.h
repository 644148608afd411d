#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/view/cuda_part.h"
#include "mica/runtime/cuda/strided.cuh"

// What the CUDA kernels of the indexing ops share: a table whose elements are addressed by indices,
// and the dense tensor they come to or from.
namespace mica {
struct Fault;
}

namespace mica::cuda {

/// The axis of a table that an index addresses.
struct TableAxis {
  const char* op;  ///< in the message
  int64_t axis;
  int64_t size;
  bool wrap = false;  ///< negative indices count from the end
};

/// Indices as kernels read them.
struct IndexReader {
  const void* data;
  DType dtype;  ///< i64, i32 or u8
  TableAxis axis;
  int64_t scale;           ///< elements of the table between neighbours along the axis
  Fault* fault = nullptr;  ///< null where the indices were checked: those outside are -1
  int64_t skipped = -1;    ///< an index whose elements are left alone

  /// The offset in the table that the index at `at` stands for; -1 where it is skipped, and where
  /// it lies outside, which is noted.
  __device__ int64_t offset(int64_t at) const;
};

/// An index tensor as it was given.
IndexReader index_reader(const TableAxis& axis, const Arg& index, int64_t scale, Fault* fault);

/// How a table and a dense tensor of `shape` meet: element p of the dense tensor is element
/// p · table + offset(p · index) of the table.
struct Indexed {
  Shape shape;
  Strides dense;
  Strides index;
  Strides table;  ///< 0 along axes that the index stands for
  int64_t scale;  ///< of the reader
  Dims
      dense_axes;  ///< for each axis of the table: the one of the dense tensor, -1 if it is indexed
};

/// Complex numbers as pairs of real ones along an axis of their own, for sums. Raises Unsupported
/// where there is no room for it.
struct Pairs {
  Pairs(const Indexed& how, const TensorSpec& out);
  /// Of the reader of an index of complex numbers.
  static IndexReader reader(IndexReader index) {
    index.scale *= 2;
    return index;
  }

  Indexed how;
  TensorSpec out;
};

/// Reads the table into the dense tensor; zeros where an index lies outside.
struct ReadPlan {
  ReadPlan(const Indexed& how, const TensorSpec& dense, const TensorSpec& table);
  void run(Encoder& encoder, IndexReader index, const void* table, void* dense) const;

  StridedLoop<3> loop;   ///< dense, table, index
  size_t word = 1;       ///< bytes that move at once: runs that share an index go in wide words
  int64_t scale = 1;     ///< of the reader, in words
  bool aligned = false;  ///< both lie on 16-byte boundaries
};

/// `out` as it is before anything is written to it: x, or zeros where x was left out.
struct TableStart {
  TableStart(const TensorSpec& x, const TensorSpec& out);
  void run(Encoder& encoder, const Arg& x, const Arg& out) const;

  PartCopy copy;
  size_t bytes;  ///< of out
};

/// Makes `out` of x (or of zeros, where x was left out) with the dense tensor in place; where two
/// elements meet the last in row-major order stays. An atomic maximum finds it, so the result does
/// not depend on the order of the threads. Where there is one index for a line nothing can meet.
struct WritePlan {
  WritePlan(const Indexed& how, const TensorSpec& x, const TensorSpec& out);
  size_t workspace_bytes() const;
  void run(Encoder& encoder, const IndexReader& index, const Arg& x, const Arg& dense,
           const Arg& out, void* workspace) const;

  TableStart start;
  StridedLoop<4> loop;  ///< dense, table, index, row-major order
  int64_t elements;     ///< of out
  bool meet;            ///< elements may meet
};

/// The same with the dense tensor added, by atomics: exact for integers, in any order for floats.
/// f16 and bf16 are summed in f32.
struct AddPlan {
  AddPlan(const Indexed& how, const TensorSpec& x, const TensorSpec& out);
  size_t workspace_bytes() const;
  void run(Encoder& encoder, const IndexReader& index, const Arg& x, const Arg& dense,
           const Arg& out, void* workspace) const;

  TableStart start;
  StridedLoop<3> loop;  ///< dense, table, index
  int64_t elements;     ///< of out
  DType dtype;          ///< of what is added
  bool pairs;           ///< they are the parts of complex numbers
};
Support supports_atomic_add(const TensorSpec& out);

/// The same for floats, in row-major order for each element: every one looks through all indices
/// that may stand for it. The work is the product of the table's and the index's sizes.
struct OrderedAddPlan {
  OrderedAddPlan(const Indexed& how, const TensorSpec& x, const TensorSpec& out);
  void run(Encoder& encoder, const IndexReader& index, const Arg& x, const Arg& dense,
           const Arg& out) const;

  TableStart start;
  StridedLoop<4> loop;   ///< the elements that may be reached: out, dense, index, offset they have
  StridedLoop<3> along;  ///< the indices that may stand for one: row-major order, dense, index
  DType dtype;           ///< of what is added
  bool pairs;            ///< they are the parts of complex numbers
};
Support supports_ordered_add(const TensorSpec& out);

}  // namespace mica::cuda
