// From global node ids to local ones, numbered in the order of first sight. Two tables with one
// interface: a hash table for graphs much larger than a batch, a plain array for the others.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "buffer.h"
#include "platform.h"

namespace salient {

// Open addressing with linear probing, at most half full. A slot of int32 ids is 8 bytes, so a
// probe and most of its successors touch one cache line. Memory is kept between batches.
template <class Id>
class HashTable {
 public:
  explicit HashTable(std::int64_t /*num_nodes*/) {}

  // Empties the table. The size of the last batch is the guess for the next one.
  void clear(const Id* /*n_id*/, std::int64_t count) {
    allocate(std::bit_ceil(static_cast<std::uint64_t>(std::max(count + count / 4, kSmallest)) * 2));
  }

  // Makes room for `extra` more ids behind the `count` that n_id lists.
  void reserve(const Id* n_id, std::int64_t count, std::int64_t extra) {
    const auto needed = static_cast<std::uint64_t>(count + extra) * 2;
    if (needed <= capacity_) return;
    allocate(std::bit_ceil(needed) * 2);
    for (std::int64_t i = 0; i < count; ++i) {
      if (i + kAhead < count) prefetch(n_id[i + kAhead]);
      Slot& slot = find(n_id[i]);
      slot = {n_id[i], static_cast<std::int32_t>(i)};
    }
  }

  SALIENT_INLINE void prefetch(Id id) const { prefetch_write(&slots_[home(id)]); }

  // The local id of `id`; `next` becomes its number if it is new.
  SALIENT_INLINE std::int32_t find_or_insert(Id id, std::int32_t next) {
    Slot& slot = find(id);
    const std::int32_t local = slot.key == id ? slot.local : next;
    slot = {id, local};
    return local;
  }

  std::int64_t bytes() const { return slots_.capacity_bytes(); }

 private:
  static constexpr std::int64_t kSmallest = 512;
  static constexpr std::int64_t kAhead = 16;
  static constexpr Id kEmpty = -1;

  struct Slot {
    Id key;
    std::int32_t local;
  };

  void allocate(std::uint64_t capacity) {
    slots_.reserve(static_cast<std::int64_t>(capacity));
    capacity_ = capacity;
    shift_ = 64 - std::countr_zero(capacity);
    std::memset(static_cast<void*>(slots_.data()), 0xFF, capacity * sizeof(Slot));
  }

  // Fibonacci hashing: the high bits of a product spread runs of neighbouring ids.
  SALIENT_INLINE std::int64_t home(Id id) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15ull >>
                                     shift_);
  }

  SALIENT_INLINE Slot& find(Id id) {
    std::int64_t at = home(id);
    while (slots_[at].key != id && slots_[at].key != kEmpty) {
      at = (at + 1) & static_cast<std::int64_t>(capacity_ - 1);
    }
    return slots_[at];
  }

  Buffer<Slot> slots_;
  std::uint64_t capacity_ = 0;
  int shift_ = 0;
};

// One int32 for each node of the graph: a single access, no probing, but num_nodes * 4 bytes.
template <class Id>
class ArrayTable {
 public:
  explicit ArrayTable(std::int64_t num_nodes) : num_nodes_(num_nodes) {
    locals_.reserve(num_nodes);
    wipe();
  }

  // Forgets the `count` ids in n_id: one by one where they are few, else all at once.
  void clear(const Id* n_id, std::int64_t count) {
    if (count > num_nodes_ / 16) {
      wipe();
    } else {
      for (std::int64_t i = 0; i < count; ++i) locals_[static_cast<std::int64_t>(n_id[i])] = -1;
    }
  }

  void reserve(const Id* /*n_id*/, std::int64_t /*count*/, std::int64_t /*extra*/) {}

  SALIENT_INLINE void prefetch(Id id) const {
    prefetch_write(&locals_[static_cast<std::int64_t>(id)]);
  }

  SALIENT_INLINE std::int32_t find_or_insert(Id id, std::int32_t next) {
    std::int32_t& slot = locals_[static_cast<std::int64_t>(id)];
    const std::int32_t local = slot < 0 ? next : slot;
    slot = local;
    return local;
  }

  std::int64_t bytes() const { return locals_.capacity_bytes(); }

 private:
  void wipe() { std::fill_n(locals_.data(), num_nodes_, -1); }

  std::int64_t num_nodes_;
  Buffer<std::int32_t> locals_;
};

}  // namespace salient
