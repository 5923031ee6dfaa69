#include "slab.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "memory.h"

namespace salient {

namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
// Below this, growth is cheap enough not to ask the system first.
constexpr std::int64_t kAskFirst = std::int64_t{64} << 20;
// cudaHostRegisterPortable: locked for all devices of this process.
constexpr unsigned int kPortable = 1;

}  // namespace

Slab::~Slab() {
  release();
}

void Slab::release() {
  // A forked child has a copy of the memory, but the device's library knows nothing of it.
  if (locker_.unlock != nullptr && locked_by_ == getpid()) {
    locker_.use_device(locker_.device);
    locker_.unlock(data_);
  }
  locker_ = {};
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(capacity_));
  data_ = nullptr;
  capacity_ = 0;
}

void Slab::reserve(std::int64_t bytes) {
  if (bytes <= capacity_) return;
  release();
  const std::int64_t unit = bytes >= kHugePage ? kHugePage : kPage;
  const std::int64_t wanted = (bytes + bytes / 8 + unit - 1) / unit * unit;
  if (wanted > kAskFirst) {
    const std::int64_t available = available_bytes();
    if (available >= 0 && wanted > available) refuse_memory(wanted, available);
  }
  void* mapped = mmap(nullptr, static_cast<std::size_t>(wanted), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) refuse_memory(wanted, available_bytes());
  data_ = static_cast<std::byte*>(mapped);
  capacity_ = wanted;
#ifdef MADV_HUGEPAGE
  // Only a hint: without huge pages the slab works, with more page faults when first written.
  if (unit == kHugePage) madvise(data_, static_cast<std::size_t>(capacity_), MADV_HUGEPAGE);
#endif
}

int Slab::lock(const PageLocker& locker) {
  if (locker_.unlock != nullptr || data_ == nullptr) return 0;
  int error = locker.use_device(locker.device);
  if (error == 0) error = locker.lock(data_, static_cast<std::size_t>(capacity_), kPortable);
  if (error != 0) return error;
  locker_ = locker;
  locked_by_ = getpid();
  return 0;
}

SlabPool::SlabPool(int max_free)
    : max_free_(static_cast<std::size_t>(max_free)), owner_(getpid()) {}

std::shared_ptr<Slab> SlabPool::acquire() {
  std::unique_ptr<Slab> slab;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      slab = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (slab == nullptr) slab = std::make_unique<Slab>();
  return {slab.release(), [pool = shared_from_this()](Slab* used) {
            pool->give_back(std::unique_ptr<Slab>(used));
          }};
}

void SlabPool::give_back(std::unique_ptr<Slab> slab) {
  if (getpid() != owner_) return;  // freed with the child's own copy
  const std::lock_guard lock(mutex_);
  if (free_.size() < max_free_) free_.push_back(std::move(slab));
}

void SlabPool::use_locker(const PageLocker& locker) {
  const std::lock_guard lock(mutex_);
  locker_ = locker;
}

void SlabPool::lock(Slab& slab) {
  PageLocker locker;
  {
    const std::lock_guard lock(mutex_);
    locker = locker_;
  }
  if (locker.lock == nullptr) return;
  const int error = slab.lock(locker);
  const std::lock_guard lock(mutex_);
  if (lock_error_ == 0) lock_error_ = error;
}

int SlabPool::lock_error() const {
  const std::lock_guard lock(mutex_);
  return lock_error_;
}

std::int64_t SlabPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t total = 0;
  for (const auto& slab : free_) total += slab->capacity();
  return total;
}

}  // namespace salient
