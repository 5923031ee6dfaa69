// Checks every variant, then times all of them interleaved, and prints JSON.
//
//   design_study INDPTR.npy INDICES.npy SEEDS.npy ROUNDS BATCH_SIZE FANOUT...
//
// SEEDS.npy holds ROUNDS * BATCH_SIZE node ids. In each round every variant samples that round's
// batch once, in an order drawn anew, so that a disturbance of the machine meets all alike.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "check.h"
#include "grid.h"
#include "npy.h"
#include "shipping.h"

namespace design_study {

namespace {

// A variant above this time takes part in the first rounds only.
constexpr double kSlowMilliseconds = 100;
constexpr std::size_t kRoundsOfSlow = 3;
constexpr std::size_t kCheckedSeeds = 128;
constexpr std::int64_t kCheckedDestinations = 300;

struct Arguments {
  std::string indptr, indices, seeds;
  std::size_t rounds = 0, batch_size = 0;
  std::vector<std::int64_t> fanouts;
};

struct Result {
  Choices choices;
  bool built = false;
  std::vector<double> milliseconds;
  std::vector<std::int64_t> nodes, edges;
};

// What all variants of one id width share.
template <class Id>
struct Bench {
  salient::CscView<Id> graph;
  Output<Id> output;
};

struct Contender {
  Result result;
  // One batch; returns its milliseconds and notes the sizes in `result`.
  std::function<void(std::span<const std::int64_t>, std::size_t, Result&)> run;
};

std::size_t positive(const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value <= 0) {
    throw std::invalid_argument(std::string(text) + " is no positive number");
  }
  return static_cast<std::size_t>(value);
}

Arguments parse(int argc, char** argv) {
  if (argc < 7) {
    throw std::invalid_argument("INDPTR.npy INDICES.npy SEEDS.npy ROUNDS BATCH_SIZE FANOUT...");
  }
  Arguments arguments{argv[1], argv[2], argv[3], positive(argv[4]), positive(argv[5]), {}};
  for (int i = 6; i < argc; ++i) {
    arguments.fanouts.push_back(static_cast<std::int64_t>(positive(argv[i])));
  }
  return arguments;
}

template <class Id>
void add_contenders(const std::vector<Variant<Id>>& variants, Bench<Id>& bench,
                    const Arguments& arguments, std::vector<Contender>& contenders) {
  for (const Variant<Id>& variant : variants) {
    Contender contender;
    contender.result.choices = variant.choices;
    contender.result.built = static_cast<bool>(variant.sample);
    contender.run = [&bench, &arguments, variant](std::span<const std::int64_t> seeds,
                                                  std::size_t batch, Result& result) {
      const Input<Id> input{bench.graph, arguments.fanouts, seeds, batch};
      const auto start = std::chrono::steady_clock::now();
      variant.sample(input, bench.output);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      std::int64_t edges = 0;
      for (const Hop& hop : bench.output.hops) edges += hop.num_edges;
      result.milliseconds.push_back(took.count());
      result.nodes.push_back(bench.output.num_nodes);
      result.edges.push_back(edges);
    };
    contenders.push_back(std::move(contender));
  }
}

// The rules on a small graph, then the first seeds on the real one.
template <class Id>
void check_all(const std::vector<Variant<Id>>& variants, Bench<Id>& bench,
               std::span<const std::int64_t> seeds, const Arguments& arguments) {
  const Input<Id> input{bench.graph, arguments.fanouts, seeds, 0};
  for (const Variant<Id>& variant : variants) {
    if (!variant.sample) continue;
    const Choices& c = variant.choices;
    try {
      check_on_small_graph(variant);
      variant.sample(input, bench.output);
      check_batch(input, bench.output, kCheckedDestinations);
    } catch (const std::logic_error& error) {
      throw std::logic_error(c.table + ", " + c.check + ", " + c.drawing + ", " + c.construction +
                             ", " + c.memory + ", " + c.prefetch + ", " + c.ids +
                             " samples wrongly: " + error.what());
    }
  }
}

// By the least time: a disturbance of the machine must not take a fast variant out.
bool slow(const std::vector<double>& milliseconds) {
  return *std::min_element(milliseconds.begin(), milliseconds.end()) > kSlowMilliseconds;
}

template <class Value>
void print_list(const char* name, const std::vector<Value>& values) {
  std::printf(", \"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%.6g", i > 0 ? ", " : "", static_cast<double>(values[i]));
  }
  std::printf("]");
}

