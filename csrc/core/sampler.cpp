#include "sampler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "neighbor_draw.h"
#include "philox.h"
#include "platform.h"
#include "relabel_table.h"

namespace salient {

namespace {

// A hop is worked through in blocks of frontier nodes, and each block in phases: read offsets and
// draw; load the drawn neighbours; insert them into the table. Between phases the next cache
// lines are requested, so that some hundreds of misses overlap instead of following one another.
constexpr std::int64_t kBlockNodes = 64;
constexpr std::int64_t kBlockEdges = 512;
constexpr std::int64_t kRunEdges = 128;  // neighbours between load and insertion

constexpr std::int64_t kMaxLocal = std::numeric_limits<std::int32_t>::max();

// A graph of up to so many nodes is relabelled through an array, a larger one by hashing.
constexpr std::int64_t kArrayTableNodes = std::int64_t{1} << 23;

template <class Id, class Table>
struct Scratch final : SampleScratch {
  Scratch(std::int64_t num_graph_nodes, const SamplerConfig& config) : table(num_graph_nodes) {
    const std::size_t hops = config.fanouts.size();
    graphs.resize(config.form == Form::kMfg ? hops : std::min<std::size_t>(hops, 1));
    for (const std::int64_t fanout : config.fanouts) draws.emplace_back(fanout, config.replace);
  }

  void copy_node_ids(std::int64_t* out) const override {
    std::copy(n_id.data(), n_id.data() + num_nodes, out);
  }

  std::int64_t bytes() const override {
    std::int64_t total = table.bytes() + n_id.capacity_bytes();
    for (const SampledGraph& graph : graphs) {
      total += graph.indptr.capacity_bytes() + graph.indices.capacity_bytes() +
               graph.edge_offsets.capacity_bytes();
    }
    for (const auto& offsets : block_offsets) total += offsets.capacity_bytes();
    return total;
  }

  Table table;
  Buffer<Id> n_id;
  std::vector<NeighborDraw> draws;                    // one per hop
  std::array<Buffer<std::int64_t>, 2> block_offsets;  // drawn edges of this and the last block
  std::array<std::array<Id, kRunEdges>, 2> runs;      // loaded neighbours, not yet inserted
};

template <class Id, class Table>
class TypedSampler final : public Sampler {
 public:
  TypedSampler(const CscView<Id>& graph, SamplerConfig config)
      : graph_(graph), config_(std::move(config)) {}

  std::unique_ptr<SampleScratch> make_scratch() const override {
    return std::make_unique<Scratch<Id, Table>>(graph_.num_nodes, config_);
  }

  void sample(std::span<const std::int64_t> seeds, std::uint64_t epoch, std::uint64_t batch,
              SampleScratch& scratch, const std::atomic<bool>* stop) const override;

  void copy_edge_ids(const SampledGraph& graph, std::int64_t* out) const override;

  const SamplerConfig& config() const override { return config_; }
  std::int64_t num_graph_nodes() const override { return graph_.num_nodes; }

 private:
  using Work = Scratch<Id, Table>;

  void insert_seeds(std::span<const std::int64_t> seeds, Work& work) const;
  void sample_hop(std::int64_t frontier_begin, std::int64_t frontier_end, std::size_t hop,
                  const DrawStream& stream, Work& work, SampledGraph& out,
                  const std::atomic<bool>* stop) const;

  CscView<Id> graph_;
  SamplerConfig config_;
};

// Draws of one block: from frontier nodes to positions in the graph's indices.
template <class Id>
class BlockChooser {
 public:
  BlockChooser(const CscView<Id>& graph, std::int64_t fanout, bool replace, NeighborDraw& draw,
               const DrawStream& stream)
      : graph_(graph),
        fanout_(fanout),
        replace_(replace),
        draw_(draw),
        stream_(stream),
        block_edges_(std::max(kBlockEdges, fanout * kLanes)) {}

