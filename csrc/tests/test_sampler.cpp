// The sampler: written-out expectations on graphs that can be drawn by hand, equality of its two
// tables and id widths, and a scratch that survives errors.
#include "sampler.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"
#include "graphs.h"

namespace {

using namespace salient;
using Ids = std::vector<std::int64_t>;

// Above this the sampler hashes; see kArrayTableNodes.
constexpr std::int64_t kManyNodes = (std::int64_t{1} << 23) + 1;

// A copy of a sample in plain vectors, all graphs in order.
struct Result {
  Ids n_id, nodes_after_hop, edges_in_hop;
  std::vector<Ids> indptr, indices, edge_ids;

  bool operator==(const Result&) const = default;
};

Result take(const Sampler& sampler, SampleScratch& scratch, const Ids& seeds,
            std::uint64_t epoch = 0, std::uint64_t batch = 0) {
  sampler.sample(seeds, epoch, batch, scratch, nullptr);
  Result result;
  result.n_id.resize(static_cast<std::size_t>(scratch.num_nodes));
  scratch.copy_node_ids(result.n_id.data());
  result.nodes_after_hop = scratch.nodes_after_hop;
  result.edges_in_hop = scratch.edges_in_hop;
  for (const SampledGraph& graph : scratch.graphs) {
    const auto num_edges = static_cast<std::size_t>(graph.num_edges);
    result.indptr.emplace_back(graph.indptr.data(), graph.indptr.data() + graph.num_dst + 1);
    result.indices.emplace_back(graph.indices.data(), graph.indices.data() + graph.num_edges);
    if (sampler.config().edge_ids) {
      sampler.copy_edge_ids(graph, result.edge_ids.emplace_back(num_edges).data());
    }
  }
  return result;
}

SamplerConfig config_of(Ids fanouts, Form form, bool replace = false) {
  SamplerConfig config;
  config.fanouts = std::move(fanouts);
  config.form = form;
  config.replace = replace;
  config.edge_ids = true;
  config.seed = 17;
  return config;
}

// Node ids as features, then x(v) = x(v) + mean of x over the sampled in-edges, in every layer.
std::vector<double> run_layers(const Result& sample, const Ids& seeds, std::size_t hops) {
  std::vector<double> x(sample.n_id.begin(), sample.n_id.end());
  for (std::size_t hop = hops; hop-- > 0;) {
    const std::size_t graph = sample.indptr.size() == hops ? hop : 0;
    const Ids& indptr = sample.indptr[graph];
    std::vector<double> next(static_cast<std::size_t>(sample.nodes_after_hop[hop]));
    for (std::size_t v = 0; v < next.size(); ++v) {
      double sum = 0;
      for (auto e = indptr[v]; e < indptr[v + 1]; ++e) {
        sum += x[static_cast<std::size_t>(sample.indices[graph][static_cast<std::size_t>(e)])];
      }
      next[v] = x[v] + sum / std::max(1.0, static_cast<double>(indptr[v + 1] - indptr[v]));
    }
    x = next;
  }
  x.resize(seeds.size());
  return x;
}

template <class Index>
void check_g1(std::int64_t num_nodes) {
  const OwnedGraph<Index> graph(make_g1(), num_nodes);
  const Ids seeds{4, 6, 0};
  const Ids whole_indptr{0, 1, 1, 5, 5, 5, 7}, whole_indices{3, 4, 5, 5, 2, 6, 0};
  const Ids whole_ids{2, 0, 1, 4, 5, 3, 6};

  const auto mfg = make_sampler(graph.view(), config_of({-1, -1}, Form::kMfg));
  const auto scratch = mfg->make_scratch();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Result sample = take(*mfg, *scratch, seeds);
    EXPECT_EQ(sample.n_id, (Ids{4, 6, 0, 5, 3, 1, 2}));
    EXPECT_EQ(sample.nodes_after_hop, (Ids{3, 6, 7}));
    EXPECT_EQ(sample.edges_in_hop, (Ids{5, 7}));
    EXPECT_EQ(sample.indptr[0], (Ids{0, 1, 1, 5}));
    EXPECT_EQ(sample.indices[0], (Ids{3, 4, 5, 5, 2}));
    EXPECT_EQ(sample.edge_ids[0], (Ids{2, 0, 1, 4, 5}));
    EXPECT_EQ(sample.indptr[1], whole_indptr);
    EXPECT_EQ(sample.indices[1], whole_indices);
    EXPECT_EQ(sample.edge_ids[1], whole_ids);
    EXPECT_EQ(run_layers(sample, seeds, 2), (std::vector<double>{14, 6, 4.3125}));
  }

