// Slicing: rows of a table, whatever their type, copied by id into one dense block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace salient {

// Copies rows ids[0], ids[1], ... of `table` to `out` (ids.size() * row_bytes). Ids must be valid.
// @param table (num_rows * row_bytes), may be mapped from a file
// @param stop may be null; once true, Stopped is thrown soon
void gather_rows(const std::byte* table, std::int64_t row_bytes, std::span<const std::int64_t> ids,
                 std::byte* out, const std::atomic<bool>* stop);

// Position of the first id outside [0, num_rows), or -1.
std::int64_t find_outside(std::span<const std::int64_t> ids, std::int64_t num_rows);

}  // namespace salient
