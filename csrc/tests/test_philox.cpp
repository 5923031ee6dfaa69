// Philox4x32-10 against the known answers of its authors' Random123 library, and the packing of
// our fields into its counter.
#include <array>
#include <cstdint>
#include <set>

#include "expect.h"
#include "philox.h"

namespace {

using namespace salient;
using Words = std::array<std::uint32_t, 4>;

void check_known_answers() {
  EXPECT(philox_words(DrawStream(0, 0, 0, 0), 0, 0, 0) ==
         (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  // Every field at its largest value: nothing is cut off or spills into its neighbour.
  EXPECT(philox_words(DrawStream(~0ull, kMaxEpoch, kMaxBatch, kMaxHops), 0xFFFFFFFF, 0xFFFFFF,
                      0xFF) == (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0: digits of pi.
  const DrawStream pi(0x299f31d0a4093822, 0x037073, 0x13198a2e, 0x44);
  EXPECT(philox_words(pi, 0x243f6a88, 0xa308d3, 0x85) ==
         (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Streams that differ in one bit of one field must differ in what they yield.
void check_fields_are_apart() {
  std::set<Words> seen;
  seen.insert(philox_words(DrawStream(0, 0, 0, 0), 0, 0, 0));
  std::size_t made = 1;
  const auto add = [&](const Words& words) {
    seen.insert(words);
    ++made;
  };
  for (unsigned bit = 0; bit < 64; ++bit) add(philox_words({1ull << bit, 0, 0, 0}, 0, 0, 0));
  for (unsigned bit = 0; bit < 24; ++bit) add(philox_words({0, 1ull << bit, 0, 0}, 0, 0, 0));
  for (unsigned bit = 0; bit < 32; ++bit) add(philox_words({0, 0, 1ull << bit, 0}, 0, 0, 0));
  for (unsigned bit = 0; bit < 8; ++bit) add(philox_words({0, 0, 0, 1u << bit}, 0, 0, 0));
  for (unsigned bit = 0; bit < 32; ++bit) add(philox_words({0, 0, 0, 0}, 1u << bit, 0, 0));
  for (unsigned bit = 0; bit < 24; ++bit) add(philox_words({0, 0, 0, 0}, 0, 1u << bit, 0));
  for (unsigned bit = 0; bit < 8; ++bit) add(philox_words({0, 0, 0, 0}, 0, 0, 1u << bit));
  EXPECT_EQ(seen.size(), made);
}

}  // namespace

int main() {
  check_known_answers();
  check_fields_are_apart();
  return expect::status();
}
