// Predictions of steps that launches limit, that computing limits, and of those between, with one clock and with two
// (docs/cost_model.md, "Two clocks"). Writes bench/results/two_clocks.md:
//
//   build/release/bin/two_clocks [SEEDS] > bench/results/two_clocks.md
//
// The truth is a queue simulator that knows kernels alone (gpu_queues.hpp). Benchmarks run in it as those of jobs do:
// passes between two events, behind a cover that keeps the device busy, or without one, as earlier releases did.

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
#include "gpu_queues.hpp"
#include "schema/plan.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_model.hpp"

using namespace trimtab;
using namespace trimtab::tuner;
using trimtab::bench::GpuQueues;
using trimtab::bench::QueuedItem;
using trimtab::bench::RankTimes;

namespace {

using Program = std::vector<QueuedItem>;

constexpr std::int32_t kBatch = 64;
constexpr std::int32_t kLayers = 8;
constexpr std::int32_t kMicrobatches[] = {1, 2, 4, 8, 16, 32};
constexpr double kShortestKernel = 2.5;  // us
constexpr int kRepetitions = 8;
constexpr int kSteps = 6;  // that are measured of a plan
constexpr double kTransferUs = 30;
constexpr std::int64_t kCoverUs = 20000;

// What an operator's passes are: kernels, the host's microseconds for each and for the call itself, the device's for
// a sample.
struct Pass {
  int kernels = 0;
  double device_us = 0;  // of a sample, all kernels together
};
struct Kind {
  const char* key;
  Pass forward, backward, update;
};
constexpr Kind kKinds[] = {{"embedding", {3, 2}, {4, 4}, {6, 80}},
                           {"attention", {12, 18}, {23, 38}, {6, 40}},
                           {"mlp", {5, 26}, {11, 55}, {6, 80}},
                           {"head", {6, 32}, {10, 60}, {6, 80}}};

// One invented machine, and what training has of it that benchmarks do not see.
struct Machine {
  double host_us = 6;           // for a kernel
  double call_us = 30;          // for an operator's call
  double pass_us = 60;          // for a pass of the loop around it: its data, its schedule
  double message_kernels = 2;   // that issuing a send or a receive is worth
  double speed = 1;             // of devices
  double host_in_training = 1;  // times as long as in a benchmark
  double device_in_training = 1;
  std::map<std::string, double> of_operator;  // the same, each by itself
  std::string way = {};                       // to launch: "", "compiled" or "graph", as costs' protocols say
};

Machine drawn_machine(bool right, Random& random) {
  const auto around = [&random](double sigma) { return std::exp(sigma * random.normal()); };
  Machine machine;
  machine.host_us = 6 * around(0.4);
  machine.call_us = 5 * machine.host_us;
  machine.pass_us = right ? 0 : 10 * machine.host_us;
  machine.speed = around(0.4);
  machine.host_in_training = 1.1 * around(0.12);
  machine.device_in_training = 1.04 * around(0.06);
  if (right) machine.host_in_training = machine.device_in_training = 1;
  for (const Kind& kind : kKinds) machine.of_operator[kind.key] = right ? 1 : around(0.02);
  return machine;
}

class Rank {
 public:
  Rank(const Machine& machine, bool training, Random& random)
      : machine_(machine), training_(training), random_(random) {}

  void pass(const Kind& kind, const Pass& of, std::int32_t samples) {
    const double slower = training_ ? machine_.device_in_training * machine_.of_operator.at(kind.key) : 1;
    const int kernels = machine_.way == "compiled" ? (of.kernels + 1) / 2 : of.kernels;  // two are fused into one
    const double each = std::max(kShortestKernel, of.device_us * samples / kernels / machine_.speed);
    issue(machine_.call_us);
    for (int k = 0; k < kernels; ++k) {
      const double us = machine_.way == "graph" && k > 0 ? 0 : host(machine_.host_us);  // a graph is launched once
      program.push_back({QueuedItem::Kind::kKernel, us, each * slower * jitter(0.02), 0});
    }
  }
  void issue(double us) { program.push_back({QueuedItem::Kind::kKernel, host(us), 0, 0}); }
  void add(QueuedItem::Kind kind, std::int64_t message = 0, double device_us = 0) {
    const bool queued = kind == QueuedItem::Kind::kSend || kind == QueuedItem::Kind::kReceive;
    program.push_back({kind, queued ? host(machine_.message_kernels * machine_.host_us) : 0, device_us, message});
  }

  Program program;

