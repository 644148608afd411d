#include "mica/ops/device_table.h"

#include <array>
#include <mutex>
#include <vector>

#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// Measured, but for f64's rate, which is its data sheet's.
constexpr DeviceTable kH200{
    .name = "NVIDIA H200",
    .rates = {.bytes = 4.26e12, .f32 = 52e12, .tf32 = 395e12, .half = 790e12, .f64 = 67e12},
    .implicit_gemm = {.most_weights = 32 * 1024, .most_pixels = 64 * 64},
    .few_channels = {.most_in = 4, .most_out = 64, .most_pixels = 64 * 64},
    .dgrad = {.start = 3500,
              .weight_vector = 0.1,
              .weight_scalar = 0.3,
              .dy = 200.0 / 32,
              .product = 1.7,
              .load = 0.8,
              .least_step = 150,
              .sums_8 = 4.5,
              .sums_16 = 5.3},
    .wgrad = {.chunk = 200, .scalar = 1.7},
    .products = {.most_products = 110'000'000,
                 .most_results = 420'000,
                 .most_thin = 1 << 22,
                 .long_k = 2048,
                 .few_rows = 128,
                 .large = {1.2, 0.0090},
                 .middle = {0.9, 0.0068},
                 .small = {0.9, 0.0035},
                 .launch = 1.8,
                 .cluster = 0.7,
                 .per_split = 0.05,
                 .direct_start = 1.85,
                 .direct_byte = 0.155e-6},
    .linear_update = {.most_rows = 256, .most_weights = 1'200'000}};

constexpr std::array kMeasured{kH200};

constexpr DeviceTable other_gpu() {
  DeviceTable table = kH200;
  table.name = "";
  table.rates = {};
  return table;
}
constexpr DeviceTable kOther = other_gpu();

const DeviceTable& row_of(int index) {
  const std::string name = runtime(DeviceKind::cuda).properties(index).name;
  for (const DeviceTable& row : kMeasured)
    if (name == row.name) return row;
  return kOther;
}

}  // namespace

const DeviceTable& device_table(Device device) {
  if (!device.is_cuda()) return kOther;
  // To ask the driver for a device's name takes longer than to choose a kernel.
  static std::mutex mutex;
  static std::vector<const DeviceTable*> rows;
  const std::lock_guard lock(mutex);
  const auto at = static_cast<size_t>(device.index);
  if (rows.size() <= at) rows.resize(at + 1, nullptr);
  if (!rows[at]) rows[at] = &row_of(device.index);
  return *rows[at];
}

}  // namespace mica
