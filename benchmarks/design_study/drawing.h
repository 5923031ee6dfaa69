// How k of a node's in-edges are drawn without replacement, and how a repeated draw is noticed.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "philox.h"
#include "platform.h"

namespace design_study {

// The random words of one frontier position, in order. The same generator serves every variant.
class WordSource {
 public:
  WordSource(const salient::DrawStream& stream, std::uint32_t position)
      : stream_(stream), position_(position) {}

  // Uniform on [0, bound), by multiplication with rejection (Lemire, 2019).
  SALIENT_INLINE std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) [[unlikely]] {
      const std::uint32_t threshold = -bound % bound;
      while (static_cast<std::uint32_t>(product) < threshold) {
        product = std::uint64_t{next()} * bound;
      }
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  SALIENT_INLINE std::uint32_t next() {
    if (used_ == 4) {
      words_ = salient::philox_words(stream_, position_, block_++, 0);
      used_ = 0;
    }
    return words_[used_++];
  }

  const salient::DrawStream& stream_;
  std::uint32_t position_;
  std::uint32_t block_ = 0;
  std::uint32_t used_ = 4;
  std::array<std::uint32_t, 4> words_{};
};

// Duplicate checks: insert(drawn, count, value, last) returns `value`, or `last` if value is among
// the `count` drawn so far; end() forgets the node.

struct SetCheck {
  static constexpr std::string_view kName = "hash set";
  std::unordered_set<std::uint32_t> seen;

  std::uint32_t insert(const std::uint32_t*, std::uint32_t, std::uint32_t value,
                       std::uint32_t last) {
    if (seen.insert(value).second) return value;
    seen.insert(last);
    return last;
  }
  void end(const std::uint32_t*, std::uint32_t) { seen.clear(); }
};

struct LinearScan {
  static constexpr std::string_view kName = "linear scan";

  std::uint32_t insert(const std::uint32_t* drawn, std::uint32_t count, std::uint32_t value,
                       std::uint32_t last) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (drawn[i] == value) return last;
    }
    return value;
  }
  void end(const std::uint32_t*, std::uint32_t) {}
};

struct BranchFreeScan {
  static constexpr std::string_view kName = "branch-free scan";

  std::uint32_t insert(const std::uint32_t* drawn, std::uint32_t count, std::uint32_t value,
                       std::uint32_t last) {
    std::uint32_t repeated = 0;
    for (std::uint32_t i = 0; i < count; ++i) repeated |= drawn[i] == value ? ~0u : 0u;
    return (last & repeated) | (value & ~repeated);
  }
  void end(const std::uint32_t*, std::uint32_t) {}
};

struct Bitmap {
  static constexpr std::string_view kName = "bitmap";
  std::vector<std::uint64_t> taken;

  std::uint32_t insert(const std::uint32_t*, std::uint32_t, std::uint32_t value,
                       std::uint32_t last) {
    if (taken.size() <= last / 64) taken.resize(last / 64 + 1, 0);
    const bool repeated = (taken[value / 64] >> (value % 64) & 1) != 0;
    const std::uint32_t place = repeated ? last : value;
    taken[place / 64] |= std::uint64_t{1} << (place % 64);
    return place;
  }
  void end(const std::uint32_t* drawn, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) taken[drawn[i] / 64] = 0;
  }
};

// Drawing algorithms: draw() hands every chosen position in [0, degree) to `sink` as soon as it
// is final; degree > k.

// Floyd's rule (Bentley, "Programming pearls: a sample of brilliance", 1987).
template <class Check>
struct Floyd {
  static constexpr std::string_view kName = "Floyd";
  static constexpr std::string_view kCheck = Check::kName;
  static constexpr bool kLanes = false;
  Check check;
  std::vector<std::uint32_t> drawn;

  template <class Sink>
  void draw(WordSource& words, std::uint32_t degree, std::uint32_t k, Sink&& sink) {
    if (drawn.size() < k) drawn.resize(k);
    for (std::uint32_t i = 0; i < k; ++i) {
      const std::uint32_t last = degree - k + i;
      drawn[i] = check.insert(drawn.data(), i, words.below(last + 1), last);
      sink(drawn[i]);
    }
    check.end(drawn.data(), k);
  }
};

// The first k steps of a shuffle of 0 .. degree - 1, undone afterwards, so that a node costs k.
struct FisherYates {
  static constexpr std::string_view kName = "Fisher-Yates";
  static constexpr std::string_view kCheck = "not needed";
  static constexpr bool kLanes = false;
  std::vector<std::uint32_t> identity, swapped;

  template <class Sink>
  void draw(WordSource& words, std::uint32_t degree, std::uint32_t k, Sink&& sink) {
    if (identity.size() < degree) {
      identity.resize(degree);
      std::iota(identity.begin(), identity.end(), 0u);
    }
    if (swapped.size() < k) swapped.resize(k);
    for (std::uint32_t i = 0; i < k; ++i) {
      swapped[i] = i + words.below(degree - i);
      std::swap(identity[i], identity[swapped[i]]);
      sink(identity[i]);
    }
    for (std::uint32_t i = k; i-- > 0;) std::swap(identity[i], identity[swapped[i]]);
  }
};

// One pass over all positions (Vitter, "Random sampling with a reservoir", 1985, algorithm R):
// as many draws as the node has in-edges beyond k, and nothing is final before the last.
struct Reservoir {
  static constexpr std::string_view kName = "reservoir";
  static constexpr std::string_view kCheck = "not needed";
  static constexpr bool kLanes = false;
  std::vector<std::uint32_t> kept;

  template <class Sink>
  void draw(WordSource& words, std::uint32_t degree, std::uint32_t k, Sink&& sink) {
    if (kept.size() < k) kept.resize(k);
    std::iota(kept.begin(), kept.begin() + k, 0u);
    for (std::uint32_t i = k; i < degree; ++i) {
      const std::uint32_t place = words.below(i + 1);
      if (place < k) kept[place] = i;
    }
    for (std::uint32_t i = 0; i < k; ++i) sink(kept[i]);
  }
};

// Floyd's rule for several nodes side by side in vector registers: salient::NeighborDraw, which
// works on blocks of nodes only.
struct FloydLanes {
  static constexpr std::string_view kName = "Floyd, 8 nodes at once";
  static constexpr std::string_view kCheck = "branch-free scan";
  static constexpr bool kLanes = true;
};

}  // namespace design_study
