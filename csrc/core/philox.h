// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). A draw is a pure function of (seed, epoch, batch, hop, position in the
// frontier, index of the draw), so no thread, rank or order of work can change it.
#pragma once

#include <array>
#include <cstdint>

namespace salient {

// Largest values that fit the counter's fields.
inline constexpr std::uint64_t kMaxEpoch = (1u << 24) - 1;
inline constexpr std::uint64_t kMaxBatch = 0xFFFFFFFFu;
inline constexpr std::int64_t kMaxHops = 255;
inline constexpr std::int64_t kMaxFanout = (1 << 24) - 1;

// The stream of one hop of one batch.
struct DrawStream {
  std::uint32_t key0, key1;  // seed
  std::uint32_t batch;
  std::uint32_t epoch_and_hop;

  DrawStream(std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch_number, std::uint32_t hop)
      : key0(static_cast<std::uint32_t>(seed)),
        key1(static_cast<std::uint32_t>(seed >> 32)),
        batch(static_cast<std::uint32_t>(batch_number)),
        epoch_and_hop(static_cast<std::uint32_t>(epoch) << 8 | hop) {}
};

namespace philox {
inline constexpr std::uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
inline constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
inline constexpr int kRounds = 10;
}  // namespace philox

// Four random words. `block` counts groups of four draws of one frontier position; `attempt` is
// above 0 only where a draw was rejected and is made again.
inline std::array<std::uint32_t, 4> philox_words(const DrawStream& stream, std::uint32_t position,
                                                 std::uint32_t block, std::uint32_t attempt) {
  std::uint32_t c0 = position, c1 = attempt << 24 | block;
  std::uint32_t c2 = stream.batch, c3 = stream.epoch_and_hop;
  std::uint32_t key0 = stream.key0, key1 = stream.key1;
  for (int round = 0; round < philox::kRounds; ++round) {
    const std::uint64_t product0 = static_cast<std::uint64_t>(philox::kMul0) * c0;
    const std::uint64_t product1 = static_cast<std::uint64_t>(philox::kMul1) * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(product0);
    key0 += philox::kWeyl0;
    key1 += philox::kWeyl1;
  }
  return {c0, c1, c2, c3};
}

}  // namespace salient
