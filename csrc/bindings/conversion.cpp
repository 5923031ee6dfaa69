// Edge lists to CSC form, in one call or chunk by chunk.
#include <cstdint>
#include <limits>
#include <string>
#include <variant>

#include "arguments.h"
#include "csc_converter.h"
#include "memory.h"
#include "registration.h"

namespace salient {

namespace {

using namespace py::literals;

bool is_narrow(std::int64_t num_nodes) {
  return num_nodes <= std::numeric_limits<std::int32_t>::max();
}

// A chunk of an edge list: both arrays int32, or both int64.
struct EdgeArrays {
  py::array source, target;
  bool narrow;
};

EdgeArrays require_edges(const py::object& source, const py::object& target) {
  const bool narrow = require_array(source, "source").dtype().equal(py::dtype::of<std::int32_t>());
  const auto check = [narrow](const py::object& ids, const char* name) {
    return narrow ? require_vector<std::int32_t>(ids, name)
                  : require_vector<std::int64_t>(ids, name);
  };
  EdgeArrays edges{check(source, "source"), check(target, "target"), narrow};
  if (edges.source.size() != edges.target.size()) {
    throw py::value_error("source has " + std::to_string(edges.source.size()) +
                          " entries, target " + std::to_string(edges.target.size()));
  }
  return edges;
}

// Calls work(source, target, num_edges) on the arrays' own type, without the GIL.
template <class Work>
void visit_edges(const EdgeArrays& edges, const Work& work) {
  const std::int64_t num_edges = edges.source.size();
  const void* source = edges.source.data();
  const void* target = edges.target.data();
  const py::gil_scoped_release release;
  if (edges.narrow) {
    work(static_cast<const std::int32_t*>(source), static_cast<const std::int32_t*>(target),
         num_edges);
  } else {
    work(static_cast<const std::int64_t*>(source), static_cast<const std::int64_t*>(target),
         num_edges);
  }
}

template <class Index>
py::tuple convert(const EdgeArrays& edges, std::int64_t num_nodes, bool edge_ids) {
  py::array_t<std::int64_t> indptr(num_nodes + 1);
  py::array_t<Index> indices(edges.source.size());
  py::array_t<std::int64_t> positions(edge_ids ? edges.source.size() : 0);
  std::int64_t* indptr_out = indptr.mutable_data();
  Index* indices_out = indices.mutable_data();
  std::int64_t* positions_out = edge_ids ? positions.mutable_data() : nullptr;
  visit_edges(edges, [&](const auto* source, const auto* target, std::int64_t num_edges) {
    coo_to_csc(source, target, num_edges, num_nodes, indptr_out, indices_out, positions_out);
  });
  return py::make_tuple(indptr, indices, edge_ids ? py::object(positions) : py::none());
}

py::tuple coo_to_csc_arrays(const py::object& source, const py::object& target,
                            std::int64_t num_nodes, bool edge_ids) {
  const EdgeArrays edges = require_edges(source, target);
  if (num_nodes < 0) throw py::value_error("num_nodes: is " + std::to_string(num_nodes));
  const std::int64_t available = available_bytes();
  if (available >= 0 && num_nodes > available / std::int64_t{sizeof(std::int64_t)}) {
    throw py::value_error("num_nodes: " + std::to_string(num_nodes) +
                          " nodes need 8 bytes each, but " + std::to_string(available) +
                          " bytes are available; is the highest node id damaged?");
  }
  return is_narrow(num_nodes) ? convert<std::int32_t>(edges, num_nodes, edge_ids)
                              : convert<std::int64_t>(edges, num_nodes, edge_ids);
}

class PyConverter {
 public:
  PyConverter(std::int64_t num_nodes, std::int64_t num_edges, bool symmetrise, bool drop_duplicates,
              int num_threads, std::int64_t scratch_bytes)
      : num_nodes_(num_nodes),
        converter_(make({.num_nodes = num_nodes,
                         .num_edges = num_edges,
                         .symmetrise = symmetrise,
                         .drop_duplicates = drop_duplicates,
                         .positions = false,
                         .num_threads = num_threads,
                         .scratch_bytes = scratch_bytes})) {}

