// A driver's update, simulated by two fingerprints: how long measuring takes until the first search, and how far plans'
// predictions are from the truth, with and without the near hardware's costs as a prior (docs/cost_model.md). Writes
// bench/results/near_hardware.md:
//
//   build/release/bin/near_hardware [SEEDS] > bench/results/near_hardware.md
//
// Times are those of an invented device, and measurements of it are drawn. Which costs are measured, what probes say
// and what plans cost is decided by the code that jobs run.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "../../tests/tuner/world.hpp"
#include "base/random.hpp"
#include "schema/hash64.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/near_costs.hpp"
#include "tuner/needed_costs.hpp"

using namespace trimtab;
using namespace trimtab::tuner;

namespace {

constexpr double kNoise = 0.03;          // of each value
constexpr double kOfMeasurement = 0.01;  // of all values of a measurement together
constexpr int kLeast = 5;
constexpr double kItemSeconds = 0.05;  // to prepare one
constexpr double kItemsOfStart = 32;

struct Scenario {
  const char* name;
  double doubt;  // of the distance
  double computation, links, scatter, operators;
  double attention;     // that operator's alone
  double launches = 1;  // what hosts take to issue passes
};
constexpr Scenario kScenarios[] = {
    {"kernel update; nothing changes", 0.025, 1, 1, 0.005, 0, 1},
    {"driver within its branch; passes 2 % faster", 0.05, 0.98, 1, 0.01, 0, 1},
    {"driver and CUDA; passes 6 % faster, links 4 % slower", 0.15, 0.94, 1.04, 0.02, 0, 1},
    {"NCCL; links 25 % slower", 0.1, 1, 1.25, 0.04, 0, 1},
    {"framework; each operator by its own 15 %", 0.15, 1, 1, 0.02, 0.15, 1},
    {"attention alone 30 % faster", 0.15, 1, 1, 0.01, 0, 0.7},
    {"framework; launches 15 % faster, nothing else", 0.1, 1, 1, 0.01, 0, 1, 0.85},
};

// Where jobs run, and what may vary.
struct Place {
  const char* name;
  std::int32_t nodes, devices;  // of each node
  bool splits;                  // tensor-parallel ranks, and sharded states
  double pace = 1;              // times as long as passes take
  bool launches = false;        // GPUs, whose hosts issue passes
};
constexpr Place kPlaces[] = {
    {"two nodes of four devices, pipelines and replicas", 2, 4, false},
    {"four nodes of eight devices, tensor-parallel ranks and sharded states beside that", 4, 8, true},
    {"two nodes of four devices whose hosts limit small microbatches, pipelines and replicas", 2, 4, false, 0.02,
     true}};

Knobs knobs_of(const Place& place) {
  Knobs knobs;
  knobs.tensor_parallel = knobs.sharded = place.splits;
  return knobs;
}

test::World world(const Place& place) {
  std::vector<test::OperatorTruth> operators;
  const auto add = [&operators](const std::string& key, Bytes parameters) {
    test::OperatorTruth truth;
    truth.cost_key = key;
    truth.parameter_bytes = parameters;
    truth.output_bytes = Bytes{8} << 20;
    truth.stored_bytes = 20'000'000;
    operators.push_back(truth);
  };
  add("embedding", 200'000'000);
  for (int i = 0; i < 12; ++i) {
    add("norm", 20'000);
    add("attention", 17'000'000);
    add("mlp", 34'000'000);
  }
  add("head", 200'000'000);
  test::World made = test::make_world(operators, place.nodes * place.devices, 128, {1});
  made.cluster.nodes.clear();
  for (std::int32_t i = 0; i < place.nodes; ++i) {
    made.cluster.nodes.push_back({"n" + std::to_string(i), "f", place.devices, Bytes{1} << 40, 0});
  }
  made.costs.clear();
  for (Operator& op : made.model.operators) op.forward_flops = op.parameter_bytes;
  return made;
}

bool is_link(const CostKey& key) {
  return key.kind == CostKind::kCollective || key.kind == CostKind::kPointToPoint;
}
bool is_pass(const CostKey& key) {
  return (key.kind == CostKind::kOperatorForward || key.kind == CostKind::kOperatorBackward) && !key.is_launch();
}

double known_launch(const CostKey& key) {
  const std::map<std::string, double> each{
      {"embedding", 600'000}, {"norm", 400'000}, {"attention", 1'500'000}, {"mlp", 800'000}, {"head", 500'000}};
  return (key.kind == CostKind::kOperatorBackward ? 2 : 1) * each.at(key.subject);
}

double known_value(const CostKey& key, const Place& place) {
  if (key.is_launch()) return known_launch(key);
  const std::map<std::string, double> each{
      {"embedding", 0.1}, {"norm", 0.05}, {"attention", 1.2}, {"mlp", 2}, {"head", 3}};
  const double bandwidth = key.placement == "inter_node" ? 12 : 150;  // bytes a ns
  switch (key.kind) {
    case CostKind::kOperatorForward:
      return 30'000 + 1e6 * place.pace * each.at(key.subject) * key.samples / key.tp;
    case CostKind::kOperatorBackward:
      return 50'000 + 2e6 * place.pace * each.at(key.subject) * key.samples / key.tp;
    case CostKind::kOperatorStoredBytes:
      return 2e7 * key.samples / key.tp;
    case CostKind::kOperatorWorkingBytes:
      return 1e7 * key.samples / key.tp;
    case CostKind::kOptimizerStep:
      return 400'000;
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return 1.25e6;
    case CostKind::kProcessBytes:
      return 2e9;
    default:
      return 25'000 + 1.5 * static_cast<double>(key.bytes) / bandwidth;
  }
}

double drawn(const std::string& text, std::uint64_t seed, double sigma) {
  return std::exp(sigma * Random(seed ^ hash64(text)).normal());
}

double new_value(const CostKey& key, const Place& place, const Scenario& of, std::uint64_t seed) {
  double change = 1;
  if (is_pass(key)) change = of.computation * drawn(key.subject, seed, of.operators);
  if (is_pass(key) && key.subject == "attention") change *= of.attention;
  if (is_link(key)) change = of.links;
  if (key.is_launch()) change = of.launches;
  if (is_link(key) || is_pass(key) || key.is_launch()) change *= drawn(describe(key), seed, of.scatter);
  return known_value(key, place) * change;
}

using Values = std::function<double(const CostKey&)>;

std::vector<Cost> measured(const std::vector<CostKey>& keys, const Values& truth, Random& random) {
  std::vector<Cost> costs;
  for (const CostKey& key : keys) {
    Cost cost{key, {}, parse_cost_source("benchmark alone host-clock")};
    const bool exact = unit_of(key.kind) == "bytes";
    const double all = exact ? 0 : kOfMeasurement * random.normal();
    for (int i = 0; i < kLeast; ++i) {
      cost.statistics.add(std::llround(truth(key) * std::exp(all + (exact ? 0 : kNoise * random.normal()))));
    }
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::vector<Cost> exact(const std::vector<CostKey>& keys, const Values& truth) {
  std::vector<Cost> costs;
  for (const CostKey& key : keys) costs.push_back(test::exact_cost(key, std::llround(truth(key))));
  return costs;
}

std::size_t items_of(const std::vector<CostKey>& keys, const Model& model) {
  const std::string json = benchmark_requests_json(keys, model);
  std::size_t found = 0;
  for (std::size_t at = json.find("\"kind\""); at != std::string::npos; at = json.find("\"kind\"", at + 1)) ++found;
  return found;
}

// Without the start of processes.
double seconds_of(const std::vector<CostKey>& keys, const Model& model, const Values& truth) {
  if (keys.empty()) return 0;
  double ns = 0;
  for (const CostKey& key : keys) {
    const bool slowdown = key.kind == CostKind::kOverlapComputation || key.kind == CostKind::kOverlapCommunication;
    if (slowdown) ns += 2 * 3e7;
    if (unit_of(key.kind) == "ns" && !key.is_launch()) ns += (kLeast + 1) * truth(key);
  }
  return 1e-9 * ns + kItemSeconds * static_cast<double>(items_of(keys, model));
}

std::vector<Plan> plans(const Model& model, std::int32_t devices_in_all) {
  const auto operators = static_cast<std::int32_t>(model.operators.size());
  std::vector<Plan> all;
  for (const std::int32_t stages : {1, 2, 4, 8}) {
    std::vector<std::int32_t> ends;
    for (std::int32_t s = 1; s <= stages; ++s) ends.push_back(operators * s / stages);
    const std::vector<std::int32_t> devices(static_cast<std::size_t>(stages), devices_in_all / stages);
    for (const std::int32_t microbatch : {32, 64, 128}) {
      std::vector<std::vector<Range>> recompute;
      std::int32_t begin = 0;
      for (const std::int32_t end : ends) {
        recompute.push_back({{begin, end}});
        begin = end;
      }
      all.push_back(test::make_plan(model, microbatch, ends, devices));
      all.push_back(test::make_plan(model, microbatch, ends, devices, recompute));
    }
  }
  return all;
}

struct Way {
  double seconds = 0, preparing = 0, items = 0, starts = 0, error = 0, held = 0, regret = 0, plans = 0, runs = 0;
};

constexpr double kAim = 0.1;  // of the time that measuring all takes

// Rows of the table that miss it.
std::vector<std::string>& missed() {
  static std::vector<std::string> rows;
  return rows;
}

void judge_time(const Place& place, const Scenario& of, const Way& all, const Way& prior,
                const std::map<std::string, int>& findings) {
  if (prior.seconds <= kAim * all.seconds) return;
  std::string refuted;
  for (const auto& [name, times] : findings) {
    const std::size_t verdict = name.find(" refuted");
    if (verdict == std::string::npos) continue;
    refuted += (refuted.empty() ? "" : ", ") + name.substr(0, verdict) + " " + std::to_string(times);
  }
  char text[400];
  std::snprintf(text, sizeof text, "| %s | %s | %.0f %% | %.0f %% | %.0f %% | %s |", place.name, of.name,
                100 * prior.seconds / all.seconds, 100 * prior.items / all.items, 100 * prior.preparing / prior.seconds,
                refuted.empty() ? "none" : refuted.c_str());
  missed().emplace_back(text);
}

void judge(const test::World& in, const std::vector<Cost>& costs, const std::vector<Cost>& truth, Way& way) {
  const NativeCostModel believed(CostTable::build(in.model, in.cluster, costs).value());
  const NativeCostModel real(CostTable::build(in.model, in.cluster, truth).value());
  double best_believed = 0;
  double chosen = 0;
  double best = 0;
  for (const Plan& plan : plans(in.model, in.cluster.devices())) {
    const Prediction said = believed.evaluate(plan);
    const Prediction is = real.evaluate(plan);
    if (!is.priced()) continue;
    if (!said.priced()) {
      std::fprintf(stderr, "near_hardware: a plan is not priced\n");
      std::exit(1);
    }
    way.error += std::abs(std::log(said.iteration_ms / is.iteration_ms));
    way.held += said.interval_low_ms <= is.iteration_ms && is.iteration_ms <= said.interval_high_ms ? 1 : 0;
    ++way.plans;
    if (chosen == 0 || said.iteration_ms < best_believed) {
      best_believed = said.iteration_ms;
      chosen = is.iteration_ms;
    }
    best = best == 0 ? is.iteration_ms : std::min(best, is.iteration_ms);
  }
  way.regret += chosen / best - 1;
  ++way.runs;
}

void print(const char* scenario, const char* name, const Way& way, double whole_seconds) {
  const auto share = [](double part, double of) { return of > 0 ? 100 * part / of : 0; };
  std::printf("| %s | %s | %.0f | %.1f | %.1f s | %.0f %% | %.1f %% | %.0f %% | %.2f %% |\n", scenario, name,
              way.items / way.runs, way.starts / way.runs, way.seconds / way.runs, share(way.seconds, whole_seconds),
              share(way.error, way.plans), share(way.held, way.plans), share(way.regret, way.runs));
}

void measure(const std::vector<CostKey>& keys, const Model& model, const Values& truth, Way& way) {
  const std::size_t items = keys.empty() ? 0 : items_of(keys, model);
  way.items += static_cast<double>(items);
  way.starts += std::ceil(static_cast<double>(items) / kItemsOfStart);
  way.preparing += kItemSeconds * static_cast<double>(items);
  way.seconds += seconds_of(keys, model, truth);
}

void run(const Place& place, const Scenario& of, int seeds) {
  const test::World in = world(place);
  const Knobs knobs = knobs_of(place);
  const std::vector<CostKey> needed = needed_costs(in.model, in.cluster, knobs, {}, place.launches);
  Way all;
  Way prior;
  Way old;
  std::map<std::string, int> findings;
  for (int seed = 1; seed <= seeds; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const Values truth = [&](const CostKey& key) {
      return new_value(key, place, of, static_cast<std::uint64_t>(seed));
    };
    const Values was = [&](const CostKey& key) { return known_value(key, place); };
    const std::vector<Cost> real = exact(needed, truth);
    const NearHardware near{"known", of.doubt, measured(needed, was, random)};
    measure(needed, in.model, truth, all);
    judge(in, measured(needed, truth, random), real, all);
    judge(in, near.costs, real, old);

    const std::vector<CostKey> probes = near_probes(in.model, needed, near);
    std::vector<Cost> here = measured(probes, truth, random);
    measure(probes, in.model, truth, prior);
    const auto found = compare_with_near(needed, here, near);
    for (const NearFinding& one : found)
      ++findings[std::string(to_string(one.of)) + " " + std::string(to_string(one.verdict))];
    std::vector<Cost> known = here;
    std::ranges::move(take_over_confirmed(near, found), std::back_inserter(known));
    const std::vector<CostKey> left = needed_costs(in.model, in.cluster, knobs, known, place.launches);
    measure(left, in.model, truth, prior);
    std::ranges::move(measured(left, truth, random), std::back_inserter(here));
    std::ranges::move(take_over(near, found), std::back_inserter(here));
    judge(in, here, real, prior);
  }
  print(of.name, "all measured", all, all.seconds);
  print("", "near hardware and probes", prior, all.seconds);
  print("", "near hardware, not probed", old, all.seconds);
  std::string text;
  for (const auto& [name, times] : findings) text += (text.empty() ? "" : ", ") + name + " " + std::to_string(times);
  std::fprintf(stderr, "%s: %s\n", of.name, text.c_str());
  judge_time(place, of, all, prior, findings);
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  std::printf(
      "# Near hardware as a prior\n\n"
      "Made by `build/release/bin/near_hardware %d`.\n\n"
      "A driver's update, simulated by two fingerprints: all costs of the first are known. Those of the second are "
      "other by\n"
      "what the scenario says, and each by a scatter of its own beside that. The device is invented. A benchmark's "
      "values\n"
      "scatter by 3 %%, and all of a measurement together by 1 %%. Each takes six repetitions, and 50 ms to prepare an "
      "item.\n"
      "\"Starts\" are those of the benchmark's processes, for %.0f items at a time. Their seconds are the job's own, "
      "and are not\n"
      "in the time. Time and starts together are the time to the first search. Errors and intervals are of 24 plans, "
      "priced\n"
      "by the native model. Regret is what the plan that is predicted best truly takes beyond the best one. All are "
      "means of\n"
      "%d seeds.\n\n"
      "\"Not probed\" takes the known costs as they are. No job does that: it shows what the probes are for.\n",
      seeds, kItemsOfStart, seeds);
  for (const Place& place : kPlaces) {
    std::printf(
        "\n## On %s\n\n"
        "| scenario | costs | measurements | starts | time | of measuring all | error | intervals that hold | regret "
        "|\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        place.name);
    for (const Scenario& one : kScenarios) {
      if (one.launches == 1 || place.launches) run(place, one, seeds);
    }
  }
  std::printf(
      "\n## More than a tenth of the time\n\n"
      "The aim is a tenth of what measuring all takes. These miss it. \"Preparing\" is of their own time. Classes are "
      "with\nthe number of runs, of %d, in which probes refute them.\n\n"
      "| on | scenario | of measuring all | of its measurements | preparing | refuted |\n"
      "| --- | --- | --- | --- | --- | --- |\n",
      seeds);
  for (const std::string& row : missed()) std::printf("%s\n", row.c_str());
  return 0;
}
