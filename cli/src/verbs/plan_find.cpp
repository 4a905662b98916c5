#include <algorithm>
#include <deque>

#include "arguments.hpp"
#include "base/text_parts.hpp"
#include "estimated/found_json.hpp"
#include "estimated/found_page.hpp"
#include "files.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

using estimates::Found;
using estimates::Machine;

struct Arguments {
  AskedFlags asked;
  std::string keep_recompute;
  bool offload = false;
  std::string least_chance = "0.95";
  std::string plans = "10";
  std::string objective = "time";
  std::string price;
  std::string watts;
  std::string out;
  std::string html;
  bool json = false;
};

const std::vector<std::string_view> kObjectives{"time", "cost", "energy"};

// Empty = nothing was said.
Result<std::optional<double>> positive(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::optional<double>();
  const auto value = parse_number<double>(text);
  if (value && *value > 0 && *value < 1e9) return value;
  return bad_input(flag + ": expected a number above 0, found '" + text + "'");
}

Result<estimates::FindOptions> options_of(const Arguments& arguments, const Asked& asked) {
  estimates::FindOptions options;
  options.global_batch = asked.global_batch;
  options.target = asked.target;
  options.precision = asked.precision;
  options.gradient_bytes = asked.gradient_bytes;
  options.optimizer_bytes = asked.optimizer_bytes;
  options.correction = asked.correction;
  options.offload = arguments.offload;
  const auto chance = parse_number<double>(arguments.least_chance);
  if (!chance || !(*chance > 0) || !(*chance <= 0.99)) {
    return bad_input("--least-chance: expected a number above 0 and up to 0.99, found '" + arguments.least_chance +
                     "'");
  }
  options.least_chance = *chance;
  if (arguments.keep_recompute.empty()) return options;
  for (const std::string_view word : parted(arguments.keep_recompute)) {
    TRIMTAB_TRY(const auto kind, recomputed_by_name("--keep-recompute", std::string(word)));
    const auto& known = estimates::space_of(asked.target).recomputed;
    if (std::ranges::count(known, kind) == 0) {
      return bad_input("--keep-recompute: " + std::string(estimates::name_of(asked.target)) + " recomputes " +
                       joined(known, ", ", [](estimates::Recomputed one) { return std::string(word_of(one)); }) +
                       ", found '" + std::string(word_of(kind)) + "'");
    }
    options.recomputed.push_back(kind);
  }
  return options;
}

Result<Objective> objective_of(const Arguments& arguments) {
  TRIMTAB_TRY_STATUS(check_choice("--objective", arguments.objective, kObjectives));
  if (arguments.objective == "cost" && arguments.price.empty()) {
    return bad_input("--objective cost: needs --price-per-gpu-hour, since nobody's prices are known here");
  }
  return arguments.objective == "time"   ? Objective::kTime
         : arguments.objective == "cost" ? Objective::kCost
                                         : Objective::kEnergy;
}

Result<Prices> prices_of(const Arguments& arguments, const estimates::Gpu& gpu) {
  Prices prices;
  TRIMTAB_TRY(prices.price_per_hour, positive("--price-per-gpu-hour", arguments.price));
  TRIMTAB_TRY(const std::optional<double> watts, positive("--watts-per-gpu", arguments.watts));
  prices.watts_stated = watts.has_value();
  prices.watts = watts.value_or(gpu.watts);
  return prices;
}

// Idle GPUs of a machine cost as much as busy ones.
double badness(const FoundPlans& point, Objective objective, const Prices& prices) {
  const estimates::Estimate& best = point.found.plans.front().estimate;
  if (objective == Objective::kTime) return best.step_s;
  if (objective == Objective::kCost) return price_of(point.machine, best, point.asked, *prices.price_per_hour);
  return kilowatt_hours_of(point.machine, best, point.asked, prices.watts);
}

// The first where nothing fits anywhere.
std::size_t chosen_of(const std::vector<FoundPlans>& points, Objective objective, const Prices& prices) {
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].found.plans.empty()) continue;
    const bool first = points[chosen].found.plans.empty();
    if (first || badness(points[i], objective, prices) < badness(points[chosen], objective, prices)) chosen = i;
  }
  return chosen;
}

Status write_page(const Arguments& arguments, const FoundPlans& chosen, Console& console) {
  if (arguments.html.empty()) return {};
  estimates::FindOptions every = chosen.options;
  every.every = true;
  const Found all = estimates::find_plans(chosen.machine, chosen.asked.shape, every);
  if (all.plans.empty() && all.too_large.empty()) {
    return bad_input("--html: there is no plan of " + std::to_string(chosen.machine.devices) + " GPUs to show");
  }
  TRIMTAB_TRY_STATUS(write_file(arguments.html, found_page({chosen.asked, chosen.machine, every, all})));
  console.err << "wrote " << arguments.html << ": " << all.plans.size() + all.too_large.size() << " plans\n";
  return {};
}

