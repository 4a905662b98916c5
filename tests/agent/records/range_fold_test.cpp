#include "records/range_fold.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

using namespace trimtab;
using agent::FoldContext;
using agent::kOwnDomain;
using agent::parse_range_name;
using agent::RangeFold;
using agent::RangeRecord;

namespace {

FoldContext context_of_a() {
  FoldContext context;
  context.dtype = "float32";
  context.plan_hash = "00000000000000aa";
  context.operators["enc/0/attention"] = {"attention-h256", 2, "default"};
  context.operators["enc/1/attention"] = {"attention-h256", 2, "default"};
  return context;
}

RangeRecord range(std::string_view name, std::int64_t payload, std::int64_t duration_ns = 100,
                  std::string_view domain = "trimtab") {
  RangeRecord record;
  record.name = name;
  record.domain = domain;
  if (domain == kOwnDomain) record.range = parse_range_name(name);
  record.payload = payload;
  record.begin_ns = 1'000'000;
  record.end_ns = 1'000'000 + static_cast<std::uint64_t>(duration_ns);
  record.flags = record::kPayloadValid;
  return record;
}

// A fold without warm-up and with the context above, in epoch 0.
struct Fold {
  explicit Fold(std::uint64_t warmup = 0, std::size_t max_keys = 4096) : fold({warmup, max_keys}) {
    fold.set_context(0, context_of_a());
  }
  std::map<std::string, Statistics> taken() {
    std::map<std::string, Statistics> costs;
    for (Cost& cost : fold.take(true)) costs[describe(cost.key)] = cost.statistics;
    return costs;
  }
  // The only key that was folded.
  CostKey key_of(const RangeRecord& record) {
    fold.add(record);
    const auto costs = fold.take(true);
    REQUIRE(costs.size() == 1);
    return costs[0].key;
  }
  RangeFold fold;
};

}  // namespace

TEST_CASE("an operator's pass is a cost of its shape") {
  Fold fold;
  CostKey expected;
  expected.kind = CostKind::kOperatorForward;
  expected.subject = "attention-h256";
  expected.dtype = "float32";
  expected.samples = 4;
  expected.tp = 2;
  CHECK(fold.key_of(range("op/enc/0/attention/forward", 4)) == expected);
  CHECK(fold.key_of(range("op/enc/1/attention/forward", 4)) == expected);
  expected.kind = CostKind::kOperatorBackward;
  CHECK(fold.key_of(range("op/enc/0/attention/backward", 4)) == expected);
  expected.kind = CostKind::kOperatorForward;
  CHECK(fold.key_of(range("op/enc/0/attention/recompute", 4)) == expected);
}

TEST_CASE("the forward pass of a recomputed operator records nothing, and is no cost of its shape") {
  Fold fold;
  FoldContext context = context_of_a();
  context.operators["enc/0/attention"].recomputed = true;
  fold.fold.set_context(0, context);
  const CostKey first = fold.key_of(range("op/enc/0/attention/forward", 4));
  CHECK(first.kind == CostKind::kRange);
  CHECK(first.subject == "op/attention-h256/unrecorded");
  CHECK(fold.key_of(range("op/enc/0/attention/recompute", 4)).kind == CostKind::kOperatorForward);
}

namespace {

RangeRecord at(std::string_view name, std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread,
               std::int64_t payload = 4) {
  RangeRecord record = range(name, payload);
  record.begin_ns = begin_ns;
  record.end_ns = end_ns;
  record.thread = thread;
  return record;
}

FoldContext context_of_one_rank() {
  FoldContext context = context_of_a();
  context.operators["enc/0/attention"].tp = 1;
  return context;
}

std::map<std::string, std::vector<std::int64_t>> by_source(const std::vector<Cost>& costs) {
  std::map<std::string, std::vector<std::int64_t>> values;
  for (const Cost& cost : costs) {
    if (cost.key.kind != CostKind::kOperatorBackward) continue;
    values[to_text(cost.source)] = {static_cast<std::int64_t>(cost.statistics.count()), cost.statistics.max()};
  }
  return values;
}

}  // namespace