  // Chooses in-edges of nodes first, first + 1, ... of the frontier until the block is full.
  // Appends to the graph's indptr, fills `offsets`, requests the indices at these offsets.
  // @return nodes in the block
  std::int64_t choose(const Id* n_id, std::int64_t first, std::int64_t last, SampledGraph& out,
                      Buffer<std::int64_t>& offsets) {
    last = std::min(last, first + kBlockNodes);
    std::int64_t num_nodes = 0;
    num_edges = 0;
    for (std::int64_t v = first; v < last; ++v, ++num_nodes) {
      const auto id = static_cast<std::int64_t>(n_id[v]);
      const std::int64_t begin = graph_.indptr[id];
      const std::int64_t degree = graph_.indptr[id + 1] - begin;
      const std::int64_t taken = edges_taken(degree);
      if (num_edges > 0 && num_edges + taken > block_edges_) break;
      begin_[num_nodes] = begin;
      degree_[num_nodes] = degree;
      place_[num_nodes] = num_edges;
      num_edges += taken;
      if (out.num_edges + num_edges > kMaxLocal) {
        throw std::length_error(
            "a batch has more than 2^31 - 1 edges: use smaller fanouts or a smaller batch_size");
      }
      out.indptr[++out.num_dst] = static_cast<std::int32_t>(out.num_edges + num_edges);
    }
    out.num_edges += num_edges;
    offsets.reserve(num_edges);
    for (std::int64_t v = 0; v < num_nodes; ++v) {
      if (drawn(degree_[v])) {
        add_to_lanes(first, v, offsets.data());
      } else {
        take_all(v, offsets.data());
      }
    }
    flush_lanes();
    return num_nodes;
  }

  std::int64_t num_edges = 0;

 private:
  bool drawn(std::int64_t degree) const {
    return fanout_ > 0 && (replace_ ? degree > 0 : degree > fanout_);
  }

  std::int64_t edges_taken(std::int64_t degree) const {
    if (fanout_ < 0) return degree;
    if (replace_) return degree > 0 ? fanout_ : 0;
    return std::min(degree, fanout_);
  }

  void take_all(std::int64_t v, std::int64_t* offsets) const {
    if (fanout_ == 0) return;
    constexpr std::int64_t kIdsPerLine = 64 / std::int64_t{sizeof(Id)};
    std::int64_t* out = offsets + place_[v];
    for (std::int64_t i = 0; i < degree_[v]; ++i) out[i] = begin_[v] + i;
    // A long run is followed by the processor's own prefetcher.
    const std::int64_t requested = std::min(degree_[v], 8 * kIdsPerLine);
    for (std::int64_t i = 0; i < requested; i += kIdsPerLine) {
      prefetch_read(graph_.indices + begin_[v] + i);
    }
    if (degree_[v] > 0) prefetch_read(graph_.indices + begin_[v] + degree_[v] - 1);
  }

  void add_to_lanes(std::int64_t first, std::int64_t v, std::int64_t* offsets) {
    const auto position = static_cast<std::uint32_t>(first + v);
    if (degree_[v] > kMaxLocal) {
      draw_.draw_huge(stream_, position, degree_[v], begin_[v], offsets + place_[v]);
      return;
    }
    lane_position_[lanes_] = position;
    lane_degree_[lanes_] = static_cast<std::uint32_t>(degree_[v]);
    lane_begin_[lanes_] = begin_[v];
    lane_out_[lanes_] = offsets + place_[v];
    if (++lanes_ == kLanes) flush_lanes();
  }

  void flush_lanes() {
    if (lanes_ == 0) return;
    draw_.draw(stream_, lane_position_, lane_degree_, lanes_, lane_out_, lane_begin_);
    for (int lane = 0; lane < lanes_; ++lane) {
      for (std::int64_t i = 0; i < fanout_; ++i) {
        prefetch_read(graph_.indices + lane_out_[lane][i]);
      }
    }
    lanes_ = 0;
  }

  const CscView<Id>& graph_;
  const std::int64_t fanout_;
  const bool replace_;
  NeighborDraw& draw_;
  const DrawStream& stream_;
  const std::int64_t block_edges_;

  std::int64_t begin_[kBlockNodes], degree_[kBlockNodes], place_[kBlockNodes];
  std::uint32_t lane_position_[kLanes], lane_degree_[kLanes];
  std::int64_t lane_begin_[kLanes];
  std::int64_t* lane_out_[kLanes];
  int lanes_ = 0;
};

// Relabelling of drawn edges: from positions in the graph's indices to local ids. One run of
// neighbours is always between its load and its insertion.
template <class Id, class Table>
class RunRelabeller {
 public:
  RunRelabeller(const CscView<Id>& graph, Scratch<Id, Table>& work, SampledGraph& out,
                std::int64_t written)
      : graph_(graph), work_(work), out_(out), written_(written) {}

