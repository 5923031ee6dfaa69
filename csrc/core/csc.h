// The graph as the sampler reads it: compressed sparse columns over in-edges. Memory belongs to
// the caller, who may have mapped it from a file; nothing here copies or widens it.
#pragma once

#include <cstdint>
#include <string>

namespace salient {

// In-neighbours of v are indices[indptr[v] .. indptr[v + 1]).
template <class Index>
struct CscView {
  const std::int64_t* indptr = nullptr;    // (num_nodes + 1)
  const Index* indices = nullptr;          // (num_edges)
  const std::int64_t* edge_ids = nullptr;  // (num_edges) or null: position in the user's edge list
  std::int64_t num_nodes = 0;
  std::int64_t num_edges = 0;
};

// Empty if the arrays form a graph, else what is wrong and where. O(nodes + edges).
template <class Index>
std::string find_fault(const CscView<Index>& graph);

// Groups edges (source[i] -> target[i]) by target, keeping the order of the list inside a group.
// Fills indptr (num_nodes + 1), indices and, unless null, edge_ids (num_edges).
// @throws std::out_of_range naming the first edge with an end outside [0, num_nodes).
template <class Source, class Index>
void coo_to_csc(const Source* source, const Source* target, std::int64_t num_edges,
                std::int64_t num_nodes, std::int64_t* indptr, Index* indices,
                std::int64_t* edge_ids);

}  // namespace salient
