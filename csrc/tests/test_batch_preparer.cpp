// Batch preparation: order, contents, errors, early ends, and what outlives what.
#include "batch_preparer.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"
#include "graphs.h"
#include "philox.h"

namespace {

using namespace salient;
using namespace std::chrono_literals;
using Ids = std::vector<std::int64_t>;
using Status = EpochRun::Status;

constexpr std::int64_t kNodes = 2000;

// A graph with features (two tables: of all nodes, and of the seeds), and a preparer over them.
struct Setup {
  Edges edges = make_skewed(kNodes, 30000, 3);
  OwnedGraph<std::int32_t> graph{edges, kNodes};
  std::vector<std::int64_t> x, y;
  std::shared_ptr<const Sampler> sampler;
  std::shared_ptr<BatchPreparer> preparer;

  Setup(int num_threads, int prefetch, Form form = Form::kMfg) {
    SamplerConfig config;
    config.fanouts = {10, 5};
    config.edge_ids = true;
    config.form = form;
    sampler = make_sampler(graph.view(), config);
    for (std::int64_t v = 0; v < kNodes; ++v) {
      x.insert(x.end(), {v, v * v, -v});
      y.push_back(v + 5);
    }
    const std::vector<RowTable> tables{
        {reinterpret_cast<const std::byte*>(x.data()), 24, false},
        {reinterpret_cast<const std::byte*>(y.data()), 8, true},
    };
    preparer = std::make_shared<BatchPreparer>(sampler, tables, num_threads, prefetch);
  }
};

EpochPlan plan_of(std::int64_t num_seeds, std::int64_t batch_size, std::uint64_t epoch = 0) {
  EpochPlan plan;
  for (std::int64_t i = 0; i < num_seeds; ++i) plan.order.push_back((i * 7) % kNodes);
  plan.batch_size = batch_size;
  plan.epoch = epoch;
  for (std::int64_t b = 0; b * batch_size < num_seeds; ++b) {
    plan.batches.push_back(static_cast<std::uint64_t>(b));
  }
  return plan;
}

template <class T>
std::vector<T> section_of(const PreparedBatch& batch, const Section& section) {
  std::vector<T> values(static_cast<std::size_t>(section.bytes) / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), batch.slab->data() + section.offset,
                static_cast<std::size_t>(section.bytes));
  }
  return values;
}

// All that a batch holds is right by itself: features of its nodes, labels of its seeds, edges of
// the graph.
bool is_consistent(const Setup& setup, const PreparedBatch& batch) {
  bool good = true;
  const auto n_id = section_of<std::int64_t>(batch, batch.node_ids);
  const auto x = section_of<std::int64_t>(batch, batch.tables[0]);
  const auto y = section_of<std::int64_t>(batch, batch.tables[1]);
  good &= static_cast<std::int64_t>(n_id.size()) == batch.nodes_after_hop.back();
  good &= x.size() == 3 * n_id.size();
  good &= static_cast<std::int64_t>(y.size()) == batch.nodes_after_hop[0];
  for (std::size_t i = 0; i < n_id.size(); ++i) {
    good &= x[3 * i] == n_id[i] && x[3 * i + 1] == n_id[i] * n_id[i] && x[3 * i + 2] == -n_id[i];
  }
  for (std::size_t i = 0; i < y.size(); ++i) good &= y[i] == n_id[i] + 5;
  for (const GraphSections& graph : batch.graphs) {
    const auto indptr = section_of<std::int32_t>(batch, graph.indptr);
    const auto indices = section_of<std::int32_t>(batch, graph.indices);
    const auto edge_ids = section_of<std::int64_t>(batch, graph.edge_ids);
    for (std::size_t v = 0; v + 1 < indptr.size(); ++v) {
      for (auto e = static_cast<std::size_t>(indptr[v]);
           e < static_cast<std::size_t>(indptr[v + 1]); ++e) {
        const auto& [source, target] = setup.edges[static_cast<std::size_t>(edge_ids[e])];
        good &= source == n_id[static_cast<std::size_t>(indices[e])] && target == n_id[v];
      }
    }
  }
  return good;
}

std::vector<std::byte> bytes_of(const PreparedBatch& batch) {
  return {batch.slab->data(), batch.slab->data() + batch.nodes_after_hop.back() * 24};
}