void print(const Result& result, bool last) {
  const Choices& c = result.choices;
  std::printf(
      "{\"table\": \"%s\", \"check\": \"%s\", \"drawing\": \"%s\", \"construction\": \"%s\", "
      "\"memory\": \"%s\", \"prefetch\": \"%s\", \"ids\": \"%s\", \"built\": %s",
      c.table.c_str(), c.check.c_str(), c.drawing.c_str(), c.construction.c_str(), c.memory.c_str(),
      c.prefetch.c_str(), c.ids.c_str(), result.built ? "true" : "false");
  print_list("milliseconds", result.milliseconds);
  print_list("nodes", result.nodes);
  print_list("edges", result.edges);
  std::printf("}%s\n", last ? "" : ",");
}

void measure(const Arguments& arguments, std::span<const std::int64_t> seeds,
             std::vector<Contender>& contenders) {
  std::mt19937 order(0);
  for (std::size_t round = 0; round < arguments.rounds; ++round) {
    std::shuffle(contenders.begin(), contenders.end(), order);
    const auto batch = seeds.subspan(round * arguments.batch_size, arguments.batch_size);
    for (Contender& contender : contenders) {
      Result& result = contender.result;
      if (!result.built) continue;
      if (round >= kRoundsOfSlow && slow(result.milliseconds)) continue;
      contender.run(batch, round, result);
    }
    std::fprintf(stderr, "round %zu of %zu\n", round + 1, arguments.rounds);
  }
}

void run(const Arguments& arguments) {
  const auto indptr = read_npy<std::int64_t>(arguments.indptr);
  const auto narrow = read_npy<std::int32_t>(arguments.indices);
  const auto wide = read_npy<std::int64_t>(arguments.indices);
  const auto all_seeds = read_npy<std::int64_t>(arguments.seeds);
  if (static_cast<std::size_t>(all_seeds.size) != arguments.rounds * arguments.batch_size) {
    throw std::invalid_argument(arguments.seeds + ": has " + std::to_string(all_seeds.size) +
                                " ids, not one batch a round");
  }
  const std::span<const std::int64_t> seeds(all_seeds.data.data(),
                                            static_cast<std::size_t>(all_seeds.size));
  const std::int64_t num_nodes = indptr.size - 1;
  Bench<std::int32_t> narrow_bench{
      {indptr.data.data(), narrow.data.data(), nullptr, num_nodes, narrow.size}, {}};
  Bench<std::int64_t> wide_bench{
      {indptr.data.data(), wide.data.data(), nullptr, num_nodes, wide.size}, {}};

  Catalogue catalogue;
  add_std_variants(catalogue);
  add_swiss_variants(catalogue);
  add_open_variants(catalogue);
  add_array_variants(catalogue);

  const auto first = seeds.first(std::min(arguments.batch_size, kCheckedSeeds));
  std::fprintf(stderr, "checking %zu variants\n", catalogue.narrow.size() + catalogue.wide.size());
  check_all(catalogue.narrow, narrow_bench, first, arguments);
  check_all(catalogue.wide, wide_bench, first, arguments);
  catalogue.narrow.push_back(shipping_sampler());

  std::vector<Contender> contenders;
  add_contenders(catalogue.narrow, narrow_bench, arguments, contenders);
  add_contenders(catalogue.wide, wide_bench, arguments, contenders);
  measure(arguments, seeds, contenders);
  std::printf("[\n");
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    print(contenders[i].result, i + 1 == contenders.size());
  }
  std::printf("]\n");
}

}  // namespace

}  // namespace design_study

int main(int argc, char** argv) {
  try {
    design_study::run(design_study::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "design_study: %s\n", error.what());
    return 1;
  }
}
