#include "estimated/found_json.hpp"

#include "base/numbers.hpp"
#include "estimates/request.hpp"
#include "json_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::ordered_json;

// Names of docs/estimates.md.
ordered_json question_json(const Asked& asked, const estimates::Machine& machine, const estimates::UniformPlan& plan) {
  estimates::Machine used = machine;
  used.devices = plan.devices();
  return ordered_json::parse(estimates::to_json(estimates::Request{used, asked.shape, plan, {}}));
}

ordered_json told_json(const Asked& asked, const estimates::UniformPlan& plan) {
  const auto told = estimates::tell(plan, asked.model, asked.target);
  if (!told.ok()) return {{"error", told.error().message}};
  return {{"arguments", told->told.arguments},
          {"environment", told->told.environment},
          {"file_name", told->told.file_name},
          {"file_text", told->told.file_text},
          {"remarks", told->remarks}};
}

ordered_json plan_json(const Asked& asked, const estimates::Machine& machine, const estimates::PricedPlan& plan) {
  return {{"summary", estimates::words_of(plan.plan)},
          {"recomputed", estimates::recompute_words(plan.plan, asked.shape)},
          {"question", question_json(asked, machine, plan.plan)},
          {"answer", ordered_json::parse(estimates::to_json(plan.estimate))}};
}

ordered_json memory_json(const FoundPlans& plans, const estimates::PricedPlan& plan) {
  return {{"summary", estimates::words_of(plan.plan)},
          {"question", question_json(plans.asked, plans.machine, plan.plan)},
          {"process_bytes", plan.estimate.memory.process},
          {"fits", plan.estimate.memory.fits}};
}

ordered_json point_json(const FoundPlans& plans, const Prices& prices) {
  ordered_json point = {{"gpu", plans.machine.gpu.name},
                        {"gpus", plans.machine.devices},
                        {"fit", plans.found.plans.size()},
                        {"enumerated", plans.found.enumerated},
                        {"not_told_apart", estimates::not_told_apart(plans.found)},
                        {"plans", ordered_json::array()}};
  for (const estimates::PricedPlan* one : shown_plans(plans)) {
    point["plans"].push_back(plan_json(plans.asked, plans.machine, *one));
  }
  if (plans.found.plans.empty()) {
    for (const estimates::PricedPlan& one : plans.found.too_large) {
      point["nearest"].push_back(memory_json(plans, one));
      if (point["nearest"].size() == 5) break;
    }
    return point;
  }
  const estimates::PricedPlan& best = plans.found.plans.front();
  point["told"] = told_json(plans.asked, best.plan);
  if (const auto* rule = estimates::least_split(plans.found)) {
    point["rules"]["split_as_little_as_fits"] = plan_json(plans.asked, plans.machine, *rule);
  }
  if (const auto* rule = estimates::node_then_stages(plans.found, plans.machine)) {
    point["rules"]["tp_over_the_node_then_pp"] = plan_json(plans.asked, plans.machine, *rule);
  }
  if (prices.price_per_hour) {
    point["price_of_billion_tokens"] = price_of(plans.machine, best.estimate, plans.asked, *prices.price_per_hour);
  }
  if (prices.watts > 0) {
    point["kwh_of_billion_tokens"] = kilowatt_hours_of(plans.machine, best.estimate, plans.asked, prices.watts);
    point["watts_from"] = prices.watts_stated ? "you" : "data sheet";
  }
  return point;
}

}  // namespace

std::string found_json(const FoundCurve& curve) {
  const FoundPlans& first = curve.points.front();
  ordered_json answer = {{"target", estimates::name_of(first.asked.target)},
                         {"peak_tflops", estimates::peak_flops(first.machine.gpu, first.asked.precision) / 1e12},
                         {"assumed", first.asked.assumed},
                         {"least_chance", first.options.least_chance},
                         {"chosen", curve.chosen},
                         {"points", ordered_json::array()}};
  for (const FoundPlans& point : curve.points) answer["points"].push_back(point_json(point, curve.prices));
  return answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string evaluated_json(const Asked& asked, const estimates::Machine& machine, const estimates::PricedPlan& plan) {
  ordered_json answer = plan_json(asked, machine, plan);
  answer["assumed"] = asked.assumed;
  answer["told"] = told_json(asked, plan.plan);
  return answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace trimtab::cli
