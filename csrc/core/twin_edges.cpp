#include "twin_edges.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel_ranges.h"
#include "platform.h"

namespace salient {

namespace {

constexpr std::int64_t kRange = 1 << 12;  // nodes: few enough that hubs do not leave threads idle
constexpr int kBinBits = 14;              // of the hash, for selecting the smallest

// Nodes whose edges are looked up together, so that tens of cache misses are in flight.
constexpr std::int64_t kNodesAtOnce = 32;

constexpr std::array kPairStreams = {TwinStream::kCommunityPairs, TwinStream::kClassPairs,
                                     TwinStream::kGlobalPairs};

class EdgeWriter {
 public:
  EdgeWriter(const TwinLayout& layout, int num_threads, std::int64_t* indptr, std::int32_t* indices)
      : layout_(layout),
        num_threads_(num_threads),
        indptr_(indptr),
        indices_(indices),
        counts_(static_cast<std::size_t>(layout.num_nodes())) {
    const auto key = twin_words(layout.model().seed, TwinStream::kSurplus, 0);
    hash_key_ = std::uint64_t{key[0]} << 32 | key[1];
    const auto num_classes = static_cast<std::int64_t>(layout.model().class_starts.size()) - 1;
    for (std::int64_t c = 0; c < num_classes; ++c) {
      class_pairings_.push_back(pairing(1, layout.class_block(c), static_cast<std::uint64_t>(c)));
    }
    global_pairing_ = pairing(2, {0, layout.num_nodes()}, 0);
  }

  std::int64_t write(std::int64_t num_pairs) {
    reserve_lists();
    const std::int64_t found = draw_lists();
    if (found < 2 * num_pairs) return found;
    if (found > 2 * num_pairs) drop_smallest((found - 2 * num_pairs) / 2);
    compact();
    return found;
  }

 private:
  // How the stubs of one block are paired.
  struct Pairing {
    std::uint32_t first_stub = 0;
    Permutation order;
  };
  // One edge in the making: the stub at its other end.
  struct Search {
    std::uint32_t stub;
    std::int32_t level;
  };
  struct HashedPair {
    std::uint64_t hash;
    std::int32_t low, high;
    auto key() const { return std::tuple(hash, low, high); }
  };

  Pairing pairing(int level, Block block, std::uint64_t index) const {
    const std::uint32_t first = layout_.stubs_before(level, block.first);
    const std::uint32_t stubs = layout_.stubs_before(level, block.last) - first;
    const auto stream = kPairStreams[static_cast<std::size_t>(level)];
    return {first, {stubs, twin_words(layout_.model().seed, stream, index)}};
  }

  // Raw degrees as offsets.
  void reserve_lists() {
    const std::int64_t nodes = layout_.num_nodes();
    std::vector<std::int64_t> starts(static_cast<std::size_t>(nodes / kRange + 1));
    for_ranges(nodes, kRange, num_threads_,
               [&](std::int64_t begin, std::int64_t end, std::int64_t range, int) {
                 std::int64_t sum = 0;
                 for (std::int64_t id = begin; id < end; ++id) {
                   indptr_[id] = sum;
                   sum += layout_.degree_at(layout_.position_of(id));
                 }
                 starts[static_cast<std::size_t>(range)] = sum;
               });
    std::int64_t running = 0;
    for (std::int64_t& start : starts) running += std::exchange(start, running);
    for_ranges(nodes, kRange, num_threads_,
               [&](std::int64_t begin, std::int64_t end, std::int64_t range, int) {
                 for (std::int64_t id = begin; id < end; ++id) {
                   indptr_[id] += starts[static_cast<std::size_t>(range)];
                 }
               });
    indptr_[nodes] = running;
  }

