// What a job's search finds by its usual strategy, beside what `aceso` finds with the same budget: the coordinator's
// own search, as a job asks for it before and after its first trials, on the processor time of its thread. Prints
// Markdown.
//
//   job_strategies published PROFILE | simulated SETTING | random [WORLDS] | documents NAME MODEL.json CLUSTER.json
//   COSTS.db JOB.toml
//
// Published profiles are read from ../shared/peers or $TRIMTAB_PEERS.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../tests/tuner/split_world.hpp"
#include "../thread_seconds.hpp"
#include "coordinator/simulation.hpp"
#include "published_settings.hpp"
#include "schema/cost_database.hpp"
#include "schema/fingerprint.hpp"
#include "schema/job.hpp"
#include "tuning/search/planning.hpp"

using namespace trimtab;               // NOLINT
using namespace trimtab::coordinator;  // NOLINT

namespace {

constexpr std::uint64_t kSeed = 4052;
constexpr double kEqual = 1e-9;
// As a coordinator asks with its usual settings.
constexpr std::uint64_t kEvaluations = 200'000;
constexpr Nanoseconds kTime = std::chrono::seconds(5);
constexpr std::uint64_t kSimulatedEvaluations = 4000;
constexpr Bytes kSimulatedMemory = Bytes{40} << 30;  // the published 28 GiB leave no plain plan to begin with
constexpr std::size_t kTried = 3;                    // candidates that a job weighs at a time, unless it says otherwise

class ThreadClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override {
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(bench::thread_seconds()));
  }
  [[nodiscard]] Nanoseconds wall() const override { return monotonic(); }
};

SearchTask task_of(const Model& model, const Cluster& cluster, const std::vector<Cost>& costs, const Knobs& knobs) {
  SearchTask task;
  task.model_json = to_json(model);
  task.cluster = cluster;
  task.costs = costs;
  task.knobs = knobs;
  task.plans = kTried + 5;
  task.max_evaluations = kEvaluations;
  task.time_budget = kTime;
  return task;
}

template <typename T>
T needed(Result<T> of) {
  if (!of.ok()) {
    std::fprintf(stderr, "%s\n", of.error().message.c_str());
    std::exit(2);
  }
  return std::move(of).value();
}

struct Found {
  std::vector<std::string> hashes;  // of its candidates, in the order in which a job would weigh them
  std::vector<double> ms;           // the best first
  double seconds = 0;

  // Of the n-th, from 0; infinite where there are fewer.
  [[nodiscard]] double at(std::size_t n) const { return n < ms.size() ? ms[n] : INFINITY; }
};

Found search_by(const char* strategy, SearchTask task) {
  task.strategy = strategy;
  const SearchReply reply = plan_search(task, ThreadClock(), [] { return false; });
  if (!reply.error.empty()) std::fprintf(stderr, "%s\n", reply.error.c_str());
  Found found;
  found.seconds = reply.seconds;
  for (const PricedPlan& one : reply.candidates) {
    found.hashes.push_back(one.plan.hash);
    found.ms.push_back(one.predicted.mean_ms);
  }
  std::ranges::sort(found.ms);
  return found;
}

struct Tally {
  int better = 0, equal = 0, worse = 0;
  double gain = 0;  // of those that are better, added up

  void add(double aceso, double usual) {
    const double ratio = std::isinf(aceso) && std::isinf(usual) ? 1 : aceso / usual;
    (ratio > 1 + kEqual ? better : ratio < 1 - kEqual ? worse : equal) += 1;
    if (ratio > 1 + kEqual && !std::isinf(ratio)) gain += ratio - 1;
  }
  [[nodiscard]] std::string text() const {
    char words[80];
    std::snprintf(words, sizeof words, "%d / %d / %d, %.2f %%", better, equal, worse,
                  better > 0 ? 100 * gain / better : 0);
    return words;
  }
};

struct Seconds {
  double all = 0, most = 0;
  void add(double seconds) {
    all += seconds;
    most = std::max(most, seconds);
  }
};

// One row: how the best plan and the last of those that a job weighs compare.
class Group {
 public:
  explicit Group(std::string name) : name_(std::move(name)) {}

  void compare(const std::string& setting, SearchTask task) {
    const Found found = ask(setting, task);
    // As after trials of the best plans: what was tried is ruled out.
    task.excluded = found.hashes;
    task.excluded.resize(std::min(kTried, found.hashes.size()));
    ask(setting + ", three plans tried", task);
  }

  void print() const {
    const auto count = static_cast<double>(std::max(searches_, 1));
    std::printf("| %s | %d | %s | %s | %d | %.2f (%.1f) | %.2f (%.1f) |\n", name_.c_str(), searches_,
                best_.text().c_str(), third_.text().c_str(), fewer_, aceso_.all / count, aceso_.most,
                usual_.all / count, usual_.most);
    std::fflush(stdout);
  }

 private:
  Found ask(const std::string& setting, const SearchTask& task) {
    const Found aceso = search_by("aceso", task);
    const Found usual = search_by("", task);
    ++searches_;
    best_.add(aceso.at(0), usual.at(0));
    third_.add(aceso.at(kTried - 1), usual.at(kTried - 1));
    fewer_ += usual.ms.size() < aceso.ms.size() ? 1 : 0;
    aceso_.add(aceso.seconds);
    usual_.add(usual.seconds);
    std::fprintf(stderr, "%s, %s: %.6g and %.6g ms, %.2f and %.2f s\n", name_.c_str(), setting.c_str(), aceso.at(0),
                 usual.at(0), aceso.seconds, usual.seconds);
    return usual;
  }

