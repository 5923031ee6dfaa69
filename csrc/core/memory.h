// How much memory can be had, and the error where it is too little.
#pragma once

#include <cstdint>

namespace salient {

// Bytes that this process can still get without swapping, or -1 where the system does not say.
std::int64_t available_bytes();

// @throws std::runtime_error naming needed and available bytes, and what to do
[[noreturn]] void refuse_memory(std::int64_t needed, std::int64_t available);

}  // namespace salient
