"""Finds the communities of a graph with a graph network on sparse matrices.

    python graph_network.py [--nodes 1000]

A stochastic block model: nodes of one community are joined more often than others, and each has
features that say little. Five nodes of each community are labelled. A network that sees features
alone does badly; one whose layers also take the mean over a node's neighbours does not.
"""

import argparse

import mica
import mica.nn.functional as F
from mica import nn

parser = argparse.ArgumentParser()
parser.add_argument("--nodes", type=int, default=1000)
parser.add_argument("--communities", type=int, default=4)
args = parser.parse_args()
mica.manual_seed(0)

community = mica.arange(args.nodes) % args.communities
same = community[:, None] == community
chance = mica.where(same, 30 / args.nodes, 3 / args.nodes)
edges = (mica.rand(args.nodes, args.nodes) < chance).triu(1).nonzero().t()
features = mica.randn(args.communities, 16)[community] + 3 * mica.randn(args.nodes, 16)
labelled = mica.arange(5 * args.communities)


def normalized(edges: mica.Tensor) -> mica.SparseTensor:
    """D^-1/2 (A + I) D^-1/2 of a graph whose edges go both ways."""
    loops = mica.arange(args.nodes).expand(2, args.nodes)
    ends = mica.cat([edges, edges.flip(0), loops], 1)
    a = mica.sparse_coo_tensor(ends, mica.ones(ends.shape[1]), (args.nodes, args.nodes))
    a = a.to_sparse_csr()
    scale = a.sum(1) ** -0.5
    return a * scale[:, None] * scale


class GraphNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 32)
        self.outer = nn.Linear(32, args.communities)

    def forward(self, a: mica.SparseTensor, x: mica.Tensor) -> mica.Tensor:
        h: mica.Tensor = F.relu(a @ self.inner(x))
        classes: mica.Tensor = a @ self.outer(h)
        return classes


def train(a: mica.SparseTensor) -> float:
    """The share of the other nodes whose community is found."""
    net = GraphNetwork()
    optimizer = mica.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-3)

    @mica.compile  # products with the matrix and its transpose, the loss and the update
    def step(a: mica.SparseTensor, x: mica.Tensor, y: mica.Tensor) -> mica.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(a, x)[labelled], y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(100):
        step(a, features, community[labelled])
    found: mica.Tensor = net(a, features).argmax(1)[len(labelled) :]
    return float((found == community[len(labelled) :]).float().mean())


alone = train(normalized(mica.zeros(2, 0, dtype=mica.int64)))
graph = normalized(edges)
accuracy = train(graph)
print(f"{graph.nnz} entries; accuracy {alone:.1%} by features alone, {accuracy:.1%} on the graph")
assert accuracy > 0.9 > alone
