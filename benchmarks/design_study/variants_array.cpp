#include "grid.h"

namespace design_study {

void add_array_variants(Catalogue& catalogue) {
  add_for_table<DenseArray>(catalogue);
}

}  // namespace design_study
