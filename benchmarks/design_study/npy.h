// Arrays from .npy files (one dimension, little-endian, int32 or int64).
#pragma once

#include <cstdint>
#include <string>

#include "buffer.h"

namespace design_study {

template <class T>
struct Array {
  salient::Buffer<T> data;  // on huge pages where the system has them
  std::int64_t size = 0;
};

// Reads `path`, widening int32 to int64 where that is asked for.
// @throws std::runtime_error naming the file: unreadable, or of another type
template <class T>
Array<T> read_npy(const std::string& path);

}  // namespace design_study
