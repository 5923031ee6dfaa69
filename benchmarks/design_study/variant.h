// One sampler put together from choices: MFG form, without replacement, one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "buffer.h"
#include "csc.h"
#include "drawing.h"
#include "neighbor_draw.h"
#include "philox.h"
#include "platform.h"

namespace design_study {

struct Hop {
  salient::Buffer<std::int32_t> indptr;   // (num_dst + 1)
  salient::Buffer<std::int32_t> indices;  // (num_edges) local ids
  std::int64_t num_dst = 0;
  std::int64_t num_edges = 0;
};

// A sampled batch. Its memory serves all variants in turn, so none pays for new pages.
template <class Id>
struct Output {
  salient::Buffer<Id> n_id;
  std::int64_t num_nodes = 0;
  std::vector<Hop> hops;
};

template <class Id>
struct Input {
  salient::CscView<Id> graph;
  std::vector<std::int64_t> fanouts;    // entry 0 is the hop at the seeds
  std::span<const std::int64_t> seeds;  // unique
  std::uint64_t batch = 0;              // part of the random key
};

// The choices in words, as they appear in results.
struct Choices {
  std::string table, check, drawing, construction, memory, prefetch, ids;
};

template <class Id>
struct Variant {
  Choices choices;
  std::function<void(const Input<Id>&, Output<Id>&)> sample;  // empty where it was not built
};

struct Catalogue {
  std::vector<Variant<std::int32_t>> narrow;
  std::vector<Variant<std::int64_t>> wide;
};

// A table that outlives the batch, empty between batches.
template <class Table>
struct KeptTable {
  std::unique_ptr<Table> table;
  std::int64_t num_nodes = -1;

  Table& get(std::int64_t nodes) {
    if (num_nodes != nodes) table = std::make_unique<Table>(nodes);
    num_nodes = nodes;
    return *table;
  }
};

inline constexpr std::int64_t kBlockNodes = 64;
inline constexpr std::int64_t kNodesAhead = 16;  // of fused construction

template <class Id, class Table, class Drawing, bool kPrefetch>
class Construction {
 public:
  Construction(const Input<Id>& input, Output<Id>& output, Table& table, Drawing& drawing)
      : graph_(input.graph), input_(input), out_(output), table_(table), drawing_(drawing) {}

  void sample(bool fused) {
    out_.num_nodes = 0;
    out_.hops.resize(input_.fanouts.size());
    const auto num_seeds = static_cast<std::int64_t>(input_.seeds.size());
    make_room(num_seeds);
    for (const std::int64_t seed : input_.seeds) relabel(static_cast<Id>(seed));
    for (std::size_t hop = 0; hop < input_.fanouts.size(); ++hop) {
      Hop& graph = out_.hops[hop];
      graph.num_dst = out_.num_nodes;
      graph.num_edges = 0;
      graph.indptr.reserve(graph.num_dst + 1);
      graph.indptr[0] = 0;
      const salient::DrawStream stream(0, 0, input_.batch, static_cast<std::uint32_t>(hop));
      const auto fanout = static_cast<std::uint32_t>(input_.fanouts[hop]);
      if constexpr (Drawing::kLanes) {
        salient::NeighborDraw lanes(fanout, false);
        for (std::int64_t v = 0; v < graph.num_dst; v += kBlockNodes) {
          draw_block_in_lanes(stream, graph, v, fanout, lanes);
          relabel_block(graph);
        }
      } else if (fused) {
        for (std::int64_t v = 0; v < graph.num_dst; ++v) fused_node(stream, graph, v, fanout);
      } else {
        for (std::int64_t v = 0; v < graph.num_dst; v += kBlockNodes) {
          draw_block(stream, graph, v, fanout);
          relabel_block(graph);
        }
      }
    }
  }

 private:
  struct Neighbours {
    std::int64_t begin;
    std::uint32_t degree;
  };

  Neighbours neighbours(std::int64_t v) const {
    const auto id = static_cast<std::int64_t>(out_.n_id[v]);
    const std::int64_t begin = graph_.indptr[id];
    return {begin, static_cast<std::uint32_t>(graph_.indptr[id + 1] - begin)};
  }

  void request_offsets(std::int64_t first, std::int64_t last) const {
    for (std::int64_t v = first; v < std::min(last, out_.num_nodes); ++v) {
      salient::prefetch_read(graph_.indptr + static_cast<std::int64_t>(out_.n_id[v]));
    }
  }

  void make_room(std::int64_t extra) {
    out_.n_id.reserve(out_.num_nodes + extra);
    table_.prepare(out_.n_id.data(), out_.num_nodes, extra);
  }

  SALIENT_INLINE std::int32_t relabel(Id id) {
    const auto next = static_cast<std::int32_t>(out_.num_nodes);
    const std::int32_t local = table_.find_or_insert(id, next);
    out_.n_id[out_.num_nodes] = id;  // whether new or not: a store is cheaper than a wrong guess
    out_.num_nodes += local == next ? 1 : 0;
    return local;
  }

