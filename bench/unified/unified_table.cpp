// `unified` beside every other strategy, on the same cost model: every setting of the published profiles, and random
// worlds under the native model; and what it loses there without each family of knobs. A strategy has a share of a
// second of its thread, `unified` seven: one for each strategy and two of its own. Rows are appended to a file, and
// what that has is not searched again; prints Markdown of all of it. Usage: unified_table
// published|random|ablation|print ROWS.csv [WORLDS]. Published profiles are read from ../shared/peers or
// $TRIMTAB_PEERS.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "../../tests/tuner/split_world.hpp"
#include "../thread_seconds.hpp"
#include "papers/cost_models.hpp"
#include "published_settings.hpp"
#include "tuner/search.hpp"
#include "unified_rows.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

constexpr double kShare = 0.25;  // seconds of each strategy
constexpr double kParts = 7;     // shares of unified
constexpr double kAblated = 0.7;
constexpr std::uint64_t kSeed = 2026;
const std::vector<std::string> kSingle{"aceso", "autopipe", "galvatron", "h3t", "oases"};
const std::vector<std::string> kFamilies{"recompute",           "tensor_parallel", "sharded",        "mixed_splits",
                                         "sliced_microbatches", "sub_batches",     "memory_switches"};

struct Found {
  bool searched = false;  // the strategy means something here
  double ms = INFINITY;
  double bound = 0;
  double seconds = 0;
  bool proven = false;
};

Found search_for(const CostModel& cost_model, SearchOptions options, double seconds) {
  const double begin = bench::thread_seconds();
  options.spent = [&] { return (bench::thread_seconds() - begin) / seconds; };
  options.stop = [&] { return options.spent() >= 1; };
  const Result<SearchOutcome> outcome = search(cost_model, Knobs{}, options);
  Found found;
  found.seconds = bench::thread_seconds() - begin;
  if (!outcome.ok()) return found;
  found.searched = true;
  found.proven = outcome->result.proven;
  found.bound = outcome->result.lower_bound_ms;
  if (!outcome->result.plans.empty()) found.ms = outcome->result.plans.front().prediction.iteration_ms;
  return found;
}

void compare(const std::string& profile, const std::string& setting, const CostModel& cost_model,
             const std::string& space, bench::Rows& rows) {
  const std::string name(cost_model.name());
  if (rows.has(profile, name, setting)) return;
  bench::Comparison row;
  row.profile = profile;
  row.cost_model = name;
  row.setting = setting;
  SearchOptions options;
  options.space = space;
  for (const std::string& strategy : kSingle) {
    options.strategy = strategy;
    const Found found = search_for(cost_model, options, kShare);
    if (found.searched) row.single[strategy] = found.ms;
  }
  options.strategy = "unified";
  const Found unified = search_for(cost_model, options, kParts * kShare);
  row.ms = unified.ms;
  row.bound_ms = unified.bound;
  row.proven = unified.proven;
  row.seconds = unified.seconds;
  rows.add(row);
}

void compare_published(bench::Rows& rows) {
  struct Kind {
    std::string format, directory;
    std::vector<std::pair<std::string, std::string>> models;  // and their spaces
  };
  const std::vector<Kind> kinds{
      {"aceso", "aceso_v100", {{"aceso", "aceso"}, {"autopipe", "autopipe"}, {"native", "all"}}},
      {"galvatron",
       "galvatron",
       {{"galvatron:v1", "galvatron"},
        {"galvatron:v2", "galvatron"},
        {"galvatron:paper", "galvatron"},
        {"native", "all"}}},
      {"oases", "oases", {{"oases:paper", "oases"}, {"oases:published", "oases"}, {"native", "all"}}}};
  for (const Kind& kind : kinds) {
    const std::optional<Published> published = bench::published_profile(kind.format, kind.directory);
    if (!published) continue;
    const std::vector<bench::Setting> settings = bench::settings_of(*published);
    for (const auto& [name, space] : kind.models) {
      for (const bench::Setting& setting : settings) {
        CostTableOptions estimates;
        estimates.allow_estimates = true;
        auto cost_model = make_cost_model(name, *setting.model, *setting.cluster, setting.costs, estimates);
        if (cost_model.ok()) compare(kind.format, setting.name, **cost_model, space, rows);
      }
    }
  }
}

// Worlds of the tests: random operators, splits, links, slowdowns and memory, in every second one host copies too,
// priced natively.
void each_world(int worlds, const std::function<void(const std::string&, const CostModel&)>& visit) {
  for (int i = 0; i < worlds; ++i) {
    Random random(kSeed + static_cast<std::uint64_t>(i));
    test::RandomWorldOptions options;
    options.operators_min = 6;
    options.operators_max = 14;
    options.devices_max = 8;
    test::World world = test::random_split_world(random, options);
    if (i % 2 == 1) test::add_host_copies(random, world);
    const NativeCostModel cost_model(world.table(true));
    visit("world " + std::to_string(kSeed + static_cast<std::uint64_t>(i)), cost_model);
  }
}

// What unified loses without each family of knobs.
void ablate(const std::string& world, const CostModel& cost_model, bench::Rows& rows) {
  if (rows.has_ablation(world)) return;
  SearchOptions options;
  options.strategy = "unified";
  options.space = "all";
  bench::Ablation row{world, search_for(cost_model, options, kAblated).ms, {}};
  for (const std::string& family : kFamilies) {
    options.without = {family};
    row.without[family] = std::isinf(row.ms) ? INFINITY : search_for(cost_model, options, kAblated).ms;
  }
  rows.add(row);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const int worlds = count > 3 ? std::atoi(arguments[3]) : 200;
  const bool known = what == "published" || what == "random" || what == "ablation" || what == "print";
  if (count < 3 || count > 4 || !known || worlds < 1) {
    std::fprintf(stderr, "usage: %s published|random|ablation|print ROWS.csv [WORLDS]\n", arguments[0]);
    return 2;
  }
  bench::Rows rows(arguments[2]);
  if (what == "published") compare_published(rows);
  if (what == "random") {
    each_world(worlds,
               [&](const std::string& name, const CostModel& model) { compare("random", name, model, "all", rows); });
  }
  if (what == "ablation") {
    each_world(worlds, [&](const std::string& name, const CostModel& model) { ablate(name, model, rows); });
  }
  rows.print();
  return 0;
}
