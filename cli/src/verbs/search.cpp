#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "base/numbers.hpp"
#include "costs/cost_text.hpp"
#include "files.hpp"
#include "jobs/interrupt.hpp"
#include "plans/plan_text.hpp"
#include "plans/prediction_text.hpp"
#include "plans/priced_inputs.hpp"
#include "schema/plan_words.hpp"
#include "schema/target.hpp"
#include "terminal_text.hpp"
#include "tuner/search.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  PricedFlags priced;
  std::string strategy;  // empty = aceso, or target where one is named
  std::string space;     // empty = job, or all where a target is named
  std::string target;
  std::string seed = "1";
  std::string threads;
  std::string budget = "2s";
  std::string knobs;
  std::string plans = "10";
  std::string start;
  std::string trace;
  std::string max_hops = "7";
  std::string oases_degrees = "0";
  bool no_heuristic_2 = false;
  std::string h3t_solver = "exact";
  std::vector<std::string> without;
  bool h3t_free_sync = false;
  bool explain = false;
  bool json = false;
};

std::string plans_table(const SearchResult& result) {
  TextTable table({">", ">predicted", ">95 % interval", ">memory", "plan"});
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

std::string trace_csv(const tuner::SearchOutcome& outcome) {
  std::string text = "evaluations,stages,before_ms,after_ms,after_excess_bytes,bottleneck,step\n";
  for (const tuner::SearchStep& step : outcome.trace) {
    text += std::to_string(step.evaluations) + "," + std::to_string(step.stages) + "," +
            format_fixed(step.before_ms, 6) + "," + format_fixed(step.after_ms, 6) + "," +
            format_fixed(step.after_excess_bytes, 0) + "," + csv_cell(step.bottleneck) + "," +
            csv_cell(step.primitive) + "\n";
  }
  return text;
}

// Those that were named and no others; else those of a job that names none.
Result<Knobs> knobs_of(const Arguments& arguments) {
  TRIMTAB_TRY(Knobs knobs, parse_knobs(arguments.knobs));
  if (arguments.knobs.empty() && limits_plans(arguments.target)) knobs.tensor_parallel = knobs.sharded = true;
  return knobs;
}

// What the named knobs leave out stays out of the space without the target's limits too: its limits alone are weighed.
void hold_named_knobs(const Arguments& arguments, const Knobs& knobs, tuner::SearchOptions& options) {
  if (arguments.knobs.empty()) return;
  if (!knobs.tensor_parallel) options.without.emplace_back("tensor_parallel");
  if (!knobs.sharded) options.without.emplace_back("sharded");
  if (!knobs.sliced_microbatches) options.without.emplace_back("sliced_microbatches");
  if (!knobs.sub_batches) options.without.emplace_back("sub_batches");
  if (!knobs.memory_switches) options.without.emplace_back("memory_switches");
}

// Everything but when to stop, which begins with the search.
Result<tuner::SearchOptions> options_of(const Arguments& arguments) {
  tuner::SearchOptions options;
  const bool targeted = limits_plans(arguments.target);
  if (!arguments.target.empty()) TRIMTAB_TRY_STATUS(check_choice("--target", arguments.target, targets()));
  options.target = arguments.target;
  options.strategy = !arguments.strategy.empty() ? arguments.strategy : targeted ? "target" : "aceso";
  options.space = !arguments.space.empty() ? arguments.space : targeted ? "all" : "job";
  TRIMTAB_TRY_STATUS(check_choice("--strategy", options.strategy, tuner::strategies()));
  TRIMTAB_TRY_STATUS(check_choice("--space", options.space, tuner::plan_spaces()));
  if (!arguments.threads.empty()) {
    TRIMTAB_TRY(const std::uint64_t threads, parse_count("--threads", arguments.threads));
    if (threads == 0) return bad_input("--threads: needs at least 1");
  }
  TRIMTAB_TRY(options.seed, parse_count("--seed", arguments.seed));
  TRIMTAB_TRY(options.plans, parse_count("--plans", arguments.plans));
  TRIMTAB_TRY(const std::uint64_t hops, parse_count("--aceso-max-hops", arguments.max_hops));
  if (hops < 1 || hops > 100)
    return bad_input("--aceso-max-hops: expected 1 to 100, but found '" + arguments.max_hops + "'");
  options.aceso.max_hops = static_cast<int>(hops);
  TRIMTAB_TRY(const std::uint64_t degrees, parse_count("--oases-degrees", arguments.oases_degrees));
  if (degrees > 16) return bad_input("--oases-degrees: expected 0 to 16, but found '" + arguments.oases_degrees + "'");
  options.oases.degrees = static_cast<std::int32_t>(degrees);
  options.aceso.use_heuristic_2 = !arguments.no_heuristic_2;
  TRIMTAB_TRY_STATUS(check_choice("--h3t-solver", arguments.h3t_solver, tuner::h3t_solvers()));
  options.h3t.solver = arguments.h3t_solver;
  options.without = arguments.without;
  options.h3t.free_synchronization = arguments.h3t_free_sync;
  if (!arguments.start.empty()) {
    TRIMTAB_TRY(options.start, read_plan(arguments.start));
  }
  return options;
}

// The budget is what the whole answer may take: reading the documents and costs counts, and a little is left to write
// the answer. The search gets a quarter of it however long the reading took.
//
// In `parts` equal parts where several searches share it: this is for the one that comes next.
void set_budget(const Budget& budget, const Clock& clock, Nanoseconds begin, int parts, tuner::SearchOptions& options) {
  constexpr Nanoseconds kMostToWrite = std::chrono::milliseconds(60);
  const auto shares = static_cast<std::uint64_t>(parts);
  options.max_evaluations = (budget.evaluations + shares - 1) / shares;  // 0 is no limit
  const Nanoseconds end = std::max(begin + (budget.time - std::min(budget.time / 20, kMostToWrite)) / parts,
                                   clock.monotonic() + budget.time / (4 * parts));
  const bool timed = budget.time.count() > 0;
  if (timed) {
    const Nanoseconds now = clock.monotonic();
    const double all = std::chrono::duration<double>(end - now).count();
    options.spent = [&clock, now, all] { return std::chrono::duration<double>(clock.monotonic() - now).count() / all; };
  }
  options.stop = [&clock, end, timed] { return InterruptGuard::interrupted() || (timed && clock.monotonic() >= end); };
}

// What a target's limits cost: its best plan beside the best of the space that nothing restricts.
struct TargetCost {
  std::string target;
  double target_ms = 0;
  RankedPlan free;  // never slower than the target's plan
};

double share_of(const TargetCost& cost) {
  return cost.target_ms / cost.free.prediction.iteration_ms - 1;
}

// Searches the same space without the target, by `unified`. `options` are those of the target's search, with what is
// left of the budget; `best` is its best plan.
Result<TargetCost> target_cost(const tuner::CostModel& cost_model, const Knobs& knobs, tuner::SearchOptions options,
                               const RankedPlan& best) {
  TargetCost cost{options.target, best.prediction.iteration_ms, best};
  options.target.clear();
  options.strategy = "unified";
  options.plans = 1;
  options.start = best.plan;
  TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(cost_model, knobs, options));
  // Where the space cannot express the target's plan, or time ran out, the best that is known stands.
  const auto& plans = outcome.result.plans;
  if (!plans.empty() && plans.front().prediction.iteration_ms < cost.target_ms) cost.free = plans.front();
  return cost;
}

