#include "twin_nodes.h"

#include <algorithm>
#include <bit>

#include "parallel_ranges.h"
#include "philox.h"
#include "platform.h"

namespace salient {

namespace {

constexpr std::int64_t kRange = 1 << 12;
constexpr std::int64_t kRowsAtOnce = 16;
constexpr std::size_t kLanes = 8;

// The sum of four bytes has mean 510 and variance 4 * (256 * 256 - 1) / 12; its root's inverse.
constexpr float kByteSumMean = 510.0f;
constexpr float kByteSumScale = 0.0067658754f;

SALIENT_INLINE float standard_noise(std::uint32_t word) {
  const std::uint32_t two = (word & 0x00FF00FFu) + ((word >> 8) & 0x00FF00FFu);
  const auto sum = static_cast<std::int32_t>((two & 0xFFFFu) + (two >> 16));
  return (static_cast<float>(sum) - kByteSumMean) * kByteSumScale;
}

// To nearest, ties to even; what is below the smallest normal float16, 6e-5, becomes 0. Features
// stay far below the largest.
SALIENT_INLINE std::uint16_t to_half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t size = bits & 0x7FFFFFFFu;
  const std::uint32_t rounded = size + 0xFFFu + ((size >> 13) & 1u);
  const std::uint32_t half = (rounded >> 13) - ((127u - 15u) << 10);
  return static_cast<std::uint16_t>(sign | (size < (113u << 23) ? 0u : half));
}

// Philox blocks [first, first + kLanes) of the noise stream, as twin_words gives them one by one:
// here in a form that compilers turn into vector instructions.
SALIENT_INLINE void noise_words(const DrawStream& seed, std::uint64_t first, std::uint32_t* words) {
  std::uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    c0[lane] = static_cast<std::uint32_t>(first + lane);
    c1[lane] = 0;
    c2[lane] = static_cast<std::uint32_t>((first + lane) >> 32);
    c3[lane] = seed.epoch_and_hop;
  }
  std::uint32_t key0 = seed.key0, key1 = seed.key1;
  for (int round = 0; round < philox::kRounds; ++round) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t product0 = std::uint64_t{philox::kMul0} * c0[lane];
      const std::uint64_t product1 = std::uint64_t{philox::kMul1} * c2[lane];
      c0[lane] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[lane] ^ key0;
      c1[lane] = static_cast<std::uint32_t>(product1);
      c2[lane] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[lane] ^ key1;
      c3[lane] = static_cast<std::uint32_t>(product0);
    }
    key0 += philox::kWeyl0;
    key1 += philox::kWeyl1;
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    words[4 * lane] = c0[lane];
    words[4 * lane + 1] = c1[lane];
    words[4 * lane + 2] = c2[lane];
    words[4 * lane + 3] = c3[lane];
  }
}

// `count` values of the noise from value `first` of the stream on, a multiple of 4.
SALIENT_MULTIVERSION
void fill_noise(const DrawStream& seed, std::uint64_t first, std::size_t count,
                std::uint32_t* words) {
  for (std::size_t done = 0; done < count; done += 4 * kLanes) {
    noise_words(seed, (first + done) / 4, words + done);
  }
}

SALIENT_MULTIVERSION
void fill_row(const float* mean, const std::uint32_t* words, std::int64_t count,
              std::uint16_t* row) {
  for (std::int64_t i = 0; i < count; ++i)
    row[i] = to_half_bits(mean[i] + standard_noise(words[i]));
}

}  // namespace

void write_twin_labels(const TwinLayout& layout, const std::vector<std::int64_t>& part_starts,
                       int num_threads, std::int64_t* labels, std::uint8_t* parts) {
  const Permutation split(static_cast<std::uint32_t>(layout.num_nodes()),
                          twin_words(layout.model().seed, TwinStream::kSplit, 0));
  for_ranges(layout.num_nodes(), kRange, num_threads,
             [&](std::int64_t begin, std::int64_t end, std::int64_t, int) {
               for (std::int64_t id = begin; id < end; ++id) {
                 labels[id] = layout.class_at(layout.position_of(id));
                 const std::int64_t place = split.forward(static_cast<std::uint32_t>(id));
                 std::uint8_t part = 0xFF;
                 for (std::size_t p = 0; p + 1 < part_starts.size(); ++p) {
                   if (place >= part_starts[p] && place < part_starts[p + 1]) {
                     part = static_cast<std::uint8_t>(p);
                   }
                 }
                 parts[id] = part;
               }
             });
}

void write_twin_features(const TwinLayout& layout, std::int64_t num_features, float signal,
                         std::int64_t first, std::int64_t last, int num_threads,
                         std::uint16_t* features) {
  const std::uint64_t seed = layout.model().seed;
  const auto width = static_cast<std::size_t>(num_features);
  const std::size_t num_classes = layout.model().class_starts.size() - 1;
  std::vector<float> means(num_classes * width);
  for (std::size_t i = 0; i < means.size(); ++i) {
    means[i] = signal * standard_noise(twin_words(seed, TwinStream::kClassMeans, i)[0]);
  }
  const DrawStream noise(seed, kMaxEpoch, 0, static_cast<std::uint32_t>(TwinStream::kNoise));
  for_ranges(last - first, kRange, num_threads,
             [&](std::int64_t begin, std::int64_t end, std::int64_t, int) {
               std::vector<std::uint32_t> words(kRowsAtOnce * width + 8 * kLanes);
               for (std::int64_t row = begin; row < end; row += kRowsAtOnce) {
                 const std::int64_t rows = std::min(end - row, kRowsAtOnce);
                 // Blocks hold four values; rows need not begin with one.
                 const auto value = static_cast<std::uint64_t>(first + row) * width;
                 const std::size_t skip = value % 4;
                 fill_noise(noise, value - skip, static_cast<std::size_t>(rows) * width + skip,
                            words.data());
                 for (std::int64_t i = 0; i < rows; ++i) {
                   const auto kind = static_cast<std::size_t>(
                       layout.class_at(layout.position_of(first + row + i)));
                   fill_row(means.data() + kind * width,
                            words.data() + skip + static_cast<std::size_t>(i) * width, num_features,
                            features + (row + i) * num_features);
                 }
               }
             });
}

}  // namespace salient
