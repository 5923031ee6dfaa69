#include "twin_layout.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "parallel_ranges.h"

namespace salient {

namespace {

constexpr std::int64_t kRange = 1 << 16;
constexpr std::uint32_t kTopShift = 20;  // the steps guide goes by the top 12 bits of a word

std::int64_t block_at(const std::vector<std::int64_t>& starts, std::int64_t position) {
  return std::upper_bound(starts.begin(), starts.end(), position) - starts.begin() - 1;
}

}  // namespace

TwinLayout::TwinLayout(TwinModel model, int num_threads)
    : model_(std::move(model)),
      order_(static_cast<std::uint32_t>(model_.num_nodes()),
             twin_words(model_.seed, TwinStream::kNodeOrder, 0)) {
  cut_communities();
  fill_steps_guide();
  count_stubs(num_threads);
  fill_guides(num_threads);
}

std::int64_t TwinLayout::class_at(std::int64_t position) const {
  return block_at(model_.class_starts, position);
}

std::int64_t TwinLayout::community_at(std::int64_t position) const {
  return block_at(community_starts_, position);
}

// Communities have from a third to five thirds of the mean size: each bound of an even cut is moved
// by up to a third of it.
void TwinLayout::cut_communities() {
  const auto num_classes = static_cast<std::int64_t>(model_.class_starts.size()) - 1;
  for (std::int64_t c = 0; c < num_classes; ++c) {
    const auto [first, last] = class_block(c);
    const std::int64_t nodes = last - first;
    if (nodes == 0) continue;
    const std::int64_t parts = std::max<std::int64_t>(1, nodes / model_.community_size);
    for (std::int64_t part = 0; part < parts; ++part) {
      std::int64_t start = first + nodes * part / parts;
      if (part > 0) {
        const auto index = static_cast<std::uint64_t>(community_starts_.size());
        const auto word = twin_words(model_.seed, TwinStream::kCommunityBounds, index)[0];
        const std::int64_t third = nodes / parts / 3;
        start += static_cast<std::int64_t>(word) % (2 * third + 1) - third;
      }
      community_starts_.push_back(start);
    }
  }
  community_starts_.push_back(num_nodes());
}

void TwinLayout::fill_steps_guide() {
  const auto& steps = model_.degree_steps;
  const std::uint32_t tops = 1u << (32 - kTopShift);
  steps_guide_.resize(tops + 1);
  for (std::uint32_t top = 0; top < tops; ++top) {
    const auto at = std::lower_bound(steps.begin(), steps.end(), top << kTopShift);
    steps_guide_[top] = static_cast<std::uint32_t>(at - steps.begin());
  }
  steps_guide_[tops] = static_cast<std::uint32_t>(steps.size());
}

std::uint32_t TwinLayout::drawn_degree(std::uint32_t word) const {
  const std::uint32_t top = word >> kTopShift;
  const auto from = model_.degree_steps.begin() + steps_guide_[top];
  const auto to = model_.degree_steps.begin() + steps_guide_[top + 1];
  const auto passed = std::upper_bound(from, to, word) - model_.degree_steps.begin();
  return model_.min_degree + static_cast<std::uint32_t>(passed);
}

std::uint64_t TwinLayout::sum_of_degrees(int num_threads) const {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(num_nodes() / kRange + 1));
  for_ranges(num_nodes(), kRange, num_threads,
             [&](std::int64_t begin, std::int64_t end, std::int64_t range, int) {
               std::uint64_t sum = 0;
               for (std::int64_t position = begin; position < end; ++position) {
                 const auto index = static_cast<std::uint64_t>(position);
                 sum += drawn_degree(twin_words(model_.seed, TwinStream::kDegree, index)[0]);
               }
               sums[static_cast<std::size_t>(range)] = sum;
             });
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

// The degree, scaled, cut into stubs of each level. All roundings are at random, so that the means
// are those asked for. A hub has at most a quarter as many stubs as a block has nodes, else most
// of its edges there would be duplicates; the rest goes a level up.
TwinLayout::Stubs TwinLayout::draw_stubs(std::int64_t position, std::uint64_t scale) const {
  const auto words =
      twin_words(model_.seed, TwinStream::kDegree, static_cast<std::uint64_t>(position));
  const std::uint64_t degree = (drawn_degree(words[0]) * scale + words[1]) >> 32;
  const auto [community_first, community_last] = community_block(community_at(position));
  const auto [class_first, class_last] = class_block(class_at(position));
  const auto quarter = [](std::int64_t nodes) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(1, nodes / 4));
  };
  const std::uint64_t in_community =
      std::min((degree * model_.community_share + (words[2] & 0xFFFF)) >> 16,
               quarter(community_last - community_first));
  // Of what is left: the class's share of all that is not the community's.
  const std::uint64_t others = kWholeShare - model_.community_share;
  const std::uint64_t left = degree - std::min(degree, in_community);
  const std::uint64_t in_class =
      others == 0
          ? 0
          : std::min((left * model_.class_share + others * (words[2] >> 16) / kWholeShare) / others,
                     quarter(class_last - class_first));
  return {static_cast<std::uint32_t>(degree - left), static_cast<std::uint32_t>(in_class),
          static_cast<std::uint32_t>(left - in_class)};
}