  const auto subgraph = make_sampler(graph.view(), config_of({-1, -1}, Form::kSubgraph));
  const Result sample = take(*subgraph, *subgraph->make_scratch(), seeds);
  EXPECT_EQ(sample.n_id, (Ids{4, 6, 0, 5, 3, 1, 2}));
  EXPECT_EQ(sample.edges_in_hop, (Ids{5, 2}));
  EXPECT_EQ(sample.indptr, (std::vector<Ids>{whole_indptr}));
  EXPECT_EQ(sample.indices, (std::vector<Ids>{whole_indices}));
  EXPECT_EQ(sample.edge_ids, (std::vector<Ids>{whole_ids}));
  EXPECT_EQ(run_layers(sample, seeds, 2), (std::vector<double>{14, 6, 4.3125}));

  // A fanout of at least the degree keeps each in-edge once.
  const auto large = make_sampler(graph.view(), config_of({4, 100}, Form::kMfg));
  EXPECT_EQ(take(*large, *large->make_scratch(), seeds).indices[1], whole_indices);

  for (const Form form : {Form::kMfg, Form::kSubgraph}) {
    for (const bool replace : {false, true}) {
      const auto none = make_sampler(graph.view(), config_of({0, 0}, form, replace));
      const Result nothing = take(*none, *none->make_scratch(), {1, 2});
      EXPECT_EQ(nothing.n_id, (Ids{1, 2}));
      EXPECT_EQ(nothing.edges_in_hop, (Ids{0, 0}));
      EXPECT_EQ(take(*none, *none->make_scratch(), {}).nodes_after_hop, (Ids{0, 0, 0}));
      const auto two = make_sampler(graph.view(), config_of({2, 2}, form, replace));
      EXPECT_EQ(take(*two, *two->make_scratch(), {6}).edges_in_hop, (Ids{0, 0}));
    }
  }
}

void check_g3() {
  const OwnedGraph<std::int32_t> graph(make_g3(), 51);
  for (const Form form : {Form::kMfg, Form::kSubgraph}) {
    const auto sampler = make_sampler(graph.view(), config_of({1, 1}, form));
    const auto scratch = sampler->make_scratch();
    std::map<std::int64_t, double> leaves;
    for (std::uint64_t batch = 0; batch < 4000; ++batch) {
      const Result sample = take(*sampler, *scratch, {0}, 0, batch);
      EXPECT_EQ(sample.edges_in_hop, form == Form::kMfg ? (Ids{1, 1}) : (Ids{1, 0}));
      EXPECT(sample.n_id.size() == 2 || (form == Form::kMfg && sample.n_id.size() == 3));
      ++leaves[sample.n_id[1]];
    }
    double chi_square = 0;
    for (const auto& [leaf, count] : leaves) chi_square += (count - 80) * (count - 80) / 80;
    EXPECT_EQ(leaves.size(), std::size_t{50});
    EXPECT(chi_square < 110);  // 49 degrees of freedom, once in a million
  }
}

void check_g4() {
  const OwnedGraph<std::int64_t> graph(make_g4(), 5);
  const auto sampler = make_sampler(graph.view(), config_of({1, 1}, Form::kMfg));
  const Result sample = take(*sampler, *sampler->make_scratch(), {0, 3});
  EXPECT_EQ(sample.n_id, (Ids{0, 3, 4, 2, 1}));
  EXPECT_EQ(sample.indices, (std::vector<Ids>{{2, 3}, {2, 3, 1, 4}}));
  EXPECT_EQ(sample.edge_ids, (std::vector<Ids>{{1, 0}, {1, 0, 3, 4}}));
}

// Array or hash table, int32 or int64 ids: the same sample, edge by edge.
void check_tables_and_widths_agree() {
  constexpr std::int64_t kNodes = 3000;
  const Edges edges = make_skewed(kNodes, 60000, 5);
  const OwnedGraph<std::int32_t> narrow(edges, kNodes), narrow_large(edges, kManyNodes);
  const OwnedGraph<std::int64_t> wide(edges, kNodes), wide_large(edges, kManyNodes);
  Ids seeds;
  for (std::int64_t v = 0; v < 500; ++v) seeds.push_back((v * 7) % kNodes);
  for (const Form form : {Form::kMfg, Form::kSubgraph}) {
    for (const bool replace : {false, true}) {
      for (const Ids& fanouts : {Ids{15, 10, 5}, Ids{-1, 3}, Ids{40, 0, 2}, Ids{200}}) {
        const auto config = config_of(fanouts, form, replace);
        const auto reference = make_sampler(narrow.view(), config);
        const Result expected = take(*reference, *reference->make_scratch(), seeds, 3, 4);
        for (const auto& sampler :
             {make_sampler(narrow_large.view(), config), make_sampler(wide.view(), config),
              make_sampler(wide_large.view(), config)}) {
          EXPECT(take(*sampler, *sampler->make_scratch(), seeds, 3, 4) == expected);
        }
      }
    }
  }
}

