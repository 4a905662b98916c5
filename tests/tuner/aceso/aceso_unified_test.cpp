// `unified` in Aceso's space: against every plan of random small cases priced one by one, and against the published
// optima.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <string>

#include "aceso_peer.hpp"
#include "allocations.hpp"
#include "base/random.hpp"
#include "papers/aceso/aceso_evaluator.hpp"
#include "plan/plan_space.hpp"
#include "tuner/search.hpp"
#include "world.hpp"

using namespace trimtab;         // NOLINT: a test's own file
using namespace trimtab::tuner;  // NOLINT

namespace {

const char* const kNames[] = {
    "encoder-embedding", "enc-1st-layernorm", "enc-attention-dropout", "dense", "block-1-relu", "gelu", "post-process"};

struct SmallCase {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
};

void add_cost(SmallCase& of, CostKind kind, const std::string& subject, std::int32_t samples, std::int32_t tp,
              double value) {
  Cost cost;
  cost.key.kind = kind;
  cost.key.subject = subject;
  cost.key.dtype = of.model.dtype;
  cost.key.samples = samples;
  cost.key.tp = tp;
  cost.statistics.add(static_cast<std::int64_t>(value));
  of.costs.push_back(std::move(cost));
}

void measure(SmallCase& of, const std::string& name, Random& random) {
  const double each = 1e5 + random.uniform() * 1e6;
  for (std::int32_t samples = 1; samples <= 4; samples *= 2) {
    for (std::int32_t tp = 1; tp <= 4; tp *= 2) {
      const double share = (0.5 + random.uniform()) * samples / tp;
      const auto mib = [&](double most) { return random.uniform() * most * share * 1048576; };
      add_cost(of, CostKind::kOperatorForward, name, samples, tp, each * share);
      add_cost(of, CostKind::kOperatorBackward, name, samples, tp, each * share * (1 + random.uniform()));
      add_cost(of, CostKind::kOperatorInputBytes, name, samples, tp, mib(3));
      add_cost(of, CostKind::kOperatorOutputBytes, name, samples, tp, mib(3));
      add_cost(of, CostKind::kOperatorParameterBytes, name, samples, tp, mib(5));
      add_cost(of, CostKind::kOperatorStoredBytes, name, samples, tp, mib(20));
      add_cost(of, CostKind::kOperatorForwardReserveBytes, name, samples, tp, mib(2));
      add_cost(of, CostKind::kOperatorBackwardReserveBytes, name, samples, tp, mib(2));
    }
  }
}

SmallCase small_case(Random& random) {
  SmallCase made;
  made.model.name = "small";
  made.model.global_batch = 8;
  made.model.aceso = AcesoFacts{0, random.below(3) == 0 ? Bytes{5} << 20 : 0, random.below(4) == 0, false};
  made.model.microbatch_total = {1, 2, 4};
  made.model.microbatch_per_replica = {1, 2, 4};
  for (std::int32_t i = 0; i < random.between(2, 8); ++i) {
    Operator op;
    op.name = op.cost_key = kNames[random.below(7)];
    op.layer = i / 2;
    made.model.operators.push_back(op);
  }
  for (const char* const name : kNames) measure(made, name, random);
  for (const char* const placement : {"intra_node", "inter_node"}) {
    for (std::int64_t mib = 1; mib <= 1024; mib *= 2) {
      Cost cost;
      cost.key.kind = CostKind::kPointToPoint;
      cost.key.bytes = mib << 20;
      cost.key.placement = placement;
      cost.statistics.add(mib * (std::string(placement) == "inter_node" ? 200000 : 60000));
      made.costs.push_back(std::move(cost));
    }
  }
  const auto nodes = static_cast<std::int32_t>(random.between(1, 2));
  for (std::int32_t n = 0; n < nodes; ++n) {
    Node node;
    node.name = "n" + std::to_string(n);
    node.devices = random.below(2) == 0 ? 2 : 4 / nodes;
    node.memory_bytes = static_cast<Bytes>(random.between(30, 400)) << 20;
    made.cluster.nodes.push_back(node);
  }
  return made;
}

// The least time of all plans, one by one.
double brute_force(const AcesoCostModel& cost_model, const PlanSpace& space) {
  aceso::AcesoEvaluator evaluator(cost_model, space);
  double best = std::numeric_limits<double>::infinity();
  Candidate candidate;
  const std::function<void(std::int32_t, std::int32_t)> grow = [&](std::int32_t begin, std::int32_t device) {
    if (begin == space.operators && device == space.devices) {
      const Score score = evaluator.price_from_scratch(candidate);
      if (score.fits()) best = std::min(best, score.ms);
      return;
    }
    for (std::int32_t end = begin + 1; end <= space.operators; ++end) {
      for (const std::int32_t count : space.device_counts) {
        if (device + count > space.devices || !space.allows_devices(device, count)) continue;
        for (const Split& split : space.splits(cost_model.model(), candidate.microbatch, count)) {
          CandidateStage stage;
          stage.end = end;
          stage.devices = count;
          stage.split = split;
          candidate.stages.push_back(stage);
          grow(end, device + count);
          candidate.stages.pop_back();
        }
      }
    }
  };
  for (const std::int32_t microbatch : space.microbatches) {
    candidate.microbatch = microbatch;
    grow(0, 0);
  }
  return best;
}

}  // namespace