TEST_CASE("passes that ran beside another thread's communication are kept apart, though it ends after them") {
  Fold fold;
  fold.fold.set_context(0, context_of_one_rank());
  fold.fold.add(at("op/enc/0/attention/backward", 1000, 2000, 1));
  fold.fold.add(at("op/enc/0/attention/backward", 3000, 4500, 1));
  fold.fold.add(at("comm/all_reduce/2", 2900, 6000, 2));
  fold.fold.add(at("comm/all_reduce/2", 7000, 8000, 1));  // its own thread's: within the pass
  fold.fold.add(at("op/enc/0/attention/backward", 6500, 9000, 1));
  fold.fold.add(at("step", 900, 10000, 1, 1));
  CHECK(by_source(fold.fold.take()).empty());  // until the next step has ended nobody knows
  fold.fold.add(at("step", 10000, 20000, 1, 2));
  CHECK(by_source(fold.fold.take()) ==
        std::map<std::string, std::vector<std::int64_t>>{{"training alone host-clock", {2, 2500}},
                                                         {"training beside-communication host-clock", {1, 1500}}});
}

TEST_CASE("a job without steps has its passes told after some seconds") {
  Fold fold;
  fold.fold.set_context(0, context_of_one_rank());
  fold.fold.add(at("op/enc/0/attention/backward", 1000, 2000, 1));
  CHECK(by_source(fold.fold.take()).empty());
  fold.fold.add(at("other", 20'000'000'000, 20'000'001'000, 1));
  CHECK(by_source(fold.fold.take()).size() == 1);
}

TEST_CASE("communication that a range timed says that it contains waiting") {
  Fold fold;
  fold.fold.add(range("comm/all_reduce/2", 64));
  const auto costs = fold.fold.take();
  REQUIRE(costs.size() == 1);
  CHECK(to_text(costs[0].source) == "training host-clock waiting");
}

TEST_CASE("operators of one shape share their statistics, sample counts do not") {
  Fold fold;
  fold.fold.add(range("op/enc/0/attention/forward", 4, 100));
  fold.fold.add(range("op/enc/1/attention/forward", 4, 300));
  fold.fold.add(range("op/enc/1/attention/forward", 8, 500));
  const auto costs = fold.fold.take(true);
  REQUIRE(costs.size() == 2);
  CHECK(costs[0].key.samples == 4);
  CHECK(costs[0].statistics.count() == 2);
  CHECK(costs[0].statistics.mean() == Approx(200));
  CHECK(costs[1].key.samples == 8);
  CHECK(costs[1].statistics.count() == 1);
}

TEST_CASE("collectives and transfers are keyed by their bytes") {
  Fold fold;
  const CostKey collective = fold.key_of(range("comm/all_reduce/4", 1048576));
  CHECK(collective.kind == CostKind::kCollective);
  CHECK(collective.subject == "all_reduce");
  CHECK(collective.group_size == 4);
  CHECK(collective.bytes == 1048576);
  CHECK(collective.placement == "intra_node");
  const CostKey send = fold.key_of(range("transfer/send", 65536));
  CHECK(send.kind == CostKind::kPointToPoint);
  CHECK(send.subject == "send_recv");
  CHECK(send.bytes == 65536);
  const CostKey receive = fold.key_of(range("transfer/recv", 65536));
  CHECK(receive.kind == CostKind::kRange);
  CHECK(receive.subject == "transfer/recv");
  CHECK(receive.bytes == 65536);
}

TEST_CASE("whatever is not understood is folded by its name") {
  for (const char* name : {"op/unknown/forward", "op/enc/0/attention/sideways", "op/", "op/x", "comm/all_reduce",
                           "comm//2", "comm/all_reduce/x", "comm/all_reduce/0", "comm/all_reduce/-2",
                           "comm/all_reduce/99999999999", "transfer/", "my own range", "", "optimizer"}) {
    Fold fold;
    INFO(name);
    const CostKey key = fold.key_of(range(name, 4));
    CHECK(key.kind == CostKind::kRange);
    CHECK(key.subject == name);
    CHECK(key.bytes == 0);
    CHECK(key.samples == 0);
  }
}

TEST_CASE("names mean something in our own domain only") {
  Fold fold;
  CHECK(fold.key_of(range("op/enc/0/attention/forward", 4, 100, "")).subject == "op/enc/0/attention/forward");
  const CostKey other = fold.key_of(range("ncclAllReduce", 4, 100, "NCCL"));
  CHECK(other.kind == CostKind::kRange);
  CHECK(other.subject == "NCCL/ncclAllReduce");
}

TEST_CASE("a payload that can be no sample count leaves the range by its name") {
  for (const std::int64_t payload : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    Fold fold;
    CHECK(fold.key_of(range("op/enc/0/attention/forward", payload)).kind == CostKind::kRange);
  }
  Fold fold;
  RangeRecord without = range("op/enc/0/attention/forward", 4);
  without.flags = 0;
  CHECK(fold.key_of(without).kind == CostKind::kRange);
}

