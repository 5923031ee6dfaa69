// Synthetic twins of real graphs, written into arrays of the caller.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "registration.h"
#include "twin_edges.h"
#include "twin_layout.h"
#include "twin_nodes.h"

namespace salient {

namespace {

using namespace py::literals;

std::vector<std::int64_t> require_ascending(const py::object& object, const char* name,
                                            std::int64_t largest) {
  const py::array array = require_vector<std::int64_t>(object, name);
  const auto values = as_span<std::int64_t>(array);
  if (values.size() < 2 || values.front() < 0 || values.back() > largest) {
    throw py::value_error(std::string(name) + ": expected two or more values in [0, " +
                          std::to_string(largest) + "]");
  }
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] < values[i - 1]) {
      throw py::value_error(std::string(name) + "[" + std::to_string(i) + "]: falls from " +
                            std::to_string(values[i - 1]) + " to " + std::to_string(values[i]));
    }
  }
  return {values.begin(), values.end()};
}

void require_between(std::int64_t value, std::int64_t least, std::int64_t most, const char* name) {
  if (value < least || value > most) {
    throw py::value_error(std::string(name) + ": is " + std::to_string(value) + ", expected " +
                          std::to_string(least) + " to " + std::to_string(most));
  }
}

class PyTwinGraph {
 public:
  PyTwinGraph(std::uint64_t seed, const py::object& class_starts, std::int64_t community_size,
              std::int64_t min_degree, const py::object& degree_steps, std::int64_t community_share,
              std::int64_t class_share, std::int64_t num_stubs, int num_threads)
      : num_threads_(num_threads) {
    constexpr std::int64_t kMostNodes = std::numeric_limits<std::int32_t>::max();
    require_between(num_threads, 1, std::numeric_limits<int>::max(), "num_threads");
    require_between(community_size, 1, kMostNodes, "community_size");
    require_between(min_degree, 0, 1 << 20, "min_degree");
    require_between(community_share, 0, kWholeShare, "community_share");
    require_between(class_share, 0, std::int64_t{kWholeShare} - community_share, "class_share");
    require_between(num_stubs, 0, std::int64_t{1} << 40, "num_stubs");
    TwinModel model;
    model.seed = seed;
    model.class_starts = require_ascending(class_starts, "class_starts", kMostNodes);
    if (model.class_starts.front() != 0 || model.class_starts.back() == 0) {
      throw py::value_error("class_starts: expected to rise from 0 to the number of nodes");
    }
    const py::array steps = require_vector<std::uint32_t>(degree_steps, "degree_steps");
    require_between(steps.size(), 0, 1 << 20, "degree_steps: its length");
    const auto span = as_span<std::uint32_t>(steps);
    model.degree_steps.assign(span.begin(), span.end());
    for (std::size_t i = 1; i < span.size(); ++i) {
      if (span[i] < span[i - 1]) throw py::value_error("degree_steps: must not fall");
    }
    model.community_size = community_size;
    model.min_degree = static_cast<std::uint32_t>(min_degree);
    model.community_share = static_cast<std::uint32_t>(community_share);
    model.class_share = static_cast<std::uint32_t>(class_share);
    model.num_stubs = num_stubs;
    const py::gil_scoped_release release;
    layout_.emplace(std::move(model), num_threads);
  }

  std::int64_t raw() const { return raw_edges(*layout_); }
  std::int64_t num_communities() const { return layout_->num_communities(); }

  std::int64_t write_edges(std::int64_t num_pairs, const py::object& indptr,
                           const py::object& indices) const {
    require_between(num_pairs, 0, std::int64_t{1} << 40, "num_pairs");
    auto* const starts = require_output<std::int64_t>(indptr, "indptr", layout_->num_nodes() + 1);
    auto* const sources = require_output<std::int32_t>(indices, "indices", raw());
    const py::gil_scoped_release release;
    return write_twin_edges(*layout_, num_pairs, num_threads_, starts, sources);
  }

  void write_labels(const py::object& part_starts, const py::object& labels,
                    const py::object& parts) const {
    const std::int64_t nodes = layout_->num_nodes();
    const auto starts = require_ascending(part_starts, "part_starts", nodes);
    require_between(static_cast<std::int64_t>(starts.size()), 2, 255, "part_starts: its length");
    auto* const label_out = require_output<std::int64_t>(labels, "labels", nodes);
    auto* const part_out = require_output<std::uint8_t>(parts, "parts", nodes);
    const py::gil_scoped_release release;
    write_twin_labels(*layout_, starts, num_threads_, label_out, part_out);
  }

  // As many rows as `out`, the bits of float16, has room for.
  void write_features(std::int64_t first, std::int64_t num_features, float signal,
                      const py::object& out) const {
    require_between(num_features, 1, 1 << 20, "num_features");
    require_between(first, 0, layout_->num_nodes(), "first");
    auto* const features = require_output<std::uint16_t>(out, "out", 0);
    const std::int64_t rows = py::len(out) / num_features;
    require_between(first + rows, 0, layout_->num_nodes(), "first + rows");
    const py::gil_scoped_release release;
    write_twin_features(*layout_, num_features, signal, first, first + rows, num_threads_,
                        features);
  }

 private:
  std::optional<TwinLayout> layout_;
  int num_threads_;
};

}  // namespace

void register_twins(py::module_& m) {
  py::class_<PyTwinGraph>(m, "TwinGraph")
      .def(py::init<std::uint64_t, const py::object&, std::int64_t, std::int64_t, const py::object&,
                    std::int64_t, std::int64_t, std::int64_t, int>(),
           "seed"_a, "class_starts"_a, "community_size"_a, "min_degree"_a, "degree_steps"_a,
           "community_share"_a, "class_share"_a, "num_stubs"_a, "num_threads"_a)
      .def_property_readonly("raw_edges", &PyTwinGraph::raw)
      .def_property_readonly("num_communities", &PyTwinGraph::num_communities)
      .def("write_edges", &PyTwinGraph::write_edges, "num_pairs"_a, "indptr"_a, "indices"_a)
      .def("write_labels", &PyTwinGraph::write_labels, "part_starts"_a, "labels"_a, "parts"_a)
      .def("write_features", &PyTwinGraph::write_features, "first"_a, "num_features"_a, "signal"_a,
           "out"_a);
}

}  // namespace salient
