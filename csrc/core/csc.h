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

}  // namespace salient
