// The boundary between Python and the core: NumPy arrays become spans without a copy, every
// argument is checked, and the GIL is released while the core works.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.h"
#include "batch_preparer.h"
#include "csc.h"
#include "gather.h"
#include "huge_pages.h"
#include "philox.h"
#include "platform.h"
#include "registration.h"
#include "sampler.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

using namespace salient;

// --- arguments ------------------------------------------------------------------------------

// A table of rows: any element type, rows contiguous.
struct Table {
  py::array array;
  RowTable rows;
};

Table require_table(const py::object& object, const char* name, std::int64_t num_rows) {
  py::array array = require_array(object, name);
  if (array.ndim() < 1 || (array.flags() & py::array::c_style) == 0) {
    throw py::value_error(std::string(name) +
                          ": expected a row-major contiguous array of at least one dimension, got "
                          "shape " +
                          std::string(py::str(array.attr("shape"))) +
                          "; numpy.ascontiguousarray makes one");
  }
  if (array.shape(0) != num_rows) {
    throw py::value_error(std::string(name) + ": has " + std::to_string(array.shape(0)) +
                          " rows, but the graph has " + std::to_string(num_rows) + " nodes");
  }
  Table table{array, {}};
  table.rows.data = static_cast<const std::byte*>(array.data());
  table.rows.row_bytes = array.itemsize();
  for (py::ssize_t d = 1; d < array.ndim(); ++d) table.rows.row_bytes *= array.shape(d);
  return table;
}

// --- graph ----------------------------------------------------------------------------------

// Owns references to the arrays that a view reads.
class Graph {
 public:
  Graph(const py::object& indptr, const py::object& indices, const py::object& edge_ids,
        bool validate)
      : indptr_(require_vector<std::int64_t>(indptr, "indptr")),
        indices_(require_array(indices, "indices")) {
    if (!edge_ids.is_none()) edge_ids_ = require_vector<std::int64_t>(edge_ids, "edge_ids");
    if (indptr_.size() < 1) {
      throw py::value_error("indptr: is empty; a graph of N nodes needs N + 1 entries");
    }
    if (indices_.dtype().equal(py::dtype::of<std::int32_t>())) {
      view_ = make_view<std::int32_t>();
    } else if (indices_.dtype().equal(py::dtype::of<std::int64_t>())) {
      view_ = make_view<std::int64_t>();
    } else {
      throw py::type_error("indices: expected dtype int32 or int64, got " +
                           std::string(py::str(indices_.dtype())));
    }
    if (!validate) return;
    const std::string fault = std::visit(
        [](const auto& view) {
          const py::gil_scoped_release release;
          return find_fault(view);
        },
        view_);
    if (!fault.empty()) throw py::value_error("not a graph in CSC form: " + fault);
  }

  const std::variant<CscView<std::int32_t>, CscView<std::int64_t>>& view() const { return view_; }

  std::int64_t num_nodes() const { return indptr_.size() - 1; }

 private:
  template <class Index>
  CscView<Index> make_view() {
    indices_ = require_vector<Index>(indices_, "indices");
    CscView<Index> view;
    view.indptr = static_cast<const std::int64_t*>(indptr_.data());
    view.indices = static_cast<const Index*>(indices_.data());
    view.num_nodes = indptr_.size() - 1;
    view.num_edges = indices_.size();
    request_huge_pages(view.indptr, (view.num_nodes + 1) * std::int64_t{sizeof(std::int64_t)});
    request_huge_pages(view.indices, view.num_edges * std::int64_t{sizeof(Index)});
    if (sizeof(Index) == 4 && view.num_nodes > std::numeric_limits<std::int32_t>::max()) {
      throw py::value_error("indices: int32 cannot address " + std::to_string(view.num_nodes) +
                            " nodes, use int64");
    }
    if (edge_ids_) {
      if (edge_ids_->size() != view.num_edges) {
        throw py::value_error("edge_ids: has " + std::to_string(edge_ids_->size()) +
                              " entries, but indices has " + std::to_string(view.num_edges));
      }
      view.edge_ids = static_cast<const std::int64_t*>(edge_ids_->data());
    }
    return view;
  }

  py::array indptr_, indices_;
  std::optional<py::array> edge_ids_;
  std::variant<CscView<std::int32_t>, CscView<std::int64_t>> view_;
};

// --- batches --------------------------------------------------------------------------------

