#include "arguments.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "plans/plan_rules.hpp"
#include "plans/plan_text.hpp"
#include "plans/prediction_text.hpp"
#include "plans/priced_inputs.hpp"
#include "schema/target.hpp"
#include "terminal_text.hpp"
#include "tuner/validate.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

struct Arguments {
  std::string file;
  std::string other;
  std::string model;
  std::string target;  // of check; empty = any
  std::string to = "trainer";
  std::string out;
  PricedFlags priced;
  bool json = false;
};

Result<int> show(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const Plan plan, read_plan(arguments.file));
  std::optional<Model> model;
  if (!arguments.model.empty()) {
    TRIMTAB_TRY(model, read_model(arguments.model));
  }
  const json answer = {
      {"hash", semantic_hash(plan)}, {"summary", one_line(plan)}, {"plan", json::parse(to_json(plan))}};
  console.out << (arguments.json ? json_text(answer, 2) + "\n" : describe(plan, model ? &*model : nullptr));
  return 0;
}

Result<int> diff(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const Plan before, read_plan(arguments.file));
  TRIMTAB_TRY(const Plan after, read_plan(arguments.other));
  const std::vector<PlanChange> changes = differences(before, after);
  if (arguments.json) {
    json list = json::array();
    for (const PlanChange& change : changes) {
      list.push_back({{"field", change.field}, {"before", change.before}, {"after", change.after}});
    }
    console.out << json_text({{"same", changes.empty()}, {"differences", list}}, 2) << "\n";
    return 0;
  }
  TextTable table({"field", "before", "after"});
  for (const PlanChange& change : changes) table.add({change.field, change.before, change.after});
  console.out << (changes.empty() ? "The plans mean the same.\n" : table.str());
  return 0;
}

// Whether the memory suffices is a prediction, made only where costs are given.
Result<std::optional<Prediction>> predict(const Arguments& arguments, const Plan& plan, Console& console) {
  if (arguments.priced.costs.empty()) return std::optional<Prediction>{};
  TRIMTAB_TRY(const PricedInputs inputs, read_priced_inputs(arguments.priced, console.err));
  TRIMTAB_TRY_STATUS(check_plan(arguments.file, plan, *inputs.cost_model));
  return std::optional<Prediction>{inputs.cost_model->evaluate(plan)};
}

struct TargetAnswer {
  std::string target;
  std::vector<std::string> complaints;  // what the plan sets and the target cannot do; empty = it runs all of it
};

// Of every target. REQUIRES: the plan fits the model. Where no target can count the model's layers, each says why.
std::vector<TargetAnswer> answers_of_targets(const Plan& plan, const Model& model) {
  std::vector<TargetAnswer> answers;
  for (const std::string_view target : targets()) {
    const auto complaints = unhonoured(plan, model, target);
    answers.push_back(
        {std::string(target), complaints.ok() ? *complaints : std::vector<std::string>{complaints.error().message}});
  }
  return answers;
}

// "Honoured by trainer, megatron." and a line for each other target with its first complaint.
std::string targets_text(const std::vector<TargetAnswer>& answers) {
  std::string honoured;
  std::string refused;
  for (const TargetAnswer& one : answers) {
    if (one.complaints.empty()) {
      honoured += (honoured.empty() ? "" : ", ") + one.target;
      continue;
    }
    refused += "  not " + one.target + ": " + one.complaints.front();
    const std::size_t more = one.complaints.size() - 1;
    refused += (more > 0 ? "; and " + std::to_string(more) + " more" : "") + "\n";
  }
  return "Honoured by " + (honoured.empty() ? "no target" : honoured) + ".\n" + refused;
}

struct Verdict {
  OwnSettings own;                  // of the plan: which a job has, and no target
  std::vector<std::string> broken;  // rules, and what the target that was asked for cannot do
  std::vector<TargetAnswer> targets;
  std::optional<Prediction> prediction;
};

json verdict_json(const Arguments& arguments, const Verdict& verdict) {
  json answer = {{"valid", verdict.broken.empty()}, {"broken", verdict.broken}};
  if (!arguments.target.empty()) answer["target"] = arguments.target;
  for (const TargetAnswer& one : verdict.targets) answer["unhonoured"][one.target] = one.complaints;
  if (!verdict.own.empty()) answer["unchecked_own"] = verdict.own;
  if (verdict.prediction) answer["prediction"] = json::parse(to_json(*verdict.prediction));
  return answer;
}