TEST_CASE("steps are counted, timed and numbered") {
  Fold fold(1);
  for (std::int64_t step = 10; step < 15; ++step) fold.fold.add(range("step", step, step * 100));
  const auto& steps = fold.fold.steps();
  CHECK(steps.count == 5);
  CHECK(steps.last == 14);
  CHECK(steps.duration_ns.count() == 4);
  CHECK(steps.duration_ns.min() == 1100);
  const auto costs = fold.fold.take(true);
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].key.kind == CostKind::kStepTime);
  CHECK(costs[0].key.subject == "00000000000000aa");
}

TEST_CASE("the first occurrences after a change of epoch are warm-up, for each key apart") {
  Fold fold(2);
  for (int i = 0; i < 5; ++i) fold.fold.add(range("optimizer", 0, 10));
  fold.fold.add(range("other", 0, 10));
  CHECK(fold.taken().at("range optimizer").count() == 3);
  CHECK(fold.fold.counters().warmup == 3);
  fold.fold.begin_epoch(1);
  for (int i = 0; i < 3; ++i) fold.fold.add(range("optimizer", 0, 10));
  const auto costs = fold.taken();
  CHECK(costs.size() == 1);
  CHECK(costs.begin()->second.count() == 1);
}

TEST_CASE("beginning the epoch that is in force changes nothing") {
  Fold fold(1);
  fold.fold.begin_epoch(3);
  for (int i = 0; i < 3; ++i) fold.fold.add(range("step", i));
  fold.fold.begin_epoch(3);
  CHECK(fold.fold.steps().count == 3);
  fold.fold.add(range("step", 3));
  CHECK(fold.fold.steps().duration_ns.count() == 3);
}

TEST_CASE("the job's switch range puts the next epoch's context in force among the records") {
  Fold fold(0);
  FoldContext next = context_of_a();
  next.plan_hash = "00000000000000bb";
  next.operators["enc/0/attention"].tp = 1;
  fold.fold.set_context(7, next);
  fold.fold.add(range("op/enc/0/attention/forward", 4));
  fold.fold.add(range("step", 1));
  fold.fold.add(range("switch", 7, 5000));
  fold.fold.add(range("op/enc/0/attention/forward", 4));
  fold.fold.add(range("step", 2));
  std::map<std::pair<std::string, std::int32_t>, std::uint64_t> counts;
  for (const Cost& cost : fold.fold.take(true)) counts[{cost.key.subject, cost.key.tp}] = cost.statistics.count();
  CHECK(counts == std::map<std::pair<std::string, std::int32_t>, std::uint64_t>{{{"attention-h256", 2}, 1},
                                                                                {{"attention-h256", 1}, 1},
                                                                                {{"00000000000000aa", 1}, 1},
                                                                                {{"00000000000000bb", 1}, 1},
                                                                                {{"switch", 1}, 1}});
  CHECK(fold.fold.steps().epoch == 7);
  CHECK(fold.fold.steps().count == 1);
}

TEST_CASE("a plan change is timed although it is the first of its kind in its epoch") {
  Fold fold(2);
  fold.fold.add(range("switch", 1, 5000));
  CHECK(fold.taken().at("range switch").count() == 1);
}

TEST_CASE("a job that invents names of one meaning without end does not grow the fold") {
  Fold fold(0, 10);
  FoldContext context;
  for (int i = 0; i < 100; ++i) context.operators["layer " + std::to_string(i)] = {"one-shape", 1, "default"};
  fold.fold.set_context(0, context);
  for (int i = 0; i < 100; ++i) fold.fold.add(range("op/layer " + std::to_string(i) + "/forward", 1));
  CHECK(fold.fold.take(true).size() == 1);
  CHECK(fold.fold.counters().overflow == 90);
}

TEST_CASE("a context that comes after the first ranges counts from then on") {
  RangeFold fold({0, 100});
  fold.add(range("op/enc/0/attention/forward", 4));
  fold.set_context(0, context_of_a());
  fold.add(range("op/enc/0/attention/forward", 4));
  const auto costs = fold.take(true);
  REQUIRE(costs.size() == 2);
  CHECK(costs[0].key.kind == CostKind::kOperatorForward);
  CHECK(costs[1].key.kind == CostKind::kRange);
}

