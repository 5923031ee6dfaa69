#include "grid.h"

namespace design_study {

void add_swiss_variants(Catalogue& catalogue) {
#ifdef DESIGN_STUDY_ABSEIL
  add_for_table<SwissTable>(catalogue);
#else
  add_names_for_table(catalogue, "Swiss table");
#endif
}

}  // namespace design_study
