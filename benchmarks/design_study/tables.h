// Relabelling tables under one interface: prepare() makes room for `extra` ids, find_or_insert()
// returns an id's number, forget() empties the table of the `count` ids that it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "platform.h"
#include "relabel_table.h"

#ifdef DESIGN_STUDY_ABSEIL
#include <absl/container/flat_hash_map.h>
#endif

namespace design_study {

template <class Id>
class StdTable {
 public:
  static constexpr std::string_view kName = "std::unordered_map";

  explicit StdTable(std::int64_t /*num_nodes*/) {}
  void prepare(const Id*, std::int64_t, std::int64_t) {}
  void prefetch(Id) const {}  // a node of the map is found only by reading its bucket
  std::int32_t find_or_insert(Id id, std::int32_t next) {
    return map_.try_emplace(id, next).first->second;
  }
  void forget(const Id*, std::int64_t) { map_.clear(); }

 private:
  std::unordered_map<Id, std::int32_t> map_;
};

#ifdef DESIGN_STUDY_ABSEIL
template <class Id>
class SwissTable {
 public:
  static constexpr std::string_view kName = "Swiss table";

  explicit SwissTable(std::int64_t /*num_nodes*/) {}
  void prepare(const Id*, std::int64_t, std::int64_t) {}
  void prefetch(Id id) const { map_.prefetch(id); }
  std::int32_t find_or_insert(Id id, std::int32_t next) {
    return map_.try_emplace(id, next).first->second;
  }
  // clear() gives the memory of a large table back, so what is kept is the guess of its size.
  void forget(const Id*, std::int64_t count) {
    map_.clear();
    map_.reserve(static_cast<std::size_t>(count));
  }

 private:
  absl::flat_hash_map<Id, std::int32_t> map_;
};
#endif

// The tables of the shipping sampler.
template <class Id>
class OpenTable {
 public:
  static constexpr std::string_view kName = "open addressing";

  explicit OpenTable(std::int64_t num_nodes) : table_(num_nodes) { table_.clear(nullptr, 0); }
  void prepare(const Id* n_id, std::int64_t count, std::int64_t extra) {
    table_.reserve(n_id, count, extra);
  }
  SALIENT_INLINE void prefetch(Id id) const { table_.prefetch(id); }
  SALIENT_INLINE std::int32_t find_or_insert(Id id, std::int32_t next) {
    return table_.find_or_insert(id, next);
  }
  void forget(const Id* n_id, std::int64_t count) { table_.clear(n_id, count); }

 private:
  salient::HashTable<Id> table_;
};

template <class Id>
class DenseArray {
 public:
  static constexpr std::string_view kName = "dense array";

  explicit DenseArray(std::int64_t num_nodes) : table_(num_nodes) {}
  void prepare(const Id*, std::int64_t, std::int64_t) {}
  SALIENT_INLINE void prefetch(Id id) const { table_.prefetch(id); }
  SALIENT_INLINE std::int32_t find_or_insert(Id id, std::int32_t next) {
    return table_.find_or_insert(id, next);
  }
  void forget(const Id* n_id, std::int64_t count) { table_.clear(n_id, count); }

 private:
  salient::ArrayTable<Id> table_;
};

}  // namespace design_study
