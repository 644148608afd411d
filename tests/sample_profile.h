#pragma once

#include <string>
#include <vector>

#include "mica/profile/profile.h"

namespace mica::profiler {

/// A profile of a machine with a GPU, made by hand: three steps of a small network as a CUDA graph
/// with two branches. Each step waits for its batch, copies it, launches, and waits for its loss;
/// before the first, an op of its own runs by its reference kernel. Of what advice is given for a
/// GPU it has all: a slow loader, waits of the host, copies to other layouts, that kernel.
inline Profile sample_profile() {
  constexpr int64_t kMicro = 1000;
  constexpr int kSteps = 3;
  const Device gpu = Device::cuda(0);
  Profile p;
  p.threads = {"main", "thread 1"};
  p.device_source = "CUPTI";
  p.facts = {{"CPU", "a processor"}, {"GPU", "a <GPU>"}, {"times of the GPU", "CUPTI"}};
  p.tracks = {{gpu, "stream 7"}, {gpu, "stream 7, side by side 2"}};
  p.device_names = {"void implicit_gemm<float, 3>(Operands)",
                    "copy from the host",
                    "void reference_kernel<1>(double*)",
                    "fill",
                    "copy to the host",
                    "void sgd_update<float>(Updates)",
                    "void copy_strided<float>(Layouts)"};
  const auto kind = [&](const char* op, const char* kernel, double flops, double bytes) {
    p.kinds.push_back({.op = op,
                       .kernel = kernel,
                       .params = "{}",
                       .shapes = "f32[256, 1, 28, 28] → f32[256, 20, 24, 24]",
                       .device = gpu,
                       .flops = flops,
                       .bytes = bytes});
    return static_cast<int>(p.kinds.size()) - 1;
  };
  const int conv = kind("conv2d", "implicit_gemm", 1.5e9, 2e7);
  const int dgrad = kind("conv2d_dgrad", "implicit_gemm", 3e9, 4e7);
  const int wgrad = kind("conv2d_wgrad", "implicit_gemm", 3e9, 4e7);
  const int update = kind("sgd_update", "vectorized", 0, 5e6);
  const int slow = kind("sort", "reference", 0, 1e6);
  const int layout = kind("copy", "strided", 0, 2e7);
  p.kinds[static_cast<size_t>(layout)].copies = true;
  const int arguments =
      kind("copying arguments of a compiled function", "copy from the host", 0, 0);
  const int loss = kind("copy to the host", "copy to the host", 0, 0);
  p.scopes = {{"features.0", Phase::forward, "train.py:31"},
              {"features.3", Phase::forward, "train.py:31"},
              {"features.3", Phase::backward, "train.py:31"},
              {"features.0", Phase::backward, "train.py:31"},
              {kUpdatePath, Phase::update, "train.py:33"},
              {kDataPath, Phase::forward, ""}};
  uint64_t id = 0;
  const auto span = [&](const char* name, RangeKind what, int64_t begin, int64_t end, int thread) {
    p.spans.push_back({name, what, thread, begin * kMicro, end * kMicro, id += 2});
    return id;
  };
  const auto done = [&](int name, int of, int scope, int track, int64_t begin, int64_t end,
                        uint64_t sender, bool in_graph) {
    p.device_runs.push_back({.in_graph = in_graph,
                             .is_first = true,
                             .is_known = true,
                             .name = name,
                             .kind = of,
                             .scope = scope,
                             .track = track,
                             .begin = begin * kMicro,
                             .end = end * kMicro,
                             .sender = sender});
  };
  p.runs.push_back({.kind = slow,
                    .scope = 5,
                    .begin = 5 * kMicro,
                    .end = 15 * kMicro,
                    .self = 10 * kMicro,
                    .allocated = 3 << 20,
                    .id = id += 2});
  done(2, slow, 5, 0, 20, 120, id, false);
  for (int64_t step = 0, at = 130; step < kSteps; ++step, at += 500) {
    p.steps.push_back(at * kMicro);
    span("next batch", RangeKind::data, at, at + 150, 0);
    span("making a batch", RangeKind::load, at + 10, at + 140, 1);
    const uint64_t copy =
        span("copying arguments of a compiled function", RangeKind::launch, at + 150, at + 170, 0);
    done(1, arguments, 5, 0, at + 160, at + 175, copy, false);
    p.device_runs.back().what = DeviceWork::What::copy;
    p.device_runs.back().bytes = 256 * 784 * 4;
    const uint64_t launch =
        span("launching a compiled function", RangeKind::launch, at + 172, at + 180, 0);
    done(0, conv, 0, 0, at + 182, at + 230, launch, true);
    done(0, conv, 1, 0, at + 231, at + 280, launch, true);
    done(6, layout, 1, 1, at + 231, at + 279, launch, true);
    done(0, wgrad, 2, 0, at + 282, at + 350, launch, true);
    done(0, dgrad, 2, 1, at + 283, at + 340, launch, true);
    done(0, wgrad, 3, 1, at + 341, at + 400, launch, true);
    done(5, update, 4, 0, at + 402, at + 410, launch, true);
    const uint64_t wait = span("copy to the host", RangeKind::wait, at + 185, at + 465, 0);
    done(4, loss, 5, 0, at + 452, at + 455, wait, false);
    p.device_runs.back().what = DeviceWork::What::copy;
    p.device_runs.back().bytes = 4;
  }
  p.steps.push_back((130 + kSteps * 500) * kMicro);
  p.end = p.steps.back();
  StepMemory m;
  m.weights = 1724320;
  m.optimizer = 3448640;
  m.others = 804864;
  m.arena = 24 << 20;
  m.activations = 14 << 20;
  m.gradients = 6 << 20;
  m.workspace = 2 << 20;
  m.arguments = 802816;
  m.eager = 31 << 20;
  m.at = "conv2d_wgrad, features.3 backward";
  m.levels = {{"conv2d, features.0 forward", 802816, 11 << 20, 0, 0, 0},
              {"conv2d, features.3 forward", 0, 14 << 20, 0, 0, 1 << 20},
              {"conv2d_wgrad, features.3 backward", 802816, 14 << 20, 6 << 20, 0, 2 << 20},
              {"conv2d_wgrad, features.0 backward", 0, 3 << 20, 6 << 20, 0, 0},
              {"sgd_update, update", 0, 0, 6 << 20, 1 << 20, 0}};
  m.outside = {{"state of the optimizer", kUpdatePath, Phase::update, 3448640},
               {"weights", "features.3", Phase::forward, 1724320},
               {"data and constants", kDataPath, Phase::forward, 804864}};
  m.holders = {{"conv2d", "features.0", Phase::forward, 11 << 20},
               {"conv2d_dgrad", "features.3", Phase::backward, 6 << 20},
               {"workspace of conv2d_wgrad", "features.3", Phase::backward, 2 << 20}};
  p.memory = {{"a compiled function of 9 calls on cuda:0", m}};
  p.peak = {.device = gpu,
            .weights = 1 << 20,
            .optimizer = 1 << 19,
            .data = 1 << 18,
            .before = 1 << 16,
            .activations = 1 << 20,
            .gradients = 1 << 19,
            .workspace = 1 << 18,
            .holders = {{"sort", "", Phase::forward, 1 << 20}}};
  p.blocks = {{0, 24 << 20, false, "an arena"}, {0, 6 << 20, true, ""}, {1, 1 << 20, false, "full"},
              {1, 512, false, "sort"},          {1, 1 << 19, true, ""}, {2, 2 << 20, true, ""}};
  return p;
}

}  // namespace mica::profiler
