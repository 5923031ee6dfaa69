#include "check.h"

#include <cmath>
#include <map>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace design_study {

namespace {

// `what` is text or makes it, so that messages cost nothing where all is well.
template <class What>
void require(bool holds, const What& what) {
  if (holds) return;
  if constexpr (std::is_invocable_v<What>) {
    throw std::logic_error(what());
  } else {
    throw std::logic_error(what);
  }
}

template <class Id>
struct SmallGraph {
  std::vector<std::int64_t> indptr{0};
  std::vector<Id> indices;

  // In-neighbour j of node v is v + 1 + j modulo the number of nodes: no two are the same.
  explicit SmallGraph(const std::vector<std::int64_t>& degrees) {
    const auto nodes = static_cast<std::int64_t>(degrees.size());
    for (std::int64_t v = 0; v < nodes; ++v) {
      const std::int64_t degree = degrees[static_cast<std::size_t>(v)];
      for (std::int64_t j = 0; j < degree; ++j) {
        indices.push_back(static_cast<Id>((v + 1 + j) % nodes));
      }
      indptr.push_back(indptr.back() + degree);
    }
  }

  salient::CscView<Id> view() const {
    return {indptr.data(), indices.data(), nullptr, static_cast<std::int64_t>(indptr.size()) - 1,
            indptr.back()};
  }
};

// Each of `count` outcomes has the same chance; the statistic's mean is about `count` and its
// standard deviation sqrt(2 count), so that a correct sampler passes and the fixed seed keeps it
// so.
void require_uniform(const std::vector<std::int64_t>& seen, std::int64_t total,
                     const std::string& what) {
  const auto count = static_cast<double>(seen.size());
  const double expected = static_cast<double>(total) / count;
  double statistic = 0;
  for (const std::int64_t number : seen) {
    const double off = static_cast<double>(number) - expected;
    statistic += off * off / expected;
  }
  require(statistic < count + 6 * std::sqrt(2 * count),
          what + ": not uniform, chi-square " + std::to_string(statistic) + " of " +
              std::to_string(seen.size()) + " outcomes");
}

// A hub of `degree` in-edges is sampled again and again.
template <class Id>
void check_hub(const Variant<Id>& variant, std::int64_t degree, std::int64_t fanout, bool pairs) {
  std::vector<std::int64_t> degrees(static_cast<std::size_t>(degree) + 1, 0);
  degrees[0] = degree;
  const SmallGraph<Id> graph(degrees);
  constexpr std::int64_t kBatches = 4000;
  const std::vector<std::int64_t> seeds{0};
  Output<Id> output;
  std::vector<std::int64_t> edges(static_cast<std::size_t>(degree), 0);
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> seen_pairs;
  for (std::int64_t batch = 0; batch < kBatches; ++batch) {
    const Input<Id> input{graph.view(), {fanout}, seeds, static_cast<std::uint64_t>(batch)};
    variant.sample(input, output);
    std::vector<std::int64_t> drawn;
    for (std::int64_t i = 1; i < output.num_nodes; ++i) {
      drawn.push_back(static_cast<std::int64_t>(output.n_id[i]) - 1);
    }
    std::sort(drawn.begin(), drawn.end());
    for (const std::int64_t edge : drawn) ++edges[static_cast<std::size_t>(edge)];
    if (pairs) ++seen_pairs[{drawn.at(0), drawn.at(1)}];
  }
  const std::string hub = "hub of degree " + std::to_string(degree);
  require_uniform(edges, kBatches * fanout, hub + ", in-edges");
  if (pairs) {
    std::vector<std::int64_t> numbers;
    for (const auto& [pair, number] : seen_pairs) numbers.push_back(number);
    require(static_cast<std::int64_t>(numbers.size()) == degree * (degree - 1) / 2,
            hub + ": some pairs of in-edges were never drawn");
    require_uniform(numbers, kBatches, hub + ", pairs");
  }
}

}  // namespace