// The bytes of a slab as an array. The slab stays in use until the array and all its views are
// gone.
py::array slab_array(const PreparedBatch& batch) {
  auto* owner = new std::shared_ptr<Slab>(batch.slab);
  py::capsule keeper(owner, [](void* held) { delete static_cast<std::shared_ptr<Slab>*>(held); });
  return py::array_t<std::uint8_t>(
      batch.slab_bytes, reinterpret_cast<const std::uint8_t*>(batch.slab->data()), keeper);
}

py::tuple section_tuple(const Section& section) {
  return py::make_tuple(section.offset, section.bytes);
}

py::list graph_list(const PreparedBatch& batch) {
  py::list graphs;
  for (const GraphSections& graph : batch.graphs) {
    graphs.append(py::make_tuple(graph.num_dst, graph.num_edges, section_tuple(graph.indptr),
                                 section_tuple(graph.indices), section_tuple(graph.edge_ids)));
  }
  return graphs;
}

py::list table_list(const PreparedBatch& batch) {
  py::list tables;
  for (const Section& section : batch.tables) tables.append(section_tuple(section));
  return tables;
}

class PySampler {
 public:
  PySampler(std::shared_ptr<Graph> graph, const std::vector<std::int64_t>& fanouts, bool replace,
            bool edge_ids, bool subgraph, std::uint64_t seed)
      : graph_(std::move(graph)) {
    SamplerConfig config;
    config.fanouts = fanouts;
    config.replace = replace;
    config.edge_ids = edge_ids;
    config.form = subgraph ? Form::kSubgraph : Form::kMfg;
    config.seed = seed;
    sampler_ = std::visit(
        [&config](const auto& view) -> std::shared_ptr<const Sampler> {
          return make_sampler(view, std::move(config));
        },
        graph_->view());
  }

  PreparedBatch sample(const py::object& seeds, std::uint64_t epoch, std::uint64_t batch) {
    const py::array ids = require_vector<std::int64_t>(seeds, "seeds");
    require_in_range(epoch, kMaxEpoch, "epoch");
    require_in_range(batch, kMaxBatch, "batch");
    const auto span = as_span<std::int64_t>(ids);
    PreparedBatch result;
    result.batch = batch;
    const py::gil_scoped_release release;
    auto scratch = take_scratch();
    result.slab = slabs_->acquire();
    sampler_->sample(span, epoch, batch, *scratch, nullptr);
    fill_batch(*sampler_, *scratch, {}, nullptr, result);
    const std::lock_guard lock(mutex_);
    scratch_.push_back(std::move(scratch));
    return result;
  }

  // Samples without handing anything over: (nodes, edges per hop). What a benchmark of sampling
  // alone measures.
  std::pair<std::int64_t, std::vector<std::int64_t>> count(const py::object& seeds,
                                                           std::uint64_t epoch,
                                                           std::uint64_t batch) {
    const py::array ids = require_vector<std::int64_t>(seeds, "seeds");
    require_in_range(epoch, kMaxEpoch, "epoch");
    require_in_range(batch, kMaxBatch, "batch");
    const auto span = as_span<std::int64_t>(ids);
    const py::gil_scoped_release release;
    auto scratch = take_scratch();
    sampler_->sample(span, epoch, batch, *scratch, nullptr);
    std::pair<std::int64_t, std::vector<std::int64_t>> result{scratch->num_nodes,
                                                              scratch->edges_in_hop};
    const std::lock_guard lock(mutex_);
    scratch_.push_back(std::move(scratch));
    return result;
  }

  std::shared_ptr<const Sampler> sampler() const { return sampler_; }

 private:
  std::unique_ptr<SampleScratch> take_scratch() {
    {
      const std::lock_guard lock(mutex_);
      if (!scratch_.empty()) {
        auto scratch = std::move(scratch_.back());
        scratch_.pop_back();
        return scratch;
      }
    }
    return sampler_->make_scratch();
  }

  std::shared_ptr<Graph> graph_;
  std::shared_ptr<const Sampler> sampler_;
  // Kept for the next samples; more may be in use at a time.
  std::shared_ptr<SlabPool> slabs_ = std::make_shared<SlabPool>(4);
  std::mutex mutex_;
  std::vector<std::unique_ptr<SampleScratch>> scratch_;
};