 private:
  double jitter(double sigma) { return std::exp(sigma * random_.normal()); }
  double host(double us) { return us * (training_ ? machine_.host_in_training : 1) * jitter(0.1); }

  const Machine& machine_;
  bool training_;
  Random& random_;
};

const Kind& kind_of(std::int32_t op) {
  if (op == 0) return kKinds[0];
  return op == 2 * kLayers + 1 ? kKinds[3] : kKinds[1 + (op + 1) % 2];
}

enum class Benchmark { kGaps, kKernels, kTwoClocks, kAgain };
constexpr const char* kNames[] = {"one clock: passes with their gaps", "one clock: sums of kernels", "two clocks",
                                  "two clocks, in a database of passes with their gaps"};

// Microseconds of passes and updates, of the device and of the host.
struct Timed {
  std::vector<double> device, host;
};

// A repetition: what is told, between marks.
Timed repetition(const Machine& machine, bool covered, Random& random,
                 const std::vector<std::function<void(Rank&)>>& works) {
  Rank rank(machine, false, random);
  if (covered) rank.program.push_back({QueuedItem::Kind::kKernel, 1, kCoverUs, 0});
  rank.add(QueuedItem::Kind::kMark);
  for (const auto& work : works) {
    work(rank);
    rank.add(QueuedItem::Kind::kMark);
  }
  const RankTimes times = GpuQueues::run({rank.program}).front();
  Timed timed;
  for (std::size_t i = 1; i < times.host_marks.size(); ++i) {
    timed.device.push_back(times.device_marks[i] - times.device_marks[i - 1]);
    timed.host.push_back(times.host_marks[i] - times.host_marks[i - 1]);
  }
  return timed;
}

void put(const std::vector<CostKey>& keys, const std::function<Timed()>& measure, bool launches, const std::string& way,
         std::vector<Cost>& costs) {
  std::vector<Cost> device, host;
  for (CostKey key : keys) {
    device.push_back({key, {}});
    device.back().source.clock = CostSource::Clock::kDevice;
    device.back().source.covered = launches;
    key.algorithm = "launch";
    key.protocol = way;
    host.push_back({key, {}});
    host.back().source.clock = CostSource::Clock::kHost;
  }
  for (int i = 0; i < kRepetitions; ++i) {
    const Timed timed = measure();
    for (std::size_t k = 0; k < keys.size(); ++k) {
      device[k].statistics.add(std::llround(1000 * timed.device[k]));
      host[k].statistics.add(std::llround(1000 * timed.host[k]));
    }
  }
  costs.insert(costs.end(), device.begin(), device.end());
  if (launches) costs.insert(costs.end(), host.begin(), host.end());
}

// All passes and updates, in a way that tells them apart or not.
void add_benchmarks(const Machine& machine, bool covered, bool launches, Random& random, std::vector<Cost>& costs) {
  for (const Kind& kind : kKinds) {
    for (const std::int32_t samples : kMicrobatches) {
      const auto passes = [&] {
        return repetition(machine, covered, random,
                          {[&](Rank& rank) { rank.pass(kind, kind.forward, samples); },
                           [&](Rank& rank) { rank.pass(kind, kind.backward, samples); }});
      };
      put({test::operator_key(CostKind::kOperatorForward, kind.key, samples),
           test::operator_key(CostKind::kOperatorBackward, kind.key, samples)},
          passes, launches, machine.way, costs);
    }
    const auto update = [&] {
      return repetition(machine, covered, random, {[&](Rank& rank) { rank.pass(kind, kind.update, 1); }});
    };
    put({test::operator_key(CostKind::kOptimizerStep, kind.key, 0)}, update, launches, machine.way, costs);
  }
}

test::World benchmarked(const Machine& machine, Benchmark how, Random& random) {
  std::vector<test::OperatorTruth> operators;
  for (std::int32_t op = 0; op < 2 * kLayers + 2; ++op) {
    test::OperatorTruth of;
    of.cost_key = kind_of(op).key;
    of.stored_bytes = of.output_bytes = 1000;
    of.parameter_bytes = 1000;
    operators.push_back(of);
  }
  test::World world = test::make_world(operators, 4, kBatch, {1, 2, 4, 8, 16, 32});
  test::add_links(world, std::llround(1000 * kTransferUs), 0);
  std::erase_if(world.costs, [](const Cost& cost) {
    return cost.key.kind <= CostKind::kOperatorBackward || cost.key.kind == CostKind::kOptimizerStep;
  });
  if (how == Benchmark::kGaps || how == Benchmark::kAgain) add_benchmarks(machine, false, false, random, world.costs);
  const bool launches = how == Benchmark::kTwoClocks || how == Benchmark::kAgain;
  if (how != Benchmark::kGaps) add_benchmarks(machine, true, launches, random, world.costs);
  return world;
}

// Every plan: 1, 2 and 4 stages, with every microbatch, and with all operators of the layers recomputed or none.
std::vector<Plan> plans_of(const Model& model) {
  std::vector<Plan> plans;
  const auto operators = static_cast<std::int32_t>(model.operators.size());
  for (const std::int32_t stages : {1, 2, 4}) {
    for (const std::int32_t microbatch : kMicrobatches) {
      for (const bool again : {false, true}) {
        if (again && (stages > 1 || microbatch % 4 != 0)) continue;
        std::vector<std::int32_t> ends;
        for (std::int32_t s = 1; s <= stages; ++s) {
          ends.push_back(s == stages ? operators : 1 + 2 * (kLayers * s / stages));
        }
        std::vector<std::vector<Range>> recompute;
        if (again) recompute = {{Range{1, operators - 1}}};
        plans.push_back(test::make_plan(model, microbatch, ends, std::vector<std::int32_t>(ends.size(), 1), recompute));
      }
    }
  }
  return plans;
}

// One rank's step: passes in the order of 1F1B, the loss, the update.
Program step_of(const Machine& machine, const Plan& plan, std::size_t s, Random& random) {
  Rank rank(machine, true, random);
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  const auto stage = static_cast<std::int32_t>(s);
  const Range range = plan.stages[s].operators();
  const std::vector<Range>& recomputed = plan.stages[s].segments.front().recompute;
  const std::int32_t all = plan.microbatches();
  const auto message = [&](bool forward, std::int32_t boundary, std::int32_t k) {
    return (std::int64_t{boundary} * 2 + (forward ? 1 : 0)) * all + k;
  };
  const auto forward = [&](std::int32_t k) {
    rank.issue(machine.pass_us);
    if (stage > 0) rank.add(QueuedItem::Kind::kReceive, message(true, stage - 1, k));
    for (std::int32_t op = range.begin; op < range.end; ++op) {
      rank.pass(kind_of(op), kind_of(op).forward, plan.microbatch);
    }
    if (stage + 1 < stages) rank.add(QueuedItem::Kind::kSend, message(true, stage, k), kTransferUs);
  };
  const auto backward = [&](std::int32_t k) {
    rank.issue(machine.pass_us);
    if (stage + 1 < stages) rank.add(QueuedItem::Kind::kReceive, message(false, stage, k));
    for (std::int32_t op = range.end; op-- > range.begin;) {
      const auto again = [op](const Range& of) { return of.begin <= op && op < of.end; };
      if (std::ranges::any_of(recomputed, again)) rank.pass(kind_of(op), kind_of(op).forward, plan.microbatch);
      rank.pass(kind_of(op), kind_of(op).backward, plan.microbatch);
    }
    if (stage > 0) rank.add(QueuedItem::Kind::kSend, message(false, stage - 1, k), kTransferUs);
  };
  const std::int32_t ahead = std::min(all, stages - stage - 1);
  for (std::int32_t k = 0; k < ahead; ++k) forward(k);
  for (std::int32_t k = 0; k < all; ++k) {
    if (ahead + k < all) forward(ahead + k);
    backward(k);
  }
  rank.add(QueuedItem::Kind::kSynchronize);
  for (std::int32_t op = range.begin; op < range.end; ++op) rank.pass(kind_of(op), kind_of(op).update, 1);
  rank.add(QueuedItem::Kind::kSynchronize);
  return rank.program;
}

Observation measured(const Machine& machine, const Plan& plan, Random& random) {
  Observation seen;
  seen.plan = plan;
  Statistics steps;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Program> programs;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) programs.push_back(step_of(machine, plan, s, random));
    double end = 0;
    for (const RankTimes& times : GpuQueues::run(programs)) end = std::max(end, times.end_us);
    steps.add(std::llround(1000 * end));
  }
  seen.measured_ms = steps.mean() / 1e6;
  seen.measured_sigma_ms = steps.standard_error() / 1e6;
  return seen;
}

