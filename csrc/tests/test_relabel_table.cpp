// Both relabelling tables against std::unordered_map.
#include "relabel_table.h"

#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include "expect.h"

namespace {

using namespace salient;

// What a sampling thread does with a table over many batches, some of which end early.
template <class Table, class Id>
void check_batches(std::int64_t num_nodes, std::int64_t largest_batch, Id factor) {
  std::mt19937_64 random(static_cast<unsigned>(num_nodes));
  Table table(num_nodes);
  std::vector<Id> n_id;
  std::int64_t wrong = 0;
  for (int batch = 0; batch < 60; ++batch) {
    table.clear(n_id.data(), static_cast<std::int64_t>(n_id.size()));
    n_id.clear();
    std::unordered_map<Id, std::int32_t> expected;
    const auto runs = static_cast<std::int64_t>(random() % 8);
    for (std::int64_t run = 0; run < runs; ++run) {
      const auto length = static_cast<std::int64_t>(
          random() % static_cast<std::uint64_t>(largest_batch / (batch % 5 + 1)));
      table.reserve(n_id.data(), static_cast<std::int64_t>(n_id.size()), length);
      // A run may be given up half-way, as by an exception: room was made for more than came.
      const std::int64_t inserted = random() % 4 == 0 ? length / 2 : length;
      for (std::int64_t i = 0; i < inserted; ++i) {
        const auto id = static_cast<Id>(
            factor * static_cast<Id>(random() % static_cast<std::uint64_t>(num_nodes / factor)));
        table.prefetch(id);
        const auto next = static_cast<std::int32_t>(n_id.size());
        const auto [place, is_new] = expected.try_emplace(id, next);
        wrong += table.find_or_insert(id, next) != place->second;
        if (is_new) n_id.push_back(id);
      }
    }
    // All are still there, and asking again changes nothing.
    for (std::size_t i = 0; i < n_id.size(); ++i) {
      wrong += table.find_or_insert(n_id[i], -7) != static_cast<std::int32_t>(i);
    }
  }
  EXPECT_EQ(wrong, std::int64_t{0});
  EXPECT(table.bytes() > 0);
}

// The smallest table that grows must keep all ids, at every size on the way.
template <class Id>
void check_growth_one_by_one() {
  HashTable<Id> table(0);
  std::vector<Id> n_id;
  table.clear(n_id.data(), 0);
  std::int64_t wrong = 0;
  for (std::int32_t i = 0; i < 5000; ++i) {
    const auto id = static_cast<Id>(i * 7 % 5003);
    table.reserve(n_id.data(), static_cast<std::int64_t>(n_id.size()), 1);
    wrong += table.find_or_insert(id, i) != i;
    n_id.push_back(id);
    wrong += table.find_or_insert(n_id[n_id.size() / 2], -7) !=
             static_cast<std::int32_t>(n_id.size() / 2);
  }
  EXPECT_EQ(wrong, std::int64_t{0});
}

// Few ids are forgotten one by one, many all at once; both must leave nothing.
void check_array_clear(std::int64_t known) {
  constexpr std::int64_t kNodes = 1600;
  ArrayTable<std::int32_t> table(kNodes);
  std::vector<std::int32_t> n_id;
  for (std::int32_t i = 0; i < known; ++i) {
    n_id.push_back(i * 3 % static_cast<std::int32_t>(kNodes));
    EXPECT_EQ(table.find_or_insert(n_id.back(), i), i);
  }
  table.clear(n_id.data(), known);
  for (std::int32_t id = 0; id < kNodes; ++id) EXPECT_EQ(table.find_or_insert(id, 9), 9);
}

}  // namespace

int main() {
  using std::int32_t;
  using std::int64_t;
  check_batches<HashTable<int32_t>, int32_t>(1 << 30, 20000, 1);
  check_batches<HashTable<int32_t>, int32_t>(3000, 20000, 1);
  check_batches<HashTable<int64_t>, int64_t>(int64_t{1} << 60, 20000, 1);
  // Ids that share their low or high bits.
  check_batches<HashTable<int64_t>, int64_t>(int64_t{1} << 60, 20000, int64_t{1} << 44);
  check_batches<HashTable<int32_t>, int32_t>(2000000000, 20000, 65536);
  check_batches<ArrayTable<int32_t>, int32_t>(3000, 20000, 1);
  check_batches<ArrayTable<int32_t>, int32_t>(1 << 20, 20000, 1);
  check_batches<ArrayTable<int64_t>, int64_t>(1 << 20, 20000, 1);
  check_growth_one_by_one<int32_t>();
  check_growth_one_by_one<int64_t>();
  for (const int64_t known : {0, 1, 99, 100, 101, 1600}) check_array_clear(known);
  ArrayTable<int32_t> empty(0);
  empty.clear(nullptr, 0);
  return expect::status();
}
