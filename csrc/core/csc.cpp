#include "csc.h"

#include <algorithm>
#include <stdexcept>

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

template <class Source, class Index>
void coo_to_csc(const Source* source, const Source* target, std::int64_t num_edges,
                std::int64_t num_nodes, std::int64_t* indptr, Index* indices,
                std::int64_t* edge_ids) {
  const auto outside = [num_nodes](Source id) {
    return id < 0 || static_cast<std::int64_t>(id) >= num_nodes;
  };
  for (std::int64_t e = 0; e < num_edges; ++e) {
    if (outside(source[e]) || outside(target[e])) {
      throw std::out_of_range("edge " + std::to_string(e) + " is " + std::to_string(source[e]) +
                              " -> " + std::to_string(target[e]) + ", but num_nodes is " +
                              std::to_string(num_nodes));
    }
  }
  // indptr[v + 1] first counts the in-edges of v - 1, so that it can serve as the write cursor of
  // v while edges are placed and holds the end of v, the wanted value, afterwards.
  std::fill(indptr, indptr + num_nodes + 1, std::int64_t{0});
  for (std::int64_t e = 0; e < num_edges; ++e) {
    const auto v = static_cast<std::int64_t>(target[e]);
    if (v + 2 <= num_nodes) ++indptr[v + 2];
  }
  for (std::int64_t v = 2; v <= num_nodes; ++v) indptr[v] += indptr[v - 1];
  for (std::int64_t e = 0; e < num_edges; ++e) {
    const std::int64_t at = indptr[static_cast<std::int64_t>(target[e]) + 1]++;
    indices[at] = static_cast<Index>(source[e]);
    if (edge_ids != nullptr) edge_ids[at] = e;
  }
}

template std::string find_fault(const CscView<std::int32_t>&);
template std::string find_fault(const CscView<std::int64_t>&);
template void coo_to_csc(const std::int32_t*, const std::int32_t*, std::int64_t, std::int64_t,
                         std::int64_t*, std::int32_t*, std::int64_t*);
template void coo_to_csc(const std::int64_t*, const std::int64_t*, std::int64_t, std::int64_t,
                         std::int64_t*, std::int32_t*, std::int64_t*);
template void coo_to_csc(const std::int32_t*, const std::int32_t*, std::int64_t, std::int64_t,
                         std::int64_t*, std::int64_t*, std::int64_t*);
template void coo_to_csc(const std::int64_t*, const std::int64_t*, std::int64_t, std::int64_t,
                         std::int64_t*, std::int64_t*, std::int64_t*);

}  // namespace salient
