// What every search strategy answers, against the texts of tests/tuner/golden. Budgets are of evaluations, so that a
// text is the same on every machine.

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>

#include "golden/answer_text.hpp"
#include "golden/golden_file.hpp"
#include "golden/worlds.hpp"
#include "schema/target.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner::golden {
namespace {

constexpr std::uint64_t kEvaluations = 1500;

// One way to ask a strategy, for all of some worlds.
struct Question {
  std::string cost_model;
  std::string space;
  std::string what = {};  // for the heading, where more is set
  std::function<void(SearchOptions&)> set = [](SearchOptions&) {};
  Knobs knobs = {};
  bool warm = false;   // starts from the usual guess
  bool again = false;  // once more, without the best plan
};

class Answers {
 public:
  explicit Answers(std::string strategy) : strategy_(std::move(strategy)) {}

  void ask(const Worlds& worlds, const Question& question) {
    std::size_t found = 0;
    for (const NamedWorld& of : worlds) {
      if (ask(of, question)) ++found;
    }
    // A golden text of nothing but "no plan fits" protects nothing.
    INFO(strategy_ << ", " << question.cost_model << ", " << question.space << " " << question.what);
    CHECK(2 * found >= worlds.size());
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  // Whether there is a plan. Of each cost model's first one the search's own words are recorded too.
  bool ask(const NamedWorld& of, const Question& question) {
    const std::unique_ptr<CostModel> model = of.model(question.cost_model);
    SearchOptions options;
    options.strategy = strategy_;
    options.space = question.space;
    options.max_evaluations = kEvaluations;
    if (question.warm) options.start = usual_guess(of.world.model, of.world.cluster, question.knobs);
    question.set(options);
    text_ += "== " + strategy_ + ", " + question.cost_model + ", " + question.space +
             (question.what.empty() ? "" : ", " + question.what) + ": " + of.name + "\n";
    Result<SearchOutcome> outcome = search(*model, question.knobs, options);
    if (question.again && outcome.ok() && !outcome->result.plans.empty()) {
      options.excluded = {semantic_hash(outcome->result.plans.front().plan)};
      outcome = search(*model, question.knobs, options);
    }
    if (!outcome.ok()) {
      text_ += "refused: " + outcome.error().message + "\n";
      return false;
    }
    text_ += outcome_text(*outcome);
    const bool found = !outcome->result.plans.empty();
    if (found && explained_.insert(question.cost_model).second) text_ += explained_text(*outcome, of.world.model);
    return found;
  }

  std::string strategy_;
  std::string text_;
  std::set<std::string> explained_;  // cost models
};

// Knobs that few targets honour, all on.
Knobs every_knob() {
  Knobs knobs;
  knobs.tensor_parallel = knobs.sharded = knobs.sliced_microbatches = knobs.sub_batches = true;
  return knobs;
}

TEST_CASE("golden: aceso answers as recorded", "[golden]") {
  Answers answers("aceso");
  answers.ask(random_worlds(7101, 5), {"native", "job"});
  answers.ask(random_worlds(7102, 3, {12, 8, 6}), {"native", "job", "seed 2, 3 hops", [](SearchOptions& options) {
                                                     options.seed = 2;
                                                     options.aceso.max_hops = 3;
                                                   }});
  answers.ask(random_worlds(7103, 3, {12, 8, 6}), {"native", "job", "without heuristic 2", [](SearchOptions& options) {
                                                     options.aceso.use_heuristic_2 = false;
                                                   }});
  answers.ask(split_worlds(7104, 4, {8, 4, 3}),
              {.cost_model = "native", .space = "job", .what = "every knob", .knobs = every_knob()});
  answers.ask(split_worlds(7105, 4, {8, 4, 3}), {"native", "all"});
  answers.ask(random_worlds(7107, 2, {12, 8, 6}), {.cost_model = "native",
                                                   .space = "job",
                                                   .what = "warm, plans that differ by 5 % alone",
                                                   .set = [](SearchOptions& options) { options.distinct = 0.05; },
                                                   .warm = true});
  answers.ask(random_worlds(7108, 2),
              {.cost_model = "native", .space = "job", .what = "without the best", .again = true});
  for (const char* const space : {"aceso", "aceso-recompute", "aceso-mixed", "aceso-free"}) {
    answers.ask(aceso_worlds(7106, 4), {"aceso", space});
  }
  check_golden("aceso.txt", answers.text());
}

TEST_CASE("golden: autopipe answers as recorded", "[golden]") {
  Answers answers("autopipe");
  Knobs plain;
  plain.recompute = false;
  Knobs deep = plain;  // as many stages as devices: then slices pay
  deep.data_parallel = false;
  for (const char* const cost_model : {"autopipe:blocking", "autopipe:eager"}) {
    answers.ask(pipeline_worlds(7201, 4), {cost_model, "autopipe-whole"});
    answers.ask(pipeline_worlds(7202, 4),
                {.cost_model = cost_model, .space = "autopipe", .what = "no recompute", .knobs = plain});
  }
  for (const char* const cost_model : {"autopipe:blocking", "autopipe:eager", "native"}) {
    answers.ask(pipeline_worlds(7206, 3),
                {.cost_model = cost_model, .space = "autopipe", .what = "no replicas", .knobs = deep});
    answers.ask(pipeline_worlds(7207, 3, {24, 8, 14}),
                {.cost_model = cost_model, .space = "autopipe", .what = "no replicas, long", .knobs = deep});
  }
  answers.ask(pipeline_worlds(7203, 4), {"native", "autopipe-whole"});
  answers.ask(pipeline_worlds(7204, 3),
              {.cost_model = "native", .space = "autopipe", .what = "no recompute", .knobs = plain});
  answers.ask(pipeline_worlds(7205, 2), {"native", "job"});
  check_golden("autopipe.txt", answers.text());
}

TEST_CASE("golden: galvatron answers as recorded", "[golden]") {
  Answers answers("galvatron");
  answers.ask(galvatron_worlds(7301, 4, kGalvatronContext), {"galvatron:v1", "galvatron"});
  answers.ask(galvatron_worlds(7306, 3, kTightGalvatronContext), {"galvatron:v1", "galvatron", "little memory"});
  answers.ask(galvatron_worlds(7301, 4, kGalvatronContext), {"galvatron:v2", "galvatron"});
  answers.ask(galvatron_worlds(7301, 4), {"galvatron:paper", "galvatron"});
  answers.ask(galvatron_worlds(7302, 4), {"galvatron:paper", "galvatron-mixed"});
  answers.ask(galvatron_worlds(7303, 2, kGalvatronContext),
              {"galvatron:v2", "galvatron", "without mixed splits",
               [](SearchOptions& options) { options.without = {"mixed_splits"}; }});
  answers.ask(split_worlds(7304, 4, {6, 4, 3}), {"native", "galvatron"});
  answers.ask(random_worlds(7305, 3), {"native", "job"});
  check_golden("galvatron.txt", answers.text());
}

TEST_CASE("golden: h3t answers as recorded", "[golden]") {
  Answers answers("h3t");
  for (const char* const cost_model : {"h3t:nvlink", "h3t:pcie"}) {
    for (const std::string_view solver : h3t_solvers()) {
      answers.ask(h3t_worlds(), {cost_model, "job", "solver " + std::string(solver),
                                 [&](SearchOptions& options) { options.h3t.solver = solver; }});
    }
    answers.ask(h3t_worlds(), {cost_model, "job", "free synchronization",
                               [](SearchOptions& options) { options.h3t.free_synchronization = true; }});
  }
  const auto enough = [](SearchOptions& options) { options.max_evaluations = 6000; };
  answers.ask(h3t_worlds(), {"native", "all", "6,000 evaluations", enough});
  answers.ask(tight_worlds(7401, 4, {4, 4, 2}), {"native", "all", "6,000 evaluations", enough});
  check_golden("h3t.txt", answers.text());
}

TEST_CASE("golden: oases answers as recorded", "[golden]") {
  Answers answers("oases");
  for (const char* const cost_model : {"oases:paper", "oases:published"}) {
    for (const std::int32_t most : {0, 1, 2}) {
      answers.ask(first(most == 0 ? 6 : 3, oases_worlds()),
                  {cost_model, "oases", "degrees " + std::to_string(most),
                   [most](SearchOptions& options) { options.oases.degrees = most; }});
    }
  }
  answers.ask(first(2, oases_worlds()),
              {.cost_model = "oases:paper", .space = "oases", .what = "without the best", .again = true});
  answers.ask(gpt_worlds(7501, 2), {"native", "all"});
  answers.ask(split_worlds(7502, 3, {8, 4, 3}), {"native", "all"});
  check_golden("oases.txt", answers.text());
}

TEST_CASE("golden: target answers as recorded, for every target", "[golden]") {
  Answers answers("target");
  for (const std::string_view target : targets()) {
    if (!limits_plans(target)) continue;
    Knobs knobs;
    knobs.tensor_parallel = knobs.sharded = true;
    const auto set = [target](SearchOptions& options) { options.target = target; };
    answers.ask(gpt_worlds(7601, 2), {"native", "all", std::string(target), set, within_target(knobs, target)});
  }
  check_golden("target.txt", answers.text());
}

TEST_CASE("golden: unified answers as recorded under the native model", "[golden]") {
  const auto enough = [](SearchOptions& options) { options.max_evaluations = 6000; };
  Answers answers("unified");
  answers.ask(random_worlds(7701, 5), {"native", "job"});
  answers.ask(random_worlds(7702, 2, {12, 8, 6}), {"native", "job", "no enumeration", [](SearchOptions& options) {
                                                     options.unified.enumerated_ways = 0;
                                                     options.unified.stage_program = false;
                                                   }});
  answers.ask(random_worlds(7708, 3, {24, 8, 14}), {"native", "job", "longer, 6,000 evaluations", enough});
  answers.ask(split_worlds(7709, 2, {20, 8, 10}), {"native", "all", "longer, 6,000 evaluations", enough});
  answers.ask(random_worlds(7710, 3, {16, 6, 10}),
              {"native", "job", "no budget", [](SearchOptions& options) { options.max_evaluations = 0; }});
  answers.ask(split_worlds(7703, 3, {8, 4, 3}),
              {.cost_model = "native", .space = "job", .what = "every knob", .knobs = every_knob()});
  answers.ask(split_worlds(7704, 4, {6, 4, 3}), {"native", "all"});
  answers.ask(split_worlds(7707, 2, {6, 4, 3}),
              {.cost_model = "native", .space = "all", .what = "without the best", .again = true});
  answers.ask(tight_worlds(7706, 3, {5, 4, 3}), {"native", "all"});
  answers.ask(gpt_worlds(7705, 1),
              {"native", "all", "trainer", [](SearchOptions& options) { options.target = "trainer"; }});
  check_golden("unified_native.txt", answers.text());
}

TEST_CASE("golden: unified answers as recorded under every paper's model", "[golden]") {
  Answers answers("unified");
  for (const char* const space : {"aceso", "aceso-free"}) {
    answers.ask(aceso_worlds(7711, 3), {"aceso", space});
    answers.ask(aceso_worlds(7715, 2, 24), {"aceso", space, "longer"});
  }
  answers.ask(pipeline_worlds(7712, 2), {"autopipe:blocking", "autopipe"});
  answers.ask(pipeline_worlds(7713, 2), {"autopipe:eager", "autopipe-whole"});
  answers.ask(galvatron_worlds(7714, 2, kGalvatronContext), {"galvatron:v1", "galvatron"});
  answers.ask(galvatron_worlds(7714, 2, kGalvatronContext), {"galvatron:v2", "galvatron"});
  answers.ask(galvatron_worlds(7714, 2), {"galvatron:paper", "galvatron-mixed"});
  for (const char* const cost_model : {"h3t:nvlink", "h3t:pcie"}) answers.ask(h3t_worlds(), {cost_model, "job"});
  for (const char* const cost_model : {"oases:paper", "oases:published"}) {
    answers.ask(first(4, oases_worlds()), {cost_model, "oases"});
  }
  check_golden("unified_papers.txt", answers.text());
}

TEST_CASE("golden: exhaustive answers as recorded", "[golden]") {
  const auto enough = [](SearchOptions& options) { options.max_evaluations = 20000; };
  Answers answers("exhaustive");
  answers.ask(random_worlds(7811, 5, {6, 3, 2}), {"native", "job", "20,000 evaluations", enough});
  answers.ask(random_worlds(7802, 3), {"native", "job"});
  answers.ask(random_worlds(7803, 3, {5, 3, 2}),
              {"native", "job", "idle devices", [](SearchOptions& options) { options.idle_devices = true; }});
  answers.ask(split_worlds(7804, 4, {3, 2, 2}), {"native", "all", "20,000 evaluations", enough});
  answers.ask(tight_worlds(7807, 3, {2, 2, 2}), {"native", "all", "20,000 evaluations", enough});
  answers.ask(aceso_worlds(7805, 2), {"aceso", "aceso-mixed"});
  answers.ask(pipeline_worlds(7806, 2), {"autopipe:blocking", "autopipe"});
  answers.ask(first(3, oases_worlds()), {"oases:paper", "oases"});
  answers.ask(h3t_worlds(), {"h3t:nvlink", "job"});
  check_golden("exhaustive.txt", answers.text());
}

}  // namespace
}  // namespace trimtab::tuner::golden
