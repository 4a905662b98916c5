#include "canonical_text.hpp"

#include <array>
#include <cstdio>
#include <variant>

#include "schema/hash64.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

constexpr std::size_t kLongest = 48;
constexpr std::size_t kBeginning = 20;

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool is_nothing(const json& value) {
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
}

void print(const json& value, std::string_view name, bool drop_empty, std::string& to);

void print_object(const json& value, bool drop_empty, std::string& to) {
  to += '{';
  bool first = true;
  for (const auto& [name, member] : value.items()) {
    std::string printed;
    print(member, name, drop_empty, printed);
    const bool empty = is_nothing(member) || printed == "{}" || printed == "0";
    if (drop_empty && empty) continue;
    to += (first ? "" : ", ") + name + ": " + printed;
    first = false;
  }
  to += '}';
}

void print(const json& value, std::string_view name, bool drop_empty, std::string& to) {
  if (value.is_object()) return print_object(value, drop_empty, to);
  if (value.is_array()) {
    to += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) to += ", ";
      print(value[i], "", drop_empty, to);
    }
    to += ']';
  } else if (value.is_number_integer() && ends_with(name, "_ns")) {
    to += std::to_string((value.get<std::int64_t>() + 500'000) / 1'000'000) + " ms";
  } else if (value.is_number_float()) {
    to += to_text(value.get<double>());
  } else if (value.is_string()) {
    to += '"' + brief(value.get<std::string>()) + '"';
  } else {
    to += value.dump();
  }
}

template <typename Items, typename Word>
std::string list(const Items& items, const Word& word) {
  std::string all;
  for (const auto& one : items) all += (all.empty() ? "" : " ") + word(one);
  return '[' + all + ']';
}
std::string list(const std::vector<std::string>& items) {
  return list(items, [](const std::string& one) { return brief(one); });
}
template <typename Number>
std::string numbers(const std::vector<Number>& items) {
  return list(items, [](const Number& one) { return to_text(static_cast<double>(one)); });
}
template <typename Key>
std::string speeds(const std::map<Key, double>& items) {
  return list(items, [](const auto& one) {
    if constexpr (std::is_integral_v<Key>) return std::to_string(one.first) + "=" + to_text(one.second);
    if constexpr (!std::is_integral_v<Key>) return one.first + "=" + to_text(one.second);
  });
}

std::string shares(const std::vector<NodeShare>& nodes) {
  return list(nodes, [](const NodeShare& one) {
    return one.node + ":" + std::to_string(one.first_rank) + "+" + std::to_string(one.ranks);
  });
}

// " name value", or nothing where the value is.
std::string field(const std::string& name, const std::string& value) {
  return value.empty() || value == "[]" || value == "0" ? "" : " " + name + " " + value;
}
std::string text_field(const std::string& name, const std::string& value) {
  return field(name, brief(value));
}
std::string number_field(const std::string& name, double value) {
  return field(name, to_text(value));
}
std::string word(const std::string& word, bool said) {
  return said ? " " + word : "";
}

std::string probes(const std::vector<Probe>& all) {
  return list(all, [](const Probe& one) {
    const std::string subject = one.device >= 0 ? "device" + std::to_string(one.device) : one.node + "-" + one.peer;
    return subject + "/" + (one.work.empty() ? one.level : one.work) + "=" + to_text(one.ms);
  });
}

std::string predicted(const PricedPlan& one) {
  return brief(one.plan.hash) + "=" + to_text(one.predicted.mean_ms);
}

std::string terms_field(const std::optional<StepTerms>& terms) {
  if (!terms) return "";
  return " terms " + numbers<double>({terms->computation_ms, terms->collectives_ms, terms->gradients_ms,
                                      terms->transfers_ms, terms->idle_ms});
}

// What ranks tell.
std::string told(const RankConnected& one) {
  return "connected epoch " + std::to_string(one.epoch) + " step " + std::to_string(one.step) +
         number_field("groups_ms", one.groups_ms) + number_field("build_ms", one.build_ms);
}
std::string told(const RankStep& one) {
  return "step " + std::to_string(one.step) + " epoch " + std::to_string(one.epoch) + " " + to_text(one.wall_ms) +
         " ms" + number_field("loss", one.loss) + text_field("of", one.samples) +
         number_field("peak", static_cast<double>(one.peak_bytes)) +
         number_field("prepared", static_cast<double>(one.preparations)) + number_field("norm", one.gradient_norm) +
         text_field("not_finite", one.not_finite);
}
std::string told(const RankPasses& one) {
  return "passes epoch " + std::to_string(one.epoch) + " ms " + to_text(one.ms) + terms_field(one.terms);
}
std::string told(const RankAcknowledged& one) {
  return "acknowledged epoch " + std::to_string(one.epoch) + " step " + std::to_string(one.step);
}
std::string told(const RankRefused& one) {
  return "refused epoch " + std::to_string(one.epoch) + " " + one.reason + ": " + brief(one.message);
}
std::string told(const RankActive& one) {
  return "active epoch " + std::to_string(one.epoch) + " step " + std::to_string(one.step) + " ms " +
         to_text(milliseconds(one.switch_time)) + text_field("phases", one.phases.words());
}
std::string told(const RankFailed& one) {
  return "failed epoch " + std::to_string(one.epoch) + " " + one.reason + ": " + brief(one.message);
}
std::string told(const RankExited& one) {
  return "exited code " + std::to_string(one.exit_code) + " signal " + std::to_string(one.signal) +
         text_field("saying", one.last_output);
}
std::string told(const RankSaidBye& one) {
  return "bye step " + std::to_string(one.step);
}
std::string told(const RankSubmission& one) {
  return "submission " + std::string(to_string(one.state)) + text_field("saying", one.message);
}
std::string told(const RankLives& one) {
  return std::string("lives") + (one.output ? " output" : "") + (one.records ? " records" : "") +
         (one.processor ? " processor" : "");
}
std::string told(const RankMeasured& one) {
  const auto item = [](const RankMeasured::Item& of) {
    std::string text = std::to_string(of.item);
    for (const auto& values : of.costs) text += "=" + numbers(values);
    return text + of.error;
  };
  return "measured " + std::to_string(one.number) + " before step " + std::to_string(one.step) + " in " +
         to_text(milliseconds(one.took)) + " ms " + list(one.items, item) + text_field("error", one.error);
}
std::string told(const RankSaved& one) {
  return (one.whole ? "saved" : "saves") + text_field("restless", one.restless);
}

std::string heard(const Tick&) {
  return "tick";
}
std::string heard(const NodesReady& one) {
  return "nodes ready " + shares(one.nodes) + text_field("cluster", one.cluster.json) +
         text_field("fingerprint", one.fingerprint);
}
std::string heard(const CommandFinished& one) {
  return "finished " + one.tag + (one.ok ? "" : " failed") + text_field("error", one.error) +
         text_field("output", one.output);
}
std::string heard(const CommandMoved& one) {
  return "moved " + one.tag + " " + std::to_string(one.done) + "/" + std::to_string(one.total) + " " + one.what;
}
std::string heard(const CostsCounted& one) {
  return "costs known " + std::to_string(one.known) + " missing " + std::to_string(one.missing) +
         field("requests", list(one.requests)) + field("sizes", numbers(one.request_sizes)) +
         text_field("names", one.missing_names) + text_field("error", one.error) + field("speeds", speeds(one.speeds));
}
std::string heard(const SearchFinished& one) {
  const SearchReply& reply = one.reply;
  const auto observed = [](const Observed& of) { return brief(of.layout) + "=" + to_text(of.predicted.mean_ms); };
  return "searched " + std::to_string(one.number) + text_field("error", reply.error) +
         text_field("infeasible", reply.infeasible) + " initial " + predicted(reply.initial) + " incumbent " +
         predicted(reply.incumbent) + " found " + list(reply.candidates, predicted) +
         field("observed", list(reply.observed, observed)) + text_field("calibration", reply.calibration_json);
}
std::string heard(const HardwareProbed& one) {
  return "probed " + probes(one.probes) + text_field("error", one.error) + text_field("plan", one.plan_hash);
}
std::string heard(const DoubtfulListed& one) {
  return "doubtful " + std::to_string(one.doubtful.costs) + " of which fit " +
         std::to_string(one.doubtful.items.size()) + text_field("error", one.error);
}
std::string heard(const FromRank& one) {
  return "rank " + std::to_string(one.rank) + "@" + std::to_string(one.launch) + " " +
         std::visit([](const auto& news) { return told(news); }, one.news);
}
std::string heard(const NodeLost& one) {
  return "node lost " + one.node;
}
std::string heard(const NodeBack& one) {
  const auto there = [](const RankThere& rank) {
    return std::to_string(rank.rank) + "@" + std::to_string(rank.launch) + "/" + std::to_string(rank.epoch) +
           (rank.of_job ? "own" : "");
  };
  return "node back " + one.node + " ranks " + list(one.ranks, there) +
         number_field("launch", static_cast<double>(one.launch)) + text_field("fingerprint", one.fingerprint) +
         number_field("devices", one.devices) + number_field("memory", static_cast<double>(one.memory_bytes));
}
std::string heard(const NodesOffered& one) {
  return "offered " + shares(one.nodes) + text_field("cluster", one.cluster.json) + text_field("joined", one.joined) +
         field("slow", speeds(one.slow_devices)) + text_field("remark", one.remark) +
         text_field("refusal", one.refusal);
}
std::string heard(const KillSwitches& one) {
  return "kill switches " + list(one.nodes, [](const std::string& node) { return node; });
}
std::string heard(const RankWatched& one) {
  return "watched rank " + std::to_string(one.rank) + "@" + std::to_string(one.launch) + " of " +
         std::to_string(one.world_size) + " on " + one.node;
}
std::string heard(const RunReplaced&) {
  return "replaced by a further run";
}
std::string heard(Order order) {
  constexpr std::array kNames = {"approve", "freeze", "unfreeze", "stop", "resume", "own-plan"};
  return std::string("order ") + kNames.at(static_cast<std::size_t>(order));
}

std::string done(const DescribeOn& one) {
  return "describe " + one.tag + " on " + one.node;
}
std::string done(const BenchmarkOn& one) {
  return one.tag + " on " + one.node + " ranks " + numbers(one.ranks) + text_field("requests", one.requests_json) +
         text_field("meets", one.rendezvous);
}
std::string done(const LaunchOn& one) {
  return one.tag + " on " + one.node + " ranks " + numbers(one.ranks) + " plan " + brief(one.plan_json) +
         text_field("meets", one.rendezvous) + " launch " + std::to_string(one.launch) + " epoch " +
         std::to_string(one.epoch) + word("fresh", one.fresh) + text_field("variant", one.variant) +
         number_field("steps", static_cast<double>(one.steps)) + field("nodes", shares(one.nodes));
}
std::string done(const KillOn& one) {
  return one.tag + " on " + one.node + " launch " + std::to_string(one.launch) + text_field("variant", one.variant) +
         word("unsaved", one.unsaved);
}
std::string done(const ProposePlan& one) {
  return "propose epoch " + std::to_string(one.epoch) + " plan " + brief(one.plan_json) +
         word("incumbent", one.incumbent);
}
std::string done(const CommitPlan& one) {
  return "commit epoch " + std::to_string(one.epoch) + " at step " + std::to_string(one.step);
}
std::string done(const CancelPlan& one) {
  return "cancel epoch " + std::to_string(one.epoch);
}
std::string done(const StopRanks& one) {
  return "stop ranks at step " + std::to_string(one.step);
}
std::string done(const CountCosts&) {
  return "count costs";
}
std::string done(const SearchPlans& one) {
  constexpr std::array kNames = {"job", "spare", "more nodes", "slower hardware"};
  return "search " + std::to_string(one.number) + " for " + kNames.at(static_cast<std::size_t>(one.purpose));
}
std::string done(const ProbeHardware& one) {
  return "probe since step " + std::to_string(one.since_step) + text_field("plan", one.plan_hash) +
         word("urgent", one.urgent) + word("computing", one.computing) + " takes " + std::to_string(one.takes);
}
std::string done(const ListDoubtful&) {
  return "list what is doubtful";
}
std::string done(const MeasureAgain& one) {
  return "measure again " + std::to_string(one.number) + (one.request_json.empty() ? " no more" : "");
}
std::string done(const RememberCalibration& one) {
  return "remember calibration " + brief(one.json);
}
std::string done(const RememberProbes& one) {
  return "remember probes " + brief(one.json);
}
std::string done(const RememberFailure& one) {
  return "remember failure of " + brief(one.plan_hash) + ": " + one.reason.text();
}

std::string measured(const MeasuredPlan& one) {
  std::string text = brief(one.plan.hash) + "=" + to_text(one.measured_ms) + "~" + to_text(one.sigma_ms);
  if (!one.peak_bytes.empty()) text += "/peak" + numbers(one.peak_bytes);
  if (!one.pass_ms.empty()) text += "/pass" + numbers(one.pass_ms) + "of" + std::to_string(one.pass_steps);
  for (const StepTerms& terms : one.terms) text += "/" + to_text(terms.total_ms());
  return text;
}

std::string change(const LinkChange& one) {
  return "=" + to_text(one.share) + "+" + to_text(one.message_ms);
}

}  // namespace

