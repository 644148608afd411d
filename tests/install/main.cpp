// What an outside program does first: values, a gradient, a network, and an error it can catch.
#include <mica/mica.h>

#include <cstdio>
#include <string_view>
#include <vector>

#ifdef FMT_VERSION
#error "a public header includes {fmt}, which an installed mica must not need"
#endif

int main() {
  const mica::Tensor a = mica::ones({2, 3});
  a.set_requires_grad();
  const mica::Tensor b = a + a;
  (b * b).sum().backward();
  const std::vector<float> values = b.to_vector<float>();
  const std::vector<float> gradient = a.grad().to_vector<float>();
  std::printf("1 + 1 = %g, gradient of its square %g\n", static_cast<double>(values.back()),
              static_cast<double>(gradient.back()));

  const mica::Tensor c = mica::tensor({{1.0F, 2.0F}, {3.0F, 4.0F}});
  c[0] = 5;
  c.index({mica::Slice(), 1}) = 7;
  const bool indexed = c[c > 5].numel() == 2 && c.accessor<float, 2>().at(1, 0) == 3.0F &&
                       c.argmax().item<int64_t>() == 1;

  const mica::nn::Sequential net(
      mica::nn::Linear(2, 4), [](const mica::Tensor& x) { return mica::relu(x); },
      mica::nn::Linear(4, 1));
  const auto run = mica::compile([&](const mica::Tensor& x) { return net(x).detach(); });
  const bool compiled = run(c).allclose(net(c).detach());

  bool raised = false;
  try {
    mica::add(a, mica::ones({4}));
  } catch (const mica::ShapeError& error) {
    raised = true;
    std::printf("%s\n", error.what());
  }
  const bool version = std::string_view(mica::version()) == MICA_VERSION_STRING;
  return values.size() == 6 && values.back() == 2.0F && gradient.back() == 8.0F && indexed &&
                 compiled && raised && version
             ? 0
             : 1;
}
