#include "mica/runtime/cuda/graph_memsets.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mica/runtime/cuda/check.h"

namespace mica {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 64;
constexpr size_t kMostBytes = size_t{1} << 20;

__global__ void __launch_bounds__(kThreads)
    fill_words(uint32_t* words, uint32_t value, size_t count) {
  for (size_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads)
    words[i] = value;
}

/// What a memset writes over and over, as whole words; false where it does not.
bool is_of_words(const cudaMemsetParams& set, uint32_t& value, size_t& count) {
  const size_t bytes = set.width * set.elementSize;
  if (set.height > 1 || bytes == 0 || bytes > kMostBytes || bytes % sizeof(uint32_t) != 0 ||
      reinterpret_cast<uintptr_t>(set.dst) % sizeof(uint32_t) != 0)
    return false;
  value = set.value;
  if (set.elementSize == 1) value = (value & 0xffU) * 0x01010101U;
  if (set.elementSize == 2) value = (value & 0xffffU) * 0x00010001U;
  count = bytes / sizeof(uint32_t);
  return true;
}

void replace(cudaGraph_t graph, cudaGraphNode_t node) {
  cudaMemsetParams set{};
  check_cuda(cudaGraphMemsetNodeGetParams(node, &set));
  uint32_t value = 0;
  size_t count = 0;
  if (!is_of_words(set, value, count)) return;
  size_t before = 0;
  size_t after = 0;
  check_cuda(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &before));
  check_cuda(cudaGraphNodeGetDependentNodes(node, nullptr, nullptr, &after));
  std::vector<cudaGraphNode_t> waits(before);
  std::vector<cudaGraphNode_t> followers(after);
  std::vector<cudaGraphEdgeData> edges(std::max(before, after));
  if (before > 0)
    check_cuda(cudaGraphNodeGetDependencies(node, waits.data(), edges.data(), &before));
  if (after > 0)
    check_cuda(cudaGraphNodeGetDependentNodes(node, followers.data(), edges.data(), &after));
  auto* words = static_cast<uint32_t*>(set.dst);
  void* arguments[] = {&words, &value, &count};
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(fill_words);
  kernel.gridDim = dim3(std::min(blocks, kMostBlocks));
  kernel.blockDim = dim3(kThreads);
  kernel.kernelParams = arguments;
  cudaGraphNode_t made = nullptr;
  check_cuda(cudaGraphAddKernelNode(&made, graph, waits.data(), waits.size(), &kernel));
  const std::vector<cudaGraphNode_t> from(followers.size(), made);
  if (!followers.empty())
    check_cuda(
        cudaGraphAddDependencies(graph, from.data(), followers.data(), nullptr, followers.size()));
  check_cuda(cudaGraphDestroyNode(node));
}

}  // namespace

void replace_memsets(cudaGraph_t graph) {
  size_t count = 0;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check_cuda(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check_cuda(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeMemset) replace(graph, node);
  }
}

}  // namespace mica
