#include <algorithm>
#include <numeric>
#include <vector>

#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/sort/cpu.h"
#include "mica/ops/sort/keys.h"
#include "mica/ops/sort/rows.h"
#include "mica/ops/sort/sort.h"

namespace mica {
namespace {

/// The positions of n elements, `step` apart, in order.
template <class Wide>
std::vector<int64_t> order_of(const Arg& x, int64_t offset, int64_t step, int64_t n,
                              bool descending) {
  const auto read = reduction::reader<Wide>(x.dtype());
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const Wide first = read(x.data, offset + a * step);
    const Wide second = read(x.data, offset + b * step);
    return descending ? goes_before(second, first) : goes_before(first, second);
  });
  return order;
}

std::vector<int64_t> order_of(const Arg& x, int64_t offset, int64_t step, int64_t n,
                              bool descending) {
  if (is_floating(x.dtype())) return order_of<double>(x, offset, step, n, descending);
  return x.dtype() == DType::u64 ? order_of<uint64_t>(x, offset, step, n, descending)
                                 : order_of<int64_t>(x, offset, step, n, descending);
}

/// The first k of each row in order.
void take_in_order(const Call& c, int axis, int64_t k, bool descending) {
  const Rows rows(*c.in[0].spec, *c.out[0].spec, axis);
  switch_bytes(size_of(c.in[0].dtype()), [&]<class T>() {
    for (int64_t row = 0; row < rows.count(); ++row) {
      const Rows::Offsets at = rows.offsets(row);
      const auto order = order_of(c.in[0], at.in, rows.in_step, rows.length, descending);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t from = order[static_cast<size_t>(i)];
        const int64_t to = at.out + i * rows.out_step;
        c.out[0].as<T>()[to] = c.in[0].as<T>()[at.in + from * rows.in_step];
        c.out[1].as<int64_t>()[to] = from;
      }
    }
  });
}

void run_sort(const SortParams& p, const Call& c) {
  const auto axis = static_cast<int>(p.axis);
  take_in_order(c, axis, c.in[0].shape()[axis], p.descending);
}

void run_topk(const TopkParams& p, const Call& c) {
  take_in_order(c, static_cast<int>(p.axis), p.k, p.largest);
}

Support supports_unique(const NoParams&, const Specs&) { return Support::yes().with_contiguous(1); }

void run_unique(const NoParams&, const Call& c) {
  const int64_t n = c.in[0].numel();
  auto* inverse = c.out[1].as<int64_t>();
  auto* counts = c.out[2].as<int64_t>();
  std::fill_n(counts, n, 0);
  const auto order = order_of(c.in[0], 0, 1, n, false);
  switch_computed(c.in[0].dtype(), "unique", [&]<class T>() {
    T* values = c.out[0].as<T>();
    std::fill_n(values, n, static_cast<T>(0));
    int64_t count = 0;
    for (const int64_t i : order) {
      const T value = c.in[0].as<T>()[i];
      if (count == 0 || values[count - 1] != value) values[count++] = value;
      ++counts[count - 1];
      inverse[i] = count - 1;
    }
    *c.out[3].as<int64_t>() = count;
  });
}

/// How many of n elements go before `value`, or, for the right side, do not go after it.
template <class T>
int64_t place_of(const T* sorted, int64_t step, int64_t n, T value, bool right) {
  int64_t low = 0;
  int64_t high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const T here = sorted[middle * step];
    if (right ? !goes_before(value, here) : goes_before(here, value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void run_searchsorted(const SearchsortedParams& p, const Call& c) {
  constexpr int64_t kGrain = 1024;
  const Arg& sorted = c.in[0];
  const Arg& values = c.in[1];
  const int last = sorted.shape().rank() - 1;
  const bool batched = last > 0;
  const int64_t n = sorted.shape()[last];
  switch_computed(values.dtype(), "searchsorted", [&]<class T>() {
    parallel_for(values.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t rest = i;
        int64_t value = 0;
        int64_t sequence = 0;
        for (int axis = values.shape().rank() - 1; axis >= 0; --axis) {
          const int64_t index = rest % values.shape()[axis];
          rest /= values.shape()[axis];
          value += index * values.strides()[axis];
          if (batched && axis < last) sequence += index * sorted.strides()[axis];
        }
        c.out[0].as<int64_t>()[i] = place_of(sorted.as<T>() + sequence, sorted.strides()[last], n,
                                             values.as<T>()[value], p.right);
      }
    });
  });
}

}  // namespace

Kernel sort_reference_kernel() { return kernel<supports_all<SortParams>, run_sort>("reference"); }
Kernel topk_reference_kernel() { return kernel<supports_all<TopkParams>, run_topk>("reference"); }
Kernel unique_reference_kernel() { return kernel<supports_unique, run_unique>("reference"); }
Kernel searchsorted_reference_kernel() {
  return kernel<supports_all<SearchsortedParams>, run_searchsorted>("reference");
}

}  // namespace mica
