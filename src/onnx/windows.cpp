#include "mica/onnx/windows.h"

#include <algorithm>

namespace mica::onnx {

Windows Windows::of(const Call& c, const Shape& x, std::vector<int64_t> kernel) {
  Windows w;
  const size_t n = kernel.size();
  c.check(x.rank() == static_cast<int>(n) + 2, "windows of {} axes for {}", n, x);
  w.kernel = std::move(kernel);
  w.stride = c.ints("strides", std::vector<int64_t>(n, 1));
  w.dilation = c.ints("dilations", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> pads = c.ints("pads", std::vector<int64_t>(2 * n, 0));
  c.check(w.stride.size() == n && w.dilation.size() == n && pads.size() == 2 * n,
          "{} strides, {} dilations and {} pads for windows of {} axes", w.stride.size(),
          w.dilation.size(), pads.size(), n);
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.after.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  const std::string automatic = c.text("auto_pad", "NOTSET");
  for (size_t i = 0; i < n; ++i) {
    c.check(w.kernel[i] > 0 && w.stride[i] > 0 && w.dilation[i] > 0 && w.kernel[i] < 1 << 24 &&
                w.dilation[i] < 1 << 24,
            "a kernel of {}, stride of {} and dilation of {}", w.kernel[i], w.stride[i],
            w.dilation[i]);
    if (automatic == "NOTSET" || automatic.empty()) continue;
    const int64_t size = x[static_cast<int>(i) + 2];
    const int64_t count = (size + w.stride[i] - 1) / w.stride[i];
    const int64_t total =
        automatic == "VALID" ? 0
                             : std::max<int64_t>(0, (count - 1) * w.stride[i] + w.extent(i) - size);
    w.before[i] = automatic == "SAME_LOWER" ? total - total / 2 : total / 2;
    w.after[i] = total - w.before[i];
  }
  return w;
}

int64_t Windows::count(size_t i, int64_t size, bool ceil) const {
  const int64_t room = size + before[i] + after[i] - extent(i);
  if (room < 0) return 0;
  if (!ceil) return room / stride[i] + 1;
  const int64_t n = (room + stride[i] - 1) / stride[i] + 1;
  return (n - 1) * stride[i] >= size + before[i] ? n - 1 : n;
}

}  // namespace mica::onnx
