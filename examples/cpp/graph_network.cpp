// Finds the communities of a graph with a graph network on sparse matrices: graph_network [NODES].
// A stochastic block model: nodes of one community are joined more often than others, and each has
// features that say little. Five nodes of each community are labelled.
#include <cstdio>
#include <cstdlib>

#include "mica/mica.h"

using namespace mica;

constexpr int64_t kCommunities = 4;
constexpr int64_t kLabelled = 5 * kCommunities;

/// D^-1/2 (A + I) D^-1/2 of a graph whose edges (2, n) go both ways.
SparseTensor normalized(const Tensor& edges, int64_t nodes) {
  const Tensor loops = expand(arange(nodes), {2, nodes});
  const Tensor ends = concat({edges, flip(edges, {0}), loops}, 1);
  const SparseTensor a =
      sparse_coo_tensor(ends, ones({ends.size(1)}), Shape{nodes, nodes}).to_sparse_csr();
  const Tensor scale = rsqrt(a.sum(1));
  return a * unsqueeze(scale, 1) * scale;
}

struct GraphNetwork {
  nn::Linear inner = nn::Linear(16, 32);
  nn::Linear outer = nn::Linear(32, kCommunities);

  Tensor operator()(const SparseTensor& a, const Tensor& x) {
    return sparse::mm(a, outer(relu(sparse::mm(a, inner(x)))));
  }
};

/// The share of the other nodes whose community is found.
double found_share(const SparseTensor& a, const Tensor& features, const Tensor& community) {
  GraphNetwork net;
  auto parameters = net.inner.parameters();
  for (const Tensor& p : net.outer.parameters()) parameters.push_back(p);
  optim::Adam optimizer(parameters, {.lr = 0.01, .weight_decay = 5e-3});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(slice(net(a, x), 0, 0, kLabelled), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (int i = 0; i < 100; ++i) step(features, slice(community, 0, 0, kLabelled));
  const Tensor right = argmax(net(a, features), 1) == community;
  return mean(cast(slice(right, 0, kLabelled, community.numel()), DType::f32)).item();
}

int main(int argc, char** argv) try {
  const int64_t nodes = argc > 1 ? std::atoll(argv[1]) : 1000;
  manual_seed(0);
  const Tensor community = arange(nodes) % kCommunities;
  const Tensor same = unsqueeze(community, 1) == community;
  const double n = static_cast<double>(nodes);
  const Tensor chance = cast(same, DType::f32) * (27 / n) + 3 / n;
  const Tensor joined = triu(uniform({nodes, nodes}, 0, 1) < chance, 1);
  const Tensor edges = transpose(nonzero(joined), 0, 1);
  const Tensor features =
      index_select(normal({kCommunities, 16}), 0, community) + 3 * normal({nodes, 16});

  const Tensor none = zeros({2, 0}, DType::i64);
  const double alone = found_share(normalized(none, nodes), features, community);
  const SparseTensor graph = normalized(edges, nodes);
  const double accuracy = found_share(graph, features, community);
  std::printf("%lld entries; accuracy %.1f %% by features alone, %.1f %% on the graph\n",
              static_cast<long long>(graph.nnz()), 100 * alone, 100 * accuracy);
  return accuracy > 0.9 && alone < 0.9 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