struct Errors {
  double sum = 0;
  double most = 0;
  int count = 0;
  void add(double error) {
    sum += std::abs(error);
    most = std::max(most, std::abs(error));
    ++count;
  }
  [[nodiscard]] double mean() const { return count > 0 ? sum / count : 0; }
};

enum Column {
  kBefore,
  kAfter,
  kLaunchBound,
  kLaunchBoundAfter,
  kComputeBound,
  kComputeBoundAfter,
  kUp,
  kDown,
  kColumns
};

double error(const NativeCostModel& model, const Observation& seen) {
  return model.evaluate(seen.plan).iteration_ms / seen.measured_ms - 1;
}

// Small microbatches are the half that launches limit on most machines.
bool is_small(const Observation& seen) {
  return seen.plan.microbatch <= 4;
}

void add_world(const CostTable& table, std::vector<Observation> all, std::vector<Errors>& errors) {
  const NativeCostModel costs(table);
  for (Observation& seen : all) seen.prediction = costs.evaluate(seen.plan);
  const auto learnt_from = [&](const std::function<bool(const Observation&)>& takes) {
    std::vector<Observation> from;
    std::copy_if(all.begin(), all.end(), std::back_inserter(from), takes);
    return NativeCostModel(table, calibrate(table, from, {}));
  };
  const NativeCostModel of_small = learnt_from(is_small);
  const NativeCostModel of_large = learnt_from([](const Observation& seen) { return !is_small(seen); });
  for (const Observation& seen : all) {
    const NativeCostModel others = learnt_from([&](const Observation& other) { return &other != &seen; });
    const double before = error(costs, seen);
    const double after = error(others, seen);
    errors[kBefore].add(before);
    errors[kAfter].add(after);
    errors[is_small(seen) ? kLaunchBound : kComputeBound].add(before);
    errors[is_small(seen) ? kLaunchBoundAfter : kComputeBoundAfter].add(after);
    errors[is_small(seen) ? kDown : kUp].add(error(is_small(seen) ? of_large : of_small, seen));
  }
}

