#include "mica/ops/sparse/cpu_product.h"

#include <algorithm>
#include <limits>
#include <map>

#include "mica/ops/reference.h"
#include "mica/ops/sparse/csr.h"

namespace mica {
namespace {

/// About how many additions an entry of the first factor stands for.
template <class I>
int64_t work_of(const CsrPattern<I>& b) {
  return 4 * (b.entries / std::max<int64_t>(b.rows, 1) + 1);
}

void run_ends(const CsrParams& p, const Call& c) {
  switch_index(c.in[0].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_product_ends", c.in[0], c.in[1], c.in[2].numel() - 1);
    const CsrPattern<I> b("csr_product_ends", c.in[2], c.in[3], p.columns);
    I* crow = c.out[0].as<I>();
    a.for_rows(work_of(b), [&](int64_t first, int64_t last) {
      std::vector<int64_t> seen_in(static_cast<size_t>(p.columns), -1);  // the last row with it
      for (int64_t r = first; r < last; ++r) {
        int64_t count = 0;
        for (int64_t e = a.begin(r); e < a.end(r); ++e) {
          const int64_t k = a.column(e);
          for (int64_t f = b.begin(k); f < b.end(k); ++f) {
            int64_t& seen = seen_in[static_cast<size_t>(b.column(f))];
            count += seen != r;
            seen = r;
          }
        }
        crow[r + 1] = static_cast<I>(count);
      }
    });
    int64_t end = 0;
    crow[0] = 0;
    for (int64_t r = 0; r < a.rows; ++r) {
      end += static_cast<int64_t>(crow[r + 1]);
      check(end <= static_cast<int64_t>(std::numeric_limits<I>::max()),
            "csr_product: the product has more entries than {} indices can count; use i64",
            c.in[0].dtype());
      crow[r + 1] = static_cast<I>(end);
    }
  });
}

template <class I>
void check_row_length(const CsrPattern<I>& out, int64_t row, size_t found) {
  check<IndexError>(out.end(row) - out.begin(row) == static_cast<int64_t>(found),
                    "csr_product: crow is not that of the product: row {} has {} entries, not {}",
                    row, found, out.end(row) - out.begin(row));
}

void run_product(const CsrProductParams& p, const KernelState&, const Call& c) {
  using namespace csr_product_inputs;
  run_sparse(c, c.in[0].dtype(), c.in[kA].dtype(), [&]<class I, class C>(const auto& operands) {
    const CsrPattern<I> a("csr_product", c.in[kCrowA], c.in[kColA], c.in[kCrowB].numel() - 1);
    const CsrPattern<I> b("csr_product", c.in[kCrowB], c.in[kColB], p.columns);
    const CsrPattern<I> out("csr_product", c.in[kCrow], p.entries);
    const C* left = operands.in(kA);
    const C* right = operands.in(kB);
    I* col = c.out[0].as<I>();
    C* values = operands.out(1);
    a.for_rows(work_of(b), [&](int64_t first, int64_t last) {
      std::vector<C> sums(static_cast<size_t>(p.columns), C(0));
      std::vector<int64_t> seen_in(static_cast<size_t>(p.columns), -1);
      std::vector<I> columns;
      for (int64_t r = first; r < last; ++r) {
        columns.clear();
        for (int64_t e = a.begin(r); e < a.end(r); ++e) {
          const int64_t k = a.column(e);
          for (int64_t f = b.begin(k); f < b.end(k); ++f) {
            const auto at = static_cast<size_t>(b.column(f));
            if (seen_in[at] != r) {
              seen_in[at] = r;
              sums[at] = 0;
              columns.push_back(b.col[f]);
            }
            sums[at] += left[e] * right[f];
          }
        }
        check_row_length(out, r, columns.size());
        std::sort(columns.begin(), columns.end());
        for (size_t i = 0; i < columns.size(); ++i) {
          col[out.begin(r) + static_cast<int64_t>(i)] = columns[i];
          values[out.begin(r) + static_cast<int64_t>(i)] = sums[static_cast<size_t>(columns[i])];
        }
      }
    });
  });
}

void run_product_reference(const CsrProductParams& p, const Call& c) {
  using namespace csr_product_inputs;
  const DoubleValues left(c.in[kA]);
  const DoubleValues right(c.in[kB]);
  const DoubleValues values(c.out[1]);
  switch_index(c.in[0].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_product", c.in[kCrowA], c.in[kColA], c.in[kCrowB].numel() - 1);
    const CsrPattern<I> b("csr_product", c.in[kCrowB], c.in[kColB], p.columns);
    const CsrPattern<I> out("csr_product", c.in[kCrow], p.entries);
    for (int64_t r = 0; r < a.rows; ++r) {
      std::map<int64_t, double> row;
      for (int64_t e = a.begin(r); e < a.end(r); ++e) {
        const int64_t k = a.column(e);
        for (int64_t f = b.begin(k); f < b.end(k); ++f) row[b.column(f)] += left[e] * right[f];
      }
      check_row_length(out, r, row.size());
      int64_t at = out.begin(r);
      for (const auto& [column, sum] : row) {
        c.out[0].as<I>()[at] = static_cast<I>(column);
        values.set(at++, sum);
      }
    }
  });
}

