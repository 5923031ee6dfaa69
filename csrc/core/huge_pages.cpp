#include "huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace salient {

namespace {

constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
constexpr std::int64_t kSmallestRange = std::int64_t{16} << 20;

}  // namespace

void request_huge_pages([[maybe_unused]] const void* begin, [[maybe_unused]] std::int64_t bytes) {
#ifdef __linux__
  if (bytes < kSmallestRange) return;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last =
      (address + static_cast<std::uintptr_t>(bytes)) / kHugePage * kHugePage;
  void* range = reinterpret_cast<void*>(first);
#ifdef MADV_HUGEPAGE
  madvise(range, last - first, MADV_HUGEPAGE);
#endif
  // Pages that are there already are moved at once, from Linux 6.1 on; older headers lack the name.
  constexpr int kCollapse = 25;
  madvise(range, last - first, kCollapse);
#endif
}

}  // namespace salient
