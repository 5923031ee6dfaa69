#include "grid.h"

namespace design_study {

void add_std_variants(Catalogue& catalogue) {
  add_for_table<StdTable>(catalogue);
}

}  // namespace design_study
