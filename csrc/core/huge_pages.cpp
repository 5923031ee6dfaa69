#include "huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace salient {

namespace {

constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
constexpr std::int64_t kSmallestRange = std::int64_t{16} << 20;

// Whether no file lies behind the pages from `first` to `last`, as far as the system tells.
[[maybe_unused]] bool is_anonymous(std::uintptr_t first, std::uintptr_t last) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (first < last && std::getline(maps, line)) {
    // start-end permissions offset device inode [path]
    std::istringstream fields(line);
    std::uintptr_t start = 0, end = 0;
    std::uint64_t inode = 1;
    std::string permissions, offset, device;
    char dash = 0;
    fields >> std::hex >> start >> dash >> end >> permissions >> offset >> device >> std::dec >>
        inode;
    if (end <= first) continue;
    if (!fields || start > first || inode != 0) return false;
    first = end;
  }
  return first >= last;
}

}  // namespace

void request_huge_pages([[maybe_unused]] const void* begin, [[maybe_unused]] std::int64_t bytes) {
#ifdef __linux__
  if (bytes < kSmallestRange) return;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last =
      (address + static_cast<std::uintptr_t>(bytes)) / kHugePage * kHugePage;
  if (first >= last || !is_anonymous(first, last)) return;
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
