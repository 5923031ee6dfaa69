// Synthetic twins: the edges, straight into compressed sparse columns.
//
// The stubs of a block are paired by cutting a keyed permutation of them into twos, which makes the
// configuration model inside the block. Either end finds the other by itself, so every node's list
// is written where it belongs, once, with no list of edges, no buckets and no sorting of edges.
#pragma once

#include <cstdint>

#include "twin_layout.h"

namespace salient {

// Fills indptr (num_nodes + 1) and indices (the sum of degrees before duplicates are dropped, see
// raw_edges) with exactly 2 * num_pairs edges: symmetric, without self-loops and duplicates,
// sources ascending within a node. What is drawn beyond num_pairs is dropped by the smallest hash
// of a pair.
// @return directed edges left without that last step; if fewer than 2 * num_pairs, too little was
//         drawn and the arrays hold nothing of use
std::int64_t write_twin_edges(const TwinLayout& layout, std::int64_t num_pairs, int num_threads,
                              std::int64_t* indptr, std::int32_t* indices);

// Entries of indices that write_twin_edges needs.
std::int64_t raw_edges(const TwinLayout& layout);

}  // namespace salient