  // Every node's list, sorted and without duplicates and self-loops; returns their total length.
  // Counts the hashes of the pairs on the way.
  std::int64_t draw_lists() {
    bins_.assign(std::size_t{1} << kBinBits, 0);
    std::int64_t total = 0;
    std::mutex mutex;
    std::vector<std::vector<Search>> searches(static_cast<std::size_t>(num_threads_));
    std::vector<std::vector<std::int64_t>> bins(static_cast<std::size_t>(num_threads_));
    for_ranges(layout_.num_nodes(), kRange, num_threads_,
               [&](std::int64_t begin, std::int64_t end, std::int64_t, int thread) {
                 auto& own = bins[static_cast<std::size_t>(thread)];
                 own.resize(bins_.size());
                 std::int64_t sum = 0;
                 for (std::int64_t id = begin; id < end; id += kNodesAtOnce) {
                   const std::int64_t last = std::min(end, id + kNodesAtOnce);
                   look_up(id, last, searches[static_cast<std::size_t>(thread)]);
                   for (std::int64_t v = id; v < last; ++v) sum += tidy(v, own);
                 }
                 const std::lock_guard lock(mutex);
                 total += sum;
               });
    for (const auto& own : bins) {
      for (std::size_t bin = 0; bin < own.size(); ++bin) bins_[bin] += own[bin];
    }
    return total;
  }

  // Writes the other ends of all stubs of the nodes [first, last), in phases: each phase asks for
  // the memory of the next.
  void look_up(std::int64_t first, std::int64_t last, std::vector<Search>& searches) {
    std::array<std::uint32_t, kNodesAtOnce> positions;
    for (std::int64_t id = first; id < last; ++id) {
      const std::uint32_t position = layout_.position_of(id);
      positions[static_cast<std::size_t>(id - first)] = position;
      prefetch_read(layout_.address_of(position));
    }
    searches.clear();
    for (std::int64_t id = first; id < last; ++id) {
      const std::uint32_t position = positions[static_cast<std::size_t>(id - first)];
      const std::int64_t community = layout_.community_at(position);
      const Pairing close =
          pairing(0, layout_.community_block(community), static_cast<std::uint64_t>(community));
      add_partners(0, position, close, searches);
      add_partners(1, position,
                   class_pairings_[static_cast<std::size_t>(layout_.class_at(position))], searches);
      add_partners(2, position, global_pairing_, searches);
    }
    for (const Search& search : searches) {
      prefetch_read(layout_.address_of(layout_.guide(search.level, search.stub)));
    }
    std::int32_t* out = indices_ + indptr_[first];
    for (const Search& search : searches) {
      *out++ = static_cast<std::int32_t>(layout_.id_at(layout_.owner(search.level, search.stub)));
    }
  }

  void add_partners(int level, std::uint32_t position, const Pairing& pairing,
                    std::vector<Search>& searches) const {
    const std::uint32_t last = layout_.stubs_before(level, std::int64_t{position} + 1);
    for (std::uint32_t stub = layout_.stubs_before(level, position); stub < last; ++stub) {
      const std::uint32_t other =
          pairing.first_stub + pairing.order.partner(stub - pairing.first_stub);
      prefetch_read(layout_.guide_address(level, other));
      searches.push_back({other, level});
    }
  }

  // A stub left over is its own partner, so it goes with the self-loops.
  std::int64_t tidy(std::int64_t id, std::vector<std::int64_t>& bins) {
    std::int32_t* const begin = indices_ + indptr_[id];
    std::int32_t* const end = indices_ + indptr_[id + 1];
    std::sort(begin, end);
    const auto self = static_cast<std::int32_t>(id);
    std::int32_t* const last = std::remove(begin, std::unique(begin, end), self);
    counts_[static_cast<std::size_t>(id)] = static_cast<std::uint32_t>(last - begin);
    for (const std::int32_t* other = std::upper_bound(begin, last, self); other < last; ++other) {
      ++bins[bin_of(hash(self, *other))];
    }
    return last - begin;
  }

  std::uint64_t hash(std::int32_t a, std::int32_t b) const {
    const auto low = static_cast<std::uint64_t>(std::min(a, b));
    const auto high = static_cast<std::uint64_t>(std::max(a, b));
    std::uint64_t x = ((low << 32 | high) ^ hash_key_) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
    return x ^ (x >> 32);
  }
  static std::size_t bin_of(std::uint64_t hash) {
    return static_cast<std::size_t>(hash >> (64 - kBinBits));
  }