void print_table(const char* title, bool right, int seeds, std::size_t& plans) {
  std::vector<std::vector<Errors>> errors(std::size(kNames), std::vector<Errors>(kColumns));
  for (int seed = 1; seed <= seeds; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const Machine machine = drawn_machine(right, random);
    std::vector<Observation> all;
    for (std::size_t how = 0; how < errors.size(); ++how) {
      const test::World world = benchmarked(machine, static_cast<Benchmark>(how), random);
      if (all.empty()) {
        for (const Plan& plan : plans_of(world.model)) all.push_back(measured(machine, plan, random));
        plans = all.size();
      }
      add_world(world.table(), all, errors[how]);
    }
  }
  std::printf(
      "\n## %s\n\n| costs | before | after | small, before | after | large, before | after | large, learnt from small "
      "| "
      "small, learnt from large |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      title);
  for (std::size_t how = 0; how < errors.size(); ++how) {
    std::printf("| %s |", kNames[how]);
    for (const Errors& of : errors[how]) std::printf(" %.1f %% (%.0f) |", 100 * of.mean(), 100 * of.most);
    std::printf("\n");
  }
}

// How far off pipelines are by what messages take of hosts.
void print_messages(int seeds) {
  std::printf(
      "\n## Sends and receives\n\n"
      "What a send or a receive takes of its host nobody measures. Half of the shortest launch that is known stands "
      "for "
      "it. That is the\nembedding's forward here, which takes the time of eight kernels with its call. So the estimate "
      "is four. With right benchmarks and two\nclocks, before learning:\n\n"
      "| it takes the time of | small, 2 stages | small, 4 stages | large, 2 stages | large, 4 stages |\n"
      "| --- | --- | --- | --- | --- |\n");
  for (const double kernels : {0.0, 1.0, 2.0, 4.0, 8.0}) {
    std::vector<Errors> errors(4);
    for (int seed = 1; seed <= seeds; ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      Machine machine = drawn_machine(true, random);
      machine.message_kernels = kernels;
      const NativeCostModel model(benchmarked(machine, Benchmark::kTwoClocks, random).table());
      for (const Plan& plan : plans_of(model.table().model())) {
        if (plan.stages.size() == 1) continue;
        const Observation seen = measured(machine, plan, random);
        errors[(is_small(seen) ? 0 : 2) + (plan.stages.size() == 4 ? 1 : 0)].add(error(model, seen));
      }
    }
    std::printf("| %.0f kernels |", kernels);
    for (const Errors& of : errors) std::printf(" %.1f %% (%.0f) |", 100 * of.mean(), 100 * of.most);
    std::printf("\n");
  }
}

// The launches of two worlds, and the prices of the first.
test::World with_launches_of(test::World world, const test::World& other, LaunchedAs says) {
  std::ranges::copy_if(other.costs, std::back_inserter(world.costs), [](const Cost& of) { return of.key.is_launch(); });
  world.model.launched_as = says;
  return world;
}

// Steps whose passes are compiled regions or CUDA graphs, priced by launches of their way, by launches kernel by
// kernel, by none, and where both ways were measured.
void print_ways(int seeds) {
  std::printf(
      "\n## CUDA graphs and compiled regions\n\n"
      "Each pass and update is one graph, or one compiled region whose kernels are half as many. The call itself takes "
      "its host as\nlong as ever. A graph's kernels need nothing more of it than the first one. With right benchmarks, "
      "before learning:\n\n"
      "| steps are | costs | small | large |\n| --- | --- | --- | --- |\n");
  for (const LaunchedAs says : {LaunchedAs::kGraph, LaunchedAs::kCompiled}) {
    constexpr const char* kCosts[] = {"two clocks: launches of that way", "two clocks: launches kernel by kernel",
                                      "two clocks: both, and the model says which",
                                      "two clocks: both, and it says nothing", "one clock: sums of kernels"};
    const char* const way = says == LaunchedAs::kGraph ? "graph" : "compiled";
    std::vector<std::vector<Errors>> errors(std::size(kCosts), std::vector<Errors>(2));
    for (int seed = 1; seed <= seeds; ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      const Machine plain = drawn_machine(true, random);
      Machine machine = plain;
      machine.way = way;
      const test::World own = benchmarked(machine, Benchmark::kTwoClocks, random);
      const test::World eager = benchmarked(plain, Benchmark::kTwoClocks, random);
      const NativeCostModel models[] = {NativeCostModel(own.table()), NativeCostModel(eager.table()),
                                        NativeCostModel(with_launches_of(own, eager, says).table()),
                                        NativeCostModel(with_launches_of(own, eager, LaunchedAs::kKernels).table()),
                                        NativeCostModel(benchmarked(machine, Benchmark::kKernels, random).table())};
      for (const Plan& plan : plans_of(models[0].table().model())) {
        const Observation seen = measured(machine, plan, random);
        for (std::size_t i = 0; i < std::size(models); ++i)
          errors[i][is_small(seen) ? 0 : 1].add(error(models[i], seen));
      }
    }
    for (std::size_t i = 0; i < errors.size(); ++i) {
      std::printf("| %s | %s |", way, kCosts[i]);
      for (const Errors& of : errors[i]) std::printf(" %.1f %% (%.0f) |", 100 * of.mean(), 100 * of.most);
      std::printf("\n");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 12;
  std::printf(
      "# Two clocks\n\nMade by `build/release/bin/two_clocks %d`.\n\n"
      "%d invented machines run each plan of 1, 2 and 4 stages of a GPT of %d layers, with microbatches of 1 to 32 of "
      "a "
      "batch of\n%d, and of one stage that recomputes its layers. The truth is a queue simulator: each kernel is "
      "issued "
      "by a host into a\nqueue of %zu and run by a device. A receive is a kernel. Hosts wait for their devices behind "
      "the "
      "loss and behind the\nupdate. It shares no code with the cost model. Hosts take 6 us for a kernel in the median "
      "(4 "
      "to 9 in two thirds of the\nmachines), and five times that for an operator's call. A send or receive takes the "
      "time "
      "of two kernels, which no benchmark tells.\n\n"
      "\"Small\" are microbatches of 1 to 4, \"large\" 8 to 32. \"After\": each plan after learning from all others of "
      "its machine.\nThe last two columns learn from one half and predict the other. All are means of absolute errors, "
      "in brackets the largest.\n\nThe last row is a database of an earlier release whose passes were measured again, "
      "because "
      "their launches were not known.\nBoth values of each pass are in it.\n",
      seeds, seeds, kLayers, kBatch, GpuQueues::kQueued);
  std::size_t plans = 0;
  print_table("Benchmarks are right", true, seeds, plans);
  print_table("Training is slower", false, seeds, plans);
  std::printf(
      "\nIn training hosts are slower than in benchmarks by 10 %% (± 12 %%), devices by 4 %% (± 6 %%), each operator "
      "by 2 %% "
      "of its\nown. The loop around a pass takes its host the time of ten kernels more. Each machine has %zu plans. "
      "The largest\nerrors are of microbatches of 1 on machines with slow devices: nothing else "
      "there is limited by launches, so no other plan teaches of\nthem.\n",
      plans);
  print_messages(seeds);
  print_ways(seeds);
  return 0;
}