TEST_CASE("of many contexts the one in force is kept") {
  Fold fold;
  for (std::int64_t epoch = 1; epoch < 100; ++epoch) fold.fold.set_context(epoch, {});
  CHECK(fold.key_of(range("op/enc/0/attention/forward", 4)).kind == CostKind::kOperatorForward);
}

TEST_CASE("what is taken is taken once, and warm-up is not repeated for it") {
  Fold fold(1);
  fold.fold.add(range("a", 0));
  fold.fold.add(range("a", 0));
  CHECK(fold.fold.take(true).size() == 1);
  CHECK(fold.fold.take(true).empty());
  fold.fold.add(range("a", 0));
  CHECK(fold.fold.take(true).size() == 1);
}

TEST_CASE("marks, thread names and unterminated ranges are no durations") {
  Fold fold;
  RangeRecord mark = range("m", 0);
  mark.kind = record::kMark;
  fold.fold.add(mark);
  RangeRecord open = range("o", 0);
  open.flags |= record::kUnterminated;
  fold.fold.add(open);
  CHECK(fold.fold.take(true).empty());
  CHECK(fold.fold.counters().not_ranges == 1);
  CHECK(fold.fold.counters().unterminated == 1);
}

TEST_CASE("a job that invents names without end does not grow the fold") {
  Fold fold(0, 10);
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "name " + std::to_string(i);
    fold.fold.add(range(name, 0));
  }
  CHECK(fold.fold.take(true).size() == 10);
  CHECK(fold.fold.counters().overflow == 990);
}

TEST_CASE("a job that invents payloads without end does not grow the fold") {
  Fold fold(0, 10);
  for (std::int64_t i = 1; i <= 1000; ++i) fold.fold.add(range("comm/all_reduce/2", i));
  CHECK(fold.fold.take(true).size() == 10);
  CHECK(fold.fold.counters().overflow == 990);
  for (std::int64_t i = 1; i <= 10; ++i) fold.fold.add(range("comm/all_reduce/2", i));
  CHECK(fold.fold.take(true).size() == 10);
}

TEST_CASE("a rank's context holds the operators of its stages") {
  Model model;
  model.dtype = "bfloat16";
  for (const char* name : {"embedding", "attention", "mlp", "head"}) {
    Operator op;
    op.name = name;
    op.cost_key = std::string(name) + "-key";
    op.shardings = {"default", "rows"};
    model.operators.push_back(op);
  }
  Plan plan;
  Segment first;
  first.operators = {0, 2};
  Segment second;
  second.operators = {2, 9};  // beyond the model: what exists is used
  second.tp = 2;
  second.alternate_dimension = {{3, 4}};
  plan.stages = {{{0}, {first}}, {{1, 2}, {second}}};
  const FoldContext context = agent::fold_context(model, plan, 2);
  CHECK(context.dtype == "bfloat16");
  CHECK(context.plan_hash == semantic_hash(plan));
  REQUIRE(context.operators.size() == 2);
  CHECK(context.operators.at("mlp") == agent::OperatorContext{"mlp-key", 2, "default"});
  CHECK(context.operators.at("head") == agent::OperatorContext{"head-key", 2, "rows"});
  CHECK(agent::fold_context(model, plan, 0).operators.contains("embedding"));
  CHECK(agent::fold_context(model, plan, 5).operators.empty());
}

TEST_CASE("passes of ranks that share sequences are other costs than passes of whole ones") {
  Model model;
  model.operators.resize(2);
  model.operators[0].name = "attention";
  model.operators[1].name = "head";
  Plan plan;
  Segment whole;
  whole.operators = {1, 2};
  Segment shared;
  shared.operators = {0, 1};
  shared.cp = 2;
  plan.stages = {{{0, 1}, {shared}}, {{2}, {whole}}};
  CHECK(agent::fold_context(model, plan, 1).operators.at("attention").sharding == "context-2");
  CHECK(agent::fold_context(model, plan, 2).operators.at("head").sharding == "default");
  plan.target_knobs["sequence_parallel"] = "true";
  CHECK(agent::fold_context(model, plan, 1).operators.at("attention").sharding == "context-2");
  plan.stages[0].segments[0].tp = 2;
  CHECK(agent::fold_context(model, plan, 1).operators.at("attention").sharding == "sequence-context-2");

  FoldContext context;
  context.operators["attention"] = {"attention-key", 1, "context-2"};
  Fold fold;
  fold.fold.set_context(0, context);
  fold.fold.add(range("op/attention/forward", 4));
  const auto costs = fold.fold.take(true);
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].key.sharding == "context-2");
  CHECK(costs[0].source.waiting);
}
