// H3T's solvers beside each other on layers of the paper's sizes, timed by arithmetic
// (tests/tuner/h3t/analytic_layers): how far each is above the synchronized optimum, how the exact solver's gap closes
// over time, and what a stage's switches cost a search that asks often. Seconds are the thread's own.
// Usage: h3t_table [SECONDS of the published program in one case, default 3]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "../../tests/tuner/h3t/analytic_layers.hpp"
#include "../thread_seconds.hpp"
#include "papers/h3t/published_solvers.hpp"
#include "solvers/h3t/exact_solver.hpp"
#include "solvers/h3t/stage_choice.hpp"

using namespace trimtab;                    // NOLINT
using namespace trimtab::tuner::h3t;        // NOLINT
using namespace trimtab::tuner::h3t::test;  // NOLINT

namespace {

using bench::thread_seconds;

struct Case {
  Fabric fabric = Fabric::kNvlink;
  std::vector<LayerProfile> layers;
  Bytes limit = 0;
  Bytes host_limit = kUnlimited;
};

// What the host needs in any case, and a share of all hidden states.
Bytes host_limit_at(const std::vector<LayerProfile>& layers, double share) {
  double bytes = 0;
  for (const LayerProfile& layer : layers) {
    bytes += static_cast<double>(layer.host_bytes) + share * static_cast<double>(layer.input);
  }
  return static_cast<Bytes>(bytes);
}

// Every machine and size; `shares` of the way from the least memory to that of no switches.
std::vector<Case> cases(std::int32_t layers, double spread, const std::vector<double>& shares, double samples,
                        Random& random, std::optional<double> host_share = std::nullopt) {
  std::vector<Case> all;
  for (const Machine& machine : machines()) {
    for (const TransformerSize& size : sizes()) {
      for (const double share : shares) {
        Case one{machine.fabric, spread_layers(analytic_layer(machine, size, samples), layers, spread, random)};
        one.limit = limit_at(one.layers, one.fabric, share);
        if (host_share) one.host_limit = host_limit_at(one.layers, *host_share);
        all.push_back(std::move(one));
      }
    }
  }
  return all;
}

struct Column {
  std::vector<double> above;  // percent over the optimum
  std::size_t nothing = 0, unfinished = 0;
  double seconds = 0;

