// A growable array that leaves new elements uninitialised and keeps its memory between uses.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "memory.h"

namespace salient {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(capacity_, taken.capacity_);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  // Makes room for `count` elements; what was there stays.
  void reserve(std::int64_t count) {
    if (count > capacity_) grow(count + count / 2);
  }

  // Makes room for `count` elements and no more; what was there goes first if it is too small.
  void renew(std::int64_t count) {
    if (count <= capacity_) return;
    *this = Buffer();
    grow(count);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::int64_t i) { return data_[i]; }
  const T& operator[](std::int64_t i) const { return data_[i]; }
  std::int64_t capacity_bytes() const { return capacity_ * std::int64_t{sizeof(T)}; }

 private:
  void grow(std::int64_t wanted) {
    const std::size_t bytes = static_cast<std::size_t>(wanted) * sizeof(T);
    T* moved =
        bytes >= 2 * kHugePage ? grow_huge(bytes) : static_cast<T*>(std::realloc(data_, bytes));
    if (moved == nullptr) refuse_memory(static_cast<std::int64_t>(bytes), available_bytes());
    data_ = moved;
    capacity_ = wanted;
  }

  // Random access to megabytes is bound by address translation on small pages.
  T* grow_huge(std::size_t bytes) {
    bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* fresh = std::aligned_alloc(kHugePage, bytes);
    if (fresh == nullptr) return nullptr;
#ifdef MADV_HUGEPAGE
    madvise(fresh, bytes, MADV_HUGEPAGE);  // a hint; without huge pages all works, slower
#endif
    if (capacity_ > 0) std::memcpy(fresh, data_, static_cast<std::size_t>(capacity_) * sizeof(T));
    std::free(data_);
    return static_cast<T*>(fresh);
  }

  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  T* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

}  // namespace salient
