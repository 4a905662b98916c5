#include "estimated/found_text.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/numbers.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using estimates::Found;
using estimates::PricedPlan;
using estimates::UniformPlan;

constexpr std::size_t kMostTried = 3;

std::string interval(const estimates::Estimate& estimate) {
  return seconds(estimate.least_s) + " to " + seconds(estimate.most_s);
}

std::string chance(double value) {
  if (value > 0.99) return "> 99 %";
  return format_number(value * 100, 0) + " %";
}

std::vector<std::string> knobs_of(const UniformPlan& plan, const estimates::ModelShape& shape) {
  return {std::to_string(plan.tensor),     std::to_string(plan.stages),
          std::to_string(plan.chunks),     std::to_string(plan.context),
          std::to_string(plan.replicas),   std::to_string(plan.microbatch),
          estimates::sharding_words(plan), estimates::recompute_words(plan, shape)};
}

std::string plans_table(const FoundPlans& plans, const std::vector<const PricedPlan*>& rows) {
  // A plan may leave GPUs idle. What is told for each GPU is of those that it uses.
  const bool same =
      std::ranges::all_of(rows, [&](const PricedPlan* one) { return one->plan.devices() == plans.machine.devices; });
  std::vector<Column> columns{">#"};
  if (!same) columns.emplace_back(">GPUs");
  for (const char* name : {">step", "nine of ten in", ">tokens/s/GPU", ">MFU", ">GiB", ">fits", ">tp", ">pp", ">vpp",
                           ">cp", ">dp", ">microbatch", "sharded", "recomputed"}) {
    columns.emplace_back(name);
  }
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const estimates::Estimate& estimate = rows[i]->estimate;
    std::vector<std::string> row{std::to_string(i + 1)};
    if (!same) row.push_back(std::to_string(rows[i]->plan.devices()));
    for (std::string figure :
         {seconds(estimate.step_s), interval(estimate), format_number(estimate.tokens_per_s_per_device, 0),
          format_percent(estimate.utilization), gib(estimate.memory.process), chance(estimate.memory.fits)}) {
      row.push_back(std::move(figure));
    }
    for (std::string& knob : knobs_of(rows[i]->plan, plans.asked.shape)) row.push_back(std::move(knob));
    table.add(std::move(row));
  }
  return table.str();
}

std::string kept_text(const std::vector<const PricedPlan*>& rows) {
  const bool any = std::ranges::any_of(rows, [](const PricedPlan* one) {
    return one->plan.sharded == estimates::Sharded::kParameters && !one->plan.reshard;
  });
  return any ? "kept: parameters stay gathered from the forward to the backward pass.\n" : "";
}

std::string told_apart_text(const FoundPlans& plans, const std::vector<const PricedPlan*>& rows) {
  const double most = rows.front()->estimate.most_s;
  const auto within = static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](const PricedPlan* one) { return one->estimate.step_s <= most; }));
  if (within < 2) return "";
  const std::size_t tried = std::min(within, kMostTried);
  return "\nEstimates cannot tell the first " + std::to_string(tried) + " apart (" +
         std::to_string(estimates::not_told_apart(plans.found)) + " plans lie within the first one's interval): try " +
         (tried == 2 ? "both" : "these " + std::to_string(tried)) + ".\n";
}

struct Rule {
  std::string name;
  const PricedPlan* plan;
};

// The runner-up and the usual rules, without what is the best itself.
std::vector<Rule> beside(const FoundPlans& plans, const std::vector<const PricedPlan*>& rows,
                         std::vector<std::string>& followed) {
  std::vector<Rule> others;
  if (rows.size() > 1) others.push_back({"#2", rows[1]});
  const std::vector<Rule> rules{{"split as little as fits", estimates::least_split(plans.found)},
                                {"tp over the node, then pp", estimates::node_then_stages(plans.found, plans.machine)}};
  for (const Rule& rule : rules) {
    const bool of_tensor = &rule == &rules.back();
    if (rule.plan == nullptr || (of_tensor && rule.plan->plan.tensor == 1)) continue;
    if (rule.plan == rows.front()) {
      followed.push_back("It is what the rule of thumb \"" + rule.name + "\" chooses, too.");
    } else if (rows.size() > 1 && rule.plan == rows[1]) {
      followed.push_back("#2 is what the rule of thumb \"" + rule.name + "\" chooses.");
    } else if (std::ranges::none_of(others, [&](const Rule& one) { return one.plan == rule.plan; })) {
      others.push_back(rule);
    }
  }
  return others;
}

