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

}  // namespace

Slab::~Slab() {
  release();
}

void Slab::release() {
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

std::int64_t SlabPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t total = 0;
  for (const auto& slab : free_) total += slab->capacity();
  return total;
}

}  // namespace salient
