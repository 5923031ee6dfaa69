// Slicing of rows, for all sizes and alignments, against a plain loop.
#include "gather.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "expect.h"
#include "sampler.h"

namespace {

using namespace salient;
using Bytes = std::vector<std::byte>;

// The table ends where its allocation does, so that AddressSanitizer sees any read beyond it.
void check_rows(std::int64_t row_bytes, std::int64_t num_rows, std::int64_t num_ids,
                std::size_t shift) {
  std::mt19937_64 random(static_cast<unsigned>(row_bytes * 31 + num_ids));
  Bytes table(shift + static_cast<std::size_t>(num_rows * row_bytes));
  for (std::byte& byte : table) byte = static_cast<std::byte>(random());
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < num_ids; ++i) {
    ids.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(num_rows)));
  }
  if (num_ids > 1) ids[0] = ids[1] = num_rows - 1;

  constexpr std::size_t kMargin = 80;
  constexpr std::byte kUntouched{0xA5};
  const auto out_bytes = static_cast<std::size_t>(num_ids * row_bytes);
  Bytes out(out_bytes + 2 * kMargin + shift, kUntouched);
  gather_rows(table.data() + shift, row_bytes, ids, out.data() + kMargin + shift, nullptr);

  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < num_ids; ++i) {
    for (std::int64_t b = 0; b < row_bytes; ++b) {
      wrong +=
          out[kMargin + shift + static_cast<std::size_t>(i * row_bytes + b)] !=
          table[shift + static_cast<std::size_t>(ids[static_cast<std::size_t>(i)] * row_bytes + b)];
    }
  }
  for (std::size_t b = 0; b < kMargin; ++b) {
    wrong += out[b] != kUntouched || out[kMargin + shift + out_bytes + b] != kUntouched;
  }
  EXPECT_EQ(wrong, std::int64_t{0});
}

void check_stop() {
  const Bytes table(64 * 100);
  const std::vector<std::int64_t> ids(100000, 99);
  Bytes out(64 * ids.size());
  std::atomic<bool> stop{true};
  EXPECT_THROWS(Stopped, "stopped", gather_rows(table.data(), 64, ids, out.data(), &stop));
  stop = false;
  gather_rows(table.data(), 64, ids, out.data(), &stop);
  // Raised by another thread while rows are copied.
  std::thread stopper([&stop] { stop = true; });
  const auto gather_until_stopped = [&] {
    while (true) gather_rows(table.data(), 64, ids, out.data(), &stop);
  };
  EXPECT_THROWS(Stopped, "stopped", gather_until_stopped());
  stopper.join();
}

void check_find_outside() {
  const std::vector<std::int64_t> ids{0, 4, 5, -1, INT64_MAX, INT64_MIN};
  const std::span<const std::int64_t> all(ids);
  EXPECT_EQ(find_outside(all.first(0), 0), std::int64_t{-1});
  EXPECT_EQ(find_outside(all.first(1), 0), std::int64_t{0});
  EXPECT_EQ(find_outside(all.first(2), 5), std::int64_t{-1});
  EXPECT_EQ(find_outside(all.first(3), 5), std::int64_t{2});
  EXPECT_EQ(find_outside(all.first(4), 6), std::int64_t{3});
  EXPECT_EQ(find_outside(all.subspan(4), 6), std::int64_t{0});
  EXPECT_EQ(find_outside(all.subspan(5), 6), std::int64_t{0});
}

}  // namespace

int main() {
  for (const std::int64_t row_bytes :
       {1, 2, 3, 4, 7, 8, 63, 64, 65, 100, 128, 200, 256, 400, 512, 513, 1024, 2500, 9000}) {
    for (const std::int64_t num_ids : {0, 1, 2, 3, 33, 700}) {
      check_rows(row_bytes, 50, num_ids, 0);
      check_rows(row_bytes, 50, num_ids, 1);
    }
    check_rows(row_bytes, 1, 5, 0);
  }
  // More rows than are copied between two looks at the stop flag.
  check_rows(8, 1000, 4096, 0);
  check_rows(8, 1000, 10001, 3);
  const std::vector<std::int64_t> ids{0, 1, 2};
  gather_rows(nullptr, 0, ids, nullptr, nullptr);  // rows without a byte
  check_stop();
  check_find_outside();
  return expect::status();
}