// "tp 8, pp 1, dp 8, microbatch 8, 12 of 32 layers recomputed"
std::string full_words(const UniformPlan& plan, const estimates::ModelShape& shape) {
  const std::string words = estimates::words_of(plan);
  if (plan.recomputed == estimates::Recomputed::kNothing) return words;
  return words + ", " + estimates::recompute_words(plan, shape) + " recomputed";
}

std::string why_text(const FoundPlans& plans, const std::vector<const PricedPlan*>& rows) {
  const PricedPlan& best = *rows.front();
  std::vector<std::string> followed;
  const std::vector<Rule> others = beside(plans, rows, followed);
  std::string text = "Why #1:\n";
  for (const std::string& sentence : followed) text += "  " + sentence + "\n";
  std::vector<std::pair<std::string, const estimates::Estimate*>> columns{{"#1", &best.estimate}};
  for (const Rule& other : others) {
    const bool second = other.name == "#2";
    text += wrapped("Beside " +
                        (second ? "#2"
                                : "the rule of thumb \"" + other.name + "\" (" +
                                      full_words(other.plan->plan, plans.asked.shape) + ")") +
                        " it is " + comparison(best.estimate, other.plan->estimate) + ".",
                    2);
    columns.emplace_back(other.name, &other.plan->estimate);
  }
  return text + "\n" + parts_table(columns);
}

double per_billion(const Asked& asked, const estimates::Estimate& estimate) {
  return 1e9 / (static_cast<double>(asked.global_batch) * asked.shape.sequence) * estimate.step_s;
}

std::string price_words(double price) {
  return format_number(price, price < 10 ? 2 : price < 100 ? 1 : 0);
}

std::string price_text(const FoundPlans& plans, const estimates::Estimate& best, const Prices& prices) {
  std::string text;
  if (prices.price_per_hour) {
    text += "A billion tokens cost " + price_words(price_of(plans.machine, best, plans.asked, *prices.price_per_hour)) +
            ", at " + format_number(*prices.price_per_hour, 2) + " for each GPU and hour.\n";
  }
  return text;
}

std::string watts_text(const Prices& prices) {
  return "Energy is of the GPUs alone, at " + format_number(prices.watts, 0) + " W each" +
         (prices.watts_stated ? ", as you said.\n" : ", the most that the data sheet allows.\n");
}

}  // namespace

std::vector<const PricedPlan*> shown_plans(const FoundPlans& plans) {
  std::vector<const PricedPlan*> rows;
  std::set<std::tuple<int, int, estimates::Sharded, bool>> seen;
  for (const PricedPlan& one : plans.found.plans) {
    if (rows.size() >= plans.shown) break;
    if (seen.insert({one.plan.tensor, one.plan.stages, one.plan.sharded, one.plan.reshard}).second) {
      rows.push_back(&one);
    }
  }
  return rows;
}

std::string found_text(const FoundPlans& plans, const Prices& prices) {
  const std::vector<const PricedPlan*> rows = shown_plans(plans);
  const PricedPlan& best = *rows.front();
  std::string text = asked_text(plans.asked, plans.machine);
  text += wrapped(source_text(plans.asked) + " " + std::to_string(plans.found.plans.size()) +
                  " plans fit with a chance of " + chance(plans.options.least_chance) +
                  " or more. Each row is the best of its tp, pp and sharding. GiB are of the fullest stage's GPU, as "
                  "nvidia-smi counts them.") +
          "\n";
  text +=
      plans_table(plans, rows) + kept_text(rows) + told_apart_text(plans, rows) + peak_text(plans.asked, plans.machine);
  if (best.plan.devices() < plans.machine.devices) {
    text += "It leaves " + std::to_string(plans.machine.devices - best.plan.devices()) + " of the " +
            std::to_string(plans.machine.devices) +
            " GPUs idle: with these layers, heads and samples no plan of more of them is estimated to be faster.\n";
  }
  text += price_text(plans, best.estimate, prices);
  return text + "\n" + why_text(plans, rows) + "\n" + told_text(plans.asked, best.plan);
}

