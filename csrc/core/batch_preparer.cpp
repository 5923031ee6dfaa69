#include "batch_preparer.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "gather.h"

namespace salient {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Section append_section(std::int64_t& end, std::int64_t bytes) {
  const Section section{end, bytes};
  end += (bytes + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
  return section;
}

template <class T>
T* section_data(const PreparedBatch& batch, const Section& section) {
  return reinterpret_cast<T*>(batch.slab->data() + section.offset);
}

template <class T>
std::int64_t bytes_of(std::int64_t count) {
  return count * std::int64_t{sizeof(T)};
}

// Features come first and take most of a batch; the graphs follow.
void lay_out(const SampleScratch& sample, std::span<const RowTable> tables, bool edge_ids,
             PreparedBatch& batch) {
  batch.nodes_after_hop = sample.nodes_after_hop;
  batch.edges_in_hop = sample.edges_in_hop;
  std::int64_t end = 0;
  for (const RowTable& table : tables) {
    const std::int64_t rows = table.seeds_only ? sample.nodes_after_hop[0] : sample.num_nodes;
    batch.tables.push_back(append_section(end, rows * table.row_bytes));
  }
  batch.node_ids = append_section(end, bytes_of<std::int64_t>(sample.num_nodes));
  for (const SampledGraph& graph : sample.graphs) {
    GraphSections sections;
    sections.num_dst = graph.num_dst;
    sections.num_edges = graph.num_edges;
    sections.indptr = append_section(end, bytes_of<std::int32_t>(graph.num_dst + 1));
    sections.indices = append_section(end, bytes_of<std::int32_t>(graph.num_edges));
    sections.edge_ids = append_section(end, edge_ids ? bytes_of<std::int64_t>(graph.num_edges) : 0);
    batch.graphs.push_back(sections);
  }
  batch.slab_bytes = end;
}

template <class T>
void copy_section(const PreparedBatch& batch, const Section& section, const Buffer<T>& from) {
  if (section.bytes == 0) return;
  std::memcpy(section_data<T>(batch, section), from.data(),
              static_cast<std::size_t>(section.bytes));
}

}  // namespace

void fill_batch(const Sampler& sampler, const SampleScratch& sample,
                std::span<const RowTable> tables, const std::atomic<bool>* stop,
                PreparedBatch& batch) {
  const bool edge_ids = sampler.config().edge_ids;
  lay_out(sample, tables, edge_ids, batch);
  batch.slab->reserve(batch.slab_bytes);

  auto* node_ids = section_data<std::int64_t>(batch, batch.node_ids);
  sample.copy_node_ids(node_ids);
  for (std::size_t i = 0; i < sample.graphs.size(); ++i) {
    const SampledGraph& graph = sample.graphs[i];
    const GraphSections& sections = batch.graphs[i];
    copy_section(batch, sections.indptr, graph.indptr);
    copy_section(batch, sections.indices, graph.indices);
    if (edge_ids) {
      sampler.copy_edge_ids(graph, section_data<std::int64_t>(batch, sections.edge_ids));
    }
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::int64_t rows = tables[i].seeds_only ? sample.nodes_after_hop[0] : sample.num_nodes;
    gather_rows(tables[i].data, tables[i].row_bytes, {node_ids, static_cast<std::size_t>(rows)},
                section_data<std::byte>(batch, batch.tables[i]), stop);
  }
}

BatchPreparer::BatchPreparer(std::shared_ptr<const Sampler> sampler, std::vector<RowTable> tables,
                             int num_threads, int prefetch)
    : sampler_(std::move(sampler)),
      tables_(std::move(tables)),
      num_threads_(num_threads),
      prefetch_(prefetch),
      slabs_(std::make_shared<SlabPool>(num_threads + prefetch + 1)) {}

std::unique_ptr<EpochRun, ReleaseEpochRun> BatchPreparer::start(EpochPlan plan) {
  return {new EpochRun(shared_from_this(), std::move(plan)), {}};
}

std::unique_ptr<SampleScratch> BatchPreparer::take_scratch() {
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

void BatchPreparer::keep_scratch(std::unique_ptr<SampleScratch> scratch) {
  const std::lock_guard lock(mutex_);
  if (scratch_.size() < static_cast<std::size_t>(num_threads_)) {
    scratch_.push_back(std::move(scratch));
  }
}

EpochRun::EpochRun(std::shared_ptr<BatchPreparer> preparer, EpochPlan plan)
    : preparer_(std::move(preparer)),
      plan_(std::move(plan)),
      owner_(getpid()),
      ready_(static_cast<std::size_t>(preparer_->window())) {
  const auto useful = std::min<std::size_t>(static_cast<std::size_t>(preparer_->num_threads_),
                                            plan_.batches.size());
  try {
    for (std::size_t i = 0; i < useful; ++i) {
      threads_.emplace_back(&EpochRun::work, this, static_cast<int>(i));
    }
  } catch (...) {
    close();
    throw;
  }
}

EpochRun::~EpochRun() {
  close();
}

bool EpochRun::is_forked() const {
  return getpid() != owner_;
}

void ReleaseEpochRun::operator()(EpochRun* run) const {
  if (!run->is_forked()) delete run;
}

void EpochRun::close() {
  if (is_forked()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  may_claim_.notify_all();
  may_deliver_.notify_all();
  // A consumer that meets an error closes the run, perhaps while its owner does.
  const std::lock_guard lock(closing_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void EpochRun::work(int thread) {
  std::unique_ptr<SampleScratch> scratch;
  while (true) {
    std::size_t index = 0;
    {
      std::unique_lock lock(mutex_);
      may_claim_.wait(lock, [this] {
        return stop_ || claimed_ == plan_.batches.size() || claimed_ < delivered_ + ready_.size();
      });
      if (stop_ || claimed_ == plan_.batches.size()) break;
      index = claimed_++;
    }
    Outcome outcome;
    try {
      if (scratch == nullptr) scratch = preparer_->take_scratch();
      outcome.batch = prepare(index, thread, *scratch);
    } catch (const Stopped&) {
      break;
    } catch (...) {
      outcome.error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      ready_[index % ready_.size()] = std::move(outcome);
    }
    may_deliver_.notify_all();
  }
  if (scratch != nullptr) preparer_->keep_scratch(std::move(scratch));
}

PreparedBatch EpochRun::prepare(std::size_t index, int thread, SampleScratch& scratch) {
  PreparedBatch batch;
  batch.batch = plan_.batches[index];
  batch.thread = thread;
  const auto total = static_cast<std::int64_t>(plan_.order.size());
  const auto number = static_cast<std::int64_t>(batch.batch);
  const std::int64_t begin = number <= total / plan_.batch_size ? number * plan_.batch_size : total;
  const std::int64_t count = std::min(plan_.batch_size, total - begin);
  batch.slab = preparer_->slabs_->acquire();
  batch.began_ns = now_ns();
  preparer_->sampler_->sample({plan_.order.data() + begin, static_cast<std::size_t>(count)},
                              plan_.epoch, batch.batch, scratch, &stop_);
  batch.sampled_ns = now_ns();
  fill_batch(*preparer_->sampler_, scratch, preparer_->tables_, &stop_, batch);
  preparer_->slabs_->lock(*batch.slab);
  batch.ended_ns = now_ns();
  return batch;
}

EpochRun::Status EpochRun::next(std::chrono::milliseconds timeout, PreparedBatch& out) {
  if (is_forked()) {
    throw std::runtime_error(
        "this epoch was started before a fork, and its threads stayed in the parent process: "
        "iterate over the loader anew in the child");
  }
  Outcome outcome;
  {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return stop_ || delivered_ == plan_.batches.size(); };
    const auto slot = [this]() -> Outcome& { return ready_[delivered_ % ready_.size()]; };
    const bool done = may_deliver_.wait_for(lock, timeout, [&] {
      return over() || slot().batch.has_value() || slot().error != nullptr;
    });
    if (over()) return Status::kFinished;
    if (!done) return Status::kTimeout;
    outcome = std::exchange(slot(), {});
    ++delivered_;
  }
  may_claim_.notify_one();
  if (outcome.error != nullptr) {
    close();
    std::rethrow_exception(outcome.error);
  }
  out = std::move(*outcome.batch);
  return Status::kReady;
}

}  // namespace salient
