// Cards of jobs whose ranks share a model: stages do different work, and ranks of a replica take the same samples.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "made_job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace trimtab::test;

namespace {

const api::CardFinding* finding(const api::Card& card, api::FindingName name) {
  const auto found =
      std::ranges::find_if(card.findings, [name](const api::CardFinding& one) { return one.name == name; });
  return found == card.findings.end() ? nullptr : &*found;
}

// Of each rank what its own work takes, in milliseconds. Two stages: the first half of the ranks, and the second.
api::Card of_two_stages(const std::vector<double>& own_ms, std::int64_t stages = 2, bool second_loads = true) {
  const auto ranks = static_cast<std::int32_t>(own_ms.size());
  CardFold fold("stages", ranks);
  Random random(11);
  const double wall = *std::ranges::max_element(own_ms) + 4;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    api::RankFacts facts;
    facts.framework = "megatron";
    facts.device = "cpu";
    facts.stages = stages;
    facts.stage = rank < ranks / 2 ? 0 : 1;
    fold.facts(rank, facts);
    for (std::int64_t number = 0; number < 60; ++number) {
      const double own = own_ms[static_cast<std::size_t>(rank)] * (1 + 0.01 * random.uniform());
      CardStep step;
      step.step = number;
      step.wall_ns = static_cast<std::int64_t>(wall * 1e6);
      step.microbatches = 4;
      step.count = facts.stage == 0 || second_loads ? 8 : 0;
      step.parts = CardParts{};
      step.parts->forward_ns = static_cast<std::int64_t>(own * 0.3e6);
      step.parts->backward_ns = static_cast<std::int64_t>(own * 0.7e6);
      step.parts->communication_ns = static_cast<std::int64_t>((wall - own) * 1e6);
      step.parts->stolen_ns = 0;
      fold.step(rank, step);
    }
  }
  return fold.card();
}

api::RankFacts on_h100s() {
  api::RankFacts facts;
  facts.framework = "megatron";
  facts.device = "cuda";
  facts.device_name = "NVIDIA H100 80GB HBM3";
  facts.dtype = "bfloat16";
  facts.parameters = 500'000'000;
  return facts;
}

// Two ranks that compute 60 % of a step and wait 35 % of it for communication.
api::Card that_waits(const api::RankFacts& facts) {
  api::LiveRank look;
  look.source = "kernels";
  look.steps_measured = 10;
  look.step_ms = 100;
  look.shares = api::LiveShares{0.6, 0.35, 0, 0.05, 0};
  return on_two_devices(facts, look).card();
}

}  // namespace

TEST_CASE("a stage that does more than another is no slow rank") {
  CHECK(first_finding(of_two_stages({10, 20}, 0)) == "slow_rank 1");
  CHECK(first_finding(of_two_stages({10, 10, 20, 20})) == "healthy");
  CHECK(first_finding(of_two_stages({10, 20})) == "healthy");
}

TEST_CASE("a rank is slow beside its stage's others, where the step waits for its stage") {
  const api::Card card = of_two_stages({10, 10, 20, 25});
  REQUIRE(first_finding(card) == "slow_rank 3");
  CHECK(card.findings.front().why.find("than the others of its pipeline stage") != std::string::npos);
  CHECK(card.findings.front().gain == Approx(5.0 / 29).epsilon(0.1));
  CHECK(first_finding(of_two_stages({13, 10, 20, 20})) == "healthy");
}

TEST_CASE("ranks that share a model take the same samples") {
  const api::Card card = of_two_stages({10, 10, 20, 20});
  REQUIRE(card.samples_per_s);
  CHECK(*card.samples_per_s == Approx(2 * 8 / 0.024));
  const api::Card one_stage_loads = of_two_stages({10, 10, 20, 20}, 2, false);
  CHECK(*one_stage_loads.samples_per_s == Approx(2 * 8 / 0.024));
  CHECK(one_stage_loads.notes.empty());
  api::RankFacts facts = on_h100s();
  facts.tensor_parallel = 2;
  const api::Card shared = that_waits(facts);
  REQUIRE(shared.mfu);
  CHECK(*shared.tokens_per_s == Approx(8 * 1024 / 0.1));
  CHECK(*shared.mfu == Approx(6 * 1e9 * 8 * 1024 / 0.1 / (2 * 989e12)));
}

