// The hand-drawable graphs of the tests, and graphs made at random.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "csc.h"
#include "csc_converter.h"

namespace salient {

using Edges = std::vector<std::pair<std::int64_t, std::int64_t>>;  // source, target

// A graph that owns its arrays. `num_nodes` may exceed the highest id.
template <class Index>
struct OwnedGraph {
  std::vector<std::int64_t> indptr, edge_ids;
  std::vector<Index> indices;

  OwnedGraph(const Edges& edges, std::int64_t num_nodes)
      : indptr(static_cast<std::size_t>(num_nodes) + 1),
        edge_ids(edges.size()),
        indices(edges.size()) {
    std::vector<std::int64_t> source, target;
    for (const auto& [from, to] : edges) {
      source.push_back(from);
      target.push_back(to);
    }
    coo_to_csc(source.data(), target.data(), static_cast<std::int64_t>(edges.size()), num_nodes,
               indptr.data(), indices.data(), edge_ids.data());
  }

  CscView<Index> view() const {
    return {indptr.data(), indices.data(), edge_ids.data(),
            static_cast<std::int64_t>(indptr.size()) - 1,
            static_cast<std::int64_t>(indices.size())};
  }
};

// 7 nodes, unsorted; a parallel edge 1 -> 0, a self-loop 0 -> 0, node 6 isolated.
inline Edges make_g1() {
  return {{3, 0}, {1, 0}, {5, 4}, {2, 1}, {1, 0}, {0, 0}, {4, 1}, {0, 2}};
}

// Hub 0 with the in-neighbours 1..50.
inline Edges make_g3() {
  Edges edges;
  for (std::int64_t leaf = 1; leaf <= 50; ++leaf) edges.emplace_back(leaf, 0);
  return edges;
}

// Ring of 5, i -> i + 1, in a shuffled order.
inline Edges make_g4() {
  return {{2, 3}, {4, 0}, {0, 1}, {3, 4}, {1, 2}};
}

// Targets are drawn so that a few nodes have most of the edges.
inline Edges make_skewed(std::int64_t num_nodes, std::int64_t num_edges, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  Edges edges;
  for (std::int64_t e = 0; e < num_edges; ++e) {
    const double u = unit(random), v = unit(random);
    edges.emplace_back(static_cast<std::int64_t>(u * static_cast<double>(num_nodes)),
                       static_cast<std::int64_t>(v * v * v * static_cast<double>(num_nodes)));
  }
  return edges;
}

}  // namespace salient