/// The three patterns of a sampled product; calls f with them.
template <class I, class F>
void with_patterns(const CsrParams& p, const Call& c, F&& f) {
  using namespace csr_sampled_product_inputs;
  constexpr const char* kOp = "csr_sampled_product";
  const CsrPattern<I> b(kOp, c.in[kCrowB], c.in[kColB], p.columns);
  f(CsrPattern<I>(kOp, c.in[kCrow], c.in[kCol], b.rows),
    CsrPattern<I>(kOp, c.in[kCrowA], c.in[kColA], p.columns), b);
}

void run_sampled(const CsrParams& p, const KernelState&, const Call& c) {
  using namespace csr_sampled_product_inputs;
  run_sparse(c, c.in[0].dtype(), c.in[kA].dtype(), [&]<class I, class C>(const auto& operands) {
    const C* left = operands.in(kA);
    const C* right = operands.in(kB);
    C* y = operands.out(0);
    with_patterns<I>(p, c, [&](const auto& pattern, const auto& a, const auto& b) {
      pattern.for_rows(work_of(b), [&](int64_t first, int64_t last) {
        std::vector<C> row(static_cast<size_t>(p.columns), C(0));
        for (int64_t r = first; r < last; ++r) {
          for (int64_t e = a.begin(r); e < a.end(r); ++e)
            row[static_cast<size_t>(a.column(e))] += left[e];
          for (int64_t e = pattern.begin(r); e < pattern.end(r); ++e) {
            const int64_t k = pattern.column(e);
            C sum = 0;
            for (int64_t f = b.begin(k); f < b.end(k); ++f)
              sum += row[static_cast<size_t>(b.column(f))] * right[f];
            y[e] = sum;
          }
          for (int64_t e = a.begin(r); e < a.end(r); ++e) row[static_cast<size_t>(a.col[e])] = 0;
        }
      });
    });
  });
}

void run_sampled_reference(const CsrParams& p, const Call& c) {
  using namespace csr_sampled_product_inputs;
  const DoubleValues left(c.in[kA]);
  const DoubleValues right(c.in[kB]);
  const DoubleValues y(c.out[0]);
  switch_index(c.in[0].dtype(), [&]<class I>() {
    with_patterns<I>(p, c, [&](const auto& pattern, const auto& a, const auto& b) {
      for (int64_t r = 0; r < pattern.rows; ++r) {
        std::map<int64_t, double> row;
        for (int64_t e = a.begin(r); e < a.end(r); ++e) row[a.column(e)] += left[e];
        for (int64_t e = pattern.begin(r); e < pattern.end(r); ++e) {
          const int64_t k = pattern.column(e);
          double sum = 0;
          for (int64_t f = b.begin(k); f < b.end(k); ++f)
            if (const auto found = row.find(b.column(f)); found != row.end())
              sum += found->second * right[f];
          y.set(e, sum);
        }
      }
    });
  });
}

Support supports_product(const CsrProductParams&, const Specs&) {
  using namespace csr_product_inputs;
  return Support::yes().with_contiguous({kCrowA, kColA, kCrowB, kColB, kCrow});
}
Support supports_sampled(const CsrParams&, const Specs&) {
  using namespace csr_sampled_product_inputs;
  return Support::yes().with_contiguous({kCrow, kCol, kCrowA, kColA, kCrowB, kColB});
}

}  // namespace

Kernel csr_product_ends_rows_kernel() {
  return kernel<supports_dense<CsrParams>, run_ends>("rows");
}
Kernel csr_product_rows_kernel() {
  using P = CsrProductParams;
  return kernel<supports_dense<P>, prepare_operands<P>, run_product>("rows");
}
Kernel csr_sampled_product_rows_kernel() {
  using P = CsrParams;
  return kernel<supports_dense<P>, prepare_operands<P>, run_sampled>("rows");
}
Kernel csr_product_reference_kernel() {
  return kernel<supports_product, run_product_reference>("reference");
}
Kernel csr_sampled_product_reference_kernel() {
  return kernel<supports_sampled, run_sampled_reference>("reference");
}

}  // namespace mica