  // Drops the `surplus` pairs of the smallest (hash, ids). Whole bins go first, then the smallest
  // pairs of the bin where the surplus ends.
  void drop_smallest(std::int64_t surplus) {
    std::size_t last_bin = 0;
    while (surplus > bins_[last_bin]) surplus -= bins_[last_bin++];
    std::vector<HashedPair> rest;
    std::mutex mutex;
    for_ranges(layout_.num_nodes(), kRange, num_threads_,
               [&](std::int64_t begin, std::int64_t end, std::int64_t, int) {
                 std::vector<HashedPair> own;
                 for (std::int64_t id = begin; id < end; ++id) drop_bins(id, last_bin, own);
                 const std::lock_guard lock(mutex);
                 rest.insert(rest.end(), own.begin(), own.end());
               });
    const auto cut = rest.begin() + surplus;
    std::nth_element(rest.begin(), cut, rest.end(),
                     [](const HashedPair& a, const HashedPair& b) { return a.key() < b.key(); });
    for (auto pair = rest.begin(); pair < cut; ++pair) {
      erase(pair->low, pair->high);
      erase(pair->high, pair->low);
    }
  }

  void drop_bins(std::int64_t id, std::size_t last_bin, std::vector<HashedPair>& rest) {
    const auto self = static_cast<std::int32_t>(id);
    std::int32_t* const begin = indices_ + indptr_[id];
    std::int32_t* kept = begin;
    const std::int32_t* const end = begin + counts_[static_cast<std::size_t>(id)];
    for (const std::int32_t* other = begin; other < end; ++other) {
      const std::uint64_t value = hash(self, *other);
      const std::size_t bin = bin_of(value);
      if (bin < last_bin) continue;
      if (bin == last_bin && self < *other) rest.push_back({value, self, *other});
      *kept++ = *other;
    }
    counts_[static_cast<std::size_t>(id)] = static_cast<std::uint32_t>(kept - begin);
  }

  void erase(std::int32_t id, std::int32_t other) {
    std::int32_t* const begin = indices_ + indptr_[id];
    std::int32_t* const end = begin + counts_[static_cast<std::size_t>(id)];
    std::int32_t* const at = std::lower_bound(begin, end, other);
    std::copy(at + 1, end, at);
    --counts_[static_cast<std::size_t>(id)];
  }

  // Closes the gaps between the lists. One thread: it is bound by memory, and lists may only move
  // into room that the ones before have left.
  void compact() {
    std::int64_t to = 0;
    for (std::int64_t id = 0; id < layout_.num_nodes(); ++id) {
      const std::int64_t from = indptr_[id];
      const std::int64_t count = counts_[static_cast<std::size_t>(id)];
      std::memmove(indices_ + to, indices_ + from,
                   static_cast<std::size_t>(count) * sizeof(std::int32_t));
      indptr_[id] = to;
      to += count;
    }
    indptr_[layout_.num_nodes()] = to;
  }

  const TwinLayout& layout_;
  const int num_threads_;
  std::int64_t* const indptr_;
  std::int32_t* const indices_;
  std::vector<std::uint32_t> counts_;  // length of each node's list
  std::vector<std::int64_t> bins_;     // pairs by the first bits of their hash
  std::vector<Pairing> class_pairings_;
  Pairing global_pairing_;
  std::uint64_t hash_key_ = 0;
};

}  // namespace

std::int64_t raw_edges(const TwinLayout& layout) {
  std::int64_t edges = 0;
  for (int level = 0; level < kTwinLevels; ++level) {
    edges += layout.stubs_before(level, layout.num_nodes());
  }
  return edges;
}

std::int64_t write_twin_edges(const TwinLayout& layout, std::int64_t num_pairs, int num_threads,
                              std::int64_t* indptr, std::int32_t* indices) {
  return EdgeWriter(layout, num_threads, indptr, indices).write(num_pairs);
}

}  // namespace salient
