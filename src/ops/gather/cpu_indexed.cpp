#include "mica/ops/gather/cpu_indexed.h"

#include <cstring>

#include "mica/core/switch_bytes.h"
#include "mica/ops/copy/cpu_copy.h"
#include "mica/ops/gather/cpu_walk.h"
#include "mica/runtime/cpu/stream.h"

namespace mica {
namespace {

/// Elements of a row that a thread reads at once. Where neighbours in a row have indices of their
/// own, the part of the table that they reach should stay in a cache.
template <class W>
int64_t tile_width(const Indexed& how, bool own_indices) {
  constexpr int64_t kMost = 16384;
  constexpr int64_t kCache = 1 << 22;
  if (!own_indices) return kMost;
  const int64_t fits = kCache / (std::max<int64_t>(how.size, 1) * static_cast<int64_t>(sizeof(W)));
  return std::clamp(fits / kLine<W> * kLine<W>, 2 * kLine<W>, kMost);
}

/// Strides of the dense tensor, the indices and the table.
struct Steps {
  int64_t d, k, t;
};
Steps inner_steps(const StridedLoop<3>& loop) {
  return {loop.inner_stride(0), loop.inner_stride(1), loop.inner_stride(2)};
}

/// Reads m rows of n elements. Short rows wait for memory and little else: the ones ahead are asked
/// for, and what is passed by value stays in registers.
template <class W>
void read_rows(W* d, const int64_t* k, const W* t, int64_t m, int64_t n, Steps row, Steps in_row,
               int64_t scale, int64_t size, bool streamed) {
  constexpr int64_t kAhead = 12;
  constexpr size_t kStreamedRow = 512;
  const auto row_of = [=](int64_t index) { return scale * wrapped(index, size); };
  for (int64_t j = 0; j < m; ++j, d += row.d, k += row.k, t += row.t) {
    if (in_row.k == 0 && in_row.d == 1 && in_row.t == 1) {
      if (j + kAhead < m) __builtin_prefetch(t + kAhead * row.t + row_of(k[kAhead * row.k]));
      const size_t bytes = static_cast<size_t>(n) * sizeof(W);
      if (streamed && bytes >= kStreamedRow) {
        stream_bytes(d, t + row_of(*k), bytes);
      } else {
        std::memcpy(d, t + row_of(*k), bytes);
      }
    } else if (in_row.k == 0) {
      const W* from = t + row_of(*k);
      for (int64_t i = 0; i < n; ++i) d[i * in_row.d] = from[i * in_row.t];
    } else if (in_row.k == 1 && in_row.d == 1 && in_row.t == 0) {
      for (int64_t i = 0; i < n; ++i) d[i] = t[row_of(k[i])];
    } else {
      for (int64_t i = 0; i < n; ++i) d[i * in_row.d] = t[i * in_row.t + row_of(k[i * in_row.k])];
    }
  }
}

template <class W>
void read_words(const Indexed& how, const W* table, W* dense) {
  const StridedLoop<3> loop(how.shape, {how.dense, how.index, how.table});
  if (loop.numel == 0) return;
  const Steps in_row = inner_steps(loop);
  const bool streamed = static_cast<size_t>(loop.numel) * sizeof(W) >= kStreamingBytes;

  // Rows are cut into tiles; tile by tile, all rows.
  const int64_t length = loop.inner();
  StridedLoop<3> rows = loop;
  rows.numel /= length;
  if (--rows.rank == 0) {
    rows.rank = 1;
    rows.size[0] = 1;
  }
  const Steps row = inner_steps(rows);
  const int64_t width = tile_width<W>(how, in_row.k != 0 && in_row.t != 0);
  const int64_t tiles = (length + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::min(length, width));
  parallel_for(tiles * rows.numel, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t tile = begin / rows.numel;
      const int64_t stop = std::min(end, (tile + 1) * rows.numel);
      const int64_t first = tile * width;
      const int64_t n = std::min(width, length - first);
      walk(rows, begin - tile * rows.numel, stop - tile * rows.numel,
           [&](const std::array<int64_t, 3>& at, int64_t m) {
             read_rows(dense + at[0] + first * in_row.d, how.indices + at[1] + first * in_row.k,
                       table + at[2] + first * in_row.t, m, n, row, in_row, how.scale, how.size,
                       streamed);
           });
      begin = stop;
    }
    if (streamed) stream_fence();
  });
}

struct Assign {
  template <class T, class D>
  void operator()(T& t, const D& d) const {
    t = d;
  }
};
struct Add {
  template <class T, class D>
  void operator()(T& t, const D& d) const {
    t = static_cast<T>(t + static_cast<T>(d));
  }
};