void print_check(const Arguments& arguments, const Verdict& verdict, Console& console) {
  if (arguments.json) {
    console.out << json_text(verdict_json(arguments, verdict), 2) << "\n";
    return;
  }
  if (!verdict.broken.empty()) {
    console.out << rules_text(arguments.file, verdict.broken) << "\n";
  } else if (!arguments.target.empty()) {
    console.out << arguments.file << ": is valid, and target " << arguments.target << " runs all of it"
                << (verdict.own.empty() ? "" : " but its own settings") << "\n";
  } else {
    console.out << arguments.file << ": is valid. " << targets_text(verdict.targets);
  }
  if (!verdict.own.empty()) {
    console.out << "Its own settings (" << printable(own_words(verdict.own))
                << ") were not checked: they are knobs of a job, which sets them where it is launched.\n";
  }
  if (verdict.broken.empty() && !verdict.prediction) console.out << "Memory was not checked: that needs --costs.\n";
  if (verdict.prediction) console.out << describe(*verdict.prediction);
}

Result<int> check(const Arguments& arguments, Console& console) {
  if (!arguments.target.empty()) TRIMTAB_TRY_STATUS(check_choice("--target", arguments.target, targets()));
  TRIMTAB_TRY(const Plan plan, read_plan(arguments.file));
  TRIMTAB_TRY(const Model model, read_model(arguments.priced.model));
  TRIMTAB_TRY(const Cluster cluster, read_cluster(arguments.priced.cluster));
  Verdict verdict;
  verdict.own = plan.own;
  verdict.broken = tuner::validate(plan, model, cluster);
  if (verdict.broken.empty() && !arguments.target.empty()) {
    TRIMTAB_TRY(verdict.broken, unhonoured(plan, model, arguments.target));
    for (std::string& one : verdict.broken) one = "target " + arguments.target + " does not honour " + one;
  } else if (verdict.broken.empty()) {
    verdict.targets = answers_of_targets(plan, model);
  }
  if (verdict.broken.empty()) {
    TRIMTAB_TRY(verdict.prediction, predict(arguments, plan, console));
  }
  // Rules say nothing of time: a plan that nothing prices may be valid, if its memory is known to suffice.
  if (verdict.prediction && !verdict.prediction->feasible) {
    const Prediction& prediction = *verdict.prediction;
    if (prediction.priced()) {
      verdict.broken.push_back(prediction.infeasible_reason);
    } else if (prediction.bottleneck.resource == "memory") {
      verdict.broken.push_back("stage " + std::to_string(prediction.bottleneck.stage) + " does not fit into memory");
    }
  }
  print_check(arguments, verdict, console);
  return verdict.broken.empty() ? 0 : 1;
}

// One line that a shell reads as these arguments.
std::string shell_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    const bool plain = argument.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == std::string::npos;
    line += (line.empty() ? "" : " ") + (plain ? argument : "'" + argument + "'");
  }
  return line + "\n";
}

Result<ExportedPlan> exported(const Arguments& arguments) {
  TRIMTAB_TRY(const Plan plan, read_plan(arguments.file));
  if (arguments.model.empty() && arguments.to == "trainer") return ExportedPlan{{}, "plan.json", to_json(plan) + "\n"};
  TRIMTAB_TRY_STATUS(check_choice("--to", arguments.to, targets()));
  if (arguments.model.empty()) {
    return bad_input("--model: target '" + arguments.to +
                     "' counts layers, which model.json tells; add --model model.json");
  }
  TRIMTAB_TRY(const Model model, read_model(arguments.model));
  TRIMTAB_TRY_STATUS(check_rules(arguments.file, plan, model));
  if (!plan.own.empty()) {
    return bad_input(arguments.file + ": own: " + own_words(plan.own) +
                     ": these are settings of the job's own, and no target's. Set " +
                     "them where the job is launched, and leave `own` out of the plan");
  }
  auto result = trimtab::export_plan(plan, model, arguments.to);
  if (!result.ok()) return wrap(arguments.file, result.error());
  return result;
}

