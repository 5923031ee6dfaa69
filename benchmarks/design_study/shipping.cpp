#include "shipping.h"

#include "sampler.h"

namespace design_study {

Variant<std::int32_t> shipping_sampler() {
  struct State {
    std::unique_ptr<salient::Sampler> sampler;
    std::unique_ptr<salient::SampleScratch> scratch;
  };
  auto state = std::make_shared<State>();
  Variant<std::int32_t> variant;
  variant.choices.table = "shipping";
  variant.choices.ids = "int32";
  variant.sample = [state](const Input<std::int32_t>& input, Output<std::int32_t>& output) {
    if (state->sampler == nullptr) {
      salient::SamplerConfig config;
      config.fanouts = input.fanouts;
      state->sampler = salient::make_sampler(input.graph, config);
      state->scratch = state->sampler->make_scratch();
    }
    salient::SampleScratch& scratch = *state->scratch;
    state->sampler->sample(input.seeds, 0, input.batch, scratch, nullptr);
    output.num_nodes = scratch.num_nodes;
    output.hops.resize(scratch.graphs.size());
    for (std::size_t hop = 0; hop < output.hops.size(); ++hop) {
      output.hops[hop].num_dst = scratch.graphs[hop].num_dst;
      output.hops[hop].num_edges = scratch.graphs[hop].num_edges;
    }
  };
  return variant;
}

}  // namespace design_study