template <class Id>
void check_batch(const Input<Id>& input, const Output<Id>& output, std::int64_t max_checked) {
  std::vector<bool> listed(static_cast<std::size_t>(input.graph.num_nodes), false);
  for (std::int64_t i = 0; i < output.num_nodes; ++i) {
    const auto id = static_cast<std::size_t>(output.n_id[i]);
    require(id < listed.size() && !listed[id], [&] {
      return "n_id: node " + std::to_string(id) + " is outside the graph or repeated";
    });
    listed[id] = true;
  }
  const auto num_seeds = static_cast<std::int64_t>(input.seeds.size());
  for (std::int64_t i = 0; i < num_seeds; ++i) {
    require(output.n_id[i] == input.seeds[static_cast<std::size_t>(i)], "n_id: no seeds first");
  }
  std::int64_t known = num_seeds;
  std::vector<std::int32_t> drawn(listed.size(), 0);  // edges of one node by their source
  for (std::size_t h = 0; h < input.fanouts.size(); ++h) {
    const Hop& hop = output.hops[h];
    const std::string where = "hop " + std::to_string(h + 1);
    require(hop.num_dst == known, where + ": not every known node is a destination");
    for (std::int64_t v = 0; v < hop.num_dst; ++v) {
      const auto id = static_cast<std::int64_t>(output.n_id[v]);
      const std::int64_t begin = input.graph.indptr[id], end = input.graph.indptr[id + 1];
      const std::int64_t first = hop.indptr[v], last = hop.indptr[v + 1];
      require(last - first == std::min(end - begin, input.fanouts[h]), [&] {
        return where + ", node " + std::to_string(id) + ": " + std::to_string(last - first) +
               " edges of " + std::to_string(end - begin);
      });
      for (std::int64_t e = first; e < last; ++e) {
        const std::int64_t local = hop.indices[e];
        require(local >= 0 && local < output.num_nodes,
                [&] { return where + ": a local id is out of range"; });
        // Numbers are given in the order of first sight.
        require(local <= known, [&] { return where + ": local ids skip a number"; });
        known = std::max(known, local + 1);
        if (v < max_checked) ++drawn[static_cast<std::size_t>(output.n_id[local])];
      }
      if (v >= max_checked) continue;
      for (std::int64_t e = begin; e < end; ++e) {
        std::int32_t& left = drawn[static_cast<std::size_t>(input.graph.indices[e])];
        left -= left > 0 ? 1 : 0;
      }
      for (std::int64_t e = first; e < last; ++e) {
        require(drawn[static_cast<std::size_t>(output.n_id[hop.indices[e]])] == 0, [&] {
          return where + ", node " + std::to_string(id) +
                 ": an edge that is not in the graph, or one drawn twice";
        });
      }
    }
    require(hop.num_edges == hop.indptr[hop.num_dst], where + ": number of edges");
  }
  require(known == output.num_nodes, "n_id has nodes that no edge has");
}

template <class Id>
void check_on_small_graph(const Variant<Id>& variant) {
  std::vector<std::int64_t> degrees(3000);
  for (std::size_t v = 0; v < degrees.size(); ++v) {
    degrees[v] = static_cast<std::int64_t>(v % 7 == 0 ? v % 900 : v % 23);
  }
  const SmallGraph<Id> graph(degrees);
  std::vector<std::int64_t> seeds;
  for (std::int64_t v = 0; v < 120; ++v) seeds.push_back(v * 7 % 3000);
  Output<Id> output;
  // Twice, so that a table that was not emptied shows; fanout 40 is above the scan of the core.
  for (std::uint64_t batch = 0; batch < 2; ++batch) {
    for (const std::vector<std::int64_t>& fanouts :
         {std::vector<std::int64_t>{15, 10, 5}, std::vector<std::int64_t>{40, 0, 1}}) {
      const Input<Id> input{graph.view(), fanouts, seeds, batch};
      variant.sample(input, output);
      check_batch(input, output, 3000);
    }
  }
  check_hub(variant, 50, 10, false);
  check_hub(variant, 5, 2, true);
}

template void check_batch(const Input<std::int32_t>&, const Output<std::int32_t>&, std::int64_t);
template void check_batch(const Input<std::int64_t>&, const Output<std::int64_t>&, std::int64_t);
template void check_on_small_graph(const Variant<std::int32_t>&);
template void check_on_small_graph(const Variant<std::int64_t>&);

}  // namespace design_study