// After an error, at any point, the scratch samples as a fresh one does.
void check_scratch_survives_errors(std::int64_t num_nodes) {
  const OwnedGraph<std::int32_t> graph(make_skewed(2000, 20000, 6), num_nodes);
  const auto sampler = make_sampler(graph.view(), config_of({10, 5}, Form::kMfg));
  Ids seeds;
  for (std::int64_t v = 0; v < 100; ++v) seeds.push_back(v);
  const Result expected = take(*sampler, *sampler->make_scratch(), seeds);
  const auto scratch = sampler->make_scratch();
  const auto expect_as_fresh = [&] { EXPECT(take(*sampler, *scratch, seeds) == expected); };

  Ids repeated = seeds, above = seeds, below = seeds;
  repeated[70] = 50;
  above[99] = num_nodes;
  below[1] = -1;
  EXPECT_THROWS(std::invalid_argument, "node 50 is repeated, at positions 50 and 70",
                take(*sampler, *scratch, repeated));
  expect_as_fresh();
  EXPECT_THROWS(std::out_of_range, "seeds[99] is " + std::to_string(num_nodes),
                take(*sampler, *scratch, above));
  expect_as_fresh();
  EXPECT_THROWS(std::out_of_range, "seeds[1] is -1", take(*sampler, *scratch, below));
  EXPECT_THROWS(std::invalid_argument, "is repeated", take(*sampler, *scratch, {3, 3}));
  EXPECT_THROWS(std::out_of_range, "seeds[0]", take(*sampler, *scratch, {INT64_MAX}));
  expect_as_fresh();

  std::atomic<bool> stop{true};
  EXPECT_THROWS(Stopped, "stopped", sampler->sample(seeds, 0, 0, *scratch, &stop));
  expect_as_fresh();
  stop = false;
  std::thread stopper([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  const auto sample_until_stopped = [&] {
    for (std::uint64_t batch = 0;; ++batch) sampler->sample(seeds, 0, batch, *scratch, &stop);
  };
  EXPECT_THROWS(Stopped, "stopped", sample_until_stopped());
  stopper.join();
  expect_as_fresh();
}

// One sampler, several threads, each with a scratch of its own.
void check_threads_share_a_sampler() {
  const OwnedGraph<std::int32_t> graph(make_skewed(2000, 20000, 8), 2000);
  const auto sampler = make_sampler(graph.view(), config_of({10, 40}, Form::kSubgraph));
  std::vector<std::vector<Result>> results(3);
  std::vector<std::thread> threads;
  for (auto& mine : results) {
    threads.emplace_back([&sampler, &mine] {
      const auto scratch = sampler->make_scratch();
      for (std::uint64_t batch = 0; batch < 20; ++batch) {
        mine.push_back(take(*sampler, *scratch, {1, 2, 3, 4}, 0, batch));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(results[0] == results[1] && results[0] == results[2]);
  EXPECT(results[0][0] != results[0][1]);
}

void check_configurations() {
  const OwnedGraph<std::int32_t> graph(make_g4(), 5);
  EXPECT_THROWS(std::invalid_argument, "-2", make_sampler(graph.view(), config_of({-2}, {})));
  EXPECT_THROWS(std::invalid_argument, "16777216",
                make_sampler(graph.view(), config_of({1 << 24}, {})));
  EXPECT_THROWS(std::invalid_argument, "256 hops",
                make_sampler(graph.view(), config_of(Ids(256, 1), {})));
  const auto deep = make_sampler(graph.view(), config_of(Ids(255, 1), Form::kMfg));
  EXPECT_EQ(take(*deep, *deep->make_scratch(), {0}).n_id, (Ids{0, 4, 3, 2, 1}));

  const OwnedGraph<std::int32_t> empty({}, 0);
  for (const Form form : {Form::kMfg, Form::kSubgraph}) {
    const auto sampler = make_sampler(empty.view(), config_of({2}, form));
    EXPECT_EQ(take(*sampler, *sampler->make_scratch(), {}).n_id, Ids{});
    EXPECT_THROWS(std::out_of_range, "seeds[0] is 0",
                  take(*sampler, *sampler->make_scratch(), {0}));
  }
}

}  // namespace

int main() {
  for (const std::int64_t num_nodes : {std::int64_t{7}, kManyNodes}) {
    check_g1<std::int32_t>(num_nodes);
    check_g1<std::int64_t>(num_nodes);
  }
  check_g3();
  check_g4();
  check_tables_and_widths_agree();
  check_scratch_survives_errors(2000);
  check_scratch_survives_errors(kManyNodes);
  check_threads_share_a_sampler();
  check_configurations();
  return expect::status();
}
