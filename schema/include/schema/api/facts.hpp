#pragma once

// What a watched rank says of its training (the frame "facts" of docs/protocols.md). All of it may be missing.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/api/fields.hpp"

namespace trimtab::api {

// One of the heaviest products of a microbatch: m rows (samples, tokens or pixels) by k, times k by n.
struct FactShape {
  std::string kind;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t count = 0;

  static constexpr void fields(auto&& visit) {
    visit("kind", &FactShape::kind, Presence::kUsual, "\"linear\", \"conv\" or \"attention\".");
    visit("m", &FactShape::m, Presence::kUsual, "");
    visit("n", &FactShape::n, Presence::kUsual, "");
    visit("k", &FactShape::k, Presence::kUsual, "");
    visit("count", &FactShape::count, Presence::kUsual, "How often in a microbatch.");
  }
};

// What the rank's own connections to another host carried since training began, by the kernel's counters: of the one
// direction. `busy_ns`: the time in which something was on its way.
struct FactLink {
  std::string from;
  std::string to;
  std::int64_t bytes = 0;
  std::int64_t busy_ns = 0;

  static constexpr void fields(auto&& visit) {
    visit("from", &FactLink::from, Presence::kUsual, "The rank's own address.");
    visit("to", &FactLink::to, Presence::kUsual, "The other's.");
    visit("bytes", &FactLink::bytes, Presence::kUsual, "");
    visit("busy_ns", &FactLink::busy_ns, Presence::kUsual, "");
  }
};

// A text that is empty and a number of 0 are not known. What is not known of `workers` is -1: 0 is a setting.
struct RankFacts {
  std::string framework;
  std::string torch;
  std::string device;
  std::string device_name;
  std::string dtype;
  std::string sharding;
  std::string schedule;
  bool compiled = false;
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  std::int64_t layers = 0;
  std::int64_t checkpointed_layers = 0;
  std::int64_t batch_size = 0;
  std::int64_t accumulation = 0;
  std::int64_t reduced_microbatches = 0;
  std::int64_t sequence_length = 0;
  std::int64_t workers = -1;
  std::int64_t tensor_parallel = 0;
  std::int64_t context_parallel = 0;
  std::int64_t expert_parallel = 0;
  std::int64_t stages = 0;
  std::int64_t virtual_stages = 0;
  std::int64_t stage = 0;
  std::int64_t memory_used_bytes = 0;
  std::int64_t memory_total_bytes = 0;
  std::vector<FactShape> shapes;
  std::vector<FactLink> links;

  static constexpr void fields(auto&& visit) {
    visit("framework", &RankFacts::framework, Presence::kIfAny, "\"ddp\", \"fsdp\", \"transformers\", ...");
    visit("torch", &RankFacts::torch, Presence::kIfAny, "Its version.");
    visit("device", &RankFacts::device, Presence::kIfAny, "\"cpu\", \"cuda\", ...");
    visit("device_name", &RankFacts::device_name, Presence::kIfAny, "");
    visit("dtype", &RankFacts::dtype, Presence::kIfAny, "Of the computation.");
    visit("sharding", &RankFacts::sharding, Presence::kIfAny,
          "How Megatron-LM shards weights: \"megatron-fsdp\" or \"torch-fsdp2\".");
    visit("schedule", &RankFacts::schedule, Presence::kIfAny,
          "The class of PyTorch's own pipeline: \"Schedule1F1B\", ...");
    visit("compiled", &RankFacts::compiled, Presence::kIfAny, "");
    visit("parameters", &RankFacts::parameters, Presence::kIfAny,
          "Of the whole model; of this rank's part under tensor or pipeline parallelism.");
    visit("active_parameters", &RankFacts::active_parameters, Presence::kIfAny,
          "Of these, where there are experts, as many as a token passes.");
    visit("layers", &RankFacts::layers, Presence::kIfAny, "");
    visit("checkpointed_layers", &RankFacts::checkpointed_layers, Presence::kIfAny, "");
    visit("batch_size", &RankFacts::batch_size, Presence::kIfAny, "Of the loader, per rank.");
    visit("accumulation", &RankFacts::accumulation, Presence::kIfAny, "Forward passes per optimizer step.");
    visit("reduced_microbatches", &RankFacts::reduced_microbatches, Presence::kIfAny,
          "Backward passes per optimizer step behind which gradients are reduced over ranks.");
    visit("sequence_length", &RankFacts::sequence_length, Presence::kIfAny, "");
    visit("workers", &RankFacts::workers, Presence::kUsual, "Of the loader.", Sign::kAny);
    visit("tensor_parallel", &RankFacts::tensor_parallel, Presence::kIfAny, "Ranks that share a layer.");
    visit("context_parallel", &RankFacts::context_parallel, Presence::kIfAny, "Ranks that share a sequence.");
    visit("expert_parallel", &RankFacts::expert_parallel, Presence::kIfAny, "Ranks that share the experts.");
    visit("stages", &RankFacts::stages, Presence::kIfAny, "Of the pipeline.");
    visit("stage", &RankFacts::stage, Presence::kIfAny, "This rank's, from 0.");
    visit("virtual_stages", &RankFacts::virtual_stages, Presence::kIfAny,
          "Parts of the model on this rank, if several.");
    visit("memory_used_bytes", &RankFacts::memory_used_bytes, Presence::kIfAny, "At its peak.");
    visit("memory_total_bytes", &RankFacts::memory_total_bytes, Presence::kIfAny, "");
    visit("shapes", &RankFacts::shapes, Presence::kIfAny, "At most 8, the heaviest.");
    visit("links", &RankFacts::links, Presence::kIfAny, "At most 64, the busiest.");
  }
};

}  // namespace trimtab::api
