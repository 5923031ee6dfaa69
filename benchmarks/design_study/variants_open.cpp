#include "grid.h"

namespace design_study {

void add_open_variants(Catalogue& catalogue) {
  add_for_table<OpenTable>(catalogue);
}

}  // namespace design_study