std::string to_text(double number) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

std::string short_hash(std::string_view text) {
  return hash64_hex(text).substr(0, 8);
}

std::string canonical(const json& value, bool drop_empty, std::string_view name) {
  std::string text;
  print(value, name, drop_empty, text);
  return text;
}

std::string brief(const std::string& text) {
  if (text.size() <= kLongest && text.find('\n') == std::string::npos) return text;
  const bool may_be_json = text.front() == '{' || text.front() == '[';
  const json parsed = may_be_json ? json::parse(text, nullptr, false) : json(json::value_t::discarded);
  const std::string whole = parsed.is_discarded() ? text : canonical(parsed);
  std::string begin = whole.substr(0, kBeginning);
  for (char& c : begin) c = c == '\n' ? ' ' : c;
  return begin + "...#" + short_hash(whole);
}

std::string to_text(const Event& event) {
  return std::visit([](const auto& one) { return heard(one); }, event);
}

std::string to_line(const Event& event) {
  const auto* from = std::get_if<FromRank>(&event);
  const auto* step = from == nullptr ? nullptr : std::get_if<RankStep>(&from->news);
  if (step == nullptr) return to_text(event);
  RankStep shown;
  shown.step = step->step;
  shown.epoch = step->epoch;
  shown.wall_ms = step->wall_ms;
  return to_text(FromRank{from->rank, from->launch, shown});
}