TEST_CASE("unified finds and proves the best of all plans of Aceso's space") {
  constexpr std::uint64_t kSeed = 77001;
  INFO("seed " << kSeed);
  Random random(kSeed);
  int feasible = 0;
  for (int i = 0; i < test::tried(1500); ++i) {
    INFO("case " << i);
    const SmallCase made = small_case(random);
    const AcesoCostModel cost_model = AcesoCostModel::build(made.model, made.cluster, made.costs).value();
    const PlanSpace space = named_space("aceso", made.model, made.cluster, Knobs{}, 1).value();
    const double best = brute_force(cost_model, space);
    SearchOptions options;
    options.remedies = false;
    options.strategy = "unified";
    options.space = "aceso";
    const auto outcome = search(cost_model, Knobs{}, options);
    REQUIRE(outcome.ok());
    const SearchResult& result = outcome.value().result;
    if (best == std::numeric_limits<double>::infinity()) {
      REQUIRE(result.plans.empty());
      continue;
    }
    ++feasible;
    REQUIRE_FALSE(result.plans.empty());
    REQUIRE(result.plans[0].prediction.iteration_ms == Approx(best).epsilon(1e-9));
    REQUIRE(result.proven);
    REQUIRE(result.lower_bound_ms == Approx(best).epsilon(1e-9));
  }
  CHECK(feasible > test::tried(500));
}

TEST_CASE("with mixed splits and free recompute the bound holds for every plan that anybody finds") {
  constexpr std::uint64_t kSeed = 77002;
  INFO("seed " << kSeed);
  Random random(kSeed);
  int feasible = 0;
  int exact = 0;
  double largest = 0;
  for (int i = 0; i < test::tried(400); ++i) {
    const SmallCase made = small_case(random);
    if (made.model.operators.size() > 5) continue;
    const AcesoCostModel cost_model = AcesoCostModel::build(made.model, made.cluster, made.costs).value();
    for (const char* const space : {"aceso-recompute", "aceso-mixed", "aceso-free"}) {
      INFO("case " << i << ", space " << space);
      SearchOptions options;
      options.remedies = false;
      options.space = space;
      options.strategy = "exhaustive";
      const SearchResult referee = search(cost_model, Knobs{}, options).value().result;
      options.strategy = "unified";
      const SearchResult found = search(cost_model, Knobs{}, options).value().result;
      if (referee.plans.empty()) continue;
      const double best = referee.plans[0].prediction.iteration_ms;
      REQUIRE_FALSE(found.plans.empty());
      const double ours = found.plans[0].prediction.iteration_ms;
      ++feasible;
      REQUIRE(found.lower_bound_ms <= std::min(best, ours) * (1 + 1e-9));
      if (found.proven) REQUIRE(ours <= best * (1 + 1e-9));
      if (ours <= best * (1 + 1e-9)) ++exact;
      largest = std::max(largest, ours / best - 1);
    }
  }
  std::printf("unified's gap with mixed splits and free recompute, seed %llu: %d cases, %d exact, largest %.4f %%\n",
              static_cast<unsigned long long>(kSeed), feasible, exact, 100 * largest);
  CHECK(feasible > test::tried(100));
  CHECK(exact >= 0.99 * feasible);
}

TEST_CASE("a price under the aceso model allocates nothing once everything has been seen") {
  Random random(77003);
  for (int i = 0; i < 30; ++i) {
    const SmallCase made = small_case(random);
    const AcesoCostModel cost_model = AcesoCostModel::build(made.model, made.cluster, made.costs).value();
    const PlanSpace space = named_space("aceso", made.model, made.cluster, Knobs{}, 1).value();
    aceso::AcesoEvaluator evaluator(cost_model, space);
    std::vector<Candidate> candidates;
    for (const std::int32_t microbatch : space.microbatches) {
      for (const std::int32_t count : space.device_counts) {
        if (space.devices % count != 0 || space.devices / count > space.operators) continue;
        const std::vector<Split> splits = space.splits(made.model, microbatch, count);
        if (splits.empty()) continue;
        Candidate candidate;
        candidate.microbatch = microbatch;
        const std::int32_t stages = space.devices / count;
        for (std::int32_t s = 1; s <= stages; ++s) {
          CandidateStage stage;
          stage.end = space.operators * s / stages;
          stage.devices = count;
          stage.split = splits[random.below(splits.size())];
          candidate.stages.push_back(stage);
        }
        candidates.push_back(std::move(candidate));
      }
    }
    const auto price_all = [&] {
      for (const Candidate& candidate : candidates) {
        (void)evaluator.price(candidate);
        (void)evaluator.price_from_scratch(candidate);
        for (std::size_t s = 0; s < candidate.stages.size(); ++s) (void)evaluator.stage(candidate, s);
      }
    };
    price_all();
    const std::size_t before = test::allocations();
    price_all();
    const std::size_t after = test::allocations();
    INFO("seed 77003, case " << i);
    CHECK(after == before);
  }
}

