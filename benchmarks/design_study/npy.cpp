#include "npy.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace design_study {

namespace {

// The header is the text of a Python dict behind 6 bytes of magic, 2 of version, 2 or 4 of length.
std::string read_header(std::ifstream& file, const std::string& path) {
  unsigned char start[10] = {};
  file.read(reinterpret_cast<char*>(start), sizeof start);
  if (!file || start[0] != 0x93 || start[1] != 'N' || start[6] != 1) {
    throw std::runtime_error(path + ": not an .npy file of version 1");
  }
  std::string header(static_cast<std::size_t>(start[8] + 256 * start[9]), ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  return header;
}

template <class Stored, class T>
void read_values(std::ifstream& file, std::int64_t count, T* out) {
  constexpr std::int64_t kChunk = 1 << 20;
  std::vector<Stored> chunk(static_cast<std::size_t>(std::min(kChunk, count)));
  for (std::int64_t done = 0; done < count; done += kChunk) {
    const std::int64_t length = std::min(kChunk, count - done);
    file.read(reinterpret_cast<char*>(chunk.data()),
              static_cast<std::streamsize>(length * std::int64_t{sizeof(Stored)}));
    std::copy(chunk.begin(), chunk.begin() + length, out + done);
  }
}

}  // namespace

template <class T>
Array<T> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  const std::string header = read_header(file, path);
  const bool narrow = header.find("'<i4'") != std::string::npos;
  const bool wide = header.find("'<i8'") != std::string::npos;
  if ((!narrow && !wide) || (wide && sizeof(T) == 4)) {
    throw std::runtime_error(path + ": expected int32" + (sizeof(T) == 8 ? " or int64" : "") +
                             ", the header says " + header);
  }
  const auto begin = file.tellg();
  file.seekg(0, std::ios::end);
  Array<T> array;
  array.size = static_cast<std::int64_t>(file.tellg() - begin) / (narrow ? 4 : 8);
  file.seekg(begin);
  array.data.reserve(array.size);
  if (narrow) {
    read_values<std::int32_t>(file, array.size, array.data.data());
  } else if constexpr (sizeof(T) == 8) {
    read_values<std::int64_t>(file, array.size, array.data.data());
  }
  if (!file) throw std::runtime_error(path + ": ends too early");
  return array;
}

template Array<std::int32_t> read_npy(const std::string& path);
template Array<std::int64_t> read_npy(const std::string& path);

}  // namespace design_study
