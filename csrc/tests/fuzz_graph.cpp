// Fuzzing of the core: bytes become a graph, often malformed, seeds and a configuration. Whatever
// find_fault lets through must sample without a fault and with every invariant of a sample intact.
//
// Under libFuzzer, LLVMFuzzerTestOneInput is the entry. Compiled with SALIENT_FUZZ_ALONE, the
// program makes numbered inputs of its own: fuzz_graph [seconds] [first input]. It prints now and
// then how far it is, so that a crash is found again from the last number printed.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "csc.h"
#include "csc_converter.h"
#include "sampler.h"

namespace {

using namespace salient;

// Ends the process, so that both runners report the input.
void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "invariant broken: %s\n", what);
  std::abort();
}

// Reads small values from the input; zeros once it is used up.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint8_t next() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }
  bool flag() { return (next() & 1) != 0; }
  std::size_t left() const { return size_ - at_; }

  // Mostly a small number; now and then an extreme one.
  std::int64_t value() {
    const std::uint8_t byte = next();
    switch (byte) {
      case 255: return -1;
      case 254: return INT32_MAX;
      case 253: return INT64_MAX;
      case 252: return INT64_MIN;
      case 251: return std::int64_t{1} << 32;
      default: return byte;
    }
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

struct Case {
  SamplerConfig config;
  std::vector<std::int64_t> indptr, indices, edge_ids, seeds;
  std::uint64_t epoch = 0, batch = 0;
  bool with_edge_ids = false;
};

// Offsets are sums of small degrees, so that many inputs are graphs; one flag bends them.
Case decode(Bytes& bytes) {
  Case result;
  const std::uint8_t flags = bytes.next();
  result.config.replace = (flags & 1) != 0;
  result.config.edge_ids = (flags & 2) != 0;
  result.config.form = (flags & 4) != 0 ? Form::kSubgraph : Form::kMfg;
  result.with_edge_ids = (flags & 8) != 0;
  const bool bend_indptr = (flags & 16) != 0, bend_length = (flags & 32) != 0;
  result.config.seed = bytes.next();
  result.epoch = bytes.next();
  result.batch = bytes.next();

  const std::size_t hops = bytes.next() % 5;
  for (std::size_t hop = 0; hop < hops; ++hop) {
    const std::uint8_t fanout = bytes.next();
    result.config.fanouts.push_back(fanout > 250 ? fanout - 254 : fanout % 48);
  }
  const std::int64_t num_nodes = bytes.next() % 64;
  result.indptr.push_back(0);
  for (std::int64_t v = 0; v < num_nodes; ++v) {
    result.indptr.push_back(result.indptr.back() + bytes.next() % 64);
  }
  if (bend_indptr) {
    result.indptr[bytes.next() % result.indptr.size()] = bytes.value();
  }
  const std::size_t num_seeds = bytes.next() % 16;
  for (std::size_t i = 0; i < num_seeds; ++i) {
    const std::int64_t seed = bytes.value();
    result.seeds.push_back(bend_length || seed < 0 || seed > 255 ? seed : seed % (num_nodes + 1));
  }
  std::int64_t num_edges = std::clamp<std::int64_t>(result.indptr.back(), 0, 64 * 64);
  if (bend_length) num_edges = std::max<std::int64_t>(0, num_edges + bytes.next() - 128);
  for (std::int64_t e = 0; e < num_edges; ++e) {
    const std::int64_t id = bytes.value();
    result.indices.push_back(id < 0 || id > 255 || num_nodes == 0 ? id : id % num_nodes);
    result.edge_ids.push_back(num_edges - e);
  }
  if (bend_indptr && num_edges > 0) result.edge_ids[0] = bytes.value();
  return result;
}

template <class Index>
void check_graph_of_sample(const CscView<Index>& graph, const Case& input, const Sampler& sampler,
                           const SampledGraph& sampled, const std::vector<std::int64_t>& n_id,
                           const std::vector<std::int64_t>& fanout_of) {
  require(sampled.num_dst <= static_cast<std::int64_t>(n_id.size()), "no more dst than nodes");
  require(sampled.indptr[0] == 0, "indptr starts at 0");
  require(sampled.indptr[sampled.num_dst] == sampled.num_edges, "indptr ends with num_edges");
  std::vector<std::int64_t> edge_ids(static_cast<std::size_t>(sampled.num_edges));
  if (input.config.edge_ids) sampler.copy_edge_ids(sampled, edge_ids.data());
  for (std::int64_t v = 0; v < sampled.num_dst; ++v) {
    const std::int64_t node = n_id[static_cast<std::size_t>(v)];
    const std::int64_t begin = graph.indptr[node], degree = graph.indptr[node + 1] - begin;
    const std::int64_t fanout = fanout_of[static_cast<std::size_t>(v)];
    const std::int64_t expected = fanout < 0                           ? degree
                                  : input.config.replace && degree > 0 ? fanout
                                                                       : std::min(fanout, degree);
    require(sampled.indptr[v + 1] - sampled.indptr[v] == expected, "edges per node");
    std::set<std::int64_t> offsets;
    for (std::int64_t e = sampled.indptr[v]; e < sampled.indptr[v + 1]; ++e) {
      require(sampled.indices[e] >= 0, "local id not negative");
      const auto source = static_cast<std::size_t>(sampled.indices[e]);
      require(source < n_id.size(), "local id below the number of nodes");
      if (!input.config.edge_ids) continue;
      const std::int64_t offset = sampled.edge_offsets[e];
      require(offset >= begin && offset < begin + degree, "an in-edge of the node");
      require(n_id[source] == static_cast<std::int64_t>(graph.indices[offset]), "its source");
      require(edge_ids[static_cast<std::size_t>(e)] ==
                  (graph.edge_ids == nullptr ? offset : graph.edge_ids[offset]),
              "its edge id");
      require(offsets.insert(offset).second || input.config.replace, "each in-edge once");
    }
  }
}

template <class Index>
void check_sample(const CscView<Index>& graph, const Case& input, const Sampler& sampler,
                  const SampleScratch& sample) {
  const SamplerConfig& config = input.config;
  std::vector<std::int64_t> n_id(static_cast<std::size_t>(sample.num_nodes));
  sample.copy_node_ids(n_id.data());
  require(std::equal(input.seeds.begin(), input.seeds.end(), n_id.begin()), "seeds come first");
  require(std::set(n_id.begin(), n_id.end()).size() == n_id.size(), "each node once");
  require(sample.nodes_after_hop.size() == config.fanouts.size() + 1, "nodes after each hop");
  require(sample.nodes_after_hop.back() == sample.num_nodes, "the last count is of all nodes");
  if (config.form == Form::kMfg) {
    for (std::size_t hop = 0; hop < config.fanouts.size(); ++hop) {
      require(sample.graphs[hop].num_dst == sample.nodes_after_hop[hop], "dst of a hop");
      check_graph_of_sample(graph, input, sampler, sample.graphs[hop], n_id,
                            std::vector(n_id.size(), config.fanouts[hop]));
    }
  } else if (!config.fanouts.empty()) {
    // The fanout of a node is that of the hop after the one that found it.
    std::vector<std::int64_t> fanout_of(n_id.size());
    for (std::size_t hop = config.fanouts.size(); hop-- > 0;) {
      std::fill_n(fanout_of.begin(), sample.nodes_after_hop[hop], config.fanouts[hop]);
    }
    check_graph_of_sample(graph, input, sampler, sample.graphs[0], n_id, fanout_of);
  }
}

template <class Index>
void run(const Case& input) {
  const std::vector<Index> indices(input.indices.begin(), input.indices.end());
  const CscView<Index> graph{input.indptr.data(), indices.data(),
                             input.with_edge_ids ? input.edge_ids.data() : nullptr,
                             static_cast<std::int64_t>(input.indptr.size()) - 1,
                             static_cast<std::int64_t>(indices.size())};
  if (!find_fault(graph).empty()) return;
  try {
    const auto sampler = make_sampler(graph, input.config);
    const auto scratch = sampler->make_scratch();
    for (std::uint64_t repeat = 0; repeat < 2; ++repeat) {
      sampler->sample(input.seeds, input.epoch, input.batch + repeat, *scratch, nullptr);
      check_sample(graph, input, *sampler, *scratch);
    }
  } catch (const std::out_of_range&) {
    require(std::any_of(input.seeds.begin(), input.seeds.end(),
                        [&](std::int64_t s) { return s < 0 || s >= graph.num_nodes; }),
            "out_of_range only for a seed outside");
  } catch (const std::invalid_argument&) {
    const auto& fanouts = input.config.fanouts;
    require(std::set(input.seeds.begin(), input.seeds.end()).size() < input.seeds.size() ||
                std::any_of(fanouts.begin(), fanouts.end(), [](auto k) { return k < -1; }),
            "invalid_argument only for a repeated seed or a wrong fanout");
  }
}

template <class Source, class Index>
void convert(const std::vector<std::int64_t>& ends, std::int64_t num_nodes) {
  const std::size_t num_edges = ends.size() / 2;
  std::vector<Source> source, target;
  for (std::size_t e = 0; e < num_edges; ++e) {
    source.push_back(static_cast<Source>(ends[2 * e]));
    target.push_back(static_cast<Source>(ends[2 * e + 1]));
  }
  std::vector<std::int64_t> indptr(static_cast<std::size_t>(num_nodes) + 1), edge_ids(num_edges);
  std::vector<Index> indices(num_edges);
  const auto is_outside = [num_nodes](Source id) { return id < 0 || id >= num_nodes; };
  const bool outside = std::any_of(source.begin(), source.end(), is_outside) ||
                       std::any_of(target.begin(), target.end(), is_outside);
  try {
    coo_to_csc(source.data(), target.data(), static_cast<std::int64_t>(num_edges), num_nodes,
               indptr.data(), indices.data(), edge_ids.data());
  } catch (const std::out_of_range&) {
    require(outside, "out_of_range only for an end outside");
    return;
  }
  require(!outside, "an end outside is found");
  const CscView<Index> graph{indptr.data(), indices.data(), edge_ids.data(), num_nodes,
                             static_cast<std::int64_t>(num_edges)};
  require(find_fault(graph).empty(), "the result is a graph");
  for (std::int64_t v = 0; v < num_nodes; ++v) {
    for (std::int64_t at = graph.indptr[v]; at < graph.indptr[v + 1]; ++at) {
      const auto e = static_cast<std::size_t>(edge_ids[static_cast<std::size_t>(at)]);
      require(target[e] == v, "an edge stands at its target");
      require(source[e] == static_cast<Source>(indices[static_cast<std::size_t>(at)]),
              "with its source");
      require(at == graph.indptr[v] || edge_ids[static_cast<std::size_t>(at - 1)] <
                                           edge_ids[static_cast<std::size_t>(at)],
              "in the order of the list");
    }
  }
}

void convert_all(Bytes bytes) {
  const std::int64_t num_nodes = bytes.next() % 128;
  const bool only_inside = bytes.flag() && num_nodes > 0;
  std::vector<std::int64_t> ends;
  while (bytes.left() > 0) {
    const std::int64_t id = bytes.value();
    ends.push_back(only_inside ? (id & 0x7F) % num_nodes : id);
  }
  convert<std::int32_t, std::int32_t>(ends, num_nodes);
  convert<std::int64_t, std::int32_t>(ends, num_nodes);
  convert<std::int32_t, std::int64_t>(ends, num_nodes);
  convert<std::int64_t, std::int64_t>(ends, num_nodes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const Case input = decode(bytes);
  run<std::int32_t>(input);
  run<std::int64_t>(input);
  convert_all(Bytes(data, size));
  return 0;
}

#ifdef SALIENT_FUZZ_ALONE
#include <chrono>
#include <random>

namespace {

// Input number n: length and bytes follow from n alone. Some inputs have no extreme values.
std::vector<std::uint8_t> make_input(std::uint64_t number) {
  std::mt19937_64 random(number);
  const std::size_t largest = random() % 4 == 0 ? 4000 : 300;
  std::vector<std::uint8_t> input(random() % largest);
  const bool tame = random() % 4 != 0;
  for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random() % (tame ? 250 : 256));
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 20;
  const unsigned long long first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  unsigned long long number = first;
  do {
    if (number % 10000 == 0) std::fprintf(stderr, "from input %llu\n", number);
    const auto input = make_input(number);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++number;
  } while (std::chrono::steady_clock::now() < end);
  std::printf("%llu inputs\n", number - first);
  return 0;
}
#endif
