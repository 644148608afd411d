#include "mica/ops/gather/cpu_indexed.h"

#include <atomic>
#include <cstring>

#include "mica/core/check.h"
#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {
namespace {

/// Calls `f(offsets, n)` for the runs of elements [begin, end) of a loop.
template <int N, class F>
void walk(const StridedLoop<N>& loop, int64_t begin, int64_t end, F&& f) {
  std::array<int64_t, Dims::kMaxRank> index{};
  std::array<int64_t, N> offsets{};
  const auto last = static_cast<size_t>(loop.rank - 1);
  int64_t rest = begin;
  for (size_t axis = last + 1; axis-- > 0;) {
    index[axis] = rest % loop.size[axis];
    rest /= loop.size[axis];
    for (size_t k = 0; k < N; ++k) offsets[k] += index[axis] * loop.stride[k][axis];
  }
  while (begin < end) {
    const int64_t n = std::min(loop.size[last] - index[last], end - begin);
    f(offsets, n);
    begin += n;
    index[last] += n;
    for (size_t k = 0; k < N; ++k) offsets[k] += n * loop.stride[k][last];
    for (size_t axis = last; axis > 0 && index[axis] == loop.size[axis]; --axis) {
      index[axis] = 0;
      ++index[axis - 1];
      for (size_t k = 0; k < N; ++k)
        offsets[k] += loop.stride[k][axis - 1] - loop.size[axis] * loop.stride[k][axis];
    }
  }
}

/// The same for the whole loop in parallel. A thread's part may begin and end inside a run, but
/// only at multiples of `block`.
template <int N, class F>
void walk_parallel(const StridedLoop<N>& loop, int64_t grain, int64_t block, F&& f) {
  const int64_t blocks = (loop.numel + block - 1) / block;
  parallel_for(blocks, std::max<int64_t>(1, grain / block), [&](int64_t begin, int64_t end) {
    walk(loop, begin * block, std::min(end * block, loop.numel), f);
  });
}

/// Elements of a cache line: threads that write to one wait for each other.
template <class T>
constexpr int64_t kLine = 64 / sizeof(T);

template <class F>
void switch_index(DType t, F&& f) {
  switch (t) {
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    default:
      return f.template operator()<uint8_t>();
  }
}

/// The shape of a tensor's own elements: axes it is expanded along count once.
Shape own_shape(const TensorSpec& s) {
  Shape shape = s.shape;
  for (int i = 0; i < s.rank(); ++i)
    if (s.strides[i] == 0) shape[i] = std::min<int64_t>(shape[i], 1);
  return shape;
}

template <class I>
[[noreturn]] void fail_first(const IndexedAxis& a, const Arg& index, int64_t low) {
  const Shape shape = own_shape(*index.spec);
  Dims at = Dims::filled(shape.rank(), 0);
  while (true) {
    int64_t offset = 0;
    for (int i = 0; i < shape.rank(); ++i) offset += at[i] * index.strides()[i];
    const auto k = static_cast<int64_t>(index.as<I>()[offset]);
    if (k < low || k >= a.size)
      fail<IndexError>("{}: index {} at {} is out of range for axis {} of size {}", a.op, k, at,
                       a.axis, a.size);
    for (int i = shape.rank() - 1; i >= 0 && ++at[i] == shape[i]; --i) at[i] = 0;
  }
}

inline int64_t wrapped(int64_t index, int64_t size) { return index + (index < 0 ? size : 0); }

/// Elements are moved as words of their size, whatever they mean.
template <class F>
void switch_word(DType t, F&& f) {
  switch (size_of(t)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

template <class W>
void read_words(const Indexed& how, const W* table, W* dense) {
  const StridedLoop<3> loop(how.shape, {how.dense, how.index, how.table});
  const int64_t sd = loop.inner_stride(0);
  const int64_t sk = loop.inner_stride(1);
  const int64_t st = loop.inner_stride(2);
  const auto row_of = [&](int64_t index) { return how.scale * wrapped(index, how.size); };
  walk_parallel(loop, kElementGrain, kLine<W>, [&](const std::array<int64_t, 3>& at, int64_t n) {
    W* d = dense + at[0];
    const int64_t* k = how.indices + at[1];
    const W* t = table + at[2];
    if (sk != 0) {
      for (int64_t i = 0; i < n; ++i) d[i * sd] = t[i * st + row_of(k[i * sk])];
      return;
    }
    t += row_of(*k);
    if (sd == 1 && st == 1) {
      std::memcpy(d, t, static_cast<size_t>(n) * sizeof(W));
    } else {
      for (int64_t i = 0; i < n; ++i) d[i * sd] = t[i * st];
    }
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
  walk_parallel(lines, kElementGrain / along.numel, kLine<T>, [&](const At& l, int64_t n) {
    walk(along, 0, along.numel, [&](const At& a, int64_t m) {
      combine_runs(table + l[0], how.indices + l[1] + a[1], dense + l[2] + a[2], n, m);
    });
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
    case DType::i64:
      return add.operator()<uint64_t, uint64_t>();
    case DType::i32:
      return add.operator()<uint32_t, uint32_t>();
    default:
      return add.operator()<uint8_t, uint8_t>();
  }
}

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

template <class To, class From>
void convert(const From* from, To* to, int64_t n) {
  parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
}

}  // namespace

void check_index_dtype(const char* op, const TensorSpec& index) {
  check<DTypeError>(kIntegerDTypes.contains(index.dtype),
                    "{}: index must be i64, i32 or u8, got {}", op, index.dtype);
}

void check_index(const IndexedAxis& a, const Arg& index) {
  const Shape shape = own_shape(*index.spec);
  const StridedLoop<1> loop(shape, {index.strides()});
  const int64_t low = a.wrap ? -a.size : 0;
  const auto range = static_cast<uint64_t>(a.size - low);
  const int64_t step = loop.inner_stride(0);
  std::atomic<bool> outside = false;
  switch_index(index.dtype(), [&]<class I>() {
    walk_parallel(loop, kElementGrain, kLine<I>, [&](const std::array<int64_t, 1>& at, int64_t n) {
      const I* k = index.as<I>() + at[0];
      const auto is_outside = [&](I value) {
        return static_cast<uint64_t>(static_cast<int64_t>(value)) - static_cast<uint64_t>(low) >=
               range;
      };
      bool any = false;
      if (step == 1) {
        for (int64_t i = 0; i < n; ++i) any |= is_outside(k[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) any |= is_outside(k[i * step]);
      }
      if (any) outside = true;
    });
    if (outside) fail_first<I>(a, index, low);
  });
}

size_t index_workspace(const TensorSpec& index) {
  return index.dtype == DType::i64 ? 0
                                   : static_cast<size_t>(numel(own_shape(index))) * sizeof(int64_t);
}

Indices checked_index(const IndexedAxis& a, const Arg& index, void* workspace) {
  check_index(a, index);
  if (index.dtype() == DType::i64) return {index.as<int64_t>(), index.strides()};
  TensorSpec own = *index.spec;
  own.shape = own_shape(own);
  auto* data = static_cast<int64_t*>(workspace);
  index_offsets(a, {index.data, &own}, own.shape, 1, false, data);
  Strides strides = contiguous_strides(own.shape);
  for (int i = 0; i < own.rank(); ++i)
    if (index.strides()[i] == 0) strides[i] = 0;
  return {data, strides};
}

void index_offsets(const IndexedAxis& a, const Arg& index, const Shape& shape, int64_t scale,
                   bool add, int64_t* offsets) {
  const StridedLoop<2> loop(shape,
                            {contiguous_strides(shape), broadcast_strides(*index.spec, shape)});
  const int64_t step = loop.inner_stride(1);
  switch_index(index.dtype(), [&]<class I>() {
    walk_parallel(
        loop, kElementGrain, kLine<int64_t>, [&](const std::array<int64_t, 2>& at, int64_t n) {
          const I* k = index.as<I>() + at[1];
          int64_t* to = offsets + at[0];
          for (int64_t i = 0; i < n; ++i) {
            const int64_t offset = scale * wrapped(static_cast<int64_t>(k[i * step]), a.size);
            to[i] = add ? to[i] + offset : offset;
          }
        });
  });
}

void read_indexed(const Indexed& how, const void* table, void* dense, DType dtype) {
  switch_word(dtype, [&]<class W>() {
    read_words(how, static_cast<const W*>(table), static_cast<W*>(dense));
  });
}

void write_indexed(const Indexed& how, const void* dense, void* table, DType dtype) {
  switch_word(dtype, [&]<class W>() {
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
  const Strides none = Dims::filled(out.shape().rank(), 0);
  const int64_t zero = 0;
  read_indexed({out.shape(), out.strides(), none, x.strides(), &zero, 0}, x.data, out.data,
               out.dtype());
}

size_t add_workspace(const TensorSpec& out) {
  return is_half(out.dtype) ? static_cast<size_t>(out.numel()) * sizeof(float) : 0;
}

void add_to_table(const Indexed& how, const Arg& dense, const Arg& out, void* workspace) {
  if (!is_half(out.dtype())) return add_indexed(how, dense.data, out.data, out.dtype());
  auto* sums = static_cast<float*>(workspace);
  switch_float(out.dtype(), "add", [&]<class T>() {
    convert(out.as<T>(), sums, out.numel());
    add_indexed(how, dense.data, sums, out.dtype());
    convert(sums, out.as<T>(), out.numel());
  });
}

}  // namespace mica
