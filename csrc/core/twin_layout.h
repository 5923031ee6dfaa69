// Synthetic twins: which nodes form which blocks, and how many edge ends each node has in them.
//
// A degree-corrected block model (Karrer and Newman 2011, arXiv 1008.3926) in two levels: nodes
// belong to classes, classes are cut into communities. Nodes live in *positions*, sorted by class
// and community; their ids are a keyed permutation of the positions, so that an id says nothing
// about its block. The degree that a node shall have is drawn from a given table and cut into
// stubs, ends of edges, of three levels: those that stay inside the community, inside the class,
// and that go anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "twin_random.h"

namespace salient {

inline constexpr int kTwinLevels = 3;  // community, class, everywhere

// Shares are in units of 2^-16.
inline constexpr std::uint32_t kWholeShare = 1u << 16;

struct TwinModel {
  std::uint64_t seed = 0;
  // (num_classes + 1) ascending positions from 0: class c has [class_starts[c], class_starts[c+1]).
  std::vector<std::int64_t> class_starts;
  std::int64_t community_size = 0;  // mean
  // Degrees before scaling: min_degree + the number of entries that are <= a random word.
  // Ascending.
  std::uint32_t min_degree = 0;
  std::vector<std::uint32_t> degree_steps;
  std::uint32_t community_share = 0;  // of a node's stubs
  std::uint32_t class_share = 0;
  std::int64_t num_stubs = 0;  // expected sum of all degrees after scaling

  std::int64_t num_nodes() const { return class_starts.back(); }
};

// Contiguous positions [first, last).
struct Block {
  std::int64_t first, last;
};

class TwinLayout {
 public:
  // @throws std::invalid_argument if the model asks for more than 2^32 stubs of a level
  TwinLayout(TwinModel model, int num_threads);

  const TwinModel& model() const { return model_; }
  std::int64_t num_nodes() const { return model_.num_nodes(); }
  std::int64_t num_communities() const {
    return static_cast<std::int64_t>(community_starts_.size()) - 1;
  }

  std::uint32_t position_of(std::int64_t id) const {
    return order_.forward(static_cast<std::uint32_t>(id));
  }
  std::uint32_t id_at(std::uint32_t position) const { return order_.backward(position); }

  std::int64_t class_at(std::int64_t position) const;
  std::int64_t community_at(std::int64_t position) const;
  Block class_block(std::int64_t index) const {
    return {model_.class_starts[static_cast<std::size_t>(index)],
            model_.class_starts[static_cast<std::size_t>(index) + 1]};
  }
  Block community_block(std::int64_t index) const {
    return {community_starts_[static_cast<std::size_t>(index)],
            community_starts_[static_cast<std::size_t>(index) + 1]};
  }

  // Number of stubs of a level at positions before this one, [0, num_nodes].
  std::uint32_t stubs_before(int level, std::int64_t position) const {
    return before_[static_cast<std::size_t>(position)][static_cast<std::size_t>(level)];
  }
  const void* address_of(std::int64_t position) const {
    return &before_[static_cast<std::size_t>(position)];
  }
  std::int64_t degree_at(std::int64_t position) const {
    std::int64_t degree = 0;
    for (int level = 0; level < kTwinLevels; ++level) {
      degree += stubs_before(level, position + 1) - stubs_before(level, position);
    }
    return degree;
  }

  // The position that a stub belongs to.
  std::uint32_t owner(int level, std::uint32_t stub) const;
  const void* guide_address(int level, std::uint32_t stub) const {
    return &guides_[static_cast<std::size_t>(level)][stub / kGuideStep];
  }
  std::uint32_t guide(int level, std::uint32_t stub) const {
    return guides_[static_cast<std::size_t>(level)][stub / kGuideStep];
  }

 private:
  static constexpr std::uint32_t kGuideStep = 32;
  using Stubs = std::array<std::uint32_t, kTwinLevels>;

  void cut_communities();
  void fill_steps_guide();
  std::uint32_t drawn_degree(std::uint32_t word) const;
  std::uint64_t sum_of_degrees(int num_threads) const;
  Stubs draw_stubs(std::int64_t position, std::uint64_t scale) const;
  void count_stubs(int num_threads);
  void fill_guides(int num_threads);

  TwinModel model_;
  Permutation order_;
  std::vector<std::int64_t> community_starts_;
  std::vector<std::uint32_t> steps_guide_;  // first entry of degree_steps above each top of a word
  std::vector<Stubs> before_;               // (num_nodes + 1)
  // The owner of every kGuideStep-th stub of a level, and a last entry, the last position.
  std::array<std::vector<std::uint32_t>, kTwinLevels> guides_;
};

}  // namespace salient