// Every batch, in order and right, for any number of threads; few slabs suffice.
void check_order(int num_threads, int prefetch, Form form) {
  const Setup setup(num_threads, prefetch, form);
  const Setup single(1, 0, form);
  const auto run = setup.preparer->start(plan_of(1500, 40, 2));
  const auto reference = single.preparer->start(plan_of(1500, 40, 2));
  PreparedBatch batch, expected;
  for (std::uint64_t b = 0; b < 38; ++b) {
    EXPECT_EQ(run->next(10s, batch), Status::kReady);
    EXPECT_EQ(reference->next(10s, expected), Status::kReady);
    EXPECT_EQ(batch.batch, b);
    EXPECT_EQ(batch.nodes_after_hop[0], std::int64_t{b < 37 ? 40 : 20});
    EXPECT(batch.thread >= 0 && batch.thread < num_threads);
    EXPECT(batch.began_ns <= batch.sampled_ns && batch.sampled_ns <= batch.ended_ns);
    EXPECT(bytes_of(batch) == bytes_of(expected));
    if (b % 9 == 0) EXPECT(is_consistent(setup, batch));
  }
  EXPECT_EQ(run->next(10s, batch), Status::kFinished);
  EXPECT_EQ(run->next(0ms, batch), Status::kFinished);
}

// A plan may name some batches only, in any order, and none at all.
void check_partial_plans() {
  const Setup setup(2, 1);
  EpochPlan plan = plan_of(1500, 40);
  plan.batches = {30, 2, 17};
  const auto run = setup.preparer->start(std::move(plan));
  PreparedBatch batch;
  for (const std::uint64_t expected : {30u, 2u, 17u}) {
    EXPECT_EQ(run->next(10s, batch), Status::kReady);
    EXPECT_EQ(batch.batch, expected);
  }
  EXPECT_EQ(run->next(10s, batch), Status::kFinished);
  EXPECT_EQ(setup.preparer->start(plan_of(0, 40))->next(10s, batch), Status::kFinished);
}

// A batch past the last seed is empty, whatever its number.
void check_empty_batches() {
  const Setup setup(2, 1);
  for (const std::int64_t num_seeds : {0, 40, 41}) {
    EpochPlan plan = plan_of(num_seeds, 40);
    plan.batches = {2, kMaxBatch};
    const auto run = setup.preparer->start(std::move(plan));
    PreparedBatch batch;
    for (const std::uint64_t expected : {std::uint64_t{2}, std::uint64_t{kMaxBatch}}) {
      EXPECT_EQ(run->next(10s, batch), Status::kReady);
      EXPECT_EQ(batch.batch, expected);
      EXPECT_EQ(batch.nodes_after_hop[0], 0);
      EXPECT_EQ(batch.node_ids.bytes, 0);
    }
    EXPECT_EQ(run->next(10s, batch), Status::kFinished);
  }
}

void check_short_epochs() {
  const Setup setup(3, 2);
  PreparedBatch batch;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    const auto run = setup.preparer->start(plan_of(60, 20, epoch));
    for (std::uint64_t taken = 0; taken < epoch % 5; ++taken) {
      const Status expected = taken < 3 ? Status::kReady : Status::kFinished;
      EXPECT_EQ(run->next(10s, batch), expected);
    }
    if (epoch % 2 == 0) {
      run->close();
      run->close();
      EXPECT_EQ(run->next(10s, batch), Status::kFinished);
    }
  }
}

void check_side_by_side() {
  const Setup setup(2, 1);
  const auto first = setup.preparer->start(plan_of(400, 20, 0));
  const auto second = setup.preparer->start(plan_of(400, 20, 1));
  PreparedBatch a, b;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(first->next(10s, a), Status::kReady);
    EXPECT_EQ(second->next(10s, b), Status::kReady);
    EXPECT(is_consistent(setup, a));
    EXPECT(bytes_of(a) != bytes_of(b));
  }
}

