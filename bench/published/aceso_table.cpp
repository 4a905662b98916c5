// Every published setting of Aceso's profile: the peer's best plan, the optimum, what `unified` finds and proves, and
// how many seconds of its thread it takes. Usage: aceso_table [SECONDS [NAME [STRATEGY [SPACE]]]], for settings whose
// name contains NAME; or aceso_table near [NAME], which writes in Markdown how near the known best the answers are that
// short budgets give. Needs ../shared/peers (or $TRIMTAB_PEERS).

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "../../tests/tuner/aceso_peer.hpp"
#include "../thread_seconds.hpp"
#include "../timed_cost_model.hpp"
#include "papers/aceso_cost_model.hpp"
#include "skipping.hpp"
#include "tuner/search.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

constexpr std::array<double, 3> kBudgets{0.5, 1, 2};  // of `near`, seconds
constexpr double kNear = 1.001;                       // of the known best

struct Known {
  double peer_ms = 0, optimum_ms = 0;
  bool exact = false;
};

struct Question {
  double budget = 0.5;  // seconds of the thread; building the cost model's tables counts where it says when
  const char* strategy = "unified";
  const char* space = "aceso";
};

Result<SearchOutcome> answer(const CostModel& cost_model, const Question& question, double begin) {
  SearchOptions options;
  options.strategy = question.strategy;
  options.space = question.space;
  options.spent = [&] { return (bench::thread_seconds() - begin) / question.budget; };
  options.stop = [&] { return options.spent() >= 1; };
  return search(cost_model, Knobs{}, options);
}

void row(const peer::World& world, const Known& known, const Question& question) {
  const double built = bench::thread_seconds();
  const auto cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs);
  if (!cost_model.ok()) {
    std::printf("%s: %s\n", world.setting.name().c_str(), cost_model.error().message.c_str());
    return;
  }
  const double begin = bench::thread_seconds();
  const auto outcome = answer(cost_model.value(), question, begin);
  const double seconds = bench::thread_seconds() - begin;
  if (!outcome.ok() || outcome.value().result.plans.empty()) {
    std::printf("%-24s %2d devices: %s\n", world.setting.name().c_str(), world.setting.devices(),
                outcome.ok() ? outcome.value().infeasible.c_str() : outcome.error().message.c_str());
    return;
  }
  const SearchResult& result = outcome.value().result;
  const Plan& plan = result.plans[0].plan;
  const double ours = result.plans[0].prediction.iteration_ms;
  std::printf(
      "%-24s %2d  peer %11.3f  optimum %11.3f  ours %11.3f (%+.4f%%)  bound %11.3f%s  %7.3f s (+%.3f s tables)  %9llu "
      "ev  mb %d stages %zu plans %zu\n",
      world.setting.name().c_str(), world.setting.devices(), known.peer_ms, known.optimum_ms, ours,
      known.optimum_ms > 0 ? 100 * (ours / known.optimum_ms - 1) : 0, result.lower_bound_ms,
      result.proven ? " proven" : "       ", seconds, begin - built,
      static_cast<unsigned long long>(result.evaluations), plan.microbatch, plan.stages.size(), result.plans.size());
}

void near_header() {
  double load = 0;
  getloadavg(&load, 1);
  std::printf(
      "# How near the known best a short search is\n\n"
      "Made by `build/release/bin/aceso_table near > bench/results/aceso_half_second.md`: `unified`, space and cost "
      "model\n"
      "`aceso`, one search for each budget. Seconds are processor time of the one thread that searches\n"
      "(CLOCK_THREAD_CPUTIME_ID), the cost model's tables included and reading documents not. The machine's load was "
      "%.1f\n"
      "when this began: what ran beside takes no part of them, but it shares the caches, so they are upper bounds. "
      "The\n"
      "known best is of the peer data's optimum.csv (\"found\": not proven); the settings of one GPU have none there.\n"
      "\"Within 0.1 %% after\" is of the longest search; where that takes more than the search's own 4/7 of a short "
      "budget,\n"
      "the other planners of `unified` have their sevenths before it goes on.\n\n",
      load);
  std::printf("| setting | GPUs | known best, ms |");
  for (const double budget : kBudgets) std::printf(" in %g s |", budget);
  std::printf(" within 0.1 %% after | plans priced by then | found in %g s, ms | bound, ms | proven |\n",
              kBudgets.back());
  std::printf("| --- | --- | --- | %s| --- | --- | --- | --- | --- |\n", "--- | --- | --- ");
}

// One search for each budget; when it came near is of the longest one.
void near_row(const peer::World& world, const Known& known) {
  std::printf("| %s | %d | %.3f%s |", world.setting.name().c_str(), world.setting.devices(), known.optimum_ms,
              known.exact ? "" : " (found)");
  for (const double budget : kBudgets) {
    const double begin = bench::thread_seconds();
    const auto built = AcesoCostModel::build(world.model, world.cluster, world.costs);
    if (!built.ok()) {
      std::printf(" %s |\n", built.error().message.c_str());
      return;
    }
    const bench::TimedCostModel cost_model(built.value());
    const double tables = bench::thread_seconds() - begin;
    const auto outcome = answer(cost_model, {budget}, begin);
    if (!outcome.ok() || outcome.value().result.plans.empty()) {
      std::printf(" none |");
      continue;
    }
    const SearchResult& result = outcome.value().result;
    const double found = result.plans[0].prediction.iteration_ms;
    std::printf(" %+.4f %% |", 100 * (found / known.optimum_ms - 1));
    if (budget != kBudgets.back()) continue;
    std::optional<bench::Improvement> near;
    for (const bench::Improvement& improvement : cost_model.improvements()) {
      if (!near && improvement.ms <= known.optimum_ms * kNear) near = improvement;
    }
    if (near) {
      std::printf(" %.3f s | %llu |", near->seconds + tables, static_cast<unsigned long long>(near->evaluations));
    } else {
      std::printf(" never | |");
    }
    std::printf(" %.3f | %.3f | %s |", found, result.lower_bound_ms, result.proven ? "yes" : "no");
  }
  std::printf("\n");
}

Known known_of(const std::string& folder, const peer::Setting& setting) {
  Known known;
  for (const auto& result : peer::results(folder)) {
    if (result.setting.name() == setting.name()) known.peer_ms = result.iteration_ms;
  }
  for (const auto& optimum : peer::optima(folder)) {
    if (optimum.model != setting.model || optimum.size != setting.size) continue;
    known.optimum_ms = optimum.optimum_ms;
    known.exact = optimum.exact;
  }
  return known;
}

}  // namespace

int main(int argc, char** argv) {
  const auto folder = peer::folder();
  if (!folder) return trimtab::test::say_skipped();
  const bool near = argc > 1 && std::string(argv[1]) == "near";
  Question question;
  if (argc > 1 && !near) question.budget = std::atof(argv[1]);
  const char* const only = argc > 2 ? argv[2] : "";
  if (argc > 3) question.strategy = argv[3];
  if (argc > 4) question.space = argv[4];
  if (near) near_header();
  for (const peer::Setting& setting : peer::settings(*folder)) {
    if (setting.name().find(only) == std::string::npos) continue;
    const Known known = known_of(*folder, setting);
    if (near && known.optimum_ms == 0) continue;  // nothing to be near to
    const peer::World world = peer::world(*folder, setting);
    if (near) {
      near_row(world, known);
    } else {
      row(world, known, question);
    }
    std::fflush(stdout);
  }
  return 0;
}
