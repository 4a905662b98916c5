// What a card says where something is missing, does not fit, or is explained by something else.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "card/microbatch_cost.hpp"
#include "card/peak_flops.hpp"
#include "made_job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace trimtab::test;

namespace {

bool says(const api::Card& card, const std::string& note) {
  return std::ranges::any_of(card.notes, [&](const std::string& one) { return one.find(note) != std::string::npos; });
}

const api::CardFinding* finding(const api::Card& card, api::FindingName name) {
  const auto found =
      std::ranges::find_if(card.findings, [name](const api::CardFinding& one) { return one.name == name; });
  return found == card.findings.end() ? nullptr : &*found;
}

MadeJob job_with(Fault fault) {
  MadeJob job;
  job.fault = fault;
  job.busy = 0;
  return job;
}

// What a rank's agent says of its device.
api::LiveRank on_device(double computation, double idle, double kernel_us) {
  api::LiveRank rank;
  rank.source = "kernels";
  rank.steps_measured = 10;
  rank.step_ms = 100;
  rank.kernels_per_step = 3000;
  rank.shares = api::LiveShares{computation, 1 - computation - idle, 0, idle, 0};
  rank.busiest = {{"kernel", "gemm", false, 0.5, 1000, kernel_us}};
  return rank;
}

CardFold device_job(double computation, double idle, double kernel_us, const api::RankFacts& facts) {
  return on_two_devices(facts, on_device(computation, idle, kernel_us));
}

}  // namespace

TEST_CASE("without a step there is nothing to say") {
  const api::Card card = CardFold("new", 2).card();
  CHECK(card.steps == 0);
  CHECK(card.findings.empty());
  CHECK(says(card, "0 of 2 ranks tell steps"));
}

TEST_CASE("few steps give a step time and no finding") {
  MadeJob job = job_with(Fault::kSlowRank);
  job.steps = 8;
  const api::Card card = card_of(job);
  CHECK(card.steps == 5);
  CHECK(card.step_ms.median > 0);
  CHECK(card.findings.empty());
  CHECK(says(card, "too few for findings"));
}

TEST_CASE("ranks that tell no parts give no finding, and healthy is none either") {
  CardFold fold("bare", 1);
  for (std::int64_t i = 0; i < 40; ++i) {
    CardStep step;
    step.step = i;
    step.wall_ns = 20'000'000;
    fold.step(0, step);
  }
  const api::Card card = fold.card();
  CHECK(card.step_ms.median == Approx(20));
  CHECK(card.findings.empty());
  CHECK(says(card, "no rank tells where its steps go"));
}

TEST_CASE("a rank that is missing is said, and the others are compared") {
  MadeJob job = job_with(Fault::kSlowRank);
  job.ranks = 3;
  job.missing = 2;
  const api::Card card = card_of(job);
  CHECK(first_finding(card) == "slow_rank 1");
  CHECK(says(card, "2 of 3 ranks tell steps"));
}

TEST_CASE("a new launch forgets the steps of the one before") {
  CardFold fold("again", 1);
  fold.connected(0, "a", 1);
  for (std::int64_t launch = 1; launch <= 2; ++launch) {
    fold.connected(0, "a", launch);
    for (std::int64_t i = 0; i < 20; ++i) {
      CardStep step;
      step.step = i;
      step.wall_ns = launch * 10'000'000;
      fold.step(0, step);
    }
  }
  CHECK(fold.card().step_ms.median == Approx(20));
  CHECK(fold.card().steps == 17);
}

TEST_CASE("where what other processes take is not told, a rank counts as slow later") {
  MadeJob job = job_with(Fault::kSlowRank);
  job.slower = 0.12;
  CHECK(first_finding(card_of(job)) == "slow_rank 1");
  job.tells_stolen = false;
  const api::Card card = card_of(job);
  CHECK(first_finding(card) == "healthy");
  CHECK(says(card, "what other processes take"));
  job.slower = 0.3;
  CHECK(first_finding(card_of(job)) == "slow_rank 1");
}

TEST_CASE("larger microbatches are advised in the framework's words, and keep the global batch") {
  MadeJob job = job_with(Fault::kSmallMicrobatch);
  const auto advice = [&job](const std::string& framework) {
    job.framework = framework;
    return card_of(job).findings.at(0).advice;
  };
  CHECK(advice("ddp") == "batch_size=8, gradient_accumulation_steps=2");
  CHECK(advice("transformers") == "TrainingArguments(per_device_train_batch_size=8, gradient_accumulation_steps=2)");
  CHECK(advice("lightning") == "DataLoader(batch_size=8), Trainer(accumulate_grad_batches=2)");
  CHECK(advice("deepspeed") == R"("train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2)");
  CHECK(advice("megatron").starts_with("--micro-batch-size 8 "));
  CHECK(advice("torchtitan").starts_with("--training.local_batch_size 8 "));
}

