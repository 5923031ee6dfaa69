#include "gather.h"

#include <algorithm>
#include <cstring>

#include "platform.h"
#include "sampler.h"

namespace salient {

namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kLinesInFlight = 32;
constexpr std::int64_t kRowsBetweenStopChecks = 4096;

void prefetch_row(const std::byte* row, std::int64_t row_bytes) {
  for (std::int64_t at = 0; at < row_bytes; at += kLine) prefetch_read(row + at);
  prefetch_read(row + row_bytes - 1);  // an unaligned row ends on one more line
}

// The size is a constant where it is a common one, so that a row is a few vector moves.
template <std::int64_t kRowBytes>
void gather_span(const std::byte* table, std::int64_t row_bytes, const std::int64_t* ids,
                 std::int64_t count, std::byte* out) {
  if constexpr (kRowBytes > 0) row_bytes = kRowBytes;
  const std::int64_t lines = row_bytes / kLine + 1;
  // Rows of several pages: the processor's own prefetcher follows each of them.
  const std::int64_t ahead = std::max<std::int64_t>(kLinesInFlight / lines, 2);
  for (std::int64_t i = 0; i < std::min(ahead, count); ++i) {
    prefetch_row(table + ids[i] * row_bytes, row_bytes);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch_row(table + ids[i + ahead] * row_bytes, row_bytes);
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
    case 256: return gather_span<256>;
    case 400: return gather_span<400>;
    case 512: return gather_span<512>;
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