void TwinLayout::count_stubs(int num_threads) {
  const std::uint64_t drawn = std::max<std::uint64_t>(1, sum_of_degrees(num_threads));
  // 32.32 fixed point; in two steps, since num_stubs << 32 can pass 64 bits.
  const auto wanted = static_cast<std::uint64_t>(model_.num_stubs);
  const std::uint64_t whole = wanted / drawn, rest = wanted % drawn;
  const std::uint64_t scale = (whole << 32) + ((rest << 24) / drawn << 8);

  const std::int64_t nodes = num_nodes();
  before_.resize(static_cast<std::size_t>(nodes) + 1);
  using Totals = std::array<std::uint64_t, kTwinLevels>;
  std::vector<Totals> totals(static_cast<std::size_t>(nodes / kRange + 1));
  for_ranges(nodes, kRange, num_threads,
             [&](std::int64_t begin, std::int64_t end, std::int64_t range, int) {
               Totals sum{};
               for (std::int64_t position = begin; position < end; ++position) {
                 const Stubs stubs = draw_stubs(position, scale);
                 for (std::size_t level = 0; level < kTwinLevels; ++level) {
                   sum[level] += stubs[level];
                 }
                 before_[static_cast<std::size_t>(position)] = stubs;
               }
               totals[static_cast<std::size_t>(range)] = sum;
             });
  Totals running{};
  for (Totals& total : totals) {
    for (std::size_t level = 0; level < kTwinLevels; ++level) {
      running[level] += std::exchange(total[level], running[level]);
    }
  }
  for (const std::uint64_t stubs : running) {
    if (stubs > std::numeric_limits<std::uint32_t>::max()) {
      throw std::invalid_argument("too many edges: " + std::to_string(stubs) +
                                  " edge ends of one kind, where 2^32 are possible");
    }
  }
  for_ranges(nodes, kRange, num_threads,
             [&](std::int64_t begin, std::int64_t end, std::int64_t range, int) {
               Totals sum = totals[static_cast<std::size_t>(range)];
               for (std::int64_t position = begin; position < end; ++position) {
                 Stubs& stubs = before_[static_cast<std::size_t>(position)];
                 for (std::size_t level = 0; level < kTwinLevels; ++level) {
                   sum[level] +=
                       std::exchange(stubs[level], static_cast<std::uint32_t>(sum[level]));
                 }
               }
             });
  for (std::size_t level = 0; level < kTwinLevels; ++level) {
    before_.back()[level] = static_cast<std::uint32_t>(running[level]);
  }
}

void TwinLayout::fill_guides(int num_threads) {
  for (int level = 0; level < kTwinLevels; ++level) {
    auto& guide = guides_[static_cast<std::size_t>(level)];
    const std::uint32_t stubs = stubs_before(level, num_nodes());
    guide.assign(stubs / kGuideStep + 2, static_cast<std::uint32_t>(num_nodes() - 1));
    // A position writes the entries of the guide that fall into its own stubs: none twice.
    for_ranges(num_nodes(), kRange, num_threads,
               [&](std::int64_t begin, std::int64_t end, std::int64_t, int) {
                 for (std::int64_t position = begin; position < end; ++position) {
                   const std::uint64_t first = stubs_before(level, position);
                   const std::uint64_t last = stubs_before(level, position + 1);
                   for (std::uint64_t entry = (first + kGuideStep - 1) / kGuideStep;
                        entry * kGuideStep < last; ++entry) {
                     guide[entry] = static_cast<std::uint32_t>(position);
                   }
                 }
               });
  }
}

std::uint32_t TwinLayout::owner(int level, std::uint32_t stub) const {
  const auto& guide = guides_[static_cast<std::size_t>(level)];
  std::uint32_t low = guide[stub / kGuideStep];
  std::uint32_t high = guide[stub / kGuideStep + 1];
  // The last position whose stubs start at or before this one.
  while (low < high) {
    const std::uint32_t middle = high - (high - low) / 2;
    if (stubs_before(level, middle) <= stub) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace salient
