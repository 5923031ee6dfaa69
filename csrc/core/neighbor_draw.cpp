#include "neighbor_draw.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define SALIENT_X86 1
#include <immintrin.h>
#endif

#include <algorithm>
#include <unordered_set>

namespace salient {

namespace {

// Up to this fanout every new position is compared with all earlier ones, kLanes nodes at once:
// k * k / 2 vector operations and no branch. Above it a bitmap makes the cost linear.
constexpr std::uint32_t kLargestScan = 32;

// x * bound / 2^32 is uniform on [0, bound) once the low words below 2^32 mod bound are rejected
// (Lemire, "Fast random integer generation in an interval", 2019). Chance of a rejection:
// bound / 2^32.
std::uint32_t draw_again(const DrawStream& stream, std::uint32_t position, std::uint32_t index,
                         std::uint32_t bound) {
  const std::uint32_t threshold = -bound % bound;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const std::uint32_t word = philox_words(stream, position, index / 4, attempt)[index % 4];
    const std::uint64_t product = static_cast<std::uint64_t>(word) * bound;
    if (static_cast<std::uint32_t>(product) >= threshold) {
      return static_cast<std::uint32_t>(product >> 32);
    }
  }
}

void draw_bounded(const DrawStream& stream, const std::uint32_t* position,
                  const std::uint32_t* first_bound, std::uint32_t step, std::uint32_t fanout,
                  std::uint32_t* drawn) {
  for (std::uint32_t block = 0; block * 4 < fanout; ++block) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto words = philox_words(stream, position[lane], block, 0);
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t index = block * 4 + i;
        const std::uint32_t bound = first_bound[lane] + index * step;
        const std::uint64_t product = static_cast<std::uint64_t>(words[i]) * bound;
        std::uint32_t& place = drawn[index * kLanes + static_cast<std::uint32_t>(lane)];
        place = static_cast<std::uint32_t>(product >> 32);
        if (static_cast<std::uint32_t>(product) < bound) [[unlikely]] {
          place = draw_again(stream, position[lane], index, bound);
        }
      }
    }
  }
}

#ifdef SALIENT_X86
// Makes all draws of a row again, rejecting where that is due: the first attempt is the one that
// the fast path made, so only rejected draws change.
void draw_row_carefully(const DrawStream& stream, const std::uint32_t* position,
                        const std::uint32_t* first_bound, std::uint32_t step, std::uint32_t index,
                        std::uint32_t* row) {
  for (int lane = 0; lane < kLanes; ++lane) {
    row[lane] = draw_again(stream, position[lane], index, first_bound[lane] + index * step);
  }
}

// Lanes are 64 bits wide with the word in the lower half: the product of two words is then one
// instruction that ignores what is above them, and a round needs no shuffle.
struct Words {
  __m256i low, high;  // lanes 0, 2, 4, 6 and 1, 3, 5, 7
};

__attribute__((target("avx2"))) inline Words load_words(const std::uint32_t* from) {
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {all, _mm256_srli_epi64(all, 32)};
}

__attribute__((target("avx2"))) inline void philox_round(__m256i* c, __m256i key0, __m256i key1) {
  const __m256i product0 = _mm256_mul_epu32(_mm256_set1_epi64x(philox::kMul0), c[0]);
  const __m256i product1 = _mm256_mul_epu32(_mm256_set1_epi64x(philox::kMul1), c[2]);
  c[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c[1]), key0);
  c[1] = product1;
  c[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c[3]), key1);
  c[3] = product0;
}

__attribute__((target("avx2"))) void draw_bounded_avx2(const DrawStream& stream,
                                                       const std::uint32_t* position,
                                                       const std::uint32_t* first_bound,
                                                       std::uint32_t step, std::uint32_t fanout,
                                                       std::uint32_t* drawn) {
  const Words places = load_words(position);
  const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFF);
  __m256i bound = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first_bound));
  const __m256i steps = _mm256_set1_epi32(static_cast<int>(step));
  for (std::uint32_t block = 0; block * 4 < fanout; ++block) {
    __m256i even[4] = {places.low, _mm256_set1_epi64x(block), _mm256_set1_epi64x(stream.batch),
                       _mm256_set1_epi64x(stream.epoch_and_hop)};
    __m256i odd[4] = {places.high, even[1], even[2], even[3]};
    std::uint32_t key0 = stream.key0, key1 = stream.key1;
    for (int round = 0; round < philox::kRounds; ++round) {
      const __m256i keys0 = _mm256_set1_epi64x(key0), keys1 = _mm256_set1_epi64x(key1);
      philox_round(even, keys0, keys1);
      philox_round(odd, keys0, keys1);
      key0 += philox::kWeyl0;
      key1 += philox::kWeyl1;
    }
    for (std::uint32_t i = 0; i < 4; ++i, bound = _mm256_add_epi32(bound, steps)) {
      const __m256i bound_odd = _mm256_srli_epi64(bound, 32);
      const __m256i product_even = _mm256_mul_epu32(even[i], bound);
      const __m256i product_odd = _mm256_mul_epu32(odd[i], bound_odd);
      std::uint32_t* row = drawn + (block * 4 + i) * kLanes;
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(row),
          _mm256_blend_epi32(_mm256_srli_epi64(product_even, 32), product_odd, 0b10101010));
      // A low word below the bound may have to be rejected: the difference is negative then.
      const __m256i doubt =
          _mm256_or_si256(_mm256_sub_epi64(_mm256_and_si256(product_even, low_half),
                                           _mm256_and_si256(bound, low_half)),
                          _mm256_sub_epi64(_mm256_and_si256(product_odd, low_half), bound_odd));
      if (_mm256_movemask_pd(_mm256_castsi256_pd(doubt)) != 0) [[unlikely]] {
        draw_row_carefully(stream, position, first_bound, step, block * 4 + i, row);
      }
    }
  }
}
#endif