// The batches before a bad one arrive, then the error at its turn, then the end.
void check_error_at_its_turn() {
  const Setup setup(3, 4);
  for (const std::int64_t bad : {kNodes, std::int64_t{0}}) {
    EpochPlan plan = plan_of(400, 20);
    plan.order[5 * 20 + 3] = bad;  // outside the graph, or a repeat of the batch's first seed
    if (bad == 0) plan.order[5 * 20 + 3] = plan.order[5 * 20];
    const auto run = setup.preparer->start(std::move(plan));
    PreparedBatch batch;
    for (std::uint64_t b = 0; b < 5; ++b) {
      EXPECT_EQ(run->next(10s, batch), Status::kReady);
      EXPECT_EQ(batch.batch, b);
    }
    if (bad == kNodes) {
      EXPECT_THROWS(std::out_of_range, "seeds[3] is 2000", run->next(10s, batch));
    } else {
      EXPECT_THROWS(std::invalid_argument, "is repeated, at positions 0 and 3",
                    run->next(10s, batch));
    }
    EXPECT_EQ(run->next(10s, batch), Status::kFinished);
  }
  // Nothing of the error is left in what the next epoch uses.
  const auto run = setup.preparer->start(plan_of(400, 20));
  PreparedBatch batch;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run->next(10s, batch), Status::kReady);
  EXPECT(is_consistent(setup, batch));
}

// A table whose rows need more memory than any machine has: the batch fails, not the process.
void check_oversized_batch() {
  const Setup setup(2, 1);
  const std::vector<RowTable> tables{{nullptr, std::int64_t{1} << 45, true}};
  const auto preparer = std::make_shared<BatchPreparer>(setup.sampler, tables, 2, 1);
  const auto run = preparer->start(plan_of(400, 20));
  PreparedBatch batch;
  EXPECT_THROWS(std::runtime_error, "a batch needs", run->next(10s, batch));
}

// Closing from another thread ends a wait. The first batch takes long, so that there is one.
void check_close_ends_wait() {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Setup setup(2, 1);
    const auto run = setup.preparer->start(plan_of(2000, 1000));
    std::thread closer([&run, repeat] {
      std::this_thread::sleep_for(std::chrono::microseconds(repeat * 100));
      run->close();
    });
    PreparedBatch batch;
    Status status = Status::kReady;
    while (status != Status::kFinished) status = run->next(10s, batch);
    closer.join();
  }
}

// A consumer that meets an error closes the run while another thread does.
void check_closing_twice_at_once() {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Setup setup(2, 1);
    const auto run = setup.preparer->start(plan_of(2000, 100));
    std::thread other([&run] { run->close(); });
    run->close();
    other.join();
  }
}

void check_timeout() {
  const Setup setup(1, 0);
  const auto run = setup.preparer->start(plan_of(2000, 2000));
  PreparedBatch batch;
  Status status = run->next(0ms, batch);
  EXPECT(status == Status::kTimeout || status == Status::kReady);
  while (status == Status::kTimeout) status = run->next(1ms, batch);
  EXPECT_EQ(status, Status::kReady);
}

void check_batches_outlive_all() {
  std::vector<PreparedBatch> kept(6);
  std::vector<std::vector<std::byte>> before;
  {
    const Setup setup(2, 1);
    const auto run = setup.preparer->start(plan_of(400, 20));
    for (PreparedBatch& batch : kept) {
      EXPECT_EQ(run->next(10s, batch), Status::kReady);
      before.push_back(bytes_of(batch));
    }
    // The epoch goes on; what is kept must not be written again.
    PreparedBatch other;
    for (int i = 0; i < 10; ++i) EXPECT_EQ(run->next(10s, other), Status::kReady);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT(bytes_of(kept[i]) == before[i]);
}

// A run keeps its preparer alive.
void check_run_outlives_preparer() {
  Setup setup(2, 1);
  const auto run = setup.preparer->start(plan_of(400, 20));
  setup.preparer.reset();
  PreparedBatch batch;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run->next(10s, batch), Status::kReady);
  EXPECT(is_consistent(setup, batch));
}

}  // namespace

int main() {
  for (const Form form : {Form::kMfg, Form::kSubgraph}) {
    check_order(1, 0, form);
    check_order(4, 3, form);
  }
  check_partial_plans();
  check_empty_batches();
  check_short_epochs();
  check_side_by_side();
  check_error_at_its_turn();
  check_oversized_batch();
  check_close_ends_wait();
  check_closing_twice_at_once();
  check_timeout();
  check_batches_outlive_all();
  check_run_outlives_preparer();
  return expect::status();
}
