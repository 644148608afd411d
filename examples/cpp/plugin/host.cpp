// Opens the plugin and uses its operator: eagerly, differentiated and compiled.
#include <mica/kernels.h>
#include <mica/mica.h>

#include <cmath>
#include <cstdio>

using namespace mica;

int main() try {
  const OpRegistry& plugin = load_ops(PLUGIN);
  const Function& function = *plugin.functions.at(0);
  const auto mish = [&](const Tensor& x, double beta) {
    const Argument arguments[] = {x, beta};
    return *call(function, arguments).get<Tensor>();
  };

  const Tensor x = linspace(-3, 3, 7, DType::f64).set_requires_grad();
  const Tensor y = mish(x, 1);
  sum(y).backward();
  std::printf("%s(1) = %.6f, its slope %.6f\n", function.name, y[4].item(), x.grad()[4].item());
  const auto fast = compile([&](const Tensor& v) { return mish(v, 1) * 2; });
  const bool same = fast(x.detach()).allclose(y.detach() * 2);

  bool refused = false;
  try {
    mish(x, -1);
  } catch (const Error& e) {  // thrown in the plugin, caught here
    refused = true;
    std::printf("%s\n", e.what());
  }
  const bool once = &load_ops(PLUGIN) == &plugin;  // it stays open, and is not registered again
  const bool right = std::abs(y[4].item() - 0.865098) < 1e-6;
  return right && same && refused && once ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "host: %s\n", e.what());
  return 1;
}
