#include "world.hpp"

#include <set>

namespace trimtab::tuner::test {

CostTable World::table(bool allow_estimates) const {
  return CostTable::build(model, cluster, costs, {allow_estimates}).value();
}

Cost cost_from(const char* source, const CostKey& key, const Statistics& statistics) {
  return {key, statistics, parse_cost_source(source)};
}

Cost exact_cost(CostKey key, std::int64_t value) {
  Cost cost;
  cost.key = std::move(key);
  cost.statistics.add(value);
  cost.statistics.add(value);  // two equal values: no spread
  return cost;
}

CostKey operator_key(CostKind kind, const std::string& cost_key, std::int32_t samples) {
  CostKey key;
  key.kind = kind;
  key.subject = cost_key;
  key.dtype = "float32";
  key.samples = samples;
  return key;
}

CostKey link_key(CostKind kind, std::int64_t bytes, std::int32_t group_size) {
  CostKey key;
  key.kind = kind;
  key.subject = kind == CostKind::kPointToPoint ? "send_recv" : "all_reduce";
  key.bytes = bytes;
  key.group_size = group_size;
  key.placement = "intra_node";
  return key;
}

namespace {

void add_operator_costs(const OperatorTruth& truth, const std::vector<std::int32_t>& samples, World& world) {
  for (const std::int32_t count : samples) {
    const auto put = [&](CostKind kind, std::int64_t fixed, std::int64_t each) {
      world.costs.push_back(exact_cost(operator_key(kind, truth.cost_key, count), fixed + each * count));
    };
    put(CostKind::kOperatorForward, truth.forward_fixed_ns, truth.forward_ns);
    put(CostKind::kOperatorBackward, truth.backward_fixed_ns, truth.backward_ns);
    put(CostKind::kOperatorStoredBytes, 0, truth.stored_bytes);
    put(CostKind::kOperatorWorkingBytes, 0, truth.working_bytes);
  }
  world.costs.push_back(exact_cost(operator_key(CostKind::kOptimizerStep, truth.cost_key, 0), truth.optimizer_ns));
}

OperatorTruth random_operator(Random& random, std::size_t number) {
  OperatorTruth truth;
  truth.cost_key = "op" + std::to_string(number);
  truth.forward_ns = random.between(200000, 3000000);
  truth.forward_fixed_ns = random.between(0, 1000000);
  truth.backward_ns = truth.forward_ns * random.between(15, 25) / 10;
  truth.backward_fixed_ns = random.between(0, 2000000);
  truth.output_bytes = random.between(100, 400);
  truth.stored_bytes = truth.output_bytes + random.between(0, 4000);
  truth.working_bytes = random.between(0, 500);
  truth.parameter_bytes = random.below(4) == 0 ? 0 : random.between(100, 3000);
  truth.optimizer_ns = truth.parameter_bytes * 100;
  return truth;
}

}  // namespace

World make_world(const std::vector<OperatorTruth>& operators, std::int32_t devices, std::int32_t global_batch,
                 const std::vector<std::int32_t>& samples) {
  World world;
  world.model.name = "toy";
  world.model.global_batch = global_batch;
  std::set<std::string> measured;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    Operator op;
    op.name = "operator-" + std::to_string(i);
    op.kind = "toy";
    op.layer = static_cast<std::int32_t>(i);
    op.cost_key = operators[i].cost_key;
    op.parameter_bytes = operators[i].parameter_bytes;
    op.output_bytes = operators[i].output_bytes;
    op.activation_bytes = operators[i].stored_bytes;
    world.model.operators.push_back(op);
    if (measured.insert(op.cost_key).second) add_operator_costs(operators[i], samples, world);
  }
  Node node;
  node.name = "n0";
  node.devices = devices;
  world.cluster.nodes = {node};
  CostKey process;
  process.kind = CostKind::kProcessBytes;
  process.subject = "process";
  world.costs.push_back(exact_cost(process, 0));
  return world;
}

void add_links(World& world, std::int64_t latency_ns, std::int64_t ns_per_kilobyte) {
  for (const std::int64_t bytes : {1, 1000000}) {
    const std::int64_t value = latency_ns + ns_per_kilobyte * bytes / 1000;
    world.costs.push_back(exact_cost(link_key(CostKind::kPointToPoint, bytes), value));
    for (std::int32_t group = 2; group <= world.cluster.devices(); ++group) {
      world.costs.push_back(exact_cost(link_key(CostKind::kCollective, bytes, group), value));
    }
  }
}

World random_world(Random& random, const RandomWorldOptions& options) {
  const std::int64_t count = random.between(options.operators_min, options.operators_max);
  std::vector<OperatorTruth> operators;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool again = i > 0 && random.below(2) == 0;
    operators.push_back(again ? operators[random.below(operators.size())] : random_operator(random, operators.size()));
  }
  const auto devices = static_cast<std::int32_t>(random.between(1, options.devices_max));
  const std::int32_t batch = random.below(2) == 0 ? 4 : 12;
  World world = make_world(operators, devices, batch, {1, 2, 3, 4, 6, 12});
  // One after the other: arguments are computed in an order that no compiler owes.
  const std::int64_t ns_per_kilobyte = random.between(0, 3000000);
  const std::int64_t latency_ns = random.between(0, 500000);
  add_links(world, latency_ns, ns_per_kilobyte);
  for (std::int32_t group = 2; group <= devices && random.below(2) == 0; ++group) {
    world.costs.push_back(
        exact_cost(link_key(CostKind::kOverlapComputation, 1000, group), random.between(1000000, 1600000)));
    world.costs.push_back(
        exact_cost(link_key(CostKind::kOverlapCommunication, 1000, group), random.between(1000000, 2000000)));
  }
  Bytes everything = 0;
  for (const Operator& op : world.model.operators) everything += op.parameter_bytes * 4 + op.activation_bytes * batch;
  if (random.below(4) != 0) world.cluster.nodes[0].memory_bytes = everything * random.between(10, 80) / 100;
  return world;
}

void join_layers(Random& random, std::int64_t longest, Model& model) {
  std::int32_t layer = -1;
  std::int64_t left = 0;
  TiedParameters tied;
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    Operator& op = model.operators[i];
    if (left-- == 0) {
      ++layer;
      left = random.below(static_cast<std::uint64_t>(longest));
    }
    op.layer = layer;
    op.output_saved = random.below(3) != 0;
    if (op.parameter_bytes < 100 || random.below(2) == 0) continue;
    tied.operators.push_back(static_cast<std::int32_t>(i));
  }
  tied.bytes = 100;
  if (tied.operators.size() > 1) model.tied_parameters = {tied};
  model.frees_sent_outputs = random.below(2) == 0;
}

Plan make_plan(const Model& model, std::int32_t microbatch, const std::vector<std::int32_t>& ends,
               const std::vector<std::int32_t>& devices, const std::vector<std::vector<Range>>& recompute) {
  Plan plan;
  plan.model = model.name;
  plan.global_batch = model.global_batch;
  plan.microbatch = microbatch;
  std::int32_t begin = 0;
  std::int32_t device = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    Segment segment;
    segment.operators = {begin, ends[s]};
    segment.dp = devices[s];
    if (s < recompute.size()) segment.recompute = recompute[s];
    Stage stage;
    for (std::int32_t i = 0; i < devices[s]; ++i) stage.devices.push_back(device++);
    stage.segments = {segment};
    plan.stages.push_back(stage);
    begin = ends[s];
  }
  return plan;
}

}  // namespace trimtab::tuner::test
