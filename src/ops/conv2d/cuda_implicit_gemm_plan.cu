#include <algorithm>
#include <array>
#include <cmath>

#include "mica/core/error.h"
#include "mica/ops/conv2d/cuda_implicit_gemm_plan.h"

namespace mica::implicit_gemm {
namespace {

using cuda::ceil_div;

int as_int(int64_t v) { return static_cast<int>(v); }
int round_up(int v, int to) { return ceil_div(v, to) * to; }
cuda::Divider divider(int d) { return cuda::Divider(static_cast<uint32_t>(std::max(d, 1))); }

/// Tiles of a warp that the kernel is compiled for.
constexpr std::array kTiles{2, 3, 4, 7, 8};

/// The floats of a pixel's window in shared memory, relative to its first.
int tap_place(const ForwardPlan& p, int tap) {
  const int c = tap / (p.kh * p.kw);
  const int rest = tap % (p.kh * p.kw);
  const int quarter = c / as_int(p.by_quarter.divisor);
  return c * p.x_plane + p.skew[quarter] + rest / p.kw * p.dilation_h * p.x_pitch +
         rest % p.kw * p.dilation_w;
}

/// Cycles that lanes' loads of pixels take for a few windows and taps, more where banks conflict.
int load_cycles(const ForwardPlan& p) {
  int cycles = 0;
  const int windows = std::min(p.window_rows * p.window_cols, 64);
  for (int first = 0; first < windows; first += 8)
    for (int s = 0; s < std::min(p.section, 32); ++s) {
      std::array<std::array<int, 32>, 32> words;  // of each bank
      std::array<int, 32> count{};
      int most = 0;
      for (int lane = 0; lane < 32; ++lane) {
        const int tap = lane % 4 * p.section + s;
        const int window = first + lane / 4;
        if (tap >= p.taps || window >= windows) continue;
        const int word = tap_place(p, tap) +
                         window / p.window_cols * p.window_stride_h * p.stride_h * p.x_pitch +
                         window % p.window_cols * p.window_stride_w * p.stride_w;
        const auto bank = static_cast<size_t>(word % 32);
        const auto end = words[bank].begin() + count[bank];
        if (std::find(words[bank].begin(), end, word) != end) continue;
        *end = word;
        most = std::max(most, ++count[bank]);
      }
      cycles += most;
    }
  return cycles;
}

/// A pitch, and where C_in is a multiple of four a distance of its quarters, by which lanes read
/// different banks.
void set_layout(ForwardPlan& p) {
  constexpr int kSkews[][4] = {{0, 8, 16, 24}, {0, 16, 33, 49}};
  p.x_cols = (p.ow - 1) * p.stride_w + (p.kw - 1) * p.dilation_w + 1;
  const bool quarters = p.c % 4 == 0;
  p.by_quarter = divider(quarters ? p.c / 4 : p.c);
  int best = 1 << 30;
  ForwardPlan trial = p;
  for (int pad = 0; pad < 12; ++pad)
    for (const auto& skew : kSkews) {
      trial.x_pitch = p.x_cols + pad;
      trial.x_plane = round_up(p.h * trial.x_pitch, quarters ? 32 : 1);
      if (quarters) std::copy(skew, skew + 4, trial.skew);
      const int cycles = load_cycles(trial);
      if (cycles >= best) continue;
      best = cycles;
      p.x_pitch = trial.x_pitch;
      std::copy(trial.skew, trial.skew + 4, p.skew);
    }
}

/// Threads side by side along `width`, by which a thread has the fewest instructions: `outer` for
/// each `each` places of the width, and `inner` for each of its places along the height.
int lanes_for(int width, int height, int threads, int each, int outer, int inner) {
  int best = 32;
  int fewest = 1 << 30;
  for (int lanes = 32; lanes <= std::min(threads, round_up(width, 32)); lanes += 32) {
    const int instructions = ceil_div(ceil_div(width, lanes), each) *
                             (outer + ceil_div(height, threads / lanes) * inner);
    if (instructions >= fewest) continue;
    fewest = instructions;
    best = lanes;
  }
  return best;
}

/// Sizes that follow from the cut; false where it does not fit.
bool complete(ForwardPlan& p, const Target& target) {
  const bool quarters = p.c % 4 == 0;
  const int conv_rows = std::min((p.rows - 1) * p.window_stride_h + p.window_h, p.oh);
  p.x_rows = (conv_rows - 1) * p.stride_h + (p.kh - 1) * p.dilation_h + 1;
  p.x_plane = round_up(p.x_rows * p.x_pitch, quarters ? 32 : 1);
  p.x_image = p.c * p.x_plane + (quarters ? 64 : 0);
  p.x_floats = round_up(p.images * p.x_image, 4);
  p.step_bytes = p.block_tiles * 256 + 8;
  p.x_at = round_up(p.steps * p.step_bytes, 16);
  p.bias_at = p.x_at + 4 * p.x_floats;
  p.taps_at = p.bias_at + 32 * p.block_tiles;
  p.windows_at = p.taps_at + 32 * (p.steps + 1);
  if (p.split > 1) p.windows_at = std::max(p.windows_at, p.warps * kM * p.tiles_n * 512);
  p.shared_bytes = static_cast<size_t>(p.windows_at) + 16 * static_cast<size_t>(p.windows);
  const int threads = p.warps * 32;
  p.weight_lanes = lanes_for(8 * p.steps, p.block_tiles * 8, threads, 1, 40, 7);
  p.weight_rows = threads / p.weight_lanes;
  p.x_lanes = lanes_for(p.x_rows * p.x_cols, p.images * p.c, threads, 4, 90, 45);
  p.x_stride = threads / p.x_lanes;
  p.by_weight_lanes = divider(p.weight_lanes);
  p.by_x_lanes = divider(p.x_lanes);
  p.by_x_cols = divider(p.x_cols);
  p.by_chunk_windows = divider(p.rows * p.window_cols);
  p.by_bands = divider(p.bands);
  p.by_groups = divider(p.block_tiles / p.tiles_n);
  return p.shared_bytes <= target.shared_bytes;
}

/// Estimated cycles. Blocks of a multiprocessor share its schedulers, tensor cores, shared memory
/// and path to L2; a warp alone waits for each of its instructions.
void estimate(ForwardPlan& p, const Target& target) {
  const auto f = [](auto v) { return static_cast<float>(v); };
  const int registers = p.tiles_n > 4 ? 128 : 96;
  const int resident = std::max(
      1, std::min({as_int(static_cast<int64_t>(target.shared_bytes / (p.shared_bytes + 1024))),
                   65536 / (registers * p.warps * 32), 64 / p.warps}));
  const float blocks = f(p.chunks) * f(p.channel_blocks);
  const float per_sm = std::ceil(blocks / f(target.multiprocessors));
  const float rounds = std::ceil(per_sm / f(resident));
  const float products = f(kM * p.tiles_n);
  const float reads = f(4 * kM + 2 * p.tiles_n + 1);
  const float steps = f(p.steps) / f(p.split);
  const float turns = f(ceil_div(p.items * p.split, p.warps));
  // Of four schedulers the busiest one's tiles.
  const int tiles = p.items * p.split;
  const float busiest = f(tiles / p.warps * ceil_div(p.warps, 4) + ceil_div(tiles % p.warps, 4));
  const float loaded = f(p.steps * p.block_tiles * 64 + p.images * p.c * p.x_rows * p.x_cols);
  // Instructions of a warp: to start, to load, of a step, to store.
  const float start = 350.0F + loaded / f(p.warps * 32) * 10.0F;
  const float step = products + reads + 10.0F;
  const float store = 80.0F + f(p.tiles_n * (p.pool ? 50 : 60)) / f(p.split) +
                      (p.split > 1 ? 20.0F * products : 0.0F);
  const float issue = busiest * steps * step;
  const float tensor = busiest * steps * products * 8.0F;
  const float shared = f(tiles) * steps * reads * 1.1F;
  const float together =
      per_sm * (std::max({issue, tensor, shared}) + f(ceil_div(p.warps, 4)) * start +
                busiest * store + loaded * 4.0F / 40.0F);
  const float alone =
      rounds * (4.0F * start + turns * (steps * (60.0F + products * 8.0F) + 4.0F * store));
  p.cost = 2000.0F + std::max(together, alone) + 0.3F * std::min(together, alone);
}

}  // namespace

std::string forward_refusal(const Conv2dGeometry& g, const Pool2dGeometry* pool) {
  constexpr int64_t kMostTaps = 4096;
  if (g.n == 0 || g.c == 0 || g.o == 0) return "a tensor is empty";
  if (g.groups != 1) return "groups";
  if (g.window() > kMostTaps || g.o > 1024) return "large enough for the library";
  if (g.h * g.w > (1 << 24) || g.pixels() > (1 << 24) || g.n * g.oh > (1 << 28) ||
      g.stride.h > 1024 || g.stride.w > 1024 || g.dilation.h > 1024 || g.dilation.w > 1024)
    return "an axis is too long";
  if (pool) {
    if (pool->padding != Size2(0) || pool->dilation != Size2(1) || pool->adaptive)
      return "pooling with padding, dilation or adaptive windows";
    if (pool->stride.h < pool->kernel.h || pool->stride.w < pool->kernel.w)
      return "pooling windows overlap";
    if (pool->kernel.h * pool->kernel.w > kSlots) return "pooling windows of many pixels";
  }
  if ((pool ? pool->oh * pool->ow : g.pixels()) == 0) return "a tensor is empty";
  return {};
}

std::vector<ForwardPlan> forward_plans(const Conv2dGeometry& g, const Pool2dGeometry* pool,
                                       const Target& target, size_t most) {
  ForwardPlan p;
  p.n = as_int(g.n);
  p.c = as_int(g.c);
  p.h = as_int(g.h);
  p.w = as_int(g.w);
  p.o = as_int(g.o);
  p.oh = as_int(g.oh);
  p.ow = as_int(g.ow);
  p.kh = as_int(g.kh);
  p.kw = as_int(g.kw);
  p.stride_h = as_int(g.stride.h);
  p.stride_w = as_int(g.stride.w);
  p.pad_h = as_int(g.padding.h);
  p.pad_w = as_int(g.padding.w);
  p.dilation_h = as_int(g.dilation.h);
  p.dilation_w = as_int(g.dilation.w);
  p.window_rows = p.oh;
  p.window_cols = p.ow;
  if (pool) {
    p.pool = true;
    p.window_rows = as_int(pool->oh);
    p.window_cols = as_int(pool->ow);
    p.window_h = as_int(pool->kernel.h);
    p.window_w = as_int(pool->kernel.w);
    p.window_stride_h = as_int(pool->stride.h);
    p.window_stride_w = as_int(pool->stride.w);
  }
  p.taps = p.c * p.kh * p.kw;
  p.section = ceil_div(p.taps, 4);
  p.steps = ceil_div(p.section, 2);
  p.full_steps = std::max(0, std::min(p.section, p.taps - 3 * p.section)) / 2;
  p.by_window_cols = divider(p.window_cols);
  p.by_window_w = divider(p.window_w);
  p.by_channels = divider(p.c);
  p.by_kw = divider(p.kw);
  p.by_window_taps = divider(p.kh * p.kw);
  p.by_slots = divider(2 * p.steps);
  set_layout(p);
  for (int q = 0; q < (pool ? p.window_h * p.window_w : 1); ++q) {
    p.slot_row[q] = q / p.window_w;
    p.slot_col[q] = q % p.window_w;
    p.slot_x[q] = 4 * (p.slot_row[q] * p.stride_h * p.x_pitch + p.slot_col[q] * p.stride_w);
    p.slot_position[q] = p.slot_row[q] * p.ow + p.slot_col[q];
  }

  std::vector<ForwardPlan> plans;
  const int all_tiles = ceil_div(p.o, 8);
  const auto consider = [&](int images, int rows) {
    p.images = images;
    p.rows = rows;
    p.bands = ceil_div(p.window_rows, rows);
    p.chunks = p.bands > 1 ? p.n * p.bands : ceil_div(p.n, images);
    for (const int n : kTiles)
      for (int blocks = 1; blocks <= 8; blocks *= 2) {
        p.tiles_n = n;
        p.block_tiles = round_up(ceil_div(all_tiles, blocks), n);
        p.channel_blocks = ceil_div(all_tiles, p.block_tiles);
        if (blocks > 1 && p.channel_blocks * 2 <= blocks) break;
        const int windows = (p.pool ? 1 : kSlots) * 8;
        const int groups = ceil_div(images * rows * p.window_cols, windows);
        p.windows = groups * windows;
        p.items = groups * (p.block_tiles / n);
        for (int log = 0; log <= 3; ++log) {
          const int split = 1 << log;
          if (split > 1 && (p.items * split > kMostWarps || split > p.steps)) break;
          p.split = split;
          p.split_log = log;
          p.grid = split > 1 ? p.chunks : std::min(p.chunks, target.multiprocessors * 4);
          // Without a split, warps beyond the tiles help to load.
          const int needed = ceil_div(p.items, ceil_div(p.items, kMostWarps));
          const int last = split > 1 ? p.items * split : kMostWarps;
          for (p.warps = split > 1 ? last : needed; p.warps <= last;
               p.warps = round_up(p.warps + 1, 4)) {
            if (!complete(p, target)) break;
            estimate(p, target);
            plans.push_back(p);
          }
        }
      }
  };
  for (int bands = 1; bands <= p.window_rows; ++bands) {
    const int rows = ceil_div(p.window_rows, bands);
    if (ceil_div(p.window_rows, rows) == bands) consider(1, rows);
  }
  for (int images = 2; images <= std::min(p.n, 16); ++images) consider(images, p.window_rows);
  if (plans.empty()) throw Unsupported("implicit_gemm: a block does not fit in shared memory");
  const size_t kept = std::min(most, plans.size());
  std::partial_sort(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(kept), plans.end(),
                    [](const auto& a, const auto& b) { return a.cost < b.cost; });
  plans.resize(kept);
  return plans;
}

}  // namespace mica::implicit_gemm
