// Synthetic twins: the permutation that pairs stubs, and simple graphs of odd models, by any number
// of threads.
#include "twin_edges.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "expect.h"
#include "twin_layout.h"
#include "twin_nodes.h"
#include "twin_random.h"

namespace {

using namespace salient;

void check_permutation(std::uint32_t size) {
  const Permutation order(size, twin_words(size, TwinStream::kNodeOrder, 0));
  std::vector<bool> taken(size);
  std::uint32_t wrong = 0, alone = 0;
  for (std::uint32_t x = 0; x < size; ++x) {
    const std::uint32_t y = order.forward(x);
    if (y >= size || taken[y] || order.backward(y) != x) {
      ++wrong;
      continue;
    }
    taken[y] = true;
    const std::uint32_t other = order.partner(x);
    if (other >= size || order.partner(other) != x) ++wrong;
    if (other == x) ++alone;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(alone, size % 2);
}

// The largest sizes, whose sums come close to 2^32, by samples.
void check_large_permutation(std::uint32_t size) {
  const Permutation order(size, twin_words(1, TwinStream::kGlobalPairs, 0));
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    const std::uint32_t x = twin_words(2, TwinStream::kSplit, i)[0] % size;
    const std::uint32_t y = order.forward(x);
    if (y >= size || order.backward(y) != x || order.partner(order.partner(x)) != x) ++wrong;
  }
  EXPECT_EQ(wrong, 0u);
}

struct Lists {
  std::int64_t found;
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
};

Lists write(const TwinModel& model, std::int64_t num_pairs, int num_threads) {
  const TwinLayout layout(model, num_threads);
  Lists lists{0, std::vector<std::int64_t>(static_cast<std::size_t>(layout.num_nodes()) + 1),
              std::vector<std::int32_t>(static_cast<std::size_t>(raw_edges(layout)))};
  lists.found =
      write_twin_edges(layout, num_pairs, num_threads, lists.indptr.data(), lists.indices.data());
  return lists;
}

void check_graph(const TwinModel& model, std::int64_t num_pairs) {
  const Lists one = write(model, num_pairs, 1);
  EXPECT(one.found >= 2 * num_pairs);
  EXPECT_EQ(one.indptr.back(), 2 * num_pairs);
  std::set<std::pair<std::int64_t, std::int64_t>> edges;
  for (std::int64_t v = 0; v < model.num_nodes(); ++v) {
    for (auto e = one.indptr[static_cast<std::size_t>(v)];
         e < one.indptr[static_cast<std::size_t>(v) + 1]; ++e) {
      const std::int64_t u = one.indices[static_cast<std::size_t>(e)];
      EXPECT(u >= 0 && u < model.num_nodes() && u != v);
      edges.emplace(u, v);
    }
  }
  EXPECT_EQ(edges.size(), static_cast<std::size_t>(2 * num_pairs));
  for (const auto& [u, v] : edges) EXPECT(edges.count({v, u}) == 1);
  for (const int threads : {2, 5}) {
    const Lists other = write(model, num_pairs, threads);
    EXPECT_EQ(other.found, one.found);
    EXPECT(other.indptr == one.indptr);
    EXPECT(std::equal(one.indices.begin(), one.indices.begin() + one.indptr.back(),
                      other.indices.begin()));
  }
}

TwinModel model_of(std::vector<std::int64_t> class_starts, std::int64_t num_stubs) {
  TwinModel model;
  model.seed = 3;
  model.class_starts = std::move(class_starts);
  model.community_size = 100;
  model.min_degree = 1;
  model.degree_steps = {1u << 31, 3u << 30, 7u << 29, 15u << 28};
  model.community_share = kWholeShare / 4;
  model.class_share = kWholeShare / 4;
  model.num_stubs = num_stubs;
  return model;
}

void check_graphs() {
  const TwinModel usual = model_of({0, 9'000, 15'000, 20'000}, 66'000);
  check_graph(usual, 30'000);
  check_graph(usual, 0);
  EXPECT(write(usual, 1'000'000, 2).found < 2'000'000);  // says that too little was drawn

  TwinModel all_in_communities = usual;
  all_in_communities.community_share = kWholeShare;
  all_in_communities.class_share = 0;
  check_graph(all_in_communities, 20'000);
  TwinModel anywhere = usual;
  anywhere.community_share = anywhere.class_share = 0;
  check_graph(anywhere, 30'000);
  TwinModel of_ones = model_of({0, 1, 1, 2, 3, 400}, 2'000);  // an empty class, lone nodes
  of_ones.community_size = 1;
  check_graph(of_ones, 500);
  check_graph(model_of({0, 1}, 10), 0);
  TwinModel regular = usual;
  regular.degree_steps.clear();
  check_graph(regular, 20'000);

  TwinModel too_large = usual;
  too_large.num_stubs = std::int64_t{1} << 40;
  EXPECT_THROWS(std::invalid_argument, "too many edges", TwinLayout(too_large, 2));
}

void check_nodes() {
  const TwinLayout layout(model_of({0, 9'000, 15'000, 20'000}, 66'000), 2);
  std::vector<std::int64_t> labels(20'000);
  std::vector<std::uint8_t> parts(20'000);
  write_twin_labels(layout, {0, 5'000, 5'000, 6'000}, 3, labels.data(), parts.data());
  const auto of_class = [&](std::int64_t c) { return std::count(labels.begin(), labels.end(), c); };
  EXPECT_EQ(of_class(0), 9'000);
  EXPECT_EQ(of_class(1), 6'000);
  EXPECT_EQ(of_class(2), 5'000);
  const auto in_part = [&](int p) { return std::count(parts.begin(), parts.end(), p); };
  EXPECT_EQ(in_part(0), 5'000);
  EXPECT_EQ(in_part(1), 0);
  EXPECT_EQ(in_part(2), 1'000);
  EXPECT_EQ(in_part(255), 14'000);

  std::vector<std::uint16_t> one(20'000 * 7), other(20'000 * 7);
  write_twin_features(layout, 7, 1.0f, 0, 20'000, 1, one.data());
  write_twin_features(layout, 7, 1.0f, 0, 20'000, 4, other.data());
  EXPECT(one == other);
}

}  // namespace

int main() {
  for (std::uint32_t size = 0; size < 600; ++size) check_permutation(size);
  for (const std::uint32_t size : {65'535u, 65'536u, 65'537u, 200'000u}) check_permutation(size);
  for (const std::uint32_t size : {1u << 31, (1u << 31) + 1, ~0u - 1, ~0u}) {
    check_large_permutation(size);
  }
  check_graphs();
  check_nodes();
  return expect::status();
}
