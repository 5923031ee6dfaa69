#include "csc_converter.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "parallel.h"

namespace salient {

namespace {

// A bucket's part of the result should fit in a core's cache; more buckets than the translation
// caches have entries would make collecting slow.
constexpr std::int64_t kEdgesPerBucket = 1 << 18;
constexpr std::int64_t kMostBuckets = 2048;
// So that the low bits of a target fit in 16 bits.
constexpr int kLargestShift = 16;
// Edges of a list in memory that are read and collected at a time, so that they stay in cache.
constexpr std::int64_t kChunk = 1 << 20;

}  // namespace

template <class Index>
CscConverter<Index>::CscConverter(const ConversionOptions& options) : options_(options) {
  if (options_.num_threads <= 0) {
    options_.num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  const std::int64_t wanted =
      std::clamp<std::int64_t>(options_.num_edges / kEdgesPerBucket, 1, kMostBuckets);
  while (shift_ < kLargestShift && (options_.num_nodes >> shift_) >= wanted) ++shift_;
  num_buckets_ = options_.num_nodes == 0 ? 0 : bucket_of(options_.num_nodes - 1) + 1;
  const auto buckets = static_cast<std::size_t>(num_buckets_);
  sizes_.assign(buckets, 0);
  begins_.assign(buckets + 1, 0);
  cursors_.assign(buckets, 0);
  places_.assign(static_cast<std::size_t>(options_.num_threads),
                 std::vector<std::int64_t>(buckets, 0));
}

template <class Index>
template <class Id>
void CscConverter<Index>::count(const Id* source, const Id* target, std::int64_t num_edges) {
  const int threads = useful_threads(options_.num_threads, num_edges);
  const auto bound = static_cast<std::uint64_t>(options_.num_nodes);
  std::vector<std::int64_t> loops(static_cast<std::size_t>(threads), 0);
  run_threads(threads, [&](int thread) {
    std::vector<std::int64_t>& sizes = places_[static_cast<std::size_t>(thread)];
    std::fill(sizes.begin(), sizes.end(), 0);
    std::int64_t self_loops = 0;
    const Part part = part_of(num_edges, thread, threads);
    for (std::int64_t e = part.begin; e < part.end; ++e) {
      const auto from = static_cast<std::int64_t>(source[e]);
      const auto to = static_cast<std::int64_t>(target[e]);
      // As unsigned numbers negative ids are large.
      if (static_cast<std::uint64_t>(from) >= bound || static_cast<std::uint64_t>(to) >= bound) {
        throw std::out_of_range("edge " + std::to_string(num_counted_ + e) + " is " +
                                std::to_string(from) + " -> " + std::to_string(to) +
                                ", but num_nodes is " + std::to_string(options_.num_nodes));
      }
      ++sizes[static_cast<std::size_t>(bucket_of(to))];
      self_loops += from == to;
      if (options_.symmetrise && from != to) ++sizes[static_cast<std::size_t>(bucket_of(from))];
    }
    loops[static_cast<std::size_t>(thread)] = self_loops;
  });
  for (int thread = 0; thread < threads; ++thread) {
    const std::vector<std::int64_t>& sizes = places_[static_cast<std::size_t>(thread)];
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      sizes_[b] += sizes[b];
      num_collected_ += sizes[b];
    }
    // Where duplicates go, those of loops do too, so that they are counted when all is grouped.
    if (!drops()) self_loops_ += loops[static_cast<std::size_t>(thread)];
  }
  num_counted_ += num_edges;
}

template <class Index>
bool CscConverter<Index>::begin_pass() {
  first_ = last_;
  num_passed_ = 0;
  if (first_ == num_buckets_) return false;
  const std::int64_t edge_bytes =
      static_cast<std::int64_t>(sizeof(Index) + sizeof(std::uint16_t)) +
      (options_.positions ? static_cast<std::int64_t>(sizeof(std::int64_t)) : 0);
  const std::int64_t room =
      options_.scratch_bytes > 0 ? options_.scratch_bytes / edge_bytes : num_collected_;
  std::int64_t total = 0;
  do {
    const auto b = static_cast<std::size_t>(last_);
    begins_[b] = cursors_[b] = total;
    total += sizes_[b];
    begins_[b + 1] = total;
    ++last_;
  } while (last_ < num_buckets_ && total + sizes_[static_cast<std::size_t>(last_)] <= room);
  sources_.renew(total);
  low_targets_.renew(total);
  if (options_.positions) positions_.renew(total);
  return true;
}

template <class Index>
template <class Id>
void CscConverter<Index>::collect(const Id* source, const Id* target, std::int64_t num_edges) {
  const int threads = useful_threads(options_.num_threads, num_edges);
  const auto bound = static_cast<std::uint64_t>(options_.num_nodes);
  const auto first = static_cast<std::uint64_t>(first_);
  const auto width = static_cast<std::uint64_t>(last_ - first_);
  const auto in_pass = [first, width](std::int64_t bucket) {
    return static_cast<std::uint64_t>(bucket) - first < width;
  };
  // Each thread has a contiguous part of the chunk and writes behind the threads before it, which
  // keeps the order of the list. Ends are checked again: the list may have changed since.
  std::atomic<bool> changed = false;
  run_threads(threads, [&](int thread) {
    std::vector<std::int64_t>& sizes = places_[static_cast<std::size_t>(thread)];
    std::fill(sizes.begin(), sizes.end(), 0);
    const auto add = [&](std::int64_t to) {
      const std::int64_t bucket = bucket_of(to);
      if (in_pass(bucket)) ++sizes[static_cast<std::size_t>(bucket)];
    };
    const Part part = part_of(num_edges, thread, threads);
    for (std::int64_t e = part.begin; e < part.end; ++e) {
      const auto from = static_cast<std::int64_t>(source[e]);
      const auto to = static_cast<std::int64_t>(target[e]);
      if (static_cast<std::uint64_t>(from) >= bound || static_cast<std::uint64_t>(to) >= bound) {
        changed = true;
        return;
      }
      add(to);
      if (options_.symmetrise && from != to) add(from);
    }
  });
  for (std::int64_t bucket = first_; bucket < last_; ++bucket) {
    const auto b = static_cast<std::size_t>(bucket);
    for (int thread = 0; thread < threads; ++thread) {
      std::int64_t& place = places_[static_cast<std::size_t>(thread)][b];
      const std::int64_t size = place;
      place = cursors_[b];
      cursors_[b] += size;
    }
    if (cursors_[b] > begins_[b + 1]) changed = true;
  }
  if (changed) {
    throw std::runtime_error("the edges are not those that were counted: the list changed");
  }
  run_threads(threads, [&](int thread) {
    std::int64_t* places = places_[static_cast<std::size_t>(thread)].data();
    const std::int64_t mask = (std::int64_t{1} << shift_) - 1;
    const auto put = [&](std::int64_t from, std::int64_t to, std::int64_t e) {
      const std::int64_t bucket = bucket_of(to);
      if (!in_pass(bucket)) return;
      const std::int64_t at = places[bucket]++;
      sources_[at] = static_cast<Index>(from);
      low_targets_[at] = static_cast<std::uint16_t>(to & mask);
      if (options_.positions) positions_[at] = num_passed_ + e;
    };
    const Part part = part_of(num_edges, thread, threads);
    for (std::int64_t e = part.begin; e < part.end; ++e) {
      const auto from = static_cast<std::int64_t>(source[e]);
      const auto to = static_cast<std::int64_t>(target[e]);
      put(from, to, e);
      if (options_.symmetrise && from != to) put(to, from, e);
    }
  });
  num_passed_ += num_edges;
}

template <class Index>
typename CscConverter<Index>::Grouped CscConverter<Index>::group(
    std::int64_t bucket, std::int64_t* indptr, Index* indices, std::int64_t* edge_ids,
    std::vector<std::int64_t>& ends) const {
  const auto b = static_cast<std::size_t>(bucket);
  const std::int64_t begin = begins_[b], end = begins_[b + 1];
  const std::int64_t first_node = bucket << shift_;
  const auto num_nodes = static_cast<std::size_t>(
      std::min(std::int64_t{1} << shift_, options_.num_nodes - first_node));
  // ends[i + 1] first counts the edges of node i - 1, is then the place of the next edge of node i
  // and, when all are placed, where they end.
  ends.assign(num_nodes + 2, 0);
  for (std::int64_t at = begin; at < end; ++at) ++ends[low_targets_[at] + std::size_t{2}];
  for (std::size_t i = 2; i < ends.size(); ++i) ends[i] += ends[i - 1];
  for (std::int64_t at = begin; at < end; ++at) {
    const std::int64_t place = ends[low_targets_[at] + std::size_t{1}]++;
    indices[place] = sources_[at];
    if (edge_ids != nullptr) edge_ids[place] = positions_[at];
  }
  Grouped grouped;
  for (std::size_t i = 0; i < num_nodes; ++i) {
    const std::int64_t node = first_node + static_cast<std::int64_t>(i);
    std::int64_t degree = ends[i + 1] - ends[i];
    if (drops()) {
      Index* const list = indices + ends[i];
      std::sort(list, list + degree);
      degree = std::unique(list, list + degree) - list;
      grouped.self_loops += std::binary_search(list, list + degree, static_cast<Index>(node));
      if (grouped.kept < ends[i]) std::copy(list, list + degree, indices + grouped.kept);
    }
    grouped.kept += degree;
    indptr[node + 1] = degree;
  }
  return grouped;
}

template <class Index>
void CscConverter<Index>::end_pass(std::int64_t* indptr, Index* indices, std::int64_t* edge_ids) {
  for (std::int64_t bucket = first_; bucket < last_; ++bucket) {
    const auto b = static_cast<std::size_t>(bucket);
    if (cursors_[b] != begins_[b + 1]) {
      throw std::runtime_error("edges that were counted did not come again: the list changed");
    }
  }
  std::vector<Grouped> grouped(static_cast<std::size_t>(last_ - first_));
  std::atomic<std::int64_t> next = first_;
  const std::int64_t in_pass = begins_[static_cast<std::size_t>(last_)];
  run_threads(useful_threads(options_.num_threads, in_pass), [&](int) {
    std::vector<std::int64_t> ends;
    for (std::int64_t bucket = next++; bucket < last_; bucket = next++) {
      const std::int64_t at = written_ + begins_[static_cast<std::size_t>(bucket)];
      grouped[static_cast<std::size_t>(bucket - first_)] =
          group(bucket, indptr, indices + at, edge_ids == nullptr ? nullptr : edge_ids + at, ends);
    }
  });
  // Closes the gaps that dropped duplicates left between buckets.
  const std::int64_t pass_begin = written_;
  for (std::int64_t bucket = first_; bucket < last_; ++bucket) {
    const Grouped& one = grouped[static_cast<std::size_t>(bucket - first_)];
    const Index* const from = indices + pass_begin + begins_[static_cast<std::size_t>(bucket)];
    if (from != indices + written_) std::copy(from, from + one.kept, indices + written_);
    written_ += one.kept;
    self_loops_ += one.self_loops;
  }
}

template <class Index>
std::int64_t CscConverter<Index>::finish(std::int64_t* indptr) const {
  indptr[0] = 0;
  for (std::int64_t v = 0; v < options_.num_nodes; ++v) indptr[v + 1] += indptr[v];
  return written_;
}

template <class Id, class Index>
void coo_to_csc(const Id* source, const Id* target, std::int64_t num_edges, std::int64_t num_nodes,
                std::int64_t* indptr, Index* indices, std::int64_t* edge_ids) {
  CscConverter<Index> converter(
      {.num_nodes = num_nodes, .num_edges = num_edges, .positions = edge_ids != nullptr});
  const auto each_chunk = [&](const auto& take) {
    for (std::int64_t at = 0; at < num_edges; at += kChunk) {
      take(source + at, target + at, std::min(kChunk, num_edges - at));
    }
  };
  each_chunk(
      [&](const Id* from, const Id* to, std::int64_t size) { converter.count(from, to, size); });
  while (converter.begin_pass()) {
    each_chunk([&](const Id* from, const Id* to, std::int64_t size) {
      converter.collect(from, to, size);
    });
    converter.end_pass(indptr, indices, edge_ids);
  }
  converter.finish(indptr);
}

#define SALIENT_INSTANTIATE(Index, Id)                                                      \
  template void CscConverter<Index>::count(const Id*, const Id*, std::int64_t);             \
  template void CscConverter<Index>::collect(const Id*, const Id*, std::int64_t);           \
  template void coo_to_csc(const Id*, const Id*, std::int64_t, std::int64_t, std::int64_t*, \
                           Index*, std::int64_t*);

template class CscConverter<std::int32_t>;
template class CscConverter<std::int64_t>;
SALIENT_INSTANTIATE(std::int32_t, std::int32_t)
SALIENT_INSTANTIATE(std::int32_t, std::int64_t)
SALIENT_INSTANTIATE(std::int64_t, std::int32_t)
SALIENT_INSTANTIATE(std::int64_t, std::int64_t)
#undef SALIENT_INSTANTIATE

}  // namespace salient
