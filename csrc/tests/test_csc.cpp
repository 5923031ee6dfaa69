// Graphs: from a list of edges to CSC form, and faults that must be found.
#include "csc.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "csc_converter.h"
#include "expect.h"
#include "graphs.h"

namespace {

using namespace salient;
using Offsets = std::vector<std::int64_t>;

template <class Source, class Index>
void check_conversion() {
  const std::vector<Source> source{3, 1, 5, 2, 1, 0, 4, 0}, target{0, 0, 4, 1, 0, 0, 1, 2};
  Offsets indptr(8), edge_ids(8);
  std::vector<Index> indices(8);
  coo_to_csc(source.data(), target.data(), 8, 7, indptr.data(), indices.data(), edge_ids.data());
  EXPECT_EQ(indptr, (Offsets{0, 4, 6, 7, 7, 8, 8, 8}));
  EXPECT_EQ(indices, (std::vector<Index>{3, 1, 1, 0, 2, 4, 0, 5}));
  EXPECT_EQ(edge_ids, (Offsets{0, 1, 4, 5, 3, 6, 7, 2}));
  indices.assign(8, 0);
  coo_to_csc(source.data(), target.data(), 8, 7, indptr.data(), indices.data(), nullptr);
  EXPECT_EQ(indices, (std::vector<Index>{3, 1, 1, 0, 2, 4, 0, 5}));

  for (const auto& [from, to] : {std::pair{9, 0}, {0, 9}, {7, 0}, {-1, 0}, {0, -1}}) {
    const std::vector<Source> ends_from{1, static_cast<Source>(from)};
    const std::vector<Source> ends_to{2, static_cast<Source>(to)};
    const std::string edge = "edge 1 is " + std::to_string(from) + " -> " + std::to_string(to);
    EXPECT_THROWS(std::out_of_range, edge,
                  coo_to_csc(ends_from.data(), ends_to.data(), 2, 7, indptr.data(), indices.data(),
                             edge_ids.data()));
  }
  for (const std::int64_t num_nodes : {0, 1, 2}) {
    indptr.assign(8, -5);
    coo_to_csc<Source, Index>(nullptr, nullptr, 0, num_nodes, indptr.data(), nullptr, nullptr);
    for (std::int64_t v = 0; v < 8; ++v) {
      EXPECT_EQ(indptr[static_cast<std::size_t>(v)], v <= num_nodes ? 0 : -5);
    }
  }
}

template <class Index>
std::string fault_of(const Offsets& indptr, const std::vector<Index>& indices,
                     const Offsets& edge_ids = {}) {
  return find_fault(CscView<Index>{
      indptr.data(), indices.data(), edge_ids.empty() ? nullptr : edge_ids.data(),
      static_cast<std::int64_t>(indptr.size()) - 1, static_cast<std::int64_t>(indices.size())});
}

template <class Index>
void check_faults() {
  using Ids = std::vector<Index>;
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(fault_of<Index>({0}, {}), std::string());
  EXPECT_EQ(fault_of<Index>({0, 0, 0}, {}), std::string());
  EXPECT_EQ(fault_of<Index>({0, 1, 3}, Ids{1, 0, 1}, {9, 0, 9}), std::string());
  EXPECT(contains(fault_of<Index>({1, 1}, Ids{0}), "indptr[0] is 1"));
  EXPECT(contains(fault_of<Index>({-1, 1}, Ids{0}), "indptr[0] is -1"));
  EXPECT(contains(fault_of<Index>({0, 2, 1}, Ids{0}), "falls from 2 to 1 at position 2"));
  EXPECT(contains(fault_of<Index>({0, INT64_MAX, INT64_MIN}, Ids{0}), "at position 2"));
  EXPECT(contains(fault_of<Index>({0, 1}, Ids{0, 0}), "ends with 1"));
  EXPECT(contains(fault_of<Index>({0, INT64_MAX}, Ids{0}), "ends with 9223372036854775807"));
  EXPECT(contains(fault_of<Index>({0}, Ids{0}), "ends with 0"));
  EXPECT(contains(fault_of<Index>({0, 2}, Ids{0, 1}), "indices[1] is 1"));
  EXPECT(contains(fault_of<Index>({0, 2}, Ids{0, -1}), "indices[1] is -1"));
  EXPECT(contains(fault_of<Index>({0, 2}, Ids{0, 0}, {0, -3}), "edge_ids[1]"));
}

}  // namespace

int main() {
  check_conversion<std::int32_t, std::int32_t>();
  check_conversion<std::int64_t, std::int32_t>();
  check_conversion<std::int32_t, std::int64_t>();
  check_conversion<std::int64_t, std::int64_t>();
  check_faults<std::int32_t>();
  check_faults<std::int64_t>();
  return expect::status();
}