  void relabel(const std::int64_t* offsets, std::int64_t count) {
    for (std::int64_t start = 0; start < count; start += kRunEdges) {
      const std::int64_t length = std::min(kRunEdges, count - start);
      Id* run = work_.runs[static_cast<std::size_t>(current_)].data();
      for (std::int64_t i = 0; i < length; ++i) {
        run[i] = graph_.indices[offsets[start + i]];
        work_.table.prefetch(run[i]);
      }
      current_ ^= 1;
      insert_waiting();
      waiting_ = length;
    }
  }

  void finish() {
    current_ ^= 1;
    insert_waiting();
  }

 private:
  // Inserts the run loaded before the last one; `current_` points at it.
  void insert_waiting() {
    if (waiting_ == 0) return;
    std::int64_t known = work_.num_nodes;
    if (known + waiting_ > kMaxLocal) {
      throw std::length_error(
          "a batch has more than 2^31 - 1 nodes: use smaller fanouts or a smaller batch_size");
    }
    work_.n_id.reserve(known + waiting_);
    work_.table.reserve(work_.n_id.data(), known, waiting_);
    Id* n_id = work_.n_id.data();
    const Id* run = work_.runs[static_cast<std::size_t>(current_)].data();
    std::int32_t* indices = out_.indices.data() + written_;
    for (std::int64_t i = 0; i < waiting_; ++i) {
      const auto next = static_cast<std::int32_t>(known);
      const std::int32_t local = work_.table.find_or_insert(run[i], next);
      // Written whether new or not: whether a node is new cannot be predicted, and a wrong guess
      // costs more than a store.
      n_id[known] = run[i];
      known += local == next ? 1 : 0;
      indices[i] = local;
    }
    work_.num_nodes = known;
    written_ += waiting_;
    waiting_ = 0;
  }

  const CscView<Id>& graph_;
  Scratch<Id, Table>& work_;
  SampledGraph& out_;
  std::int64_t written_;
  std::int64_t waiting_ = 0;
  int current_ = 0;
};

template <class Id, class Table>
void TypedSampler<Id, Table>::insert_seeds(std::span<const std::int64_t> seeds, Work& work) const {
  const auto count = static_cast<std::int64_t>(seeds.size());
  work.table.clear(work.n_id.data(), work.num_nodes);
  work.num_nodes = 0;
  work.n_id.reserve(count);
  work.table.reserve(work.n_id.data(), 0, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t seed = seeds[static_cast<std::size_t>(i)];
    if (seed < 0 || seed >= graph_.num_nodes) {
      throw std::out_of_range("seeds[" + std::to_string(i) + "] is " + std::to_string(seed) +
                              ", outside [0, " + std::to_string(graph_.num_nodes) + ")");
    }
    const auto next = static_cast<std::int32_t>(i);
    const std::int32_t local = work.table.find_or_insert(static_cast<Id>(seed), next);
    if (local != next) {
      throw std::invalid_argument("seeds: node " + std::to_string(seed) +
                                  " is repeated, at positions " + std::to_string(local) + " and " +
                                  std::to_string(i) + "; seeds must be unique");
    }
    work.n_id[i] = static_cast<Id>(seed);
    work.num_nodes = i + 1;
  }
}

template <class Id, class Table>
void TypedSampler<Id, Table>::sample_hop(std::int64_t frontier_begin, std::int64_t frontier_end,
                                         std::size_t hop, const DrawStream& stream, Work& work,
                                         SampledGraph& out, const std::atomic<bool>* stop) const {
  BlockChooser<Id> chooser(graph_, config_.fanouts[hop], config_.replace, work.draws[hop], stream);
  RunRelabeller<Id, Table> relabeller(graph_, work, out, out.num_edges);
  out.indptr.reserve(out.num_dst + frontier_end - frontier_begin + 1);
  if (out.num_dst == 0) out.indptr[0] = 0;

  std::int64_t waiting_edges = 0;  // in the other block: drawn and requested, not yet relabelled
  int current = 0;
  for (std::int64_t first = frontier_begin; first < frontier_end; current ^= 1) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) throw Stopped();
    const std::int64_t ahead_end = std::min(frontier_end, first + 2 * kBlockNodes);
    for (std::int64_t v = first + kBlockNodes; v < ahead_end; ++v) {
      prefetch_read(graph_.indptr + static_cast<std::int64_t>(work.n_id[v]));
    }
    auto& offsets = work.block_offsets[static_cast<std::size_t>(current)];
    const std::int64_t edges_before = out.num_edges;
    first += chooser.choose(work.n_id.data(), first, frontier_end, out, offsets);
    out.indices.reserve(out.num_edges);
    if (config_.edge_ids) {
      out.edge_offsets.reserve(out.num_edges);
      std::copy(offsets.data(), offsets.data() + chooser.num_edges,
                out.edge_offsets.data() + edges_before);
    }
    relabeller.relabel(work.block_offsets[static_cast<std::size_t>(current ^ 1)].data(),
                       waiting_edges);
    waiting_edges = chooser.num_edges;
  }
  relabeller.relabel(work.block_offsets[static_cast<std::size_t>(current ^ 1)].data(),
                     waiting_edges);
  relabeller.finish();
}