std::string nothing_fits_text(const FoundPlans& plans, const std::vector<estimates::Remedy>& remedies) {
  std::string text = asked_text(plans.asked, plans.machine);
  text += "No plan fits with a chance of " + chance(plans.options.least_chance) + " or more.\n";
  if (!plans.found.too_large.empty()) text += "\nThe nearest:\n";
  TextTable table({">GiB", ">fits", ">tp", ">pp", ">vpp", ">cp", ">dp", ">microbatch", "sharded", "recomputed"});
  std::size_t rows = 0;
  for (const PricedPlan& one : plans.found.too_large) {
    if (++rows > 5) break;
    std::vector<std::string> row{gib(one.estimate.memory.process), chance(one.estimate.memory.fits)};
    for (std::string& knob : knobs_of(one.plan, plans.asked.shape)) row.push_back(std::move(knob));
    table.add(std::move(row));
  }
  if (!table.empty()) text += table.str(2);
  text += remedies.empty() ? "\nNothing that was tried makes one fit: more GPUs, others, shorter samples.\n"
                           : "\nWhat would make one fit:\n";
  for (const estimates::Remedy& remedy : remedies) {
    switch (remedy.kind) {
      case estimates::Remedy::Kind::kOffload:
        text += "  --offload: the optimizer's states in the hosts' memory\n";
        break;
      case estimates::Remedy::Kind::kDevices:
        text += "  " + std::to_string(remedy.amount) + " of these GPUs\n";
        break;
      case estimates::Remedy::Kind::kGpu:
        text += "  as many " + std::string(remedy.gpu) + "\n";
        break;
      case estimates::Remedy::Kind::kSequence:
        text += "  --sequence " + std::to_string(remedy.amount) + ": shorter samples\n";
        break;
    }
  }
  if (!plans.options.recomputed.empty()) text += "  more kinds of recomputation than --keep-recompute allows\n";
  return text;
}

double price_of(const estimates::Machine& machine, const estimates::Estimate& estimate, const Asked& asked,
                double price_per_hour) {
  return per_billion(asked, estimate) / 3600 * machine.devices * price_per_hour;
}

double kilowatt_hours_of(const estimates::Machine& machine, const estimates::Estimate& estimate, const Asked& asked,
                         double watts) {
  return per_billion(asked, estimate) / 3600 * machine.devices * watts / 1000;
}

std::string curve_text(const Asked& asked, const std::vector<CurvePoint>& points, std::size_t chosen,
                       const Prices& prices, Objective objective) {
  std::vector<Column> columns{"",     ">GPUs",     ">step",      "nine of ten in",
                              ">MFU", ">tokens/s", ">of linear", ">kWh a billion tokens"};
  if (prices.price_per_hour) columns.emplace_back(">their price");
  columns.emplace_back("plan");
  TextTable table(std::move(columns));
  const CurvePoint* first = nullptr;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const CurvePoint& point = points[i];
    const std::string devices = std::to_string(point.machine->devices);
    if (point.best == nullptr) {
      table.add_line("  " + devices + " GPUs: no plan fits");
      continue;
    }
    if (first == nullptr) first = &point;
    const estimates::Estimate& estimate = point.best->estimate;
    const double speed = static_cast<double>(asked.global_batch) * asked.shape.sequence / estimate.step_s;
    const double linear = first->best->estimate.step_s * first->machine->devices / point.machine->devices;
    std::vector<std::string> row{
        i == chosen ? "*" : "",
        devices,
        seconds(estimate.step_s),
        interval(estimate),
        format_percent(estimate.utilization),
        format_number(speed, 0),
        format_percent(linear / estimate.step_s),
        prices.watts > 0 ? format_number(kilowatt_hours_of(*point.machine, estimate, asked, prices.watts), 1) : "-"};
    if (prices.price_per_hour) {
      row.push_back(price_words(price_of(*point.machine, estimate, asked, *prices.price_per_hour)));
    }
    row.push_back(estimates::words_of(point.best->plan));
    table.add(std::move(row));
  }
  const char* what = objective == Objective::kTime   ? "fastest"
                     : objective == Objective::kCost ? "cheapest"
                                                     : "thriftiest";
  std::string text = table.str() + "* the " + what + ".";
  if (prices.price_per_hour) {
    text += " Prices are at " + format_number(*prices.price_per_hour, 2) + " for each GPU and hour.";
  }
  text += "\n";
  return prices.watts > 0 ? text + watts_text(prices) : text;
}

}  // namespace trimtab::cli
