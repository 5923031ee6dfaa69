// Synthetic twins: labels, split and features of the nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "twin_layout.h"

namespace salient {

// The class of every node, and its part of the split: p if the node's place in a keyed permutation
// lies in [part_starts[p], part_starts[p + 1]), 255 if in none.
void write_twin_labels(const TwinLayout& layout, const std::vector<std::int64_t>& part_starts,
                       int num_threads, std::int64_t* labels, std::uint8_t* parts);

// Features of the nodes [first, last), bits of float16, (last - first, num_features): the mean of
// the class plus noise of variance 1. Means are of the same law, times `signal`. Noise is the sum
// of four uniform bytes (Irwin and Hall's law, close to Gauss's), so that every operation is exact
// in IEEE arithmetic and no library function is used.
void write_twin_features(const TwinLayout& layout, std::int64_t num_features, float signal,
                         std::int64_t first, std::int64_t last, int num_threads,
                         std::uint16_t* features);

}  // namespace salient
