// Which in-edges of a node are kept: k positions out of its degree, for kLanes nodes at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "philox.h"
#include "platform.h"

namespace salient {

// Nodes whose draws are made side by side: two AVX2 registers of 64-bit products.
inline constexpr int kLanes = 8;

// drawn[i][lane] becomes uniform on [0, first_bound[lane] + i * step), for i < fanout.
// @param drawn (fanout rounded up to a multiple of 4, kLanes)
using DrawBounded = void (*)(const DrawStream& stream, const std::uint32_t* position,
                             const std::uint32_t* first_bound, std::uint32_t step,
                             std::uint32_t fanout, std::uint32_t* drawn);

// Two implementations with the same result. The second is null where it was not compiled or the
// processor lacks AVX2.
DrawBounded portable_draw_bounded();
DrawBounded avx2_draw_bounded();

// Draws for up to kLanes nodes that have more in-edges than the fanout (or, with replacement, at
// least one). Scratch is kept, so one object serves one thread.
class NeighborDraw {
 public:
  NeighborDraw(std::int64_t fanout, bool replace);

  // Writes `fanout` positions in [0, degree) for each of `count` nodes, those of node l to
  // out[l][0 .. fanout). Every subset of positions has the same probability; with replacement,
  // every sequence has.
  // @param position (kLanes) place of each node in the frontier: part of the random key
  // @param degree (kLanes) in-edges; below 2^31; entries from `count` on are ignored
  void draw(const DrawStream& stream, const std::uint32_t* position, const std::uint32_t* degree,
            int count, std::int64_t* const* out, const std::int64_t* begin);

  // The same for one node of any degree, in 64-bit arithmetic.
  void draw_huge(const DrawStream& stream, std::uint32_t position, std::int64_t degree,
                 std::int64_t begin, std::int64_t* out) const;

 private:
  void remove_repeats_by_bitmap(std::uint32_t degree, int lane);

  std::uint32_t fanout_;
  bool replace_;
  DrawBounded draw_bounded_;
  std::vector<std::uint32_t> drawn_;  // (fanout rounded up to 4, kLanes)
  std::vector<std::uint64_t> taken_;  // bitmap over positions, all zero between calls
};

}  // namespace salient