// "The limits of megatron cost 12.3 %: 374 ms instead of 333 ms for …"
std::string target_cost_text(const TargetCost& cost) {
  if (share_of(cost) < 0.0005) return "The limits of " + cost.target + " cost nothing that was found.\n";
  return "The limits of " + cost.target + " cost " + format_percent(share_of(cost)) + ": " + format_ms(cost.target_ms) +
         " instead of " + format_ms(cost.free.prediction.iteration_ms) + " in the free space, with " +
         one_line(cost.free.plan) + "\n";
}

// "The first in the words of ddp: batch_size=16 per rank, …"
std::string words_text(const std::string& target, const SearchResult& result, const Model& model) {
  const std::string words = result.plans.empty() ? "" : plan_words(result.plans.front().plan, model, target);
  return words.empty() ? "" : "The first in the words of " + target + ": " + words + "\n";
}

// The search's document with a member "target".
std::string with_target_cost(const std::string& search_json, const TargetCost& cost) {
  auto json = nlohmann::ordered_json::parse(search_json);
  json["target"] = {{"name", cost.target},
                    {"limits_cost", share_of(cost)},
                    {"free_ms", cost.free.prediction.iteration_ms},
                    {"free_plan", nlohmann::ordered_json::parse(to_json(cost.free.plan))}};
  return json.dump();
}

void print(const Arguments& arguments, const tuner::SearchOutcome& outcome, const tuner::CostModel& cost_model,
           const std::optional<TargetCost>& cost, Console& console) {
  const SearchResult& result = outcome.result;
  if (arguments.json) {
    console.out << (cost ? with_target_cost(to_json(result), *cost) : to_json(result)) << "\n";
  } else {
    console.out << result.evaluations << " plans evaluated in " << format_ms(result.seconds * 1000)
                << ", stopped: " << result.stopped << (result.proven ? ", proven best" : "") << "\n"
                << (result.plans.empty() ? "" : plans_table(result))
                << words_text(arguments.target, result, cost_model.model()) << (cost ? target_cost_text(*cost) : "");
  }
  if (!arguments.explain) return;
  std::ostream& stream = arguments.json ? console.err : console.out;
  stream << "\n" << tuner::explain(outcome, cost_model.model()) << "\n" << tuner::explain_iterations(outcome.trace);
  if (!result.plans.empty()) stream << rests_on_text(cost_model.rests_on(result.plans.front().plan));
}

