// From a list of edges to CSC form: parallel, in bounded memory, from a list that may lie on disk.
//
// The list is read in chunks, in one order, once to count and then once in each pass. Targets are
// divided into ranges, "buckets", small enough that grouping one by target stays in cache. A pass
// takes as many buckets as its scratch may hold: it writes each edge to the place of its bucket,
// as source and low bits of the target, and then groups the buckets one by one, each by one thread.
// Where the scratch holds all edges there is one pass; a smaller one costs more readings of the
// list instead of memory. The result depends on neither threads nor scratch.
#pragma once

#include <cstdint>
#include <vector>

#include "buffer.h"

namespace salient {

struct ConversionOptions {
  std::int64_t num_nodes = 0;
  std::int64_t num_edges = 0;      // about as many edges as will come; only speed depends on it
  bool symmetrise = false;         // add every edge's reverse; drops duplicates too
  bool drop_duplicates = false;    // keep one of parallel edges; sorts the sources of each node
  bool positions = false;          // keep each edge's place in the list; not with the other two
  int num_threads = 0;             // 0: one for each core
  std::int64_t scratch_bytes = 0;  // of a pass; 0: as much as one pass over everything needs
};

template <class Index>
class CscConverter {
 public:
  explicit CscConverter(const ConversionOptions& options);

  // Reading the list for the first time.
  // @throws std::out_of_range naming the first edge with an end outside [0, num_nodes)
  template <class Id>
  void count(const Id* source, const Id* target, std::int64_t num_edges);

  // Entries that indices must have room for: all edges, reversed ones too, before duplicates go.
  std::int64_t num_collected() const { return num_collected_; }

  // Starts the next pass, if there is any left; the whole list must then come through collect().
  bool begin_pass();
  // @throws std::runtime_error if these are not the edges that were counted
  template <class Id>
  void collect(const Id* source, const Id* target, std::int64_t num_edges);
  // Appends the pass's part of the graph. Leaves degrees in indptr[1 ...], for finish().
  // @throws std::runtime_error if edges that were counted did not come
  void end_pass(std::int64_t* indptr, Index* indices, std::int64_t* edge_ids);

  // Completes indptr (num_nodes + 1). Returns the number of edges.
  std::int64_t finish(std::int64_t* indptr) const;

  // Edges from a node to itself, in the graph as it was made so far.
  std::int64_t self_loops() const { return self_loops_; }

 private:
  struct Grouped {
    std::int64_t kept = 0;
    std::int64_t self_loops = 0;
  };

  std::int64_t bucket_of(std::int64_t node) const { return node >> shift_; }
  bool drops() const { return options_.symmetrise || options_.drop_duplicates; }
  Grouped group(std::int64_t bucket, std::int64_t* indptr, Index* indices, std::int64_t* edge_ids,
                std::vector<std::int64_t>& ends) const;

  ConversionOptions options_;
  int shift_ = 0;
  std::int64_t num_buckets_ = 0;
  std::int64_t num_counted_ = 0;    // edges of the list
  std::int64_t num_collected_ = 0;  // their ends in buckets
  std::int64_t written_ = 0;        // entries of indices that are final
  std::int64_t self_loops_ = 0;
  std::vector<std::int64_t> sizes_;  // (num_buckets)
  // Of the pass at hand: its buckets, and where in the scratch each begins and is filled up to.
  std::int64_t first_ = 0, last_ = 0;
  std::int64_t num_passed_ = 0;  // edges of the list that came in this pass
  std::vector<std::int64_t> begins_, cursors_;
  std::vector<std::vector<std::int64_t>> places_;  // of each thread, in each bucket
  Buffer<Index> sources_;
  Buffer<std::uint16_t> low_targets_;
  Buffer<std::int64_t> positions_;
};

// All of it for a list in memory. Fills indptr (num_nodes + 1), indices and, unless null, edge_ids
// (num_edges); the order of the list is kept inside a node.
// @throws std::out_of_range as CscConverter::count
template <class Id, class Index>
void coo_to_csc(const Id* source, const Id* target, std::int64_t num_edges, std::int64_t num_nodes,
                std::int64_t* indptr, Index* indices, std::int64_t* edge_ids);

}  // namespace salient
