// Whether a variant samples correctly. Faults are exceptions that say what is wrong where.
#pragma once

#include "variant.h"

namespace design_study {

// Counts, ids and positions on a small graph without parallel edges, where distinct neighbours
// are distinct positions; and the probabilities of single in-edges and of pairs of them.
// @throws std::logic_error what the variant did wrong
template <class Id>
void check_on_small_graph(const Variant<Id>& variant);

// A batch that was just sampled from any graph: each destination has min(degree, fanout) edges,
// they are among its in-edges and none is there more often than in the graph; local ids are a
// numbering of n_id, which repeats nothing and begins with the seeds.
// @param max_checked destinations of each hop whose in-edges are looked at
// @throws std::logic_error what is wrong
template <class Id>
void check_batch(const Input<Id>& input, const Output<Id>& output, std::int64_t max_checked);

}  // namespace design_study
