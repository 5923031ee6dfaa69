// Neighbour sampling: from seed nodes to the message-flow graphs of one mini-batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "buffer.h"
#include "csc.h"

namespace salient {

enum class Form {
  kMfg,       // each hop expands every node seen so far (the paper, DGL)
  kSubgraph,  // each hop expands only the nodes that the last one found (PyG's NeighborLoader)
};

struct SamplerConfig {
  std::vector<std::int64_t> fanouts;  // entry 0 is the hop at the seeds; -1 keeps all in-edges
  bool replace = false;
  bool edge_ids = false;
  Form form = Form::kMfg;
  std::uint64_t seed = 0;
};

// Thrown out of a sample whose stop flag was raised.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

// One bipartite graph in CSC form, in local ids.
struct SampledGraph {
  Buffer<std::int32_t> indptr;        // (num_dst + 1)
  Buffer<std::int32_t> indices;       // (num_edges)
  Buffer<std::int64_t> edge_offsets;  // (num_edges) positions in the graph's indices, on request
  std::int64_t num_dst = 0;
  std::int64_t num_edges = 0;
};

// The memory of one sampling thread, and in it the last sample that it made.
class SampleScratch {
 public:
  SampleScratch() = default;
  SampleScratch(const SampleScratch&) = delete;
  SampleScratch& operator=(const SampleScratch&) = delete;
  virtual ~SampleScratch() = default;

  // Writes the global ids of the batch's nodes, seeds first, to out (num_nodes).
  virtual void copy_node_ids(std::int64_t* out) const = 0;
  virtual std::int64_t bytes() const = 0;

  std::int64_t num_nodes = 0;
  std::vector<std::int64_t> nodes_after_hop;  // (hops + 1) nodes known: seeds, after hop 1, ...
  std::vector<std::int64_t> edges_in_hop;     // (hops)
  std::vector<SampledGraph> graphs;           // MFG form: one per hop; subgraph form: one in all
};

// A sampler of one graph with one configuration. Immutable: any number of threads may call
// sample() at once, each with a scratch of its own.
class Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler() = default;

  virtual std::unique_ptr<SampleScratch> make_scratch() const = 0;

  // Samples one batch into `scratch`. The result depends on the arguments and the configuration
  // only, and is bit-identical on every machine.
  // @param seeds (batch size) global ids, unique
  // @param stop may be null; once true, Stopped is thrown soon
  // @throws std::out_of_range a seed outside the graph
  // @throws std::invalid_argument a repeated seed
  // @throws std::length_error more than 2^31 - 1 edges or nodes in one batch
  virtual void sample(std::span<const std::int64_t> seeds, std::uint64_t epoch, std::uint64_t batch,
                      SampleScratch& scratch, const std::atomic<bool>* stop) const = 0;

  // Position of each sampled edge of `graph` in the user's own edge list, to out (num_edges).
  virtual void copy_edge_ids(const SampledGraph& graph, std::int64_t* out) const = 0;

  virtual const SamplerConfig& config() const = 0;
  virtual std::int64_t num_graph_nodes() const = 0;
};

// The graph's arrays must outlive the sampler.
std::unique_ptr<Sampler> make_sampler(const CscView<std::int32_t>& graph, SamplerConfig config);
std::unique_ptr<Sampler> make_sampler(const CscView<std::int64_t>& graph, SamplerConfig config);

}  // namespace salient