TEST_CASE("parts of a sequence are tokens of the same sample, and ranks that hold all parameters") {
  api::RankFacts facts = on_h100s();
  facts.context_parallel = 2;
  const api::Card card = that_waits(facts);
  REQUIRE(card.mfu);
  CHECK(*card.tokens_per_s == Approx(8 * 1024 / 0.1));
  CHECK(*card.mfu == Approx(6 * 5e8 * 8 * 1024 / 0.1 / (2 * 989e12)));
}

TEST_CASE("of experts those count that a token passes") {
  api::RankFacts facts = on_h100s();
  facts.active_parameters = 200'000'000;
  facts.expert_parallel = 2;
  const api::Card card = that_waits(facts);
  REQUIRE(card.mfu);
  CHECK(*card.tokens_per_s == Approx(2 * 8 * 1024 / 0.1));  // Ranks that share experts take other samples.
  CHECK(*card.mfu == Approx(6 * 2e8 * 2 * 8 * 1024 / 0.1 / (2 * 989e12)));
  CHECK(std::ranges::any_of(card.notes, [](const std::string& note) {
    return note.find("of experts those that a token passes") != std::string::npos;
  }));
}

TEST_CASE("what exposes communication depends on how the model is split") {
  const auto advice = [](auto&& split) {
    api::RankFacts facts = on_h100s();
    split(facts);
    const api::Card card = that_waits(facts);
    const api::CardFinding* found = finding(card, api::FindingName::kExposedCommunication);
    return found != nullptr ? found->advice : "none";
  };
  const auto says = [](const std::string& text, const char* word) { return text.find(word) != std::string::npos; };
  CHECK(says(advice([](api::RankFacts&) {}), "--overlap-grad-reduce"));
  CHECK(says(advice([](api::RankFacts& facts) { facts.tensor_parallel = 2; }), "--sequence-parallel"));
  CHECK(says(advice([](api::RankFacts& facts) { facts.expert_parallel = 2; }), "--expert-model-parallel-size"));
  CHECK(says(advice([](api::RankFacts& facts) { facts.sharding = "megatron-fsdp"; }), "--data-parallel-sharding"));
  CHECK(says(advice([](api::RankFacts& facts) { facts.sharding = "torch-fsdp2"; }), "in place of --use-torch-fsdp2"));
  const auto pipeline = [](api::RankFacts& facts) { facts.stages = 2; };
  CHECK(says(advice(pipeline), ", --num-layers-per-virtual-pipeline-stage"));
  const auto interleaved = [](api::RankFacts& facts) { facts.stages = facts.virtual_stages = 2; };
  CHECK(says(advice(interleaved), "a smaller --num-layers-per-virtual-pipeline-stage"));
  // PyTorch's own, around whatever its stages are wrapped in.
  const auto scheduled = [](api::RankFacts& facts) {
    facts.framework = "ddp";
    facts.stages = 2;
    facts.schedule = "ScheduleGPipe";
  };
  CHECK(says(advice(scheduled), "n_microbatches of ScheduleGPipe), ScheduleInterleaved1F1B"));
  const auto rounds = [&](api::RankFacts& facts) {
    scheduled(facts);
    facts.virtual_stages = 2;
  };
  CHECK_FALSE(says(advice(rounds), "ScheduleInterleaved1F1B"));
}

TEST_CASE("a pipeline keeps its microbatches") {
  MadeJob job;
  job.fault = Fault::kSmallMicrobatch;
  job.framework = "megatron";
  CardFold fold = folded(job);
  REQUIRE(finding(fold.card(), api::FindingName::kSmallMicrobatch) != nullptr);
  api::RankFacts facts;
  facts.framework = "megatron";
  facts.device = "cpu";
  facts.stages = 2;
  for (std::int32_t rank = 0; rank < job.ranks; ++rank) {
    facts.stage = rank;
    fold.facts(rank, facts);
  }
  CHECK(finding(fold.card(), api::FindingName::kSmallMicrobatch) == nullptr);
}
