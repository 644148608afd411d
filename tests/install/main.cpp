// What an outside program does first: values, a gradient, and an error it can catch.
#include <mica/mica.h>

#include <cstdio>
#include <vector>

#ifdef FMT_VERSION
#error "a public header includes {fmt}, which an installed mica must not need"
#endif

int main() {
  const mica::Tensor a = mica::ones({2, 3});
  a.set_requires_grad();
  const mica::Tensor b = mica::add(a, a);
  mica::sum(mica::mul(b, b)).backward();
  const std::vector<float> values = b.to_vector<float>();
  const std::vector<float> gradient = a.grad().to_vector<float>();
  std::printf("1 + 1 = %g, gradient of its square %g\n", static_cast<double>(values.back()),
              static_cast<double>(gradient.back()));

  bool raised = false;
  try {
    mica::add(a, mica::ones({4}));
  } catch (const mica::ShapeError& error) {
    raised = true;
    std::printf("%s\n", error.what());
  }
  return values.size() == 6 && values.back() == 2.0F && gradient.back() == 8.0F && raised ? 0 : 1;
}