Status write_plan(const Arguments& arguments, const FoundPlans& chosen, Console& console) {
  if (arguments.out.empty()) return {};
  const auto plan = estimates::product_plan(chosen.found.plans.front().plan, chosen.asked.model, chosen.asked.target);
  if (!plan.ok()) return wrap("--out", plan.error());
  TRIMTAB_TRY_STATUS(write_file(arguments.out, to_json(*plan) + "\n"));
  console.err << "wrote " << arguments.out << "\n";
  return {};
}

void print(const std::vector<FoundPlans>& points, std::size_t chosen, const Prices& prices, Objective objective,
           Console& console) {
  const FoundPlans& best = points[chosen];
  if (points.size() > 1) {
    std::vector<CurvePoint> curve;
    for (const FoundPlans& point : points) {
      curve.push_back({&point.machine, point.found.plans.empty() ? nullptr : &point.found.plans.front()});
    }
    console.out << curve_text(best.asked, curve, chosen, prices, objective) << "\n";
  }
  if (!best.found.plans.empty()) {
    console.out << found_text(best, prices);
    return;
  }
  const FoundPlans& largest = points.back();
  console.out << nothing_fits_text(largest, estimates::remedies(largest.machine, largest.asked.shape, largest.options));
}

Result<int> find(const Arguments& arguments, Console& console) {
  const std::vector<std::string> inputs{arguments.asked.hf, arguments.asked.megatron, arguments.asked.measured};
  TRIMTAB_TRY_STATUS(check_apart("--out", arguments.out, inputs));
  TRIMTAB_TRY_STATUS(check_apart("--html", arguments.html, inputs));
  TRIMTAB_TRY(const Asked asked, read_asked(arguments.asked));
  TRIMTAB_TRY(const estimates::FindOptions options, options_of(arguments, asked));
  TRIMTAB_TRY(const Objective objective, objective_of(arguments));
  TRIMTAB_TRY(const Prices prices, prices_of(arguments, asked.machines.front().gpu));
  TRIMTAB_TRY(const std::uint64_t shown, parse_count("--plans", arguments.plans));
  if (shown == 0) return bad_input("--plans: needs at least 1");
  std::deque<Found> found;  // whose places stay
  std::vector<FoundPlans> points;
  for (const Machine& machine : asked.machines) {
    found.push_back(estimates::find_plans(machine, asked.shape, options));
    points.push_back({asked, machine, options, found.back(), shown});
  }
  const std::size_t chosen = chosen_of(points, objective, prices);
  if (arguments.json) {
    console.out << found_json({points, chosen, prices});
  } else {
    print(points, chosen, prices, objective, console);
  }
  TRIMTAB_TRY_STATUS(write_page(arguments, points[chosen], console));
  if (points[chosen].found.plans.empty()) return 1;
  TRIMTAB_TRY_STATUS(write_plan(arguments, points[chosen], console));
  return 0;
}

}  // namespace

void add_plan_find(CLI::App& plan, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(plan, "find", "Find plans for a dense decoder on GPUs by name, by estimates alone (exit 1: none fits)",
               "trimtab plan find --hf config.json --gpus 64xH100\n"
               "  trimtab plan find --hf config.json --gpus 32,64,128xH100 --network 8x400G --objective cost "
               "--price-per-gpu-hour 2.5\n"
               "  trimtab plan find --megatron pretrain.sh --gpus 8xA100-40GB --html plans.html");
  add_asked_flags(verb, arguments->asked);
  add_value(verb, "--keep-recompute", arguments->keep_recompute, "KIND,...",
            "Recompute so and in no other way: nothing, attention_core, half_of_products, layer (default: as it fits)");
  add_flag(verb, "--offload", arguments->offload, "The optimizer's states may wait in the hosts' memory");
  add_value(verb, "--least-chance", arguments->least_chance, "SHARE", "Leave out plans that fit with a smaller chance",
            Need::kHasDefault);
  add_value(verb, "--objective", arguments->objective, joined(kObjectives, "|"),
            "Of several numbers of GPUs, which is best", Need::kHasDefault);
  add_value(verb, "--price-per-gpu-hour", arguments->price, "PRICE", "What a GPU costs, in your currency");
  add_value(verb, "--watts-per-gpu", arguments->watts, "W", "What a GPU draws (default: its data sheet's most)");
  add_value(verb, "--plans", arguments->plans, "N", "Rows to show", Need::kHasDefault);
  add_value(verb, "--html", arguments->html, "FILE", "Write a page on which you move the knobs");
  add_value(verb, "--out", arguments->out, "FILE", "Write the best plan as plan.json");
  add_action(verb, selection, arguments, find);
}

}  // namespace trimtab::cli
