// Random numbers of the synthetic twins. Everything is a pure function of (seed, stream, index), so
// no thread and no order of work can change it; integers only, so neither can a machine.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "philox.h"

namespace salient {

// What the numbers are drawn for. In the counter they take the place of the hop, under the largest
// epoch, which no sampler reaches.
enum class TwinStream : std::uint32_t {
  kNodeOrder = 1,
  kSplit,
  kCommunityBounds,
  kDegree,
  kCommunityPairs,
  kClassPairs,
  kGlobalPairs,
  kSurplus,
  kClassMeans,
  kNoise,
};

inline std::array<std::uint32_t, 4> twin_words(std::uint64_t seed, TwinStream stream,
                                               std::uint64_t index) {
  const DrawStream draws(seed, kMaxEpoch, index >> 32, static_cast<std::uint32_t>(stream));
  return philox_words(draws, static_cast<std::uint32_t>(index), 0, 0);
}

// A keyed permutation of [0, size): a Feistel network of four rounds over (high, low), where low
// has half of the bits and high what is needed to cover `size`. The few values that fall outside
// are walked on along their cycle until they are inside (Black and Rogaway, "Ciphers with arbitrary
// finite domains", CT-RSA 2002). Either direction costs some nanoseconds and no memory.
class Permutation {
 public:
  Permutation() = default;

  Permutation(std::uint32_t size, const std::array<std::uint32_t, 4>& keys)
      : size_(size),
        shift_(static_cast<std::uint32_t>(std::bit_width(size == 0 ? 0 : size - 1)) / 2),
        mask_((std::uint32_t{1} << shift_) - 1),
        high_size_(static_cast<std::uint32_t>((std::uint64_t{size} + mask_) >> shift_)),
        keys_(keys) {}

  // @param x in [0, size)
  std::uint32_t forward(std::uint32_t x) const {
    do {
      std::uint32_t high = x >> shift_, low = x & mask_;
      low ^= bits(high, 0);
      high = add(high, step(low, 1));
      low ^= bits(high, 2);
      high = add(high, step(low, 3));
      x = high << shift_ | low;
    } while (x >= size_);
    return x;
  }

  std::uint32_t backward(std::uint32_t x) const {
    do {
      std::uint32_t high = x >> shift_, low = x & mask_;
      high = add(high, high_size_ - step(low, 3));
      low ^= bits(high, 2);
      high = add(high, high_size_ - step(low, 1));
      low ^= bits(high, 0);
      x = high << shift_ | low;
    } while (x >= size_);
    return x;
  }

  // The other one of the pair that x is in, where the permuted order is cut in pairs; x itself if
  // size is odd and x is the one left over. partner(partner(x)) == x.
  std::uint32_t partner(std::uint32_t x) const {
    const std::uint32_t other = forward(x) ^ 1;
    return other < size_ ? backward(other) : x;
  }

  std::uint32_t size() const { return size_; }

 private:
  std::uint32_t mix(std::uint32_t x, std::size_t round) const {
    x = (x ^ keys_[round]) * 0x9E3779B1u;
    x ^= x >> 15;
    x *= 0x85EBCA77u;
    x ^= x >> 13;
    return x * 0xC2B2AE3Du;
  }
  // The high bits of a product are the good ones.
  std::uint32_t bits(std::uint32_t x, std::size_t round) const {
    return (mix(x, round) >> 16) & mask_;
  }
  std::uint32_t step(std::uint32_t x, std::size_t round) const {
    return static_cast<std::uint32_t>(std::uint64_t{mix(x, round)} * high_size_ >> 32);
  }
  // Modulo high_size_, at most 2^16; a sum of two is below twice that, or equal.
  std::uint32_t add(std::uint32_t a, std::uint32_t b) const {
    const std::uint32_t sum = a + b;
    return sum >= high_size_ ? sum - high_size_ : sum;
  }

  std::uint32_t size_ = 0, shift_ = 0, mask_ = 0, high_size_ = 0;
  std::array<std::uint32_t, 4> keys_{};
};

}  // namespace salient