  template <class Sink>
  SALIENT_INLINE void choose(const salient::DrawStream& stream, std::int64_t v, Neighbours node,
                             std::uint32_t fanout, Sink&& sink) {
    if (node.degree <= fanout) {
      for (std::uint32_t i = 0; i < node.degree; ++i) sink(i);
    } else {
      WordSource words(stream, static_cast<std::uint32_t>(v));
      drawing_.draw(words, node.degree, fanout, sink);
    }
  }

  // Each edge is drawn, loaded and relabelled before the next one.
  void fused_node(const salient::DrawStream& stream, Hop& graph, std::int64_t v,
                  std::uint32_t fanout) {
    if constexpr (kPrefetch) {
      request_offsets(v + 2 * kNodesAhead, v + 2 * kNodesAhead + 1);
      if (v + kNodesAhead < out_.num_nodes) {
        salient::prefetch_read(graph_.indices + neighbours(v + kNodesAhead).begin);
      }
    }
    const Neighbours node = neighbours(v);
    const std::int64_t extra = std::min(node.degree, fanout);
    make_room(extra);
    graph.indices.reserve(graph.num_edges + extra);
    choose(stream, v, node, fanout, [&](std::uint32_t position) {
      graph.indices[graph.num_edges++] = relabel(graph_.indices[node.begin + position]);
    });
    graph.indptr[v + 1] = static_cast<std::int32_t>(graph.num_edges);
  }

  // First pass over a block: positions in the graph's indices.
  void draw_block(const salient::DrawStream& stream, Hop& graph, std::int64_t first,
                  std::uint32_t fanout) {
    if constexpr (kPrefetch) request_offsets(first + kBlockNodes, first + 2 * kBlockNodes);
    offsets_.reserve(kBlockNodes * fanout);
    num_offsets_ = 0;
    for (std::int64_t v = first; v < std::min(first + kBlockNodes, graph.num_dst); ++v) {
      const Neighbours node = neighbours(v);
      choose(stream, v, node, fanout,
             [&](std::uint32_t position) { add_offset(node.begin + position); });
      graph.indptr[v + 1] = static_cast<std::int32_t>(graph.num_edges + num_offsets_);
    }
  }

  SALIENT_INLINE void add_offset(std::int64_t offset) {
    if constexpr (kPrefetch) salient::prefetch_read(graph_.indices + offset);
    offsets_[num_offsets_++] = offset;
  }

  void draw_block_in_lanes(const salient::DrawStream& stream, Hop& graph, std::int64_t first,
                           std::uint32_t fanout, salient::NeighborDraw& lanes) {
    if constexpr (kPrefetch) request_offsets(first + kBlockNodes, first + 2 * kBlockNodes);
    offsets_.reserve(kBlockNodes * fanout);
    num_offsets_ = 0;
    std::uint32_t position[salient::kLanes], degree[salient::kLanes];
    std::int64_t begin[salient::kLanes];
    std::int64_t* to[salient::kLanes];
    int waiting = 0;
    const auto flush = [&] {
      if (waiting == 0) return;
      lanes.draw(stream, position, degree, waiting, to, begin);
      if constexpr (kPrefetch) {
        for (int lane = 0; lane < waiting; ++lane) {
          for (std::uint32_t i = 0; i < fanout; ++i) {
            salient::prefetch_read(graph_.indices + to[lane][i]);
          }
        }
      }
      waiting = 0;
    };
    for (std::int64_t v = first; v < std::min(first + kBlockNodes, graph.num_dst); ++v) {
      const Neighbours node = neighbours(v);
      if (node.degree <= fanout) {
        for (std::uint32_t i = 0; i < node.degree; ++i) add_offset(node.begin + i);
      } else {
        position[waiting] = static_cast<std::uint32_t>(v);
        degree[waiting] = node.degree;
        begin[waiting] = node.begin;
        to[waiting] = offsets_.data() + num_offsets_;
        num_offsets_ += fanout;
        if (++waiting == salient::kLanes) flush();
      }
      graph.indptr[v + 1] = static_cast<std::int32_t>(graph.num_edges + num_offsets_);
    }
    flush();
  }

  // Second pass: the positions' ids, then their numbers.
  void relabel_block(Hop& graph) {
    loaded_.reserve(num_offsets_);
    for (std::int64_t i = 0; i < num_offsets_; ++i) {
      loaded_[i] = graph_.indices[offsets_[i]];
      if constexpr (kPrefetch) table_.prefetch(loaded_[i]);
    }
    make_room(num_offsets_);
    graph.indices.reserve(graph.num_edges + num_offsets_);
    for (std::int64_t i = 0; i < num_offsets_; ++i) {
      graph.indices[graph.num_edges + i] = relabel(loaded_[i]);
    }
    graph.num_edges += num_offsets_;
  }

  const salient::CscView<Id>& graph_;
  const Input<Id>& input_;
  Output<Id>& out_;
  Table& table_;
  Drawing& drawing_;
  salient::Buffer<std::int64_t> offsets_;
  salient::Buffer<Id> loaded_;
  std::int64_t num_offsets_ = 0;
};

}  // namespace design_study
