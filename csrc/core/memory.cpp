#include "memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>

namespace salient {

namespace {

// Bytes of address space that a limit on this process leaves, or -1 without one.
std::int64_t bytes_below_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  std::ifstream status("/proc/self/statm");
  std::int64_t pages = 0;
  status >> pages;
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE), 0);
}

}  // namespace

std::int64_t available_bytes() {
  const std::int64_t below_limit = bytes_below_limit();
  std::ifstream info("/proc/meminfo");
  std::string key;
  std::int64_t kib = 0;
  while (info >> key >> kib) {
    if (key == "MemAvailable:") {
      return below_limit < 0 ? kib * 1024 : std::min(kib * 1024, below_limit);
    }
    info.ignore(256, '\n');
  }
  return below_limit;
}

void refuse_memory(std::int64_t needed, std::int64_t available) {
  throw std::runtime_error(
      "a batch needs " + std::to_string(needed) + " bytes, but " +
      (available >= 0 ? std::to_string(available) : std::string("too few")) +
      " are available: use a smaller batch_size, smaller fanouts, fewer threads or less prefetch");
}

}  // namespace salient
