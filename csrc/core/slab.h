// The memory of prepared batches. A slab holds one whole batch, so that one copy moves it; slabs
// come from a pool and return to it when the last tensor that views them is gone.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace salient {

// How memory is page-locked, so that a device can copy from it while the host goes on: functions of
// the device's own library, which the core does not know. They return 0 on success.
struct PageLocker {
  int (*use_device)(int device) = nullptr;  // chooses the calling thread's device
  int (*lock)(void* memory, std::size_t bytes, unsigned int flags) = nullptr;
  int (*unlock)(void* memory) = nullptr;
  int device = 0;
};

// A page-aligned block of memory. Not thread-safe.
class Slab {
 public:
  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab();

  // Makes room for `bytes`; what was there is lost.
  // @throws std::runtime_error naming needed and available bytes
  void reserve(std::int64_t bytes);

  // Page-locks the memory until it is released; does nothing if it is locked or there is none.
  // @returns 0, or the error code of the locker's library; the memory is as usable as before then
  int lock(const PageLocker& locker);

  std::byte* data() { return data_; }
  std::int64_t capacity() const { return capacity_; }

 private:
  void release();

  std::byte* data_ = nullptr;
  std::int64_t capacity_ = 0;
  PageLocker locker_;  // without functions unless the memory is locked
  pid_t locked_by_ = 0;
};

// Hands out slabs and takes them back. Thread-safe. Keeps at most `max_free` slabs that nobody
// uses; how many are in use is for the caller to bound.
class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  explicit SlabPool(int max_free);

  // A slab that returns here when the last owner lets it go, even after the pool's own owner has.
  std::shared_ptr<Slab> acquire();

  // Has slabs page-locked from now on, at their next `lock`.
  void use_locker(const PageLocker& locker);

  // Page-locks a slab of this pool; without a locker it does nothing.
  void lock(Slab& slab);

  // The first error code that a locker gave, or 0.
  int lock_error() const;

  std::int64_t free_bytes() const;

 private:
  void give_back(std::unique_ptr<Slab> slab);

  const std::size_t max_free_;
  const pid_t owner_;  // a forked child has a copy of the mutex, perhaps a locked one
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> free_;
  PageLocker locker_;
  int lock_error_ = 0;
};

}  // namespace salient
