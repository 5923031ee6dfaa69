// Work handed out to threads by ranges, the next one to whoever is free. The ranges depend on the
// amount of work alone, so whatever is collected by range is the same for any number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "parallel.h"

namespace salient {

// Calls work(begin, end, range, thread) for every range of `step` items of [0, count).
template <class Work>
void for_ranges(std::int64_t count, std::int64_t step, int num_threads, const Work& work) {
  const std::int64_t num_ranges = (count + step - 1) / step;
  std::atomic<std::int64_t> next{0};
  run_threads(static_cast<int>(std::min<std::int64_t>(num_threads, num_ranges)), [&](int thread) {
    for (std::int64_t range = next++; range < num_ranges; range = next++) {
      work(range * step, std::min(count, (range + 1) * step), range, thread);
    }
  });
}

}  // namespace salient
