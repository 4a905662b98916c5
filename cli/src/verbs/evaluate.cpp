#include "charts/gantt.hpp"
#include "estimated/own_plan.hpp"
#include "files.hpp"
#include "plans/plan_text.hpp"
#include "plans/prediction_text.hpp"
#include "plans/priced_inputs.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  PricedFlags priced;
  OwnPlanFlags own;
  std::string plan;
  std::string gantt;
  std::string trace;
  bool explain = false;
  bool json = false;
};

Status write_drawings(const Arguments& arguments, const tuner::CostModel& model, const Plan& plan,
                      const Prediction& prediction, Console& console) {
  if (arguments.gantt.empty() && arguments.trace.empty()) return {};
  if (!prediction.priced()) {
    console.err << "trimtab: nothing is drawn of a plan that is not priced\n";
    return {};
  }
  const auto timeline = model.timeline(plan);
  if (!arguments.gantt.empty()) {
    const GanttOptions options{"One iteration of " + one_line(plan), 0, true, model.step_path(plan)};
    TRIMTAB_TRY_STATUS(write_file(arguments.gantt, gantt_svg(timeline, options)));
  }
  if (!arguments.trace.empty()) TRIMTAB_TRY_STATUS(write_file(arguments.trace, trace_json(timeline)));
  return {};
}

// Without costs a plan is estimated, from other documents.
Status check_one_way(const Arguments& arguments) {
  const PricedFlags& priced = arguments.priced;
  if (asks_estimate(arguments.own)) {
    if (priced.model.empty() && priced.cluster.empty() && priced.costs.empty() && arguments.gantt.empty() &&
        arguments.trace.empty() && !arguments.explain) {
      return {};
    }
    return bad_input(
        "evaluate: --model, --cluster, --costs, --gantt, --trace and --explain go with measured costs; --hf, "
        "--megatron, --gpus and a plan's options with an estimate. Give those of one kind");
  }
  for (const auto& [flag, value] : {std::pair("--model", &priced.model),
                                    {"--cluster", &priced.cluster},
                                    {"--costs", &priced.costs},
                                    {"--plan", &arguments.plan}}) {
    if (!value->empty()) continue;
    return bad_input(std::string(flag) +
                     " is required, where measured costs price a plan. Without them: --hf config.json --gpus 64xH100 "
                     "--tp 4 (an estimate)");
  }
  return {};
}

Result<int> evaluate(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY_STATUS(check_one_way(arguments));
  if (asks_estimate(arguments.own)) {
    return estimate_own_plan(arguments.own, arguments.plan, arguments.json, console);
  }
  TRIMTAB_TRY(const Plan plan, read_plan(arguments.plan));
  PricedFlags priced = arguments.priced;
  priced.measured = arguments.own.asked.measured;
  TRIMTAB_TRY(const PricedInputs inputs, read_priced_inputs(priced, console.err));
  const tuner::CostModel& model = *inputs.cost_model;
  TRIMTAB_TRY_STATUS(check_plan(arguments.plan, plan, model));
  const Prediction prediction = model.evaluate(plan);
  TRIMTAB_TRY_STATUS(write_drawings(arguments, model, plan, prediction, console));
  if (arguments.json) {
    console.out << to_json(prediction) << "\n";
  } else {
    console.out << one_line(plan) << "\n" << describe(prediction);
  }
  // With --json the explanation goes beside the document, not into it.
  if (arguments.explain) {
    std::ostream& stream = arguments.json ? console.err : console.out;
    stream << "\n" << explain(prediction, plan) << rests_on_text(model.rests_on(plan));
  }
  return prediction.feasible ? 0 : 1;
}

}  // namespace

void add_evaluate(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(
      root, "evaluate", "Predict the iteration time and memory of a plan (exit 1: it does not fit, or is not priced)",
      "trimtab evaluate --model model.json --cluster cluster.json --costs costs.db --plan plan.json "
      "--gantt plan.svg\n"
      "  trimtab evaluate --hf config.json --gpus 64xH100 --tp 4 --pp 2 --zero 1");
  add_priced_flags(verb, arguments->priced, Priced::kOtherwise);
  add_own_plan_flags(verb, arguments->own);
  add_value(verb, "--plan", arguments->plan, "FILE", "plan.json");
  add_value(verb, "--gantt", arguments->gantt, "FILE", "Draw one iteration into this SVG file");
  add_value(verb, "--trace", arguments->trace, "FILE", "Write one iteration as a trace that Perfetto opens");
  add_flag(verb, "--explain", arguments->explain, "Say where the time and the memory go");
  add_action(verb, selection, arguments, evaluate);
}

}  // namespace trimtab::cli