class PyPreparer {
 public:
  PyPreparer(const std::shared_ptr<PySampler>& sampler, const py::sequence& tables, int num_threads,
             int prefetch)
      : sampler_(sampler) {
    if (num_threads < 1) {
      throw py::value_error("num_threads: is " + std::to_string(num_threads) +
                            ", expected at least 1");
    }
    if (prefetch < 0) {
      throw py::value_error("prefetch: is " + std::to_string(prefetch) + ", expected at least 0");
    }
    std::vector<RowTable> rows;
    for (const py::handle& item : tables) {
      const auto [object, name, seeds_only] =
          item.cast<std::tuple<py::object, std::string, bool>>();
      tables_.push_back(require_table(object, name.c_str(), sampler->sampler()->num_graph_nodes()));
      tables_.back().rows.seeds_only = seeds_only;
      rows.push_back(tables_.back().rows);
      const py::gil_scoped_release release;
      request_huge_pages(rows.back().data,
                         tables_.back().rows.row_bytes * sampler->sampler()->num_graph_nodes());
    }
    preparer_ = std::make_shared<BatchPreparer>(sampler->sampler(), rows, num_threads, prefetch);
  }

  std::shared_ptr<BatchPreparer> preparer() const { return preparer_; }

  // Addresses of functions as salient::PageLocker has them.
  void page_lock(std::uintptr_t use_device, std::uintptr_t lock, std::uintptr_t unlock,
                 int device) {
    if (use_device == 0 || lock == 0 || unlock == 0) {
      throw py::value_error("page_lock: a function's address is 0");
    }
    PageLocker locker;
    locker.use_device = reinterpret_cast<int (*)(int)>(use_device);
    locker.lock = reinterpret_cast<int (*)(void*, std::size_t, unsigned int)>(lock);
    locker.unlock = reinterpret_cast<int (*)(void*)>(unlock);
    locker.device = device;
    preparer_->slabs().use_locker(locker);
  }

  int page_lock_error() const { return preparer_->slabs().lock_error(); }

 private:
  std::shared_ptr<PySampler> sampler_;  // and with it the graph's arrays
  std::vector<Table> tables_;
  std::shared_ptr<BatchPreparer> preparer_;
};

class PyEpoch {
 public:
  PyEpoch(std::shared_ptr<PyPreparer> preparer, const py::object& order, std::int64_t batch_size,
          const py::object& batches, std::uint64_t epoch)
      : preparer_(std::move(preparer)) {
    const py::array order_array = require_vector<std::int64_t>(order, "order");
    const py::array batch_array = require_vector<std::int64_t>(batches, "batches");
    if (batch_size < 1) {
      throw py::value_error("batch_size: is " + std::to_string(batch_size) +
                            ", expected at least 1");
    }
    EpochPlan plan;
    plan.epoch = require_in_range(epoch, kMaxEpoch, "epoch");
    plan.batch_size = batch_size;
    const auto order_span = as_span<std::int64_t>(order_array);
    plan.order.assign(order_span.begin(), order_span.end());
    for (const std::int64_t batch : as_span<std::int64_t>(batch_array)) {
      if (batch < 0 || batch > static_cast<std::int64_t>(kMaxBatch)) {
        throw py::value_error("batches: there is no batch " + std::to_string(batch));
      }
      plan.batches.push_back(static_cast<std::uint64_t>(batch));
    }
    run_ = preparer_->preparer()->start(std::move(plan));
  }

  ~PyEpoch() {
    const py::gil_scoped_release release;
    run_.reset();
  }

  // The next batch, or None at the end. Wakes ten times a second to let Ctrl-C through.
  py::object next() {
    while (true) {
      PreparedBatch batch;
      EpochRun::Status status{};
      {
        const py::gil_scoped_release release;
        status = run_->next(std::chrono::milliseconds(100), batch);
      }
      if (status == EpochRun::Status::kReady) return py::cast(std::move(batch));
      if (status == EpochRun::Status::kFinished) return py::none();
      if (PyErr_CheckSignals() != 0) {
        close();
        throw py::error_already_set();
      }
    }
  }

  void close() {
    const py::gil_scoped_release release;
    run_->close();
  }

 private:
  std::shared_ptr<PyPreparer> preparer_;
  std::unique_ptr<EpochRun, ReleaseEpochRun> run_;
};

// --- gather ---------------------------------------------------------------------------------

