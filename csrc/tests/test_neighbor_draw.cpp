// Drawing of in-edges: both implementations against a plain one, Floyd's rule, uniformity.
#include "neighbor_draw.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "expect.h"

namespace {

using namespace salient;

constexpr std::size_t kWidth = kLanes;

struct Reference {
  std::uint32_t value;
  bool rejected;  // the first word was, so that another was drawn
};

Reference reference_draw(const DrawStream& stream, std::uint32_t position, std::uint32_t index,
                         std::uint64_t bound) {
  const std::uint64_t threshold = (1ull << 32) % bound;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const std::uint64_t word = philox_words(stream, position, index / 4, attempt)[index % 4];
    if ((word * bound & 0xFFFFFFFF) < threshold) continue;
    return {static_cast<std::uint32_t>(word * bound >> 32), attempt > 0};
  }
}

void check_bounded(DrawBounded draw) {
  std::mt19937_64 random(1);
  int rejections = 0, wrong = 0;
  for (int round = 0; round < 4000; ++round) {
    const DrawStream stream(random(), random() & kMaxEpoch, random() & kMaxBatch,
                            static_cast<std::uint32_t>(random() % 256));
    const auto fanout = static_cast<std::uint32_t>(random() % 21);
    const auto step = static_cast<std::uint32_t>(random() % 2);
    std::array<std::uint32_t, kWidth> position{}, bound{};
    for (std::size_t lane = 0; lane < kWidth; ++lane) {
      position[lane] = static_cast<std::uint32_t>(random());
      // From 1 to nearly 2^32, all magnitudes alike: a quarter of the largest are rejected.
      bound[lane] = static_cast<std::uint32_t>(random() >> (32 + random() % 32)) | 1;
      bound[lane] -= bound[lane] > 0xFFFFFF00 ? 0x100 : 0;
    }
    std::vector<std::uint32_t> drawn((fanout + 3) / 4 * 4 * kWidth);
    draw(stream, position.data(), bound.data(), step, fanout, drawn.data());
    for (std::uint32_t i = 0; i < fanout; ++i) {
      for (std::size_t lane = 0; lane < kWidth; ++lane) {
        const auto expected = reference_draw(stream, position[lane], i, bound[lane] + i * step);
        wrong += drawn[i * kWidth + lane] != expected.value;
        rejections += expected.rejected;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT(rejections > 1000);
}

// Floyd's rule with a set: what the scan and the bitmap must reproduce.
std::vector<std::int64_t> reference_sample(const DrawStream& stream, std::uint32_t position,
                                           std::uint32_t degree, std::uint32_t fanout,
                                           bool replace) {
  std::set<std::int64_t> taken;
  std::vector<std::int64_t> sample;
  for (std::uint32_t i = 0; i < fanout; ++i) {
    const std::uint32_t bound = replace ? degree : degree - fanout + 1 + i;
    std::int64_t place = reference_draw(stream, position, i, bound).value;
    if (!replace && taken.count(place) > 0) place = bound - 1;
    taken.insert(place);
    sample.push_back(place);
  }
  return sample;
}

// One object for many calls, so that what one leaves behind would show in the next.
void check_samples(std::uint32_t fanout, bool replace) {
  std::mt19937_64 random(fanout);
  NeighborDraw draw(fanout, replace);
  int wrong = 0, repeated = 0, outside = 0, spilled = 0;
  for (int round = 0; round < 300; ++round) {
    const DrawStream stream(random(), 0, 0, 0);
    const auto count = static_cast<int>(random() % kWidth + 1);
    std::array<std::uint32_t, kWidth> position{}, degree{};
    std::array<std::int64_t, kWidth> begin{};
    std::array<std::int64_t*, kWidth> out{};
    std::vector<std::vector<std::int64_t>> drawn(kWidth, std::vector<std::int64_t>(fanout, -1));
    for (std::size_t lane = 0; lane < kWidth; ++lane) {
      position[lane] = static_cast<std::uint32_t>(random());
      const std::uint32_t least = replace ? 1 : fanout + 1;
      degree[lane] = least + static_cast<std::uint32_t>(random() % (random() % 2 ? 4 : 3000));
      begin[lane] = static_cast<std::int64_t>(random() >> 2);
      out[lane] = drawn[lane].data();
    }
    draw.draw(stream, position.data(), degree.data(), count, out.data(), begin.data());
    for (std::size_t lane = 0; lane < kWidth; ++lane) {
      if (lane >= static_cast<std::size_t>(count)) {
        spilled += drawn[lane] != std::vector<std::int64_t>(fanout, -1);
        continue;
      }
      for (std::int64_t& place : drawn[lane]) {
        place -= begin[lane];
        outside += place < 0 || place >= degree[lane];
      }
      repeated +=
          !replace && std::set(drawn[lane].begin(), drawn[lane].end()).size() < fanout ? 1 : 0;
      wrong +=
          drawn[lane] != reference_sample(stream, position[lane], degree[lane], fanout, replace);
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(repeated, 0);
  EXPECT_EQ(outside, 0);
  EXPECT_EQ(spilled, 0);
}

// Sets drawn for one node, by how often each came.
template <class Draw>
std::map<std::set<std::int64_t>, double> count_sets(int draws, std::uint32_t fanout, Draw draw) {
  std::map<std::set<std::int64_t>, double> counts;
  std::vector<std::int64_t> sample(fanout);
  for (int i = 0; i < draws; ++i) {
    draw(DrawStream(7, 0, static_cast<std::uint64_t>(i), 0), sample.data());
    ++counts[std::set(sample.begin(), sample.end())];
  }
  return counts;
}

template <class Counts>
double chi_square(const Counts& counts, double expected) {
  double sum = 0;
  for (const auto& [key, count] : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Six pairs out of four, 5 degrees of freedom: above 35.9 once in a million.
void check_pairs_are_uniform() {
  NeighborDraw drawer(2, false);
  const std::uint32_t position = 3, degree = 4;
  const std::int64_t begin = 0;
  const auto by_lanes = count_sets(3000, 2, [&](const DrawStream& stream, std::int64_t* out) {
    drawer.draw(stream, &position, &degree, 1, &out, &begin);
  });
  EXPECT_EQ(by_lanes.size(), std::size_t{6});
  EXPECT(chi_square(by_lanes, 500) < 35.9);
  const auto alone = count_sets(3000, 2, [&](const DrawStream& stream, std::int64_t* out) {
    drawer.draw_huge(stream, position, degree, begin, out);
  });
  EXPECT_EQ(alone.size(), std::size_t{6});
  EXPECT(chi_square(alone, 500) < 35.9);
}

// Every position is drawn as often as any other, within five standard deviations; fanouts on both
// sides of the change from scan to bitmap.
void check_inclusion(std::uint32_t fanout, bool replace) {
  constexpr int kDraws = 20000;
  constexpr std::uint32_t kDegree = 40;
  NeighborDraw drawer(fanout, replace);
  std::vector<double> counts(kDegree);
  std::vector<std::int64_t> sample(fanout);
  std::int64_t* out = sample.data();
  const std::uint32_t position = 0, degree = kDegree;
  const std::int64_t begin = 0;
  for (int i = 0; i < kDraws; ++i) {
    drawer.draw(DrawStream(11, 0, static_cast<std::uint64_t>(i), 0), &position, &degree, 1, &out,
                &begin);
    for (const std::int64_t place : sample) ++counts[static_cast<std::size_t>(place)];
  }
  const double share = static_cast<double>(fanout) / kDegree;
  const double variance =
      kDraws * (replace ? fanout * (1.0 / kDegree) * (1 - 1.0 / kDegree) : share * (1 - share));
  for (const double count : counts) {
    EXPECT(std::abs(count - kDraws * share) < 5 * std::sqrt(variance));
  }
}

void check_huge() {
  constexpr std::int64_t kDegree = std::int64_t{1} << 40, kBegin = std::int64_t{1} << 50;
  std::vector<double> sixteenths(16);
  std::vector<std::int64_t> sample(200);
  for (const bool replace : {false, true}) {
    const NeighborDraw draw(200, replace);
    for (std::uint32_t position = 0; position < 100; ++position) {
      draw.draw_huge(DrawStream(5, 0, 0, 0), position, kDegree, kBegin, sample.data());
      EXPECT_EQ(std::set(sample.begin(), sample.end()).size(), sample.size());
      for (const std::int64_t place : sample) {
        EXPECT(place >= kBegin && place < kBegin + kDegree);
        ++sixteenths[static_cast<std::size_t>((place - kBegin) * 16 / kDegree)];
      }
    }
  }
  std::map<int, double> counts;
  for (int i = 0; i < 16; ++i) counts[i] = sixteenths[static_cast<std::size_t>(i)];
  EXPECT(chi_square(counts, 2500) < 56.5);  // 15 degrees of freedom, once in a million

  // Nearly all of a small range, so that Floyd's rule has to step in; every one once.
  const NeighborDraw nearly_all(99, false);
  for (std::uint32_t position = 0; position < 100; ++position) {
    nearly_all.draw_huge(DrawStream(5, 0, 0, 0), position, 100, 0, sample.data());
    EXPECT_EQ(std::set(sample.begin(), sample.begin() + 99).size(), std::size_t{99});
  }
}

}  // namespace

int main() {
  check_bounded(portable_draw_bounded());
  if (avx2_draw_bounded() != nullptr) check_bounded(avx2_draw_bounded());
  for (const std::uint32_t fanout : {1u, 2u, 3u, 4u, 5u, 15u, 31u, 32u, 33u, 34u, 100u, 1000u}) {
    check_samples(fanout, false);
    check_samples(fanout, true);
  }
  check_pairs_are_uniform();
  for (const std::uint32_t fanout : {1u, 2u, 20u, 32u, 33u, 39u}) check_inclusion(fanout, false);
  for (const std::uint32_t fanout : {1u, 5u, 33u}) check_inclusion(fanout, true);
  check_huge();
  return expect::status();
}
