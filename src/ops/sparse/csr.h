#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

// The operators over the parts of sparse matrices. A *pattern* is crow (rows + 1), where the
// entries of each row begin and the last ends, and col (entries), the column of each: both i32 or
// both i64. Entries of a row may come in any order, and twice: they are added up. Kernels look at
// every index before they use it.
namespace mica {

struct CsrParams {
  int64_t columns = 0;  ///< of the matrix; where there are two, of the second

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("columns", self.columns);
  }
};

/// True (0-d) where the columns of each row rise. Raises IndexError for what is no pattern.
Tensor csr_check(const Tensor& crow, const Tensor& col, int64_t columns);

/// The row and the column of each entry: (2, entries).
Tensor csr_coordinates(const Tensor& crow, const Tensor& col, int64_t columns);

/// The transposed pattern; its entry i is entry order[i] (i64) of the pattern. Rows rise in it.
struct CsrTransposed {
  Tensor crow, col, order;
};
CsrTransposed csr_transpose(const Tensor& crow, const Tensor& col, int64_t columns);

struct CooKeysParams {
  int64_t rows = 0;
  int64_t columns = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("rows", self.rows);
    f("columns", self.columns);
  }
};

/// row * columns + column, i64, of each of indices (2, entries).
Tensor coo_keys(const Tensor& indices, const CooKeysParams& params);

/// y (rows, K) = A dense (columns, K). Values and dense have one floating dtype.
Tensor csr_matmul(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense);

/// The products of a (rows, K) and the transpose of b (columns, K) at the entries of the pattern.
Tensor csr_sampled_matmul(const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b);

struct CsrSoftmaxParams {
  bool log = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("log", self.log);
  }
};

/// Softmax of the values of each row, or its logarithm. What is no entry counts as minus infinity.
Tensor csr_softmax(const Tensor& crow, const Tensor& values, const CsrSoftmaxParams& params = {});

/// A matrix by its parts.
struct CsrParts {
  Tensor crow, col, values;
};

/// crow of the product of two patterns.
Tensor csr_product_ends(const Tensor& crow_a, const Tensor& col_a, const Tensor& crow_b,
                        const Tensor& col_b, int64_t columns);

struct CsrProductParams {
  int64_t columns = 0;
  int64_t entries = 0;  ///< of the product

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("columns", self.columns);
    f("entries", self.entries);
  }
};

namespace csr_product_inputs {
enum In { kCrowA, kColA, kA, kCrowB, kColB, kB, kCrow };
}
namespace csr_sampled_product_inputs {
enum In { kCrow, kCol, kCrowA, kColA, kA, kCrowB, kColB, kB };
}

/// A B by Gustavson's algorithm, in two passes: how many entries there are is read in between. The
/// columns of each row rise.
CsrParts csr_product(const CsrParts& a, const CsrParts& b, int64_t columns);

/// The products of A (rows, N) and the transpose of B (columns, N) at the entries of the pattern.
Tensor csr_sampled_product(const Tensor& crow, const Tensor& col, const CsrParts& a,
                           const CsrParts& b, int64_t columns);

}  // namespace mica