TEST_CASE("what does not fit into memory is not advised") {
  CardFold fold = folded(job_with(Fault::kSmallMicrobatch));
  api::RankFacts facts;
  facts.device = "cpu";
  facts.memory_total_bytes = 10'000'000'000;
  facts.memory_used_bytes = 4'000'000'000;
  for (std::int32_t rank = 0; rank < 2; ++rank) fold.facts(rank, facts);
  REQUIRE(first_finding(fold.card()) == "small_microbatch");
  CHECK(fold.card().findings.front().advice == "batch_size=2, gradient_accumulation_steps=8");
  facts.memory_used_bytes = 6'000'000'000;
  for (std::int32_t rank = 0; rank < 2; ++rank) fold.facts(rank, facts);
  CHECK(finding(fold.card(), api::FindingName::kSmallMicrobatch) == nullptr);
}

TEST_CASE("recomputing is no waste where little memory is left") {
  CardFold fold = folded(job_with(Fault::kRecomputed));
  CHECK(first_finding(fold.card()) == "everything_recomputed");
  api::RankFacts facts;
  facts.device = "cpu";
  facts.layers = facts.checkpointed_layers = 4;
  facts.memory_total_bytes = 10'000'000'000;
  facts.memory_used_bytes = 9'000'000'000;
  for (std::int32_t rank = 0; rank < 2; ++rank) fold.facts(rank, facts);
  CHECK(first_finding(fold.card()) == "healthy");
}

TEST_CASE("a device that idles between small kernels is launch-bound, one between large kernels is not") {
  api::RankFacts facts;
  facts.device = "cuda";
  facts.memory_total_bytes = 80'000'000'000;
  facts.memory_used_bytes = 10'000'000'000;
  const api::Card card = device_job(0.6, 0.35, 8, facts).card();
  CHECK(first_finding(card) == "launch_bound");
  CHECK(card.shares.launch_bound == Approx(0.35));
  CHECK(card.findings.back().name == api::FindingName::kMemoryLeft);
  const api::Card large = device_job(0.6, 0.35, 900, facts).card();
  CHECK(first_finding(large) == "healthy");
  CHECK(large.shares.idle == Approx(0.35));
}

TEST_CASE("MFU is of known devices and types alone") {
  api::RankFacts facts;
  facts.device = "cuda";
  facts.device_name = "NVIDIA H100 80GB HBM3";
  facts.dtype = "bfloat16";
  facts.parameters = 1'000'000'000;
  const api::Card card = device_job(0.9, 0.05, 100, facts).card();
  REQUIRE(card.mfu);
  CHECK(*card.tokens_per_s == Approx(2 * 8 * 1024 / 0.1));
  CHECK(*card.peak_flops == Approx(2 * 989e12));
  CHECK(*card.mfu == Approx(6 * 1e9 * *card.tokens_per_s / (2 * 989e12)));
  facts.dtype = "float32";
  CHECK_FALSE(device_job(0.9, 0.05, 100, facts).card().mfu);
}

TEST_CASE("peaks are found by whole words of a device's name") {
  CHECK(peak_flops("NVIDIA L40S", "bfloat16") == 362e12);
  CHECK(peak_flops("NVIDIA L4", "float16") == 121e12);
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB", "bfloat16") == 312e12);
  CHECK(peak_flops("NVIDIA A10", "bfloat16") == 125e12);
  CHECK(peak_flops("NVIDIA H100 PCIe", "bfloat16") == 756e12);
  CHECK(peak_flops("NVIDIA H100 NVL", "bfloat16") == 835e12);
  CHECK(peak_flops("NVIDIA H200", "bfloat16") == 989e12);
  CHECK(peak_flops("Tesla V100-SXM2-32GB", "float16") == 125e12);
  CHECK_FALSE(peak_flops("Tesla V100-SXM2-32GB", "bfloat16"));
  CHECK_FALSE(peak_flops("NVIDIA A10G", "float16"));
  CHECK_FALSE(peak_flops("AMD EPYC", "float32"));
}

TEST_CASE("microbatches of two sizes in one job tell what does not depend on the size") {
  CardFold fold("sizes", 1);
  for (std::int64_t i = 0; i < 60; ++i) {
    CardStep step;
    step.step = i;
    const std::int64_t samples = i % 6 == 0 ? 4 : 2;
    step.microbatches = 4;
    step.count = 4 * samples;
    const std::int64_t each = 3'000'000 + samples * 1'000'000;
    step.wall_ns = 4 * each;
    step.parts = CardParts{};
    step.parts->forward_ns = 4 * each / 3;
    step.parts->backward_ns = 4 * each - 4 * each / 3;
    fold.step(0, step);
  }
  const api::Card card = fold.card();
  REQUIRE(first_finding(card) == "small_microbatch");
  CHECK(card.findings.front().why.find("60.0 % of a microbatch's time") != std::string::npos);
}
