// Opens the plugin and uses its operator: eagerly, differentiated and compiled.
#include <dlfcn.h>
#include <mica/mica.h>

#include <cmath>
#include <cstdio>

using namespace mica;

int main() try {
  void* const library = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(dlerror());
  const auto call =
      reinterpret_cast<void (*)(const Tensor&, double, Tensor&)>(dlsym(library, "plugin_mish"));
  if (!call) throw Error(dlerror());
  const auto mish = [&](const Tensor& x) {
    Tensor y;
    call(x, 1.0, y);
    return y;
  };

  const Tensor x = linspace(-3, 3, 7, DType::f64).set_requires_grad();
  const Tensor y = mish(x);
  sum(y).backward();
  std::printf("mish(1) = %.6f, its slope %.6f\n", y[4].item(), x.grad()[4].item());
  const auto fast = compile([&](const Tensor& v) { return mish(v) * 2; });
  const bool same = fast(x.detach()).allclose(y.detach() * 2);

  bool refused = false;
  try {
    Tensor out;
    call(x, -1.0, out);
  } catch (const Error& e) {  // thrown in the plugin, caught here
    refused = true;
    std::printf("%s\n", e.what());
  }
  const bool right = std::abs(y[4].item() - 0.865098) < 1e-6;
  return right && same && refused ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "host: %s\n", e.what());
  return 1;
}
