// The parts of the aceso strategy: its table, canonical forms, moves between splits, the trace.

#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/candidate.hpp"
#include "split_world.hpp"
#include "strategies/aceso/polish.hpp"
#include "strategies/aceso/primitives.hpp"
#include "strategies/aceso/split_moves.hpp"
#include "tuner/search.hpp"

namespace trimtab::tuner {
namespace {

TEST_CASE("the table of primitives has the trends of the paper's table 1") {
  const std::vector<std::pair<std::string, std::string>> expected{
      {"inc-op#", "+0+"}, {"dec-op#", "-0-"}, {"inc-mbs", "-0+"}, {"dec-mbs", "+0-"}, {"inc-dp", "-+-"},
      {"dec-dp", "+-+"},  {"inc-tp", "-+-"},  {"dec-tp", "+-+"},  {"inc-rc", "+0-"},  {"dec-rc", "-0+"}};
  REQUIRE(primitive_table().size() >= expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const PrimitiveRow& row = primitive_table()[i];
    std::string trends;
    for (const Trend trend : row.trends) trends += trend == Trend::kUp ? '+' : trend == Trend::kDown ? '-' : '0';
    CHECK(row.name == expected[i].first);
    CHECK(trends == expected[i].second);
  }
  for (std::size_t i = 0; i < primitive_table().size(); ++i) {
    CHECK(static_cast<std::size_t>(primitive_table()[i].primitive) == i);
  }
}

Model four_operators() {
  test::World world = test::make_world({{"a"}, {"b"}, {"c"}, {"d"}}, 4, 4, {1, 2, 4});
  for (const int i : {1, 2}) world.model.operators[i].shardings.push_back("alternate");
  return world.model;
}

TEST_CASE("candidates that mean the same hash alike, others do not") {
  const Model model = four_operators();
  Candidate plain;
  plain.microbatch = 4;
  plain.stages = {replicated_stage(4, 4)};
  plain.stages[0].split = {2, 2};
  const std::uint64_t hash = semantic_hash_of(model, plain);

  Candidate same = plain;
  same.stages[0].segments = {{1, {2, 2}}, {4, {2, 2}}};
  CHECK(semantic_hash_of(model, same) == hash);
  same.stages[0].split.sharded_degree = 2;  // nothing is sharded
  CHECK(semantic_hash_of(model, same) == hash);
  same.stages[0].alternate = {{0, 1}, {3, 4}};  // operators with one dimension
  CHECK(semantic_hash_of(model, same) == hash);

  Candidate other = plain;
  other.stages[0].alternate = {{1, 2}};
  CHECK(semantic_hash_of(model, other) != hash);
  other.stages[0].split = {4, 1};
  const std::uint64_t replicas = semantic_hash_of(model, other);
  other.stages[0].alternate.clear();  // without tensor parallelism there is no dimension to split along
  CHECK(semantic_hash_of(model, other) == replicas);
  other.stages[0].split.sharded = ShardedLevel::kOptimizer;
  CHECK(semantic_hash_of(model, other) != replicas);
}

TEST_CASE("another split for some operators keeps the others'") {
  CandidateStage stage = replicated_stage(10, 4);
  put_split({4, 6}, {2, 2}, 2, stage);
  REQUIRE(stage.segments.size() == 3);
  CHECK(stage.segments[0] == CandidateSegment{4, {4, 1}});
  CHECK(stage.segments[1] == CandidateSegment{6, {2, 2}});
  CHECK(stage.segments[2] == CandidateSegment{10, {4, 1}});
  put_split({5, 10}, {1, 4}, 2, stage);
  REQUIRE(stage.segments.size() == 3);
  CHECK(stage.segments[1] == CandidateSegment{5, {2, 2}});
  CHECK(stage.segments[2] == CandidateSegment{10, {1, 4}});
  put_split({2, 10}, {4, 1}, 2, stage);
  CHECK(stage.segments == std::vector<CandidateSegment>{{10, {4, 1}}});
}

// Every move from random candidates stays in the space, keeps all devices and operators, and says what it did.
TEST_CASE("every move leads to a candidate of the space that validates") {
  Random random(701);
  std::vector<int> applied(primitive_table().size(), 0);
  for (int i = 0; i < 120; ++i) {
    const test::World world = test::random_split_world(random, {8, 4, 3});
    const NativeCostModel model(world.table());
    const char* const name = i % 2 == 0 ? "aceso" : "all";
    const PlanSpace space = named_space(name, world.model, world.cluster, Knobs{}, 1).value();
    const auto evaluator = model.evaluator(space);
    const std::int32_t most = std::min(space.stages_max, 3);
    const std::int32_t stages = static_cast<std::int32_t>(random.between(1, most));
    const std::int32_t microbatch = space.microbatches[random.below(space.microbatches.size())];
    const auto splits = space.device_splits(world.model, microbatch, stages, 100);
    if (splits.empty()) continue;
    Candidate from;
    from.microbatch = microbatch;
    std::vector<std::int32_t> ends = even_cuts(world.model, stages);
    ends.push_back(space.operators);
    const auto& devices = splits[random.below(splits.size())];
    for (std::int32_t s = 0; s < stages; ++s) {
      from.stages.push_back(replicated_stage(ends[s], devices[s]));
      const auto ways = space.splits(world.model, microbatch, devices[s]);
      from.stages.back().split = ways[random.below(ways.size())];
    }
    const Load load = load_of(*evaluator, from);
    std::vector<Move> moves = spare_moves(*evaluator, from, load.ranking.back());
    for (const Resource resource : {Resource::kComputation, Resource::kCommunication, Resource::kMemory}) {
      for (Move& move : eligible_moves(*evaluator, from, load, load.ranking.front(), resource)) {
        CHECK(primitive_table()[static_cast<std::size_t>(move.primitive)].trends[static_cast<std::size_t>(resource)] ==
              Trend::kDown);
        moves.push_back(std::move(move));
      }
    }
    for (const Move& move : moves) {
      INFO("seed 701, case " << i << ": " << move_text(move));
      ++applied[static_cast<std::size_t>(move.primitive)];
      REQUIRE(allowed(space, world.model, move.result));
      REQUIRE(move.result.stages.back().end == space.operators);
      REQUIRE(move.result.first_device_of(move.result.stages.size()) == space.devices);
      REQUIRE_FALSE(move.result == from);
    }
  }
  for (const PrimitiveRow& row : primitive_table()) {
    INFO(row.name);
    const bool needs_further = row.primitive == AcesoPrimitive::kDecRecompute;  // nothing is recomputed beyond need here
    CHECK((needs_further || applied[static_cast<std::size_t>(row.primitive)] > 0));
  }
}

test::World tight_world() {
  std::vector<test::OperatorTruth> operators;
  for (int i = 0; i < 12; ++i) {
    test::OperatorTruth of;
    of.cost_key = i < 8 ? "light" : "heavy";
    of.forward_ns = i < 8 ? 1000000 : 3000000;
    of.forward_fixed_ns = 300000;
    of.backward_ns = 2 * of.forward_ns;
    of.stored_bytes = 10000;
    of.output_bytes = 500;
    of.parameter_bytes = 20000;
    operators.push_back(of);
  }
  test::World world = test::make_world(operators, 4, 16, {1, 2, 4, 8, 16});
  test::add_links(world, 50000, 20000);
  world.cluster.nodes[0].memory_bytes = 600000;
  Random random(12);
  test::add_splits(random, world);
  return world;
}

SearchOutcome run(const test::World& world, const SearchOptions& options) {
  return search(NativeCostModel(world.table()), Knobs{}, options).value();
}

TEST_CASE("a chain of primitives is never longer than the hops that are allowed, and the trace says how it went") {
  for (const int hops : {1, 3, 7}) {
    SearchOptions options;
    options.space = "aceso";
    options.aceso.max_hops = hops;
    const SearchOutcome outcome = run(tight_world(), options);
    REQUIRE_FALSE(outcome.result.plans.empty());
    std::uint64_t evaluations = 0;
    for (const SearchStep& step : outcome.trace) {
      CHECK(static_cast<int>(step.hops.size()) <= hops);
      CHECK(step.evaluations >= evaluations);
      evaluations = step.evaluations;
      if (!step.hops.empty()) CHECK(step.hops.back().ms == step.after_ms);
    }
    const std::string text = explain_iterations(outcome.trace);
    CHECK_THAT(hops == 1 ? "stage is the bottleneck; best of" : text,
               Catch::Contains("is the bottleneck; best of") && Catch::Contains("stage"));
  }
}

std::int32_t recomputed(const Stage& stage) {
  std::int32_t count = 0;
  for (const Segment& segment : stage.segments) {
    for (const Range& range : segment.recompute) count += range.size();
  }
  return count;
}

TEST_CASE("a move names the recompute that came along with it, stage by stage") {
  const test::World world = tight_world();
  const NativeCostModel model(world.table());
  const PlanSpace space = named_space("job", world.model, world.cluster, Knobs{}, 1).value();
  const auto evaluator = model.evaluator(space);
  Candidate from;
  from.microbatch = 4;
  from.stages = {replicated_stage(6, 2), replicated_stage(12, 2)};
  const Load load = load_of(*evaluator, from);
  int more = 0;
  int fewer = 0;
  for (const Resource resource : {Resource::kComputation, Resource::kMemory}) {
    for (Move& move : eligible_moves(*evaluator, from, load, load.ranking.front(), resource)) {
      if (!evaluator->price(move.result).priced) continue;
      const Plan before = evaluator->plan(from);
      const Plan after = evaluator->plan(move.result);
      attach_recompute(*evaluator, from, move);
      for (std::size_t s = 0; s < from.stages.size(); ++s) {
        const std::int32_t change = recomputed(after.stages[s]) - recomputed(before.stages[s]);
        const std::string stage = "-rc stage " + std::to_string(s);
        const std::string text = move_text(move);
        INFO(text);
        if (change == 0) CHECK(text.find(stage) == std::string::npos);
        if (change > 0) CHECK(text.find("inc" + stage + " (" + std::to_string(change) + ")") != std::string::npos);
        if (change < 0) CHECK(text.find("dec" + stage + " (" + std::to_string(-change) + ")") != std::string::npos);
        more += change > 0;
        fewer += change < 0;
      }
    }
  }
  CHECK(more > 0);
  CHECK(fewer > 0);
}

TEST_CASE("a search over tight memory chooses inc-rc and dec-rc, and its trace says so") {
  SearchOptions options;
  const std::string text = explain_iterations(run(tight_world(), options).trace);
  CHECK_THAT(text, Catch::Contains("inc-rc stage") && Catch::Contains("dec-rc stage"));
}

TEST_CASE("without heuristic 2 a seed still decides the whole search") {
  SearchOptions options;
  options.space = "all";
  options.aceso.use_heuristic_2 = false;
  options.max_evaluations = 3000;
  const SearchOutcome a = run(tight_world(), options);
  const SearchOutcome b = run(tight_world(), options);
  CHECK(a.result.evaluations == b.result.evaluations);
  REQUIRE_FALSE(a.result.plans.empty());
  REQUIRE(a.result.plans.size() == b.result.plans.size());
  for (std::size_t i = 0; i < a.result.plans.size(); ++i) CHECK(a.result.plans[i].plan == b.result.plans[i].plan);
}

TEST_CASE("a larger budget of evaluations never gives a slower plan") {
  double before = 0;
  for (const std::uint64_t budget : {50, 200, 1000, 5000, 0}) {
    SearchOptions options;
    options.space = "aceso";
    options.max_evaluations = budget;
    const SearchOutcome outcome = run(tight_world(), options);
    REQUIRE_FALSE(outcome.result.plans.empty());
    if (budget > 0) CHECK(outcome.result.evaluations <= budget + 1);
    const double now = outcome.result.plans[0].prediction.iteration_ms;
    if (before > 0) CHECK(now <= before * (1 + 0.02));  // slices differ: nearly monotone
    before = now;
  }
}

}  // namespace
}  // namespace trimtab::tuner
