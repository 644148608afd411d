#pragma once

#include <cstddef>

#include "mica/op/kernel.h"

// What the kernels of the indexing ops share: a table whose elements are addressed by indices, and
// the dense tensor they come to or from.
namespace mica {

/// The axis of a table that an index addresses.
struct IndexedAxis {
  const char* op;  ///< in the messages
  int64_t axis;
  int64_t size;
  bool wrap = false;  ///< negative indices count from the end
};

/// Raises DTypeError unless `index` is i64, i32 or u8.
void check_index_dtype(const char* op, const TensorSpec& index);

/// Raises IndexError with the first index that lies outside the axis.
void check_index(const IndexedAxis& axis, const Arg& index);

/// Bytes `checked_index` needs.
size_t index_workspace(const TensorSpec& index);

/// Indices that lie inside the axis (negative ones still to be wrapped), strides as the tensor has.
struct Indices {
  const int64_t* data;
  Strides strides;
};
/// The same as i64: where they lie, or converted into the workspace. Raises IndexError.
Indices checked_index(const IndexedAxis& axis, const Arg& index, void* workspace);

/// For each element of `shape`, to which the checked `index` broadcasts, in row-major order:
/// offsets = or += scale · index, with negative indices wrapped.
void index_offsets(const IndexedAxis& axis, const Arg& index, const Shape& shape, int64_t scale,
                   bool add, int64_t* offsets);

/// How a table and a dense tensor of `shape` meet: element p of the dense tensor is element
/// p · table + scale · index[p · index] of the table.
struct Indexed {
  Shape shape;
  Strides dense;
  Strides index;
  Strides table;  ///< 0 along axes that the index stands for
  const int64_t* indices;
  int64_t scale;     ///< elements of the table between neighbours along the indexed axis
  int64_t size = 0;  ///< of that axis: added to a negative index
};

/// Reads the table into the dense tensor. Rows (runs that share an index) are copied whole.
void read_indexed(const Indexed& how, const void* table, void* dense, DType dtype);
/// Writes the dense tensor to the table; where two elements meet the last in row-major order stays.
void write_indexed(const Indexed& how, const void* dense, void* table, DType dtype);

/// Fills `out` with zeros.
void clear_table(const Arg& out);
/// Fills `out` with x, or with zeros where x was left out.
void start_table(const Arg& x, const Arg& out);

/// Bytes `add_to_table` needs.
size_t add_workspace(const TensorSpec& out);
/// Adds the dense tensor to `out`, in row-major order for each element whatever the threads; f16
/// and bf16 are summed in f32.
void add_to_table(const Indexed& how, const Arg& dense, const Arg& out, void* workspace);

}  // namespace mica