Result<int> export_plan(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY_STATUS(check_apart("--out", arguments.out, {arguments.file, arguments.model}));
  TRIMTAB_TRY(const ExportedPlan out, exported(arguments));
  std::string text = out.file_text.empty() ? shell_line(out.arguments) : out.file_text;
  if (arguments.json) {
    text = json_text({{"target", arguments.to},
                      {"arguments", out.arguments},
                      {"environment", out.environment},
                      {"file_name", out.file_name},
                      {"file_text", out.file_text}},
                     2) +
           "\n";
  }
  TRIMTAB_TRY_STATUS(hand_out(text, arguments.out, "wrote " + arguments.out, console));
  if (!arguments.json && !out.file_text.empty() && !out.arguments.empty()) {
    console.err << "also needed in the command, by these names or the script's: " << shell_line(out.arguments);
  }
  for (const auto& [name, value] : out.environment) {
    if (!arguments.json)
      console.err << "also needed in the environment" << out.environment_when << ": " << name << "=" << value << "\n";
  }
  return 0;
}

Result<int> list_targets(const Arguments& arguments, Console& console) {
  json all = json::object();
  TextTable table({"target", "knob", "what becomes of it"});
  for (const std::string_view name : targets()) {
    TRIMTAB_TRY(const std::vector<TargetKnob> knobs, target_knobs(name));
    for (const TargetKnob& knob : knobs) {
      table.add({std::string(name), std::string(knob.name), std::string(knob.becomes)});
      all[std::string(name)].push_back({{"knob", knob.name}, {"becomes", knob.becomes}});
    }
  }
  console.out << (arguments.json ? json_text(all, 2) + "\n" : table.str());
  return 0;
}

CLI::App* add_part(CLI::App& group, Selection& selection, const std::shared_ptr<Arguments>& arguments,
                   Result<int> (*body)(const Arguments&, Console&), const char* name, const char* description,
                   const char* example) {
  CLI::App* verb = add_verb(group, name, description, example);
  add_value(verb, "plan", arguments->file, "FILE", "plan.json", Need::kRequired);
  add_action(verb, selection, arguments, body);
  return verb;
}

}  // namespace

void add_plan(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& plan = add_group(root, "plan", "Find, estimate, show, compare, check, export or import a plan",
                             "trimtab plan find --hf config.json --gpus 64xH100");
  add_plan_find(plan, selection);
  add_plan_estimate(plan, selection);
  CLI::App* verb = add_part(plan, selection, arguments, show, "show", "Print a plan for people",
                            "trimtab plan show plan.json --model model.json");
  add_value(verb, "--model", arguments->model, "FILE", "model.json, to name the operators");
  verb = add_part(plan, selection, arguments, diff, "diff", "Print what differs between two plans",
                  "trimtab plan diff initial.json adopted.json");
  add_value(verb, "other", arguments->other, "FILE", "The plan to compare with", Need::kRequired);
  verb = add_part(plan, selection, arguments, check, "check",
                  "Check that a plan is valid, and who runs it (exit 1: it is not)",
                  "trimtab plan check plan.json --model model.json --cluster cluster.json\n"
                  "  trimtab plan check plan.json --model model.json --cluster cluster.json --target trainer");
  add_priced_flags(verb, arguments->priced, Priced::kByCosts);
  add_value(verb, "--target", arguments->target, joined(targets(), "|"),
            "Also that this framework runs all of it (default: say which do)");
  verb = add_part(plan, selection, arguments, export_plan, "export", "Write a plan as its target reads it",
                  "trimtab plan export plan.json --to megatron --model model.json\n"
                  "  trimtab plan export plan.json --to deepspeed --model model.json --out deepspeed.json");
  add_value(verb, "--to", arguments->to, joined(targets(), "|"), "Target", Need::kHasDefault);
  add_value(verb, "--model", arguments->model, "FILE", "model.json, whose layers the target counts");
  add_value(verb, "--out", arguments->out, "FILE", "Where to write (default: standard output)");
  add_plan_import(plan, selection);
  verb = add_verb(plan, "targets", "List the targets and the knobs that each honours", "trimtab plan targets");
  add_action(verb, selection, arguments, list_targets);
}

}  // namespace trimtab::cli