Result<int> search(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  const Nanoseconds begin = clock.monotonic();
  const InterruptGuard guard;
  TRIMTAB_TRY(const Knobs knobs, knobs_of(arguments));
  TRIMTAB_TRY(const Budget budget, parse_budget(arguments.budget));
  TRIMTAB_TRY(tuner::SearchOptions options, options_of(arguments));
  TRIMTAB_TRY(const PricedInputs inputs, read_priced_inputs(arguments.priced, console.err));
  const tuner::CostModel& cost_model = *inputs.cost_model;
  if (options.start) TRIMTAB_TRY_STATUS(check_plan(arguments.start, *options.start, cost_model));
  const bool limited = options.strategy == "target";
  set_budget(budget, clock, begin, limited ? 2 : 1, options);
  TRIMTAB_TRY(tuner::SearchOutcome outcome, tuner::search(cost_model, knobs, options));
  std::optional<TargetCost> cost;
  if (limited && !outcome.result.plans.empty() && !InterruptGuard::interrupted()) {
    set_budget(budget, clock, clock.monotonic(), 2, options);
    hold_named_knobs(arguments, knobs, options);
    TRIMTAB_TRY(cost, target_cost(cost_model, knobs, options, outcome.result.plans.front()));
  }
  // The search cannot tell a person from the clock.
  if (outcome.result.stopped == "cancelled" && !InterruptGuard::interrupted()) outcome.result.stopped = "budget";
  outcome.result.seconds = std::chrono::duration<double>(clock.monotonic() - begin).count();
  if (!arguments.trace.empty()) TRIMTAB_TRY_STATUS(write_file(arguments.trace, trace_csv(outcome)));
  print(arguments, outcome, cost_model, cost, console);
  if (!outcome.result.plans.empty()) return 0;
  console.err << "trimtab: " << outcome.infeasible << "\n";
  return 1;
}

}  // namespace

void add_search(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "search", "Search for the fastest plans, offline (exit 1: none was found that fits)",
               "trimtab search --model model.json --cluster cluster.json --costs costs.db --budget 2s --json\n"
               "  trimtab search --model gpt-1_3B.json --cluster gpt-1_3B.cluster.json --costs costs.db "
               "--cost-model aceso --space aceso --strategy unified --budget 100000ev --explain");
  add_priced_flags(verb, arguments->priced, Priced::kAlways);
  add_value(verb, "--strategy", arguments->strategy, joined(tuner::strategies(), "|"),
            "Search strategy (default: aceso; target with --target)");
  add_value(verb, "--space", arguments->space, joined(tuner::plan_spaces(), "|"),
            "Space of plans: what the job's knobs allow, or that of a published search (default: job; all with "
            "--target)");
  add_value(verb, "--target", arguments->target, joined(targets(), "|"),
            "Only plans that this framework can run, and what its limits cost against the free space");
  add_value(verb, "--seed", arguments->seed, "N", "Seed of the random choices", Need::kHasDefault);
  add_value(verb, "--threads", arguments->threads, "N", "Most threads to use; this release's strategies run on one");
  add_value(verb, "--budget", arguments->budget, "TIME|Nev",
            "Time (2s) or evaluations (100000ev); with --target's own strategy half of it goes to the comparison with "
            "the free space",
            Need::kHasDefault);
  add_value(
      verb, "--knobs", arguments->knobs, "LIST",
      "Knobs that may be turned, separated by commas (default: those of a job that names none; with --target what it "
      "honours)");
  add_value(verb, "--plans", arguments->plans, "N", "How many plans to return", Need::kHasDefault);
  add_value(verb, "--start", arguments->start, "FILE", "plan.json to start from (default: the strategy's own)");
  add_value(verb, "--aceso-max-hops", arguments->max_hops, "N", "aceso: primitives in a row before it backtracks",
            Need::kHasDefault);
  add_flag(verb, "--aceso-no-heuristic-2", arguments->no_heuristic_2,
           "aceso: try resources and primitives in random order");
  add_value(
      verb, "--oases-degrees", arguments->oases_degrees, "N",
      "oases: most tensor-parallel degrees, each on operators in a row; nothing is proven then (0: any, anywhere)",
      Need::kHasDefault);
  add_values(verb, "--without", arguments->without, "recompute,tensor_parallel,...",
             "Families of knobs to leave out, to see what they are worth")
      ->delimiter(',');
  add_value(verb, "--h3t-solver", arguments->h3t_solver, joined(tuner::h3t_solvers(), "|"),
            "h3t: the exact solver, or one of the paper's", Need::kHasDefault);
  add_flag(verb, "--h3t-free-sync", arguments->h3t_free_sync,
           "h3t: then try layers that do not synchronize; the proven bound does not count them");
  add_value(verb, "--trace", arguments->trace, "FILE", "Write every iteration as CSV");
  add_flag(verb, "--explain", arguments->explain, "Say why the best plan is the best, and how it was found");
  add_action(verb, selection, arguments, search);
}

}  // namespace trimtab::cli
