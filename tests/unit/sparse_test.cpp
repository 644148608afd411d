// Sparse tensors of C++; tests/python/test_sparse.py has the whole of them.
#include <gtest/gtest.h>

#include "mica/mica.h"

namespace mica {
namespace {

Tensor dense() { return tensor<double>({0, 5, 0, 0, 0, 0, 7, 0, 8}, {3, 3}); }

TEST(Sparse, ConvertsBetweenLayouts) {
  const SparseTensor csr = to_sparse_csr(dense());
  EXPECT_EQ(csr.nnz(), 3);
  EXPECT_EQ(csr.crow_indices().to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1, 3}));
  EXPECT_EQ(to_string(csr), "SparseTensor(csr, [3, 3], nnz=3, f64)");
  for (const SparseLayout layout : {SparseLayout::coo, SparseLayout::csr, SparseLayout::csc}) {
    const SparseTensor a = csr.to_layout(layout);
    EXPECT_EQ(a.layout(), layout);
    EXPECT_TRUE(a.is_coalesced());
    EXPECT_TRUE(equal(a.to_dense(), dense()));
    EXPECT_TRUE(equal(a.t().to_dense(), transpose(dense(), 0, 1)));
  }
  EXPECT_THROW((void)csr.indices(), Unsupported);
}

TEST(Sparse, Computes) {
  const SparseTensor a = to_sparse_csr(dense());
  const Tensor x = arange(6, {.dtype = DType::f64}).reshape({3, 2});
  EXPECT_TRUE(equal(sparse::mm(a, x), matmul(dense(), x)));
  EXPECT_TRUE(equal(sparse::mm(transpose(x, 0, 1), a), matmul(transpose(x, 0, 1), dense())));
  EXPECT_TRUE(equal(sparse::mm(a, a).to_dense(), matmul(dense(), dense())));
  EXPECT_TRUE(equal((a + a.t().to_sparse_csr()).to_dense(), dense() + transpose(dense(), 0, 1)));
  EXPECT_TRUE(equal((a * a).to_dense(), dense() * dense()));
  EXPECT_TRUE(equal((a * 2).sum(1), sum(dense(), {1}) * 2));
}

TEST(Sparse, HasGradients) {
  const SparseTensor a = to_sparse_csr(dense()).detach().set_requires_grad();
  sum(sparse::mm(a, ones({3, 2}, {.dtype = DType::f64}))).backward();
  EXPECT_EQ(a.grad().values().to_vector<double>(), (std::vector<double>{2, 2, 2}));
  EXPECT_FALSE(to_sparse_csr(dense()).grad().defined());
}

TEST(Sparse, RefusesWhatIsNoMatrix) {
  const Tensor crow = tensor<int64_t>({0, 2, 1}, {3});
  const Tensor col = tensor<int64_t>({0, 1}, {2});
  EXPECT_THROW(sparse_csr_tensor(crow, col, ones({2}), {2, 2}), IndexError);
  EXPECT_THROW(sparse_csr_tensor(crow, col, ones({3}), {2, 2}), ShapeError);
  EXPECT_THROW(sparse_csr_tensor(crow, cast(col, DType::i32), ones({2}), {2, 2}), DTypeError);
  EXPECT_THROW(sparse_coo_tensor(tensor<int64_t>({0, -1}, {2, 1}), ones({1}), Shape{2, 2}),
               IndexError);
}

/// What is given to a compiled function is looked at by the kernels that read it.
TEST(Sparse, CompiledFunctionsLookAtIndices) {
  auto product = compile([](const Tensor& crow, const Tensor& col, const Tensor& values) {
    return sparse_csr_tensor(crow, col, values, {2, 2}).to_dense();
  });
  const Tensor crow = tensor<int64_t>({0, 1, 2}, {3});
  const Tensor values = ones({2});
  const Tensor good = product(crow, tensor<int64_t>({1, 0}, {2}), values);
  EXPECT_EQ(good.to_vector<float>(), (std::vector<float>{0, 1, 1, 0}));
  EXPECT_THROW(product(crow, tensor<int64_t>({1, 2}, {2}), values), IndexError);
  EXPECT_THROW(product(crow, tensor<int64_t>({1, -1}, {2}), values), IndexError);
}

}  // namespace
}  // namespace mica