  void count(const py::object& source, const py::object& target) {
    feed(source, target, [](auto& converter, const auto* from, const auto* to, std::int64_t size) {
      converter.count(from, to, size);
    });
  }

  void collect(const py::object& source, const py::object& target) {
    feed(source, target, [](auto& converter, const auto* from, const auto* to, std::int64_t size) {
      converter.collect(from, to, size);
    });
  }

  std::int64_t num_collected() const {
    return std::visit([](const auto& converter) { return converter.num_collected(); }, converter_);
  }

  bool begin_pass() {
    return std::visit([](auto& converter) { return converter.begin_pass(); }, converter_);
  }

  void end_pass(const py::object& indptr, const py::object& indices) {
    std::int64_t* const indptr_out = require_output<std::int64_t>(indptr, "indptr", num_nodes_ + 1);
    std::visit(
        [&]<class Index>(CscConverter<Index>& converter) {
          Index* const out = require_output<Index>(indices, "indices", num_collected());
          const py::gil_scoped_release release;
          converter.end_pass(indptr_out, out, nullptr);
        },
        converter_);
  }

  std::int64_t finish(const py::object& indptr) const {
    std::int64_t* const out = require_output<std::int64_t>(indptr, "indptr", num_nodes_ + 1);
    return std::visit([out](const auto& converter) { return converter.finish(out); }, converter_);
  }

  std::int64_t self_loops() const {
    return std::visit([](const auto& converter) { return converter.self_loops(); }, converter_);
  }

 private:
  using Converter = std::variant<CscConverter<std::int32_t>, CscConverter<std::int64_t>>;

  static Converter make(const ConversionOptions& options) {
    const auto require = [](std::int64_t value, const char* name) {
      if (value < 0) {
        throw py::value_error(std::string(name) + ": is " + std::to_string(value) +
                              ", expected at least 0");
      }
    };
    require(options.num_nodes, "num_nodes");
    require(options.num_edges, "num_edges");
    require(options.num_threads, "num_threads");
    require(options.scratch_bytes, "scratch_bytes");
    if (is_narrow(options.num_nodes)) return CscConverter<std::int32_t>(options);
    return CscConverter<std::int64_t>(options);
  }

  template <class Take>
  void feed(const py::object& source, const py::object& target, const Take& take) {
    const EdgeArrays edges = require_edges(source, target);
    std::visit(
        [&](auto& converter) {
          visit_edges(edges, [&](const auto* from, const auto* to, std::int64_t size) {
            take(converter, from, to, size);
          });
        },
        converter_);
  }

  std::int64_t num_nodes_;
  Converter converter_;
};

}  // namespace

void register_conversion(py::module_& m) {
  m.def("coo_to_csc", &coo_to_csc_arrays, "source"_a, "target"_a, "num_nodes"_a, "edge_ids"_a);

  py::class_<PyConverter>(m, "CscConverter")
      .def(py::init<std::int64_t, std::int64_t, bool, bool, int, std::int64_t>(), "num_nodes"_a,
           "num_edges"_a, "symmetrise"_a, "drop_duplicates"_a, "num_threads"_a, "scratch_bytes"_a)
      .def("count", &PyConverter::count, "source"_a, "target"_a)
      .def_property_readonly("num_collected", &PyConverter::num_collected)
      .def("begin_pass", &PyConverter::begin_pass)
      .def("collect", &PyConverter::collect, "source"_a, "target"_a)
      .def("end_pass", &PyConverter::end_pass, "indptr"_a, "indices"_a)
      .def("finish", &PyConverter::finish, "indptr"_a)
      .def_property_readonly("self_loops", &PyConverter::self_loops);
}

}  // namespace salient