/// Combines the dense elements into the table. Elements that differ along an axis where the table
/// has a stride never meet: those axes are shared out among threads; along the others each thread
/// goes in row-major order.
template <class Combine, class T, class D>
void combine_indexed(const Indexed& how, const D* dense, T* table) {
  Shape free_shape, own;
  std::array<Strides, 3> free_strides, own_strides;
  for (int i = 0; i < how.shape.rank(); ++i) {
    const bool free = how.table[i] != 0;
    (free ? free_shape : own).push_back(how.shape[i]);
    auto& strides = free ? free_strides : own_strides;
    strides[0].push_back(how.table[i]);
    strides[1].push_back(how.index[i]);
    strides[2].push_back(how.dense[i]);
  }
  own_strides[0] = contiguous_strides(own);  // keeps the loop in row-major order
  const StridedLoop<3> lines(free_shape, free_strides);
  const StridedLoop<3> along(own, own_strides);
  if (along.numel == 0 || lines.numel == 0) return;

  const int64_t lt = lines.inner_stride(0);
  const int64_t lk = lines.inner_stride(1);
  const int64_t ld = lines.inner_stride(2);
  const int64_t ak = along.inner_stride(1);
  const int64_t ad = along.inner_stride(2);
  const bool lines_inside = lines.inner() > 1 && (ld <= ad || along.inner() == 1);
  const auto row_of = [&](int64_t index) { return how.scale * wrapped(index, how.size); };
  const Combine combine;
  const auto combine_runs = [&](T* t, const int64_t* k, const D* d, int64_t n, int64_t m) {
    if (!lines_inside) {
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j)
          combine(t[i * lt + row_of(k[i * lk + j * ak])], d[i * ld + j * ad]);
    } else if (lk == 0 && lt == 1 && ld == 1) {
      for (int64_t j = 0; j < m; ++j) {
        T* row = t + row_of(k[j * ak]);
        const D* from = d + j * ad;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) combine(row[i], from[i]);
      }
    } else {
      for (int64_t j = 0; j < m; ++j)
        for (int64_t i = 0; i < n; ++i)
          combine(t[i * lt + row_of(k[i * lk + j * ak])], d[i * ld + j * ad]);
    }
  };
  using At = std::array<int64_t, 3>;
  const int64_t width = tile_width<T>(how, lines_inside && lk != 0);
  walk_parallel(lines, kElementGrain / along.numel, kLine<T>, [&](const At& l, int64_t length) {
    for (int64_t first = 0; first < length; first += width) {
      const int64_t n = std::min(width, length - first);
      walk(along, 0, along.numel, [&](const At& a, int64_t m) {
        combine_runs(table + l[0] + first * lt, how.indices + l[1] + a[1] + first * lk,
                     dense + l[2] + a[2] + first * ld, n, m);
      });
    }
  });
}

/// The table's values are f32 where the dtype is f16 or bf16; integers wrap around.
void add_indexed(const Indexed& how, const void* dense, void* table, DType dtype) {
  const auto add = [&]<class T, class D>() {
    combine_indexed<Add>(how, static_cast<const D*>(dense), static_cast<T*>(table));
  };
  switch (dtype) {
    case DType::f64:
      return add.operator()<double, double>();
    case DType::f32:
      return add.operator()<float, float>();
    case DType::f16:
      return add.operator()<float, Half>();
    case DType::bf16:
      return add.operator()<float, BFloat16>();
    case DType::c64:
      return add.operator()<Complex<float>, Complex<float>>();
    case DType::c128:
      return add.operator()<Complex<double>, Complex<double>>();
    default:
      return switch_bytes(size_of(dtype), [&]<class W>() { add.template operator()<W, W>(); });
  }
}

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

}  // namespace

void read_indexed(const Indexed& how, const void* table, void* dense, DType dtype) {
  switch_words(size_of(dtype), [&]<class W>() {
    read_words(how, static_cast<const W*>(table), static_cast<W*>(dense));
  });
}

void write_indexed(const Indexed& how, const void* dense, void* table, DType dtype) {
  switch_words(size_of(dtype), [&]<class W>() {
    combine_indexed<Assign>(how, static_cast<const W*>(dense), static_cast<W*>(table));
  });
}

void clear_table(const Arg& out) {
  const auto size = static_cast<int64_t>(size_of(out.dtype()));
  parallel_for(out.numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    std::memset(out.as<std::byte>() + begin * size, 0, static_cast<size_t>((end - begin) * size));
  });
}

void start_table(const Arg& x, const Arg& out) {
  if (!x.defined()) return clear_table(out);
  if (x.data == out.data) return;  // it is written over x
  CopyPlan(*out.spec, *x.spec).run(out.data, x.data);
}

size_t add_workspace(const TensorSpec& out) {
  return is_half(out.dtype) ? static_cast<size_t>(out.numel()) * sizeof(float) : 0;
}

void add_to_table(const Indexed& how, const Arg& dense, const Arg& out, void* workspace) {
  if (!is_half(out.dtype())) return add_indexed(how, dense.data, out.data, out.dtype());
  TensorSpec sums = *out.spec;
  sums.dtype = DType::f32;
  CopyPlan(sums, *out.spec).run(workspace, out.data);
  add_indexed(how, dense.data, workspace, out.dtype());
  CopyPlan(*out.spec, sums).run(out.data, workspace);
}

}  // namespace mica