  std::string name_;
  int searches_ = 0;
  Tally best_, third_;
  int fewer_ = 0;
  Seconds aceso_, usual_;
};

// What those profiles have costs for.
Knobs published_knobs() {
  Knobs knobs;
  knobs.tensor_parallel = knobs.sharded = true;
  return knobs;
}

void compare_published(const std::string& format) {
  const std::optional<Published> published =
      bench::published_profile(format, format == "aceso" ? "aceso_v100" : format);
  if (!published) return;
  Group group(format);
  for (const bench::Setting& setting : bench::settings_of(*published)) {
    group.compare(setting.name, task_of(*setting.model, *setting.cluster, setting.costs, published_knobs()));
  }
  group.print();
}

// A job against a hidden truth (docs/simulation.md), the same one for both searches.
SimulationOutcome simulated(const bench::Setting& setting, const char* strategy, std::uint64_t seed) {
  static const ThreadClock clock;
  SimulationInput input;
  input.model = *setting.model;
  input.cluster = *setting.cluster;
  for (Node& node : input.cluster.nodes) node.memory_bytes = kSimulatedMemory;
  input.costs = setting.costs;
  input.job.name = "simulated";
  input.job.mode = JobMode::kAuto;
  input.job.steps = 5000;
  input.job.strategy = strategy;
  input.job.knobs = published_knobs();
  input.job.trials.max_trials = 12;
  input.job.trials.deadline = std::chrono::hours(1);
  input.seed = seed;
  input.evaluations = kSimulatedEvaluations;
  input.stopwatch = &clock;
  return needed(simulate(input, [](double, const std::string&, const std::string&) {}));
}

void compare_simulated(const std::string& name) {
  const std::optional<Published> published = bench::published_profile("aceso", "aceso_v100");
  if (!published) return;
  for (const bench::Setting& setting : bench::settings_of(*published)) {
    if (!setting.name.starts_with(name + ".")) continue;
    for (const std::uint64_t seed : {1, 2, 3}) {
      const SimulationOutcome aceso = simulated(setting, "aceso", seed);
      const SimulationOutcome usual = simulated(setting, "", seed);
      const auto cell = [](const SimulationOutcome& of) {
        return of.planning_seconds / static_cast<double>(of.searches);
      };
      std::printf("| %s | %d | %.0f | %.0f | %zu | %zu | %.2f | %.2f |\n", name.c_str(), static_cast<int>(seed),
                  aceso.verdict.adopted_true_ms, usual.verdict.adopted_true_ms, aceso.verdict.trials,
                  usual.verdict.trials, cell(aceso), cell(usual));
      std::fflush(stdout);
    }
  }
}

Knobs random_knobs(Random& random) {
  Knobs knobs;
  for (bool Knobs::*const one :
       {&Knobs::tensor_parallel, &Knobs::sharded, &Knobs::mixed_splits, &Knobs::sub_batches, &Knobs::memory_switches,
        &Knobs::sequence_parallel, &Knobs::context_parallel, &Knobs::interleaved}) {
    knobs.*one = random.below(2) == 0;
  }
  return knobs;
}

void compare_random(int worlds) {
  Group group("random");
  for (int i = 0; i < worlds; ++i) {
    Random random(kSeed + static_cast<std::uint64_t>(i));
    tuner::test::World world = tuner::test::random_split_world(random, {14, 8, 6});
    if (i % 2 == 1) tuner::test::add_host_copies(random, world);
    group.compare(std::to_string(i), task_of(world.model, world.cluster, world.costs, random_knobs(random)));
  }
  group.print();
}

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The database is of one kind of hardware.
void compare_documents(char** words) {
  const Model model = needed(parse_model(text_of(words[1]), words[1]));
  Cluster cluster = needed(parse_cluster(text_of(words[2]), words[2]));
  const CostDatabase database = needed(CostDatabase::open(words[3], OpenMode::kReadOnly));
  const Job job = needed(load_job(words[4]));
  for (Node& node : cluster.nodes) {
    if (job.memory_limit > 0) node.memory_bytes = job.memory_limit;
  }
  Group group(words[0]);
  std::vector<Cost> costs;
  for (const Fingerprint& one : needed(database.fingerprints())) costs = needed(database.costs(hash(one)));
  group.compare("its job", task_of(model, cluster, costs, job.knobs));
  group.print();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const int worlds = what == "random" && count > 2 ? std::atoi(arguments[2]) : 100;
  if (what == "published" && count == 3) {
    compare_published(arguments[2]);
  } else if (what == "simulated" && count == 3) {
    compare_simulated(arguments[2]);
  } else if (what == "random" && worlds > 0) {
    compare_random(worlds);
  } else if (what == "documents" && count == 7) {
    compare_documents(arguments + 2);
  } else {
    std::fprintf(stderr,
                 "usage: %s published PROFILE | simulated SETTING | random [WORLDS] | documents NAME MODEL CLUSTER "
                 "COSTS.db JOB\n",
                 arguments[0]);
    return 2;
  }
  return 0;
}
