// `unified` beside every other strategy, on the same cost model: every setting of the published profiles, and random
// worlds under the native model. A strategy has a share of a second of its thread, `unified` the sum of all shares and
// its own. Prints Markdown. Usage: unified_table [published|random|ablation] [WORLDS]. Published profiles are read from
// ../shared/peers or $TRIMTAB_PEERS.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "../tests/tuner/split_world.hpp"
#include "schema/published.hpp"
#include "thread_seconds.hpp"
#include "tuner/search.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

constexpr double kShare = 0.25;        // seconds of each strategy
constexpr double kUnifiedShare = 0.5;  // unified's own, beside the sum of theirs
constexpr double kDigits = 1e-9;
constexpr std::uint64_t kSeed = 2026;
const std::vector<std::string> kSingle{"aceso", "autopipe", "galvatron", "h3t", "oases"};

struct Found {
  bool searched = false;  // the strategy means something here
  double ms = INFINITY;
  double bound = 0;
  double seconds = 0;
  bool proven = false;
};

Found search_for(const CostModel& cost_model, SearchOptions options, double seconds) {
  const double begin = bench::thread_seconds();
  options.stop = [&] { return bench::thread_seconds() - begin > seconds; };
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

struct Group {
  int settings = 0, feasible = 0, better = 0, equal = 0, worse = 0, proven = 0;
  double gain = 0, most_gain = 0, gap = 0, slowest = 0;
  int gaps = 0;
  std::map<std::string, int> best_of;  // single strategies that found the best single answer
};

void compare(const std::string& name, const CostModel& cost_model, const std::string& space, Group& group) {
  SearchOptions options;
  options.space = space;
  double best = INFINITY;
  double shares = 0;
  std::map<std::string, double> answers;
  for (const std::string& strategy : kSingle) {
    options.strategy = strategy;
    const Found found = search_for(cost_model, options, kShare);
    if (!found.searched) continue;
    shares += kShare;
    answers[strategy] = found.ms;
    best = std::min(best, found.ms);
  }
  options.strategy = "unified";
  const Found unified = search_for(cost_model, options, shares + kUnifiedShare);
  ++group.settings;
  group.slowest = std::max(group.slowest, unified.seconds);
  if (std::isinf(best) && std::isinf(unified.ms)) return;
  ++group.feasible;
  for (const auto& [strategy, ms] : answers) group.best_of[strategy] += ms <= best * (1 + kDigits) ? 1 : 0;
  group.proven += unified.proven ? 1 : 0;
  if (unified.bound > 0) {
    group.gap += unified.ms / unified.bound - 1;
    ++group.gaps;
  }
  const double gain = best / unified.ms - 1;
  if (std::abs(gain) <= kDigits) {
    ++group.equal;
  } else if (gain > 0) {
    ++group.better;
    group.gain += std::isinf(gain) ? 0 : gain;
    group.most_gain = std::max(group.most_gain, std::isinf(gain) ? 0 : gain);
  } else {
    ++group.worse;
    std::fprintf(stderr, "worse: %s: unified %.6f ms, the best single strategy %.6f ms\n", name.c_str(), unified.ms,
                 best);
  }
}

void print_header() {
  std::printf(
      "| profile | cost model | settings | feasible | better | mean gain | most | equal | worse | proven | mean gap | "
      "slowest s | best single (times) |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | "
      "--- |\n");
}

void print(const std::string& profile, const std::string& cost_model, const Group& group) {
  std::string best;
  for (const auto& [strategy, times] : group.best_of) {
    best += (best.empty() ? "" : ", ") + strategy + " " + std::to_string(times);
  }
  std::printf("| %s | %s | %d | %d | %d | %.2f %% | %.2f %% | %d | %d | %d | %.2f %% | %.2f | %s |\n", profile.c_str(),
              cost_model.c_str(), group.settings, group.feasible, group.better,
              group.better > 0 ? 100 * group.gain / group.better : 0, 100 * group.most_gain, group.equal, group.worse,
              group.proven, group.gaps > 0 ? 100 * group.gap / group.gaps : 0, group.slowest, best.c_str());
  std::fflush(stdout);
}

struct Setting {
  std::string name;
  const Model* model;
  const Cluster* cluster;
  std::vector<Cost> costs;
};

// A cluster belongs to the model whose file's name begins its own.
std::vector<Setting> settings_of(const Published& published) {
  std::vector<Setting> settings;
  for (const PublishedCluster& one : published.clusters) {
    const PublishedModel* of = nullptr;
    for (const PublishedModel& model : published.models) {
      const std::string stem = model.file.substr(0, model.file.size() - std::strlen(".json"));
      const bool fits = one.file.starts_with(stem + ".") || one.file.starts_with(stem + "-");
      if (fits && (of == nullptr || model.file.size() > of->file.size())) of = &model;
    }
    if (of == nullptr) continue;
    std::set<std::string> wanted;
    for (const Node& node : one.cluster.nodes) wanted.insert(node.fingerprint);
    Setting setting{one.file, &of->model, &one.cluster, {}};
    for (const PublishedCosts& costs : published.costs) {
      if (!wanted.contains(hash(costs.fingerprint))) continue;
      setting.costs.insert(setting.costs.end(), costs.costs.begin(), costs.costs.end());
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

int compare_published() {
  const char* const set = std::getenv("TRIMTAB_PEERS");
  const std::string root = set != nullptr ? set : TRIMTAB_SOURCE_DIR "/../shared/peers";
  struct Kind {
    std::string format, directory;
    std::vector<std::pair<std::string, std::string>> models;  // and their spaces
  };
  const std::vector<Kind> kinds{
      {"aceso", "aceso_v100", {{"aceso", "aceso"}, {"autopipe", "autopipe"}, {"native", "all"}}},
      {"galvatron",
       "galvatron",
       {{"galvatron:v1", "galvatron"}, {"galvatron:v2", "galvatron"}, {"galvatron:paper", "galvatron"}}},
      {"oases", "oases", {{"oases:paper", "oases"}, {"oases:published", "oases"}}}};
  print_header();
  for (const Kind& kind : kinds) {
    const std::string directory = root + "/" + kind.directory;
    if (!std::filesystem::exists(directory)) {
      std::fprintf(stderr, "%s is absent: the profile %s is left out\n", directory.c_str(), kind.format.c_str());
      continue;
    }
    const Result<Published> published = read_published(kind.format, {directory});
    if (!published.ok()) {
      std::fprintf(stderr, "%s\n", published.error().message.c_str());
      return 3;
    }
    const std::vector<Setting> settings = settings_of(*published);
    for (const auto& [name, space] : kind.models) {
      Group group;
      for (const Setting& setting : settings) {
        CostTableOptions estimates;
        estimates.allow_estimates = true;
        auto cost_model = make_cost_model(name, *setting.model, *setting.cluster, setting.costs, estimates);
        if (cost_model.ok()) compare(setting.name + " " + name, **cost_model, space, group);
      }
      print(kind.format, name, group);
    }
  }
  return 0;
}

// Worlds of the tests: random operators, splits, links, slowdowns and memory, priced natively.
void each_world(int worlds, const std::function<void(const std::string&, const CostModel&)>& visit) {
  for (int i = 0; i < worlds; ++i) {
    Random random(kSeed + static_cast<std::uint64_t>(i));
    test::RandomWorldOptions options;
    options.operators_min = 6;
    options.operators_max = 14;
    options.devices_max = 8;
    const test::World world = test::random_split_world(random, options);
    const NativeCostModel cost_model(world.table(true));
    visit("world " + std::to_string(kSeed + static_cast<std::uint64_t>(i)), cost_model);
  }
}

int compare_random(int worlds) {
  Group group;
  each_world(worlds, [&](const std::string& name, const CostModel& model) { compare(name, model, "all", group); });
  std::printf("Random worlds of 6 to 14 operators and up to 8 devices, seeds %llu to %llu.\n\n",
              static_cast<unsigned long long>(kSeed), static_cast<unsigned long long>(kSeed + worlds - 1));
  print_header();
  print("random", "native", group);
  return 0;
}

// What unified loses without each family of knobs, in the worlds where everything it may use brings an answer.
int ablate(int worlds) {
  const std::vector<std::string> families{"recompute",           "tensor_parallel", "sharded",        "mixed_splits",
                                          "sliced_microbatches", "sub_batches",     "memory_switches"};
  struct Loss {
    int worlds = 0, slower = 0, infeasible = 0;
    double sum = 0, most = 0;
  };
  std::map<std::string, Loss> losses;
  int feasible = 0;
  each_world(worlds, [&](const std::string&, const CostModel& cost_model) {
    SearchOptions options;
    options.strategy = "unified";
    options.space = "all";
    const Found whole = search_for(cost_model, options, 1.0);
    if (std::isinf(whole.ms)) return;
    ++feasible;
    for (const std::string& family : families) {
      options.without = {family};
      const Found found = search_for(cost_model, options, 1.0);
      Loss& loss = losses[family];
      ++loss.worlds;
      if (std::isinf(found.ms)) {
        ++loss.infeasible;
        continue;
      }
      const double share = found.ms / whole.ms - 1;
      loss.slower += share > 1e-4 ? 1 : 0;
      loss.sum += share;
      loss.most = std::max(loss.most, share);
    }
  });
  std::printf("%d of %d worlds have a plan that fits.\n\n| without | nothing fits | slower | mean | most |\n", feasible,
              worlds);
  std::printf("| --- | --- | --- | --- | --- |\n");
  for (const std::string& family : families) {
    const Loss& loss = losses[family];
    const int left = loss.worlds - loss.infeasible;
    std::printf("| %s | %d | %d | %.2f %% | %.2f %% |\n", family.c_str(), loss.infeasible, loss.slower,
                left > 0 ? 100 * loss.sum / left : 0, 100 * loss.most);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "published";
  const int worlds = count > 2 ? std::atoi(arguments[2]) : 200;
  if (what == "published") return compare_published();
  if (what == "random" && worlds > 0) return compare_random(worlds);
  if (what == "ablation" && worlds > 0) return ablate(worlds);
  std::fprintf(stderr, "usage: %s [published|random|ablation] [WORLDS]\n", arguments[0]);
  return 2;
}
