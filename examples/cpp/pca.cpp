// Principal components of Fashion-MNIST by singular values: pca [IMAGES]. The images minus their
// mean are U diag(S) Vh: the rows of Vh are the directions in which they differ most.
#include <mica/mica.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace mica;

int main(int argc, char** argv) try {
  const int64_t count = argc > 1 ? std::atoll(argv[1]) : 2000;
  const Tensor images = data::fashion_mnist({.train = true}).x;
  const Tensor x = reshape(slice(images, 0, 0, count), {count, -1}).to(DType::f32) / 255;
  const Tensor middle = mean(x, 0, true);
  const auto [u, values, directions] = linalg::svd(x - middle, false);
  const Tensor squares = square(values);
  const double all = sum(squares).item();

  for (const int64_t k : {2, 10, 50}) {
    const Tensor basis = slice(directions, 0, 0, k);
    const Tensor again = middle + matmul(matmul(x - middle, transpose(basis, 0, 1)), basis);
    const double lost = linalg::norm(again - x).item();
    const double left_out = std::sqrt(sum(slice(squares, 0, k, squares.size(0))).item());
    std::printf("%3lld directions hold %.1f%% of the variance; error %.3f\n",
                static_cast<long long>(k), 100 * sum(slice(squares, 0, 0, k)).item() / all,
                lost / linalg::norm(x).item());
    // What was left out is exactly what the images lose.
    if (std::abs(lost - left_out) > 0.1) return 1;
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