void gather_into(const py::object& table_object, const py::object& ids_object,
                 const py::object& out_object) {
  const py::array table_array = require_array(table_object, "table");
  const Table table =
      require_table(table_object, "table", table_array.ndim() > 0 ? table_array.shape(0) : 0);
  const py::array ids_array = require_vector<std::int64_t>(ids_object, "ids");
  const auto ids = as_span<std::int64_t>(ids_array);
  py::array out = require_array(out_object, "out");
  const std::int64_t needed = ids_array.size() * table.rows.row_bytes;
  if (!out.writeable() || (out.flags() & py::array::c_style) == 0 || out.nbytes() != needed) {
    throw py::value_error("out: expected a writeable contiguous array of " +
                          std::to_string(needed) + " bytes, got " + std::to_string(out.nbytes()));
  }
  const std::int64_t num_rows = table.array.shape(0);
  auto* to = static_cast<std::byte*>(out.mutable_data());
  std::int64_t outside = -1;
  {
    const py::gil_scoped_release release;
    outside = find_outside(ids, num_rows);
    if (outside < 0) gather_rows(table.rows.data, table.rows.row_bytes, ids, to, nullptr);
  }
  if (outside >= 0) {
    throw py::index_error("ids[" + std::to_string(outside) + "] is " +
                          std::to_string(ids[static_cast<std::size_t>(outside)]) +
                          ", outside [0, " + std::to_string(num_rows) + ")");
  }
}

py::dict build_info() {
  py::dict info;
  info["version"] = SALIENT_VERSION;
  info["compiler"] = SALIENT_COMPILER;
  info["flags"] = SALIENT_BUILD_FLAGS;
#ifdef SALIENT_NATIVE
  info["native"] = true;
#else
  info["native"] = false;
#endif
#if defined(__x86_64__) && defined(__GNUC__)
  info["avx2"] = static_cast<bool>(__builtin_cpu_supports("avx2"));
#else
  info["avx2"] = false;
#endif
  return info;
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The compiled core of salient. Use the salient package, which checks and documents.";

  py::class_<Graph, std::shared_ptr<Graph>>(m, "Graph")
      .def(py::init<const py::object&, const py::object&, const py::object&, bool>(), "indptr"_a,
           "indices"_a, "edge_ids"_a, "validate"_a);

  py::class_<PySampler, std::shared_ptr<PySampler>>(m, "Sampler")
      .def(py::init<std::shared_ptr<Graph>, const std::vector<std::int64_t>&, bool, bool, bool,
                    std::uint64_t>(),
           "graph"_a, "fanouts"_a, "replace"_a, "edge_ids"_a, "subgraph"_a, "seed"_a)
      .def("sample", &PySampler::sample, "seeds"_a, "epoch"_a, "batch"_a)
      .def("count", &PySampler::count, "seeds"_a, "epoch"_a, "batch"_a);

  py::class_<PreparedBatch>(m, "PreparedBatch")
      .def_property_readonly("slab", &slab_array)
      .def_property_readonly("tables", &table_list)
      .def_property_readonly("node_ids",
                             [](const PreparedBatch& b) { return section_tuple(b.node_ids); })
      .def_property_readonly("graphs", &graph_list)
      .def_readonly("nodes_after_hop", &PreparedBatch::nodes_after_hop)
      .def_readonly("edges_in_hop", &PreparedBatch::edges_in_hop)
      .def_readonly("batch", &PreparedBatch::batch)
      .def_readonly("thread", &PreparedBatch::thread)
      .def_readonly("began_ns", &PreparedBatch::began_ns)
      .def_readonly("sampled_ns", &PreparedBatch::sampled_ns)
      .def_readonly("ended_ns", &PreparedBatch::ended_ns);

  py::class_<PyPreparer, std::shared_ptr<PyPreparer>>(m, "BatchPreparer")
      .def(py::init<const std::shared_ptr<PySampler>&, const py::sequence&, int, int>(),
           "sampler"_a, "tables"_a, "num_threads"_a, "prefetch"_a)
      .def("page_lock", &PyPreparer::page_lock, "use_device"_a, "lock"_a, "unlock"_a, "device"_a)
      .def_property_readonly("page_lock_error", &PyPreparer::page_lock_error);

  py::class_<PyEpoch>(m, "Epoch")
      .def(py::init<std::shared_ptr<PyPreparer>, const py::object&, std::int64_t, const py::object&,
                    std::uint64_t>(),
           "preparer"_a, "order"_a, "batch_size"_a, "batches"_a, "epoch"_a)
      .def("next", &PyEpoch::next)
      .def("close", &PyEpoch::close);

  register_conversion(m);
  register_twins(m);
  m.def("gather", &gather_into, "table"_a, "ids"_a, "out"_a);
  m.def("build_info", &build_info);
}
