#include "csc.h"

namespace salient {

template <class Index>
std::string find_fault(const CscView<Index>& graph) {
  if (graph.indptr[0] != 0) {
    return "indptr[0] is " + std::to_string(graph.indptr[0]) + ", expected 0";
  }
  for (std::int64_t v = 0; v < graph.num_nodes; ++v) {
    if (graph.indptr[v + 1] < graph.indptr[v]) {
      return "indptr falls from " + std::to_string(graph.indptr[v]) + " to " +
             std::to_string(graph.indptr[v + 1]) + " at position " + std::to_string(v + 1);
    }
  }
  if (graph.indptr[graph.num_nodes] != graph.num_edges) {
    return "indptr ends with " + std::to_string(graph.indptr[graph.num_nodes]) +
           ", but indices has " + std::to_string(graph.num_edges) + " entries";
  }
  for (std::int64_t e = 0; e < graph.num_edges; ++e) {
    if (graph.indices[e] < 0 || static_cast<std::int64_t>(graph.indices[e]) >= graph.num_nodes) {
      return "indices[" + std::to_string(e) + "] is " + std::to_string(graph.indices[e]) +
             ", outside [0, " + std::to_string(graph.num_nodes) + ")";
    }
  }
  if (graph.edge_ids != nullptr) {
    for (std::int64_t e = 0; e < graph.num_edges; ++e) {
      if (graph.edge_ids[e] < 0) {
        return "edge_ids[" + std::to_string(e) +
               "] is negative: " + std::to_string(graph.edge_ids[e]);
      }
    }
  }
  return {};
}

template std::string find_fault(const CscView<std::int32_t>&);
template std::string find_fault(const CscView<std::int64_t>&);

}  // namespace salient
