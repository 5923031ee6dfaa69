// Which choices are combined: the grid of variants.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tables.h"
#include "variant.h"

namespace design_study {

template <class... Types>
struct List {};

// Every drawing with every duplicate check that it needs.
using NarrowDrawings = List<Floyd<SetCheck>, Floyd<LinearScan>, Floyd<BranchFreeScan>,
                            Floyd<Bitmap>, FisherYates, Reservoir, FloydLanes>;
// Wide ids meet the drawing only through memory traffic, so two drawings are enough to see it.
using WideDrawings = List<Floyd<BranchFreeScan>, FloydLanes>;

template <class Id>
using DrawingsOf = std::conditional_t<sizeof(Id) == 4, NarrowDrawings, WideDrawings>;

template <class Id>
std::vector<Variant<Id>>& variants_of(Catalogue& catalogue) {
  if constexpr (sizeof(Id) == 4) {
    return catalogue.narrow;
  } else {
    return catalogue.wide;
  }
}

template <class Drawing, class Id>
Choices describe(std::string_view table, bool fused, bool reused, bool prefetch) {
  return {std::string(table),
          std::string(Drawing::kCheck),
          std::string(Drawing::kName),
          fused ? "fused" : "blocked",
          reused ? "reused" : "fresh",
          prefetch ? "prefetch" : "no prefetch",
          sizeof(Id) == 4 ? "int32" : "int64"};
}

template <class Id, class Table, class Drawing, bool kPrefetch>
Variant<Id> make_variant(bool fused, bool reused, std::shared_ptr<KeptTable<Table>> kept) {
  Variant<Id> variant{describe<Drawing, Id>(Table::kName, fused, reused, kPrefetch), {}};
  // The drawing's own scratch is kept in all variants: only the table is under study.
  auto drawing = std::make_shared<Drawing>();
  variant.sample = [=](const Input<Id>& input, Output<Id>& output) {
    using Sampler = Construction<Id, Table, Drawing, kPrefetch>;
    if (reused) {
      Table& table = kept->get(input.graph.num_nodes);
      Sampler(input, output, table, *drawing).sample(fused);
      table.forget(output.n_id.data(), output.num_nodes);
    } else {
      Table table(input.graph.num_nodes);
      Sampler(input, output, table, *drawing).sample(fused);
    }
  };
  return variant;
}

template <class Id, template <class> class Table, class... Drawings>
void add_for_drawings(Catalogue& catalogue, List<Drawings...>) {
  auto& variants = variants_of<Id>(catalogue);
  // One table for all variants that keep theirs: hundreds of tables would not fit in memory.
  const auto kept = std::make_shared<KeptTable<Table<Id>>>();
  const auto add = [&]<class Drawing>() {
    for (const bool fused : {true, false}) {
      if (fused && Drawing::kLanes) continue;
      for (const bool reused : {true, false}) {
        variants.push_back(make_variant<Id, Table<Id>, Drawing, true>(fused, reused, kept));
        variants.push_back(make_variant<Id, Table<Id>, Drawing, false>(fused, reused, kept));
      }
    }
  };
  (add.template operator()<Drawings>(), ...);
}

template <template <class> class Table>
void add_for_table(Catalogue& catalogue) {
  add_for_drawings<std::int32_t, Table>(catalogue, DrawingsOf<std::int32_t>());
  add_for_drawings<std::int64_t, Table>(catalogue, DrawingsOf<std::int64_t>());
}

// The same grid for a table that was not built: choices without a sampler.
template <class Id, class... Drawings>
void add_names_for_drawings(Catalogue& catalogue, std::string_view table, List<Drawings...>) {
  auto& variants = variants_of<Id>(catalogue);
  const auto add = [&]<class Drawing>() {
    for (const bool fused : {true, false}) {
      if (fused && Drawing::kLanes) continue;
      for (const bool reused : {true, false}) {
        for (const bool prefetch : {true, false}) {
          variants.push_back({describe<Drawing, Id>(table, fused, reused, prefetch), {}});
        }
      }
    }
  };
  (add.template operator()<Drawings>(), ...);
}

inline void add_names_for_table(Catalogue& catalogue, std::string_view table) {
  add_names_for_drawings<std::int32_t>(catalogue, table, DrawingsOf<std::int32_t>());
  add_names_for_drawings<std::int64_t>(catalogue, table, DrawingsOf<std::int64_t>());
}

void add_std_variants(Catalogue& catalogue);
void add_swiss_variants(Catalogue& catalogue);  // without abseil: variants that were not built
void add_open_variants(Catalogue& catalogue);
void add_array_variants(Catalogue& catalogue);

}  // namespace design_study
