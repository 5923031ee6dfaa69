#include "gather.h"

#include <algorithm>
#include <cstring>

#include "platform.h"
#include "sampler.h"

namespace salient {

namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kLinesAhead = 32;
constexpr std::int64_t kLeastRowsAhead = 8;
constexpr std::int64_t kRowsBetweenStopChecks = 4096;

// The size is a constant where it is a common small one, so that a row is a few vector moves. For
// larger constants compilers emit string instructions, which are slower than the library's memcpy.
template <std::int64_t kRowBytes>
void gather_span(const std::byte* table, std::int64_t row_bytes, const std::int64_t* ids,
                 std::int64_t count, std::byte* out) {
  if constexpr (kRowBytes > 0) row_bytes = kRowBytes;
  // Only a row's first line is requested: it brings the translation of the page, and the
  // processor's own prefetcher follows from there. Requesting every line was slower for rows of 200
  // bytes and up.
  const std::int64_t ahead = std::max(kLinesAhead / (row_bytes / kLine + 1), kLeastRowsAhead);
  for (std::int64_t i = 0; i < std::min(ahead, count); ++i) {
    prefetch_read(table + ids[i] * row_bytes);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch_read(table + ids[i + ahead] * row_bytes);
    std::memcpy(out + i * row_bytes, table + ids[i] * row_bytes,
                static_cast<std::size_t>(row_bytes));
  }
}

using GatherSpan = void (*)(const std::byte*, std::int64_t, const std::int64_t*, std::int64_t,
                            std::byte*);

GatherSpan choose_gather(std::int64_t row_bytes) {
  switch (row_bytes) {
    case 4: return gather_span<4>;
    case 8: return gather_span<8>;
    case 128: return gather_span<128>;
    case 200: return gather_span<200>;
    default: return gather_span<0>;
  }
}

}  // namespace

void gather_rows(const std::byte* table, std::int64_t row_bytes, std::span<const std::int64_t> ids,
                 std::byte* out, const std::atomic<bool>* stop) {
  if (row_bytes == 0) return;
  const GatherSpan gather = choose_gather(row_bytes);
  const auto total = static_cast<std::int64_t>(ids.size());
  for (std::int64_t start = 0; start < total; start += kRowsBetweenStopChecks) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) throw Stopped();
    gather(table, row_bytes, ids.data() + start, std::min(kRowsBetweenStopChecks, total - start),
           out + start * row_bytes);
  }
}

std::int64_t find_outside(std::span<const std::int64_t> ids, std::int64_t num_rows) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= num_rows) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace salient
