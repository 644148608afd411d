#include <mica/mica.h>

#include <cstdio>

int main() {
  const mica::Tensor a = mica::ones({2, 3});
  const mica::Tensor b = mica::add(a, a);
  const float value = b.at<float>({1, 2});
  std::printf("1 + 1 = %g\n", static_cast<double>(value));
  return value == 2.0F ? 0 : 1;
}
