// Batch preparation: a fixed set of threads that sample and slice whole batches into slabs, and
// hand them over in order.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "sampler.h"
#include "slab.h"

namespace salient {

// A table whose rows go into each batch.
struct RowTable {
  const std::byte* data = nullptr;  // (num_graph_nodes * row_bytes), may be mapped from a file
  std::int64_t row_bytes = 0;
  bool seeds_only = false;  // rows of the seeds, instead of all nodes of the batch
};

// A piece of a slab.
struct Section {
  std::int64_t offset = 0;  // bytes from the start of the slab, a multiple of kSectionAlignment
  std::int64_t bytes = 0;
};
inline constexpr std::int64_t kSectionAlignment = 64;

struct GraphSections {
  Section indptr, indices, edge_ids;  // int32, int32, int64 (empty unless asked for)
  std::int64_t num_dst = 0;
  std::int64_t num_edges = 0;
};

// A finished batch. Times are steady_clock nanoseconds.
struct PreparedBatch {
  std::shared_ptr<Slab> slab;
  std::int64_t slab_bytes = 0;
  std::vector<Section> tables;  // in the order of the preparer's tables
  Section node_ids;             // int64
  std::vector<GraphSections> graphs;
  std::vector<std::int64_t> nodes_after_hop;
  std::vector<std::int64_t> edges_in_hop;
  std::uint64_t batch = 0;  // global batch number
  int thread = 0;
  std::int64_t began_ns = 0, sampled_ns = 0, ended_ns = 0;
};

// Copies a sample and the rows that belong to it into `batch.slab`.
void fill_batch(const Sampler& sampler, const SampleScratch& sample,
                std::span<const RowTable> tables, const std::atomic<bool>* stop,
                PreparedBatch& batch);

// The batches of one epoch that this process prepares.
struct EpochPlan {
  std::vector<std::int64_t> order;  // seed nodes of the epoch, in order
  std::int64_t batch_size = 1;      // batch b has seeds order[b * batch_size ...]
  // Global batch numbers, in the order of delivery. One past the last seed gives an empty batch:
  // a rank has it in the last step if there are fewer batches left than ranks.
  std::vector<std::uint64_t> batches;
  std::uint64_t epoch = 0;
};

class EpochRun;

// Deletes a run, except in a process forked since its start: the threads that wait on its condition
// variables stayed in the parent, and destroying the copies would wait for them for ever.
struct ReleaseEpochRun {
  void operator()(EpochRun* run) const;
};

// What outlives an epoch: sampler, tables, slabs and the threads' scratch memory.
class BatchPreparer : public std::enable_shared_from_this<BatchPreparer> {
 public:
  // At most num_threads + prefetch batches are in preparation or ready at any time.
  BatchPreparer(std::shared_ptr<const Sampler> sampler, std::vector<RowTable> tables,
                int num_threads, int prefetch);

  // Starts the threads of one epoch. Several epochs may run side by side.
  std::unique_ptr<EpochRun, ReleaseEpochRun> start(EpochPlan plan);

  int window() const { return num_threads_ + prefetch_; }

  // Where batches lie.
  SlabPool& slabs() { return *slabs_; }

 private:
  friend class EpochRun;

  std::unique_ptr<SampleScratch> take_scratch();
  void keep_scratch(std::unique_ptr<SampleScratch> scratch);

  std::shared_ptr<const Sampler> sampler_;
  std::vector<RowTable> tables_;
  int num_threads_;
  int prefetch_;
  std::shared_ptr<SlabPool> slabs_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SampleScratch>> scratch_;
};

// One epoch in preparation. The destructor stops the threads and waits for them.
class EpochRun {
 public:
  EpochRun(std::shared_ptr<BatchPreparer> preparer, EpochPlan plan);
  EpochRun(const EpochRun&) = delete;
  EpochRun& operator=(const EpochRun&) = delete;
  ~EpochRun();

  enum class Status { kReady, kTimeout, kFinished };

  // Waits for the next batch in order, at most `timeout`.
  // @throws what the thread that prepared this batch threw; the epoch is over then
  // @throws std::runtime_error in a process forked since the start: threads do not survive a fork
  Status next(std::chrono::milliseconds timeout, PreparedBatch& out);

  // Stops the threads as soon as each has noticed, and waits for them. Idempotent; thread-safe.
  // In a forked process it does nothing: there are no threads.
  void close();

  // Whether this process was forked since the start.
  bool is_forked() const;

 private:
  struct Outcome {
    std::optional<PreparedBatch> batch;
    std::exception_ptr error;
  };

  void work(int thread);
  PreparedBatch prepare(std::size_t index, int thread, SampleScratch& scratch);

  std::shared_ptr<BatchPreparer> preparer_;
  const EpochPlan plan_;
  const pid_t owner_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable may_claim_, may_deliver_;
  std::size_t claimed_ = 0, delivered_ = 0;
  std::vector<Outcome> ready_;  // ring of window() outcomes; slot i % window() is for batch i
  std::mutex closing_;          // guards threads_
  std::vector<std::thread> threads_;
};

}  // namespace salient