template <class Id, class Table>
void TypedSampler<Id, Table>::sample(std::span<const std::int64_t> seeds, std::uint64_t epoch,
                                     std::uint64_t batch, SampleScratch& scratch,
                                     const std::atomic<bool>* stop) const {
  auto& work = static_cast<Work&>(scratch);
  insert_seeds(seeds, work);
  work.nodes_after_hop.assign(1, work.num_nodes);
  work.edges_in_hop.clear();
  for (SampledGraph& graph : work.graphs) graph.num_dst = graph.num_edges = 0;

  std::int64_t frontier_begin = 0;
  for (std::size_t hop = 0; hop < config_.fanouts.size(); ++hop) {
    const std::int64_t frontier_end = work.num_nodes;
    SampledGraph& out = work.graphs[config_.form == Form::kMfg ? hop : 0];
    const std::int64_t edges_before = out.num_edges;
    const DrawStream stream(config_.seed, epoch, batch, static_cast<std::uint32_t>(hop));
    sample_hop(frontier_begin, frontier_end, hop, stream, work, out, stop);
    work.nodes_after_hop.push_back(work.num_nodes);
    work.edges_in_hop.push_back(out.num_edges - edges_before);
    if (config_.form == Form::kSubgraph) frontier_begin = frontier_end;
  }
}

template <class Id, class Table>
void TypedSampler<Id, Table>::copy_edge_ids(const SampledGraph& graph, std::int64_t* out) const {
  const std::int64_t* offsets = graph.edge_offsets.data();
  if (graph_.edge_ids == nullptr) {
    std::copy(offsets, offsets + graph.num_edges, out);
    return;
  }
  constexpr std::int64_t kAhead = 16;
  for (std::int64_t i = 0; i < graph.num_edges; ++i) {
    if (i + kAhead < graph.num_edges) prefetch_read(graph_.edge_ids + offsets[i + kAhead]);
    out[i] = graph_.edge_ids[offsets[i]];
  }
}

template <class Id>
std::unique_ptr<Sampler> make_typed(const CscView<Id>& graph, SamplerConfig config) {
  for (const std::int64_t fanout : config.fanouts) {
    if (fanout < -1 || fanout > kMaxFanout) {
      throw std::invalid_argument("fanouts: " + std::to_string(fanout) +
                                  " is neither -1 (all) nor in [0, " + std::to_string(kMaxFanout) +
                                  "]");
    }
  }
  if (static_cast<std::int64_t>(config.fanouts.size()) > kMaxHops) {
    throw std::invalid_argument("fanouts: " + std::to_string(config.fanouts.size()) +
                                " hops, at most " + std::to_string(kMaxHops) + " are possible");
  }
  if (graph.num_nodes <= kArrayTableNodes) {
    return std::make_unique<TypedSampler<Id, ArrayTable<Id>>>(graph, std::move(config));
  }
  return std::make_unique<TypedSampler<Id, HashTable<Id>>>(graph, std::move(config));
}

}  // namespace

std::unique_ptr<Sampler> make_sampler(const CscView<std::int32_t>& graph, SamplerConfig config) {
  return make_typed(graph, std::move(config));
}

std::unique_ptr<Sampler> make_sampler(const CscView<std::int64_t>& graph, SamplerConfig config) {
  return make_typed(graph, std::move(config));
}

}  // namespace salient
