#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/numbers.hpp"
#include "budget.hpp"
#include "interrupt.hpp"
#include "plan_text.hpp"
#include "priced_inputs.hpp"
#include "text_table.hpp"
#include "tuner/search.hpp"
#include "verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  PricedFlags priced;
  std::string strategy = "aceso";
  std::string space = "job";
  std::string seed = "1";
  std::string threads;
  std::string budget = "2s";
  std::string knobs;
  std::string plans = "10";
  bool explain = false;
  bool json = false;
};

std::string plans_table(const SearchResult& result) {
  TextTable table({{"", true}, {"predicted", true}, {"95 % interval", true}, {"memory", true}, {"plan"}});
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const Prediction& prediction = result.plans[i].prediction;
    Bytes memory = 0;
    for (const StagePrediction& stage : prediction.stages) memory = std::max(memory, stage.memory_bytes);
    table.add({std::to_string(i + 1), format_ms(prediction.iteration_ms),
               format_ms(prediction.interval_low_ms) + " to " + format_ms(prediction.interval_high_ms),
               format_bytes(memory), one_line(result.plans[i].plan)});
  }
  return table.str();
}

std::string trace_table(const tuner::SearchOutcome& outcome) {
  TextTable table(
      {{"evaluations", true}, {"stages", true}, {"before", true}, {"after", true}, {"bottleneck"}, {"step"}});
  for (const tuner::SearchStep& step : outcome.trace) {
    table.add({std::to_string(step.evaluations), std::to_string(step.stages), format_ms(step.before_ms),
               format_ms(step.after_ms), step.bottleneck, step.primitive});
  }
  return table.str();
}

Result<tuner::SearchOptions> options_of(const Arguments& arguments, const Clock& clock) {
  if (arguments.space != "job") {
    return bad_input("--space: this release knows 'job' alone, but found '" + arguments.space + "'");
  }
  if (!arguments.threads.empty()) {
    TRIMTAB_TRY(const std::uint64_t threads, parse_count("--threads", arguments.threads));
    if (threads == 0) return bad_input("--threads: needs at least 1");
  }
  TRIMTAB_TRY(const Budget budget, parse_budget(arguments.budget));
  tuner::SearchOptions options;
  options.strategy = arguments.strategy;
  TRIMTAB_TRY(options.seed, parse_count("--seed", arguments.seed));
  TRIMTAB_TRY(options.plans, parse_count("--plans", arguments.plans));
  options.max_evaluations = budget.evaluations;
  const Nanoseconds end = clock.monotonic() + budget.time;
  const bool timed = budget.time.count() > 0;
  options.stop = [&clock, end, timed] { return InterruptGuard::interrupted() || (timed && clock.monotonic() >= end); };
  return options;
}

void print(const Arguments& arguments, const tuner::SearchOutcome& outcome, const Model& model, Console& console) {
  const SearchResult& result = outcome.result;
  if (arguments.json) {
    console.out << to_json(result) << "\n";
  } else {
    console.out << result.evaluations << " plans evaluated in " << format_ms(result.seconds * 1000)
                << ", stopped: " << result.stopped << (result.proven ? ", proven best" : "") << "\n"
                << (result.plans.empty() ? "" : plans_table(result));
  }
  if (!arguments.explain) return;
  std::ostream& stream = arguments.json ? console.err : console.out;
  stream << "\n" << tuner::explain(outcome, model) << "\n" << trace_table(outcome);
}

Result<int> search(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  const InterruptGuard guard;
  TRIMTAB_TRY(const Knobs knobs, parse_knobs(arguments.knobs));
  TRIMTAB_TRY(const PricedInputs inputs, read_priced_inputs(arguments.priced));
  const Nanoseconds begin = clock.monotonic();  // reading the documents is not searching
  TRIMTAB_TRY(const tuner::SearchOptions options, options_of(arguments, clock));
  const tuner::CostModel model(inputs.table, inputs.calibration);
  TRIMTAB_TRY(tuner::SearchOutcome outcome, tuner::search(model, knobs, options));
  outcome.result.seconds = std::chrono::duration<double>(clock.monotonic() - begin).count();
  print(arguments, outcome, inputs.model, console);
  if (!outcome.result.plans.empty()) return 0;
  console.err << "trimtab: no plan fits: " << outcome.infeasible << "\n";
  return 1;
}

}  // namespace

void add_search(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "search", "Search for the fastest plans, offline (exit 1: none fits)",
               "trimtab search --model model.json --cluster cluster.json --costs costs.db --budget 2s --json");
  add_priced_flags(verb, arguments->priced, false);
  std::string strategies;
  for (const std::string_view name : tuner::strategies())
    strategies += (strategies.empty() ? "" : "|") + std::string(name);
  add_value(verb, "--strategy", arguments->strategy, strategies, "Search strategy")->capture_default_str();
  add_value(verb, "--space", arguments->space, "job", "Space of plans")->capture_default_str();
  add_value(verb, "--seed", arguments->seed, "N", "Seed of the random choices")->capture_default_str();
  add_value(verb, "--threads", arguments->threads, "N", "Most threads to use; this release's strategies run on one");
  add_value(verb, "--budget", arguments->budget, "TIME|Nev", "Time (2s) or evaluations (100000ev)")
      ->capture_default_str();
  add_value(verb, "--knobs", arguments->knobs, "LIST", "Knobs that may be turned, separated by commas (default: all)");
  add_value(verb, "--plans", arguments->plans, "N", "How many plans to return")->capture_default_str();
  verb->add_flag("--explain", arguments->explain, "Say why the best plan is the best, and how it was found");
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return search(*arguments, console); };
  });
}

}  // namespace trimtab::cli