// Floyd's rule (Bentley, "Programming pearls: a sample of brilliance", 1987): draw i is uniform
// on [0, degree - k + i]; if that position is taken, the last one of the range is not, and is
// taken instead.
SALIENT_MULTIVERSION
void remove_repeats_by_scan(const std::uint32_t* first_bound, std::uint32_t fanout,
                            std::uint32_t* drawn) {
  for (std::uint32_t i = 1; i < fanout; ++i) {
    std::uint32_t* row = drawn + i * kLanes;
    std::uint32_t repeated[kLanes] = {};
    for (std::uint32_t earlier = 0; earlier < i; ++earlier) {
      const std::uint32_t* other = drawn + earlier * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) {
        repeated[lane] |= other[lane] == row[lane] ? ~0u : 0u;
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t last = first_bound[lane] + i - 1;
      row[lane] = repeated[lane] != 0 ? last : row[lane];
    }
  }
}

}  // namespace

DrawBounded portable_draw_bounded() {
  return draw_bounded;
}

DrawBounded avx2_draw_bounded() {
#ifdef SALIENT_X86
  if (__builtin_cpu_supports("avx2")) return draw_bounded_avx2;
#endif
  return nullptr;
}

NeighborDraw::NeighborDraw(std::int64_t fanout, bool replace)
    : fanout_(static_cast<std::uint32_t>(std::max<std::int64_t>(fanout, 0))),
      replace_(replace),
      draw_bounded_(avx2_draw_bounded() != nullptr ? avx2_draw_bounded() : draw_bounded) {}

void NeighborDraw::draw(const DrawStream& stream, const std::uint32_t* position,
                        const std::uint32_t* degree, int count, std::int64_t* const* out,
                        const std::int64_t* begin) {
  // At first use: a large fanout that no node exceeds costs nothing.
  drawn_.resize((std::size_t{fanout_} + 3) / 4 * 4 * kLanes);
  std::uint32_t places[kLanes], first_bound[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int source = lane < count ? lane : 0;  // idle lanes repeat the first node
    places[lane] = position[source];
    first_bound[lane] = replace_ ? degree[source] : degree[source] - fanout_ + 1;
  }
  draw_bounded_(stream, places, first_bound, replace_ ? 0 : 1, fanout_, drawn_.data());
  if (!replace_) {
    if (fanout_ <= kLargestScan) {
      remove_repeats_by_scan(first_bound, fanout_, drawn_.data());
    } else {
      for (int lane = 0; lane < count; ++lane) remove_repeats_by_bitmap(degree[lane], lane);
    }
  }
  for (int lane = 0; lane < count; ++lane) {
    for (std::uint32_t i = 0; i < fanout_; ++i) {
      out[lane][i] = begin[lane] + drawn_[i * kLanes + static_cast<std::uint32_t>(lane)];
    }
  }
}

void NeighborDraw::remove_repeats_by_bitmap(std::uint32_t degree, int lane) {
  if (taken_.size() < degree / 64 + 1) taken_.resize(degree / 64 + 1, 0);
  std::uint32_t* column = drawn_.data() + lane;
  for (std::uint32_t i = 0; i < fanout_; ++i) {
    std::uint32_t& place = column[i * kLanes];
    if ((taken_[place / 64] >> (place % 64) & 1) != 0) place = degree - fanout_ + i;
    taken_[place / 64] |= std::uint64_t{1} << (place % 64);
  }
  for (std::uint32_t i = 0; i < fanout_; ++i) taken_[column[i * kLanes] / 64] = 0;
}

void NeighborDraw::draw_huge(const DrawStream& stream, std::uint32_t position, std::int64_t degree,
                             std::int64_t begin, std::int64_t* out) const {
  std::unordered_set<std::uint64_t> taken;
  for (std::uint32_t i = 0; i < fanout_; ++i) {
    const auto bound = static_cast<std::uint64_t>(degree) - (replace_ ? 0 : fanout_ - i - 1);
    const std::uint64_t threshold = -bound % bound;
    std::uint64_t place = 0;
    for (std::uint32_t attempt = 0;; ++attempt) {
      const auto words = philox_words(stream, position, i, attempt);
      const std::uint64_t word = static_cast<std::uint64_t>(words[1]) << 32 | words[0];
      __extension__ using Wide = unsigned __int128;
      const Wide product = static_cast<Wide>(word) * bound;
      if (static_cast<std::uint64_t>(product) >= threshold) {
        place = static_cast<std::uint64_t>(product >> 64);
        break;
      }
    }
    if (!replace_ && !taken.insert(place).second) {
      place = bound - 1;
      taken.insert(place);
    }
    out[i] = begin + static_cast<std::int64_t>(place);
  }
}

}  // namespace salient
