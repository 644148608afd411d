#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "mica/ops/conv2d/cuda_implicit_dgrad.cuh"
#include "mica/ops/device_table.h"

namespace mica::implicit_dgrad {

/// Products of a warp that there are kernels for.
struct WarpTile {
  int m, n, warps;
};
constexpr WarpTile kTiles[] = {{5, 6, 8}, {3, 7, 8}, {5, 3, 16}, {3, 4, 16}, {2, 3, 16}};

struct Choice {
  Plan plan;
  int tile = 0;  ///< of kTiles
  int blocks = 0;
  size_t shared = 0;
  double cycles = 0;
};

inline int power_of_two(int at_least) {
  int p = 1;
  while (p < at_least) p *= 2;
  return p;
}
/// Places of a pair of channels, and rows of the weight, that lanes read from different banks.
inline int spread_pitch(int size) { return (size + 23) / 32 * 32 + 8; }

/// Places of a part: what lanes write, and for most widths what they read, is in different banks.
inline int part_pitch(int places, int w) {
  const int wanted = w % 8 == 4 ? w % 32 : 4;
  return places + (wanted - places % 32 + 32) % 32;
}

/// Rows of windows that the rows of a block meet.
inline int window_rows(const Plan& p) {
  int most = 0;
  for (int band = 0; band < p.bands; ++band) {
    const int first = band * p.rows + p.pad_h - (p.kh - 1);
    const int last = p.images > 1 ? p.oh - 1 : std::min(first + p.dy_rows, p.oh) - 1;
    most = std::max(most, last / p.pool_h - std::max(first, 0) / p.pool_h + 1);
  }
  return most;
}
inline int dy_run(const Plan& p) {
  return (p.bands == 1 ? p.pooled_h : window_rows(p)) * p.pooled_w;
}

/// The widest copies that the sizes and addresses allow; gives the elements of dy in one.
inline int set_vectors(Plan& p, const void* dy, const void* positions, const void* weight) {
  const auto aligned = [](const void* at, int v) {
    return reinterpret_cast<uintptr_t>(at) % (static_cast<size_t>(v) * 4) == 0;
  };
  const int window = p.kh * p.kw;
  const int unit = p.bands == 1 ? p.run : p.pooled_w;
  p.weight_vector = 4;
  const int floats = unit % 4 == 0 && aligned(dy, 4) && aligned(positions, 4) ? 4 : 1;
  while (p.c * window % p.weight_vector || p.channels * window % p.weight_vector ||
         !aligned(weight, p.weight_vector))
    p.weight_vector /= 2;
  p.by_run = cuda::Divider(static_cast<uint32_t>(p.run / floats));
  return floats;
}

/// Completes a plan whose sizes, images, bands, channels and splits are set. False where it does
/// not fit.
inline bool complete(Choice& choice, int tile, const DeviceTable::DgradModel& model,
                     int multiprocessors, size_t most_shared) {
  Plan& p = choice.plan;
  const auto [mt, nt, warps] = kTiles[tile];
  p.rows = cuda::ceil_div(p.h, p.bands);
  p.steps = cuda::ceil_div(p.o, 8);
  const int places = p.images * p.rows * p.ow;
  const int tiles_m = cuda::ceil_div(places, 16);
  const int tiles_n = cuda::ceil_div(p.channels * p.kw, 8);
  p.warps_m = power_of_two(cuda::ceil_div(tiles_m, mt));
  p.warps_n = power_of_two(cuda::ceil_div(tiles_n, nt));
  if (p.warps_m * p.warps_n > warps) return false;
  p.warps_k = warps / (p.warps_m * p.warps_n);
  while (p.warps_k > std::min(p.steps, 4)) p.warps_k /= 2;
  const int zeros = p.kh - 1 - p.pad_h;
  p.image_rows = p.images > 1 ? p.oh + zeros : p.rows + p.kh - 1;
  p.dy_rows = p.images > 1 ? p.images * p.image_rows + zeros : p.image_rows;
  p.dy_pitch = spread_pitch(p.dy_rows * p.ow);
  p.weight_pitch = spread_pitch(p.channels * p.kh * p.kw);
  p.part_pitch = part_pitch(p.warps_m * mt * 16, p.w);
  p.run = dy_run(p);
  const size_t operands = static_cast<size_t>(p.steps) * 8 * (p.dy_pitch + p.weight_pitch) * 4;
  const size_t parts =
      static_cast<size_t>(p.warps_k) * p.warps_n * nt * 8 * p.part_pitch * 4 +
      (static_cast<size_t>(p.ow) * 4 + 2 * kSlack) * 4;  // the last rows are read by fours
  choice.shared = std::max(operands, parts);
  if (choice.shared > most_shared) return false;
  choice.tile = tile;
  choice.blocks = cuda::ceil_div(p.n, p.images) * p.bands * p.splits;

  // What a block takes: to start, to copy its operands, products and reads of shared memory, to
  // write and add the parts.
  const int window = p.kh * p.kw;
  const bool wide = p.c * window % 4 == 0 && p.channels * window % 4 == 0;
  const double copies = static_cast<double>(p.o) * p.channels * window *
                            (wide ? model.weight_vector : model.weight_scalar) +
                        static_cast<double>(p.images) * p.o * p.run * model.dy / warps;
  const int turns = cuda::ceil_div(p.steps, p.warps_k) * p.kh;
  const double step = model.product * mt * nt + model.load * (4 * mt + 2 * nt);
  const double product =
      turns * std::max(model.least_step, step * p.warps_m * p.warps_n * p.warps_k);
  const double sums = static_cast<double>(p.warps_k) * p.warps_n * nt * 8 * p.warps_m * mt * 16 /
                      (warps == 8 ? model.sums_8 : model.sums_16);
  choice.cycles =
      cuda::ceil_div(choice.blocks, multiprocessors) * (model.start + copies + product + sums);
  return true;
}

/// What the kernel divides by.
inline void set_dividers(Plan& p) {
  const auto divider = [](int d) { return cuda::Divider(static_cast<uint32_t>(d)); };
  p.by_ow = divider(p.ow);
  p.by_places = divider(p.rows * p.ow);
  p.by_o = divider(p.o);
  p.by_w = divider(p.w);
  p.by_kw = divider(p.kw);
  p.by_row_groups = divider(cuda::ceil_div(p.rows, 4));
}

/// The cheapest ways to cut a problem whose sizes are set, the best first; none where none fits.
inline std::vector<Choice> choices(const Plan& sizes, const DeviceTable::DgradModel& model,
                                   int multiprocessors, size_t most_shared, size_t most) {
  std::vector<Choice> all;
  const auto consider = [&](int images, int bands, int splits) {
    Choice choice{.plan = sizes};
    choice.plan.images = images;
    choice.plan.bands = bands;
    choice.plan.channels = cuda::ceil_div(sizes.c, splits);
    choice.plan.splits = cuda::ceil_div(sizes.c, choice.plan.channels);
    if (choice.plan.splits != splits) return;
    for (int tile = 0; tile < static_cast<int>(std::size(kTiles)); ++tile)
      if (complete(choice, tile, model, multiprocessors, most_shared)) all.push_back(choice);
  };
  for (int splits = 1; splits <= std::min(sizes.c, 16); ++splits) {
    for (int images = 1; images <= std::min(sizes.n, 16); ++images) consider(images, 1, splits);
    for (int bands = 2; bands <= std::min(sizes.h, 16); ++bands) consider(1, bands, splits);
  }
  const size_t kept = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const Choice& a, const Choice& b) { return a.cycles < b.cycles; });
  all.resize(kept);
  for (Choice& choice : all) set_dividers(choice.plan);
  return all;
}

}  // namespace mica::implicit_dgrad