std::string to_text(const Action& action) {
  return std::visit([](const auto& one) { return done(one); }, action);
}

std::string to_text(const SearchTask& task) {
  const auto too_big = [](const TooBig& one) { return brief(one.plan.json) + "=" + to_text(one.peak_bytes); };
  const auto pair = [](const auto& one) { return one.first.first + "-" + one.first.second + change(one.second); };
  const auto level = [](const auto& one) { return one.first + change(one.second); };
  return "task" + text_field("model", task.model_json) + text_field("cluster", task.cluster.json) +
         text_field("initial", task.initial.json) + text_field("incumbent", task.incumbent.json) +
         field("observed", list(task.observations, measured)) + text_field("calibration", task.calibration_json) +
         number_field("shift_computation", task.shift.computation) +
         number_field("shift_communication", task.shift.communication) +
         field("levels", list(task.link_changes.levels, level)) + field("pairs", list(task.link_changes.pairs, pair)) +
         field("slow", speeds(task.slow_devices)) + field("excluded", list(task.excluded)) +
         field("too_big", list(task.too_big, too_big)) + " plans " + std::to_string(task.plans) +
         word("price only", task.price_only) + " seed " + std::to_string(task.seed) +
         text_field("target", task.target) + text_field("strategy", task.strategy);
}

std::string to_text(const MeasuredStep& step) {
  return "step " + std::to_string(step.step) + "@" + std::to_string(step.launch) + "/" + std::to_string(step.epoch) +
         " trial " + std::to_string(step.trial) + " block " + std::to_string(step.block) +
         (step.warmup ? " warm-up " : " ") + to_text(step.wall_ms) + " ms loss " + to_text(step.loss);
}

std::string to_text(const Trial& trial) {
  return std::to_string(trial.id) + " " + brief(trial.plan.hash) + " " + std::string(to_string(trial.state)) +
         (trial.reason == FailureReason::kNone ? "" : " (" + trial.reason.text() + ")");
}

}  // namespace trimtab::coordinator