  void add(const std::optional<Solution>& solution, Ticks optimum) {
    if (!solution) {
      ++nothing;
      return;
    }
    above.push_back(100 * (static_cast<double>(solution->outcome.runtime) / static_cast<double>(optimum) - 1));
  }
  [[nodiscard]] std::string text() const {
    double sum = 0;
    double largest = 0;
    for (const double one : above) {
      sum += one;
      largest = std::max(largest, one);
    }
    char buffer[96];
    if (above.empty()) {
      std::snprintf(buffer, sizeof buffer, "%s", "-");
    } else {
      std::snprintf(buffer, sizeof buffer, "%.2f, %.2f", sum / static_cast<double>(above.size()), largest);
    }
    std::string out = buffer;
    if (nothing > 0) out += " (" + std::to_string(nothing) + " none)";
    if (unfinished > 0) out += " (" + std::to_string(unfinished) + " not ended)";
    return out;
  }
};

struct Row {
  Column program, greedy, uniform, random;
  double exact_seconds = 0, exact_most = 0;
  std::size_t count = 0, proven = 0;
  double gap_most = 0;
  double freed_most = 0;
};

double program_seconds = 3;
constexpr double kExactSeconds = 10;

void compare(const Case& of, Row& row) {
  const Problem problem{of.layers, of.fabric, of.limit, of.host_limit};
  double begin = thread_seconds();
  ExactOptions options;
  options.stop = [begin] { return thread_seconds() - begin > kExactSeconds; };
  const ExactAnswer exact = solve_exactly(problem, options);
  const double took = thread_seconds() - begin;
  if (!exact.feasible) return;
  ++row.count;
  row.proven += exact.proven ? 1 : 0;
  row.exact_seconds += took;
  row.gap_most = std::max(row.gap_most, 100 * exact.gap());
  row.exact_most = std::max(row.exact_most, took);
  const Ticks optimum = exact.best.outcome.runtime;
  begin = thread_seconds();
  bool ended = true;
  const auto too_long = [&] {
    ended = thread_seconds() - begin < program_seconds;
    return !ended;
  };
  const std::optional<Solution> program = solve_by_published_program(problem, 128, too_long);
  row.program.seconds += thread_seconds() - begin;
  if (ended) {
    row.program.add(program, optimum);
  } else {
    ++row.program.unfinished;
  }
  row.greedy.add(solve_greedily(problem), optimum);
  row.uniform.add(best_uniform(problem), optimum);
  row.random.add(solve_by_sampling(problem, 1), optimum);
  const Solution free = freed(problem, exact.best, {});
  const double gain = 100 * (1 - static_cast<double>(free.outcome.runtime) / static_cast<double>(optimum));
  row.freed_most = std::max(row.freed_most, gain);
}

void print_row(const char* name, const std::vector<Case>& all) {
  Row row;
  for (const Case& one : all) compare(one, row);
  std::printf("| %s | %zu | %zu | %.2f | %.3f, %.3f s | %s; %.1f s | %s | %s | %s | %.2f |\n", name, row.count,
              row.proven, row.gap_most, row.exact_seconds / static_cast<double>(row.count), row.exact_most,
              row.program.text().c_str(), row.program.seconds / static_cast<double>(row.count),
              row.greedy.text().c_str(), row.uniform.text().c_str(), row.random.text().c_str(), row.freed_most);
  std::fflush(stdout);
}

void print_gaps(const Machine& machine, const TransformerSize& size, double samples, double share, double spread,
                Random& random) {
  const std::vector<LayerProfile> layers =
      spread_layers(analytic_layer(machine, size, samples), size.layers, spread, random);
  const Problem problem{layers, machine.fabric, limit_at(layers, machine.fabric, share)};
  const double begin = thread_seconds();
  std::string text;
  double within = -1;
  ExactOptions options;
  options.stop = [begin] { return thread_seconds() - begin > kExactSeconds; };
  const ExactAnswer answer = solve_exactly(problem, options, [&](const ExactPass& pass) {
    const double gap = 100 * (1 - static_cast<double>(pass.bound) / static_cast<double>(pass.best));
    const double at = thread_seconds() - begin;
    if (gap <= 1 && within < 0) within = at;
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%s%.2f %% at %.3f", text.empty() ? "" : ", ", gap, at);
    text += buffer;
  });
  std::printf("| %s, %s, %g samples, %g %% | %g %% | %.3f | %s | %s |\n", machine.name.c_str(), size.name.c_str(),
              samples, 100 * share, 100 * spread, within, text.c_str(), answer.proven ? "yes" : "no");
  std::fflush(stdout);
}

double microseconds(double seconds, std::size_t count) {
  return 1e6 * seconds / static_cast<double>(count);
}

// A stage of equal layers as a search asks for it: first for one limit, then for other limits, then for these again.
void print_choices(const Machine& machine, const TransformerSize& size, std::int32_t count, std::int32_t in_flight) {
  const std::vector<LayerProfile> layers(static_cast<std::size_t>(count), analytic_layer(machine, size, 4));
  Problem problem{layers, machine.fabric};
  problem.microbatches = 4 * in_flight;
  problem.in_flight = in_flight;
  const Bytes low = solution_of(problem, Switching(layers.size(), kAllOn)).outcome.peak;
  const Bytes high = solution_of(problem, Switching(layers.size(), LayerSwitches{})).outcome.peak;
  constexpr std::size_t kLimits = 40;
  std::vector<Bytes> limits;
  for (std::size_t i = 0; i < kLimits; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / kLimits;
    limits.push_back(low + static_cast<Bytes>(share * static_cast<double>(high - low)));
  }
  StageSwitches choices;
  problem.device_limit = limits[kLimits / 2];
  double begin = thread_seconds();
  static_cast<void>(choices.choose(problem));
  const double first = thread_seconds() - begin;
  double gap = 0;
  double gaps = 0;
  begin = thread_seconds();
  for (const Bytes limit : limits) {
    problem.device_limit = limit;
    const StageChoice& choice = choices.choose(problem);
    gap = std::max(gap, 100 * choice.gap());
    gaps += 100 * choice.gap();
  }
  const double others = thread_seconds() - begin;
  constexpr std::size_t kRounds = 100;
  begin = thread_seconds();
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (const Bytes limit : limits) {
      problem.device_limit = limit;
      static_cast<void>(choices.choose(problem));
    }
  }
  const double again = thread_seconds() - begin;
  std::printf("| %s, %s | %d | %d | %.0f | %.1f | %.2f | %.2f, %.2f |\n", machine.name.c_str(), size.name.c_str(),
              count, in_flight, 1e6 * first, microseconds(others, kLimits), microseconds(again, kRounds * kLimits),
              gaps / kLimits, gap);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) program_seconds = std::atof(arguments[1]);
  Random random(2023);
  std::printf(
      "# H3T's solvers\n\nMade by `build/release/bin/h3t_table > bench/results/h3t.md`. Layers of the paper's sizes on "
      "its "
      "machines (8 x 2080 Ti on PCIe, 8 x A100 with NVLink), 16 samples of 512 tokens a device, timed by arithmetic, "
      "not "
      "measured; +-20 %%: each number of each layer changed by up to so much. Seconds are the thread's own.\n\n"
      "## Solvers beside each other\n\n");
  std::printf(
      "Percent above the exact solver's answer in at most %g s: mean, largest. Free: what layers that do not "
      "synchronize gain at most. "
      "The published program may take %g s a case. A host's memory that is tight is a second limit, under which proofs "
      "take longer than that (column `proven`).\n\n",
      kExactSeconds, program_seconds);
  std::printf(
      "| layers | cases | proven | gap at most, %% | exact: mean, most | published program | greedy | uniform | random "
      "of 1000 | free "
      "|\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  print_row("3 equal", cases(3, 0, {0.05, 0.3}, 16, random));
  print_row("3, +-30 %", cases(3, 0.3, {0.05, 0.3}, 16, random));
  print_row("3, +-20 %, lowest 6 %", cases(3, 0.2, {0.01, 0.05}, 16, random));
  print_row("4, +-20 %", cases(4, 0.2, {0.3}, 16, random));
  print_row("12 equal", cases(12, 0, {0.1, 0.4}, 16, random));
  print_row("12 equal, 4 %", cases(12, 0, {0.04}, 16, random));
  print_row("12, +-20 %", cases(12, 0.2, {0.1}, 16, random));
  print_row("48 equal", cases(48, 0, {0.04, 0.15, 0.4, 0.8}, 16, random));
  print_row("48, +-20 %", cases(48, 0.2, {0.04, 0.15, 0.4, 0.8}, 16, random));
  print_row("48, +-20 %, host for half of the hidden states", cases(48, 0.2, {0.04, 0.15}, 16, random, 0.5));
  print_row("96, +-20 %", cases(96, 0.2, {0.15, 0.4}, 16, random));

  std::printf("\n## The exact solver's gap over time\n\n48 layers; share of the way from least to most memory.\n\n");
  std::printf("| setting | spread | seconds to 1 %% | gap and seconds after each pass | proven |\n");
  std::printf("| --- | --- | --- | --- | --- |\n");
  for (const Machine& machine : machines()) {
    for (const TransformerSize& size : sizes()) {
      for (const double share : {0.04, 0.15, 0.4}) print_gaps(machine, size, 16, share, 0, random);
    }
    print_gaps(machine, sizes()[0], 4, 0.15, 0, random);
    print_gaps(machine, sizes()[0], 16, 0.15, 0.2, random);
  }
  Machine large = machines()[1];
  large.name = "64 x A100";
  large.devices = 64;
  for (const double share : {0.04, 0.15, 0.4}) print_gaps(large, hundred_billion(), 16, share, 0, random);

  std::printf("\n## A pipeline stage's switches, asked often\n\nEqual layers, 4 samples a microbatch, 40 limits.\n\n");
  std::printf(
      "| layers of | layers | in flight | first, us | another limit, us | the same again, us | gap: mean, most, %% "
      "|\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Machine& machine : machines()) {
    for (const std::int32_t in_flight : {1, 4}) {
      for (const std::int32_t layers : {6, 12, 48}) print_choices(machine, sizes()[0], layers, in_flight);
    }
  }
  return 0;
}