TEST_CASE("unified reaches the published optima and proves them", "[peer]") {
  const auto folder = peer::folder();
  if (!folder) return;
  for (const peer::Optimum& optimum : peer::optima(*folder)) {
    const std::string name = optimum.model + "-" + optimum.size;
    // The others take longer than a unit test may: bench/published/aceso_table has them all.
    const bool quick = name == "gpt-1_3B" || name == "gpt-2_6B" || name == "t5-3B" || name == "scale-layer-64layers";
    if (!quick) continue;
    for (const peer::Setting& setting : peer::settings(*folder)) {
      if (setting.name() != name) continue;
      INFO(name);
      const peer::World world = peer::world(*folder, setting);
      const AcesoCostModel cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs).value();
      SearchOptions options;
      options.strategy = "unified";
      options.space = "aceso";
      const SearchResult result = search(cost_model, Knobs{}, options).value().result;
      REQUIRE_FALSE(result.plans.empty());
      CHECK(result.plans[0].prediction.iteration_ms == Approx(optimum.optimum_ms).epsilon(1e-6));
      CHECK(result.plans[0].prediction.iteration_ms <= optimum.peer_ms * (1 + 1e-8));
      CHECK(result.proven);
    }
  }
}

// A budget of how often a search asks whether its time is over, which is the same on every machine: once for some
// hundred stages that its solver asks for, and once for each plan. `unified`'s own part of it comes before the
// planners'.
TEST_CASE("unified is within 0.1 % of the largest settings' optima after little work, wherever it runs", "[peer]") {
  const auto folder = peer::folder();
  if (!folder) return;
  struct Case {
    const char* name;
    int asks;  // 1.3 times what it takes, or a little more
  };
  for (const Case& of : {Case{"gpt-13B", 1700}, Case{"t5-11B", 2600}, Case{"t5-22B", 5000}, Case{"resnet-6_8B", 700},
                         Case{"resnet-13B", 1450}}) {
    const std::vector<peer::Optimum> optima = peer::optima(*folder);
    const auto optimum = std::find_if(optima.begin(), optima.end(),
                                      [&](const peer::Optimum& one) { return one.model + "-" + one.size == of.name; });
    REQUIRE(optimum != optima.end());
    for (const peer::Setting& setting : peer::settings(*folder)) {
      if (setting.name() != of.name) continue;
      INFO(of.name);
      const peer::World world = peer::world(*folder, setting);
      const AcesoCostModel cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs).value();
      int asked = 0;
      SearchOptions options;
      options.strategy = "unified";
      options.space = "aceso";
      options.stop = [&] { return ++asked >= of.asks; };
      options.spent = [&] { return static_cast<double>(asked) / of.asks; };
      const SearchResult result = search(cost_model, Knobs{}, options).value().result;
      REQUIRE_FALSE(result.plans.empty());
      CHECK(result.plans[0].prediction.iteration_ms <= 1.001 * optimum->optimum_ms);
    }
  }
}

TEST_CASE("a search over 1,024 layers ends by itself, says that it proves nothing, and has a good plan", "[peer]") {
  const auto folder = peer::folder();
  if (!folder) return;
  for (const peer::Setting& setting : peer::settings(*folder)) {
    if (setting.name() != "scale-layer-1024layers") continue;
    const peer::World world = peer::world(*folder, setting);
    const AcesoCostModel cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs).value();
    SearchOptions options;
    options.strategy = "unified";
    options.space = "aceso";
    const SearchResult result = search(cost_model, Knobs{}, options).value().result;
    CHECK(result.stopped == "too_large");
    CHECK_FALSE(result.proven);
    REQUIRE_FALSE(result.plans.empty());
    // What a minute of search for a proof finds.
    CHECK(result.plans[0].prediction.iteration_ms <= 454417.331);
    CHECK(result.lower_bound_ms <= result.plans[0].prediction.iteration_ms);
  }
}
