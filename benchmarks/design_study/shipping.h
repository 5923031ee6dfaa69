// The sampler that ships, as one more variant.
#pragma once

#include "variant.h"

namespace design_study {

// Choices of the shipping sampler are empty but for the table: "shipping". It writes into its own
// scratch; `output` receives the sizes only.
Variant<std::int32_t> shipping_sampler();

}  // namespace design_study
