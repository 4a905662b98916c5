#include "doctor_daemons.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include "base/numbers.hpp"

namespace trimtab::cli {

namespace {

using Samples = std::vector<MetricSample>;

double sum_of(const Samples& page, std::string_view name) {
  double sum = 0;
  for (const MetricSample& sample : page) sum += sample.name == name ? sample.value : 0;
  return sum;
}

// What a label says; empty where it is not there.
std::string label_of(const MetricSample& sample, const std::string& label) {
  const std::string begin = label + "=\"";
  const std::size_t found = sample.labels.find(begin);
  if (found == std::string::npos) return "";
  const std::size_t from = found + begin.size();
  return sample.labels.substr(from, sample.labels.find('"', from) - from);
}

// Values of `label` where the metric says more than `most`: "n0, n1".
std::string where(const Samples& page, std::string_view name, const std::string& label, double most = 0) {
  std::string text;
  for (const MetricSample& sample : page) {
    if (sample.name != name || std::abs(sample.value) <= most) continue;
    text += (text.empty() ? "" : ", ") + label_of(sample, label);
  }
  return text;
}

std::string counted(double value) {
  return format_number(value, 0);
}

class Findings {
 public:
  explicit Findings(std::string daemon) : daemon_(std::move(daemon)) {}
  void add(bool wrong, const char* what, Health health, const std::string& found, const std::string& remedy) {
    if (wrong) checks_.push_back({daemon_ + ": " + what, health, found, remedy});
  }
  [[nodiscard]] std::vector<Check> checks(const std::string& well) && {
    if (checks_.empty()) checks_.push_back({daemon_, Health::kOk, well, ""});
    return std::move(checks_);
  }

 private:
  std::string daemon_;
  std::vector<Check> checks_;
};

constexpr double kLateLoop = 1.0;
constexpr double kUsualSpool = 256 * 1048576.0;  // of an agent that does not say its limit
constexpr double kFilling = 0.5;
constexpr double kWrongClock = 1.0;
constexpr double kManyRefusals = 100;
constexpr double kClearlyOver = 2;
constexpr double kFewPosts = 0.1;
constexpr Nanoseconds kSoon = std::chrono::hours(24 * 30);

std::string seconds(double value) {
  return format_number(value, 1) + " s";
}

std::optional<double> value_of(const Samples& page, std::string_view name, const std::string& labels) {
  const auto found =
      std::ranges::find_if(page, [&](const MetricSample& one) { return one.name == name && one.labels == labels; });
  return found == page.end() ? std::nullopt : std::optional(found->value);
}

bool is_root_for_all(const Samples& page) {
  return std::ranges::any_of(page, [](const MetricSample& one) {
    return one.name == "trimtab_agent_root" && one.value > 0 && label_of(one, "tenant").empty();
  });
}

// Ranks whose collectors take clearly more of their time than they may: "gpt/0 (4.1 %), gpt/1 (3.9 %)".
std::string over_budget(const Samples& page, const EarlierPage& earlier) {
  constexpr const char* kCost = "trimtab_rank_collector_cost_seconds_total";
  std::string text;
  for (const MetricSample& sample : page) {
    const auto budget = value_of(page, "trimtab_rank_collector_budget_ratio", sample.labels);
    const auto before = value_of(earlier.page, kCost, sample.labels);
    if (sample.name != kCost || !budget || !before) continue;
    const double share = (sample.value - *before) / std::chrono::duration<double>(earlier.ago).count();
    if (share <= kClearlyOver * *budget) continue;
    text += (text.empty() ? "" : ", ") + label_of(sample, "job") + "/" + label_of(sample, "rank") + " (" +
            format_percent(share) + ")";
  }
  return text;
}

std::string bytes(double value) {
  return format_bytes(static_cast<Bytes>(value));
}

// What the largest part of it goes down with.
void add_disk(const Samples& page, Findings& findings) {
  const auto part = [&](const char* what) {
    return value_of(page, "trimtab_agent_disk_bytes", std::string("what=\"") + what + "\"").value_or(0);
  };
  const double databases = part("databases");
  const double logs = part("logs");
  const double scratch = part("scratch");
  const char* remedy = databases >= std::max(logs, scratch)
                           ? "bring the coordinator back where costs wait for it; databases do not shrink while the "
                             "agent runs: stop it and VACUUM them, or raise disk_budget"
                       : logs >= scratch ? "lower rank_log_limit, shorten job_retention, or raise disk_budget"
                                         : "shorten job_retention, or raise disk_budget";
  const bool over = value_of(page, "trimtab_agent_over_budget", "what=\"disk\"").value_or(0) > 0;
  findings.add(over, "disk", Health::kWarn,
               bytes(databases + logs + scratch) + " (databases " + bytes(databases) + ", logs " + bytes(logs) +
                   ", scratch of jobs " + bytes(scratch) + "), more than the budget of " +
                   bytes(sum_of(page, "trimtab_agent_disk_budget_bytes")),
               remedy);
}

// Without a rank what it takes is seen at once, by add_rates() too; the agent's own word is of a whole minute.
void add_own_use(const Samples& page, Findings& findings) {
  const bool busy = sum_of(page, "trimtab_agent_ranks_running") > 0;
  const auto over = [&](const char* what) {
    return busy && value_of(page, "trimtab_agent_over_budget", std::string("what=\"") + what + "\"").value_or(0) > 0;
  };
  constexpr const char* kRemedy = "see docs/operating.md, 'An agent takes too much beside ranks'";
  findings.add(over("memory"), "memory", Health::kWarn,
               bytes(sum_of(page, "trimtab_agent_resident_bytes")) + ", more than the budget of " +
                   bytes(sum_of(page, "trimtab_agent_memory_budget_bytes")),
               kRemedy);
  findings.add(over("cpu"), "CPU", Health::kWarn,
               "more than the budget of " + format_percent(sum_of(page, "trimtab_agent_cpu_budget_cores")) +
                   " of a core, over a minute",
               kRemedy);
}

void add_rates(const Samples& page, const EarlierPage& earlier, Findings& findings) {
  const auto both = [&](const char* name) { return std::pair(sum_of(earlier.page, name), sum_of(page, name)); };
  const auto [used_before, used] = both("trimtab_agent_cpu_seconds_total");
  const double cores = (used - used_before) / std::chrono::duration<double>(earlier.ago).count();
  const double budget = sum_of(page, "trimtab_agent_idle_cpu_budget_cores");
  const bool idle = both("trimtab_agent_ranks_running") == std::pair(0.0, 0.0);
  findings.add(idle && budget > 0 && cores > budget, "CPU", Health::kWarn,
               format_percent(cores) + " of a core without a rank, more than the budget of " + format_percent(budget),
               "see docs/operating.md, 'An idle agent takes too much'");
  const std::string over = over_budget(page, earlier);
  findings.add(!over.empty(), "collectors", Health::kWarn, "more than twice their budget: " + over,
               "see docs/operating.md, 'Measuring costs too much'");
}

// Posts that failed now and then are no finding.
void add_posts(const Samples& page, Findings& findings) {
  double all = 0;
  double failed = 0;
  std::string how;
  for (const MetricSample& one : page) {
    if (one.name != "trimtab_otlp_exports_total") continue;
    all += one.value;
    const std::string result = label_of(one, "result");
    if (result == "ok" || one.value == 0) continue;
    failed += one.value;
    how += (how.empty() ? "" : ", ") + result;
  }
  findings.add(failed > kFewPosts * all, "posts", Health::kWarn,
               counted(failed) + " of " + counted(all) + " posts of metrics failed: " + how,
               "see otlp_endpoint and its collector; the log says what it answers");
}

// What became of agents' batches of costs.
void add_batches(const Samples& page, const std::string& outcome, Findings& findings) {
  const double count = value_of(page, "trimtab_cost_batches_total", "outcome=\"" + outcome + "\"").value_or(0);
  findings.add(count > 0, "costs", Health::kWarn, counted(count) + " batches of agents are " + outcome,
               outcome == "lost" ? "costs.db is an older copy: 'trimtab db merge' with the agents' own brings them back"
                                 : "the log says why; agents keep them in their own costs.db");
}

}  // namespace

std::vector<MetricSample> parse_metric_page(std::string_view text) {
  Samples page;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    MetricSample sample;
    std::string head = line.substr(0, space);
    if (const std::size_t brace = head.find('{'); brace != std::string::npos && head.back() == '}') {
      sample.labels = head.substr(brace + 1, head.size() - brace - 2);
      head.resize(brace);
    }
    sample.name = head;
    char* end = nullptr;
    sample.value = std::strtod(line.c_str() + space + 1, &end);
    if (end != nullptr && *end == '\0' && end != line.c_str() + space + 1) page.push_back(std::move(sample));
  }
  return page;
}

std::vector<Check> agent_checks(const Samples& page, const std::optional<EarlierPage>& earlier) {
  const auto value = [&](const char* name) { return sum_of(page, std::string("trimtab_agent_") + name); };
  Findings findings("agent");
  findings.add(value("coordinator_connected") == 0, "link", Health::kWarn, "the coordinator does not know this agent",
               "its log says why: a wrong address, a certificate, a coordinator that is not there; costs are spooled "
               "until then");
  findings.add(value("batches_failed_total") > 0, "storage", Health::kFail,
               counted(value("batches_failed_total")) + " attempts to store costs failed",
               "its state directory is full or cannot be written: free some space; nothing is lost while it runs");
  findings.add(value("costs_dropped_total") > 0, "spool", Health::kWarn,
               counted(value("costs_dropped_total")) + " values were dropped, spool and memory were full",
               "bring the coordinator back, or raise spool_limit");
  const double spool_limit = value_of(page, "trimtab_agent_spool_limit_bytes", "").value_or(kUsualSpool);
  findings.add(value("spool_bytes") > kFilling * spool_limit, "spool", Health::kWarn,
               bytes(value("spool_bytes")) + " wait for the coordinator, and spool_limit is " + bytes(spool_limit),
               "bring the coordinator back; beyond spool_limit costs wait in memory");
  add_disk(page, findings);
  findings.add(value("batches_refused_total") > 0, "costs", Health::kWarn,
               counted(value("batches_refused_total")) + " batches are refused by the coordinator for good",
               "the log says why; they stay in costs.db: bring both to one release, then 'trimtab db merge'");
  findings.add(value("batches_aside") > 0, "costs", Health::kWarn,
               counted(value("batches_aside")) + " batches cannot be read by this release and are kept aside",
               "go back to the release that wrote them: it enters them when it starts");
  const double records = value("records_total") + value("records_dropped_total");
  findings.add(
      value("records_dropped_total") > 0, "rings", Health::kWarn,
      format_percent(value("records_dropped_total") / std::max(records, 1.0)) + " of the records found their ring full",
      "the agent had no CPU, or was away: look at its loop; costs come from the others");
  findings.add(value("rings_broken_total") + value("records_malformed_total") > 0, "rings", Health::kWarn,
               counted(value("rings_broken_total")) + " rings given up, " + counted(value("records_malformed_total")) +
                   " records made no sense",
               "use the libtrimtab-inject.so of the agent's release in the jobs");
  findings.add(
      value("rings_refused_total") > 0, "rings", Health::kWarn,
      counted(value("rings_refused_total")) + " rings were not taken: their processes are not measured",
      "the log says which; raise ring_memory or ring_memory_of_process, or bring the job to the agent's release");
  findings.add(value("frames_refused_total") > 0, "protocol", Health::kWarn,
               counted(value("frames_refused_total")) + " frames of training processes broke the protocol",
               "use the Python client of the agent's release in the jobs; the log names the frames");
  findings.add(value("link_frames_refused_total") > 0, "protocol", Health::kWarn,
               counted(value("link_frames_refused_total")) +
                   " frames of the coordinator were refused: too large, too many entries, or no messages",
               "the log says which: give the agent the coordinator's max_frame, and both one release");
  findings.add(value("link_frames_unsent_total") > 0, "link", Health::kWarn,
               counted(value("link_frames_unsent_total")) + " messages found link_queue full",
               "the coordinator or the way there is too slow: see its loop and the network; costs wait in the spool");
  findings.add(value("steps_dropped_total") > 0, "steps", Health::kWarn,
               counted(value("steps_dropped_total")) + " steps were not told, the coordinator was away",
               "see why it was: tuning lacks these steps, and costs are there all the same");
  findings.add(value("processes_refused_total") > 0, "users", Health::kWarn,
               counted(value("processes_refused_total")) + " connections of other users' processes were refused",
               "run an agent as the user whose jobs are to be measured: trimtab-agent@USER");
  findings.add(is_root_for_all(page), "root", Health::kWarn,
               "ranks run as root, and jobs of every tenant are admitted (`run_as_root`)",
               "run an agent as each user (trimtab-agent@USER), or name the one tenant that may (`tenant`); then take "
               "`run_as_root` away");
  findings.add(value("kill_switch") > 0, "kill switch", Health::kWarn,
               "thrown: ranks here take no plan but their incumbents", "trimtab kill-switch release");
  findings.add(value("loop_lag_seconds") > kLateLoop, "loop", Health::kWarn,
               seconds(value("loop_lag_seconds")) + " late",
               "its disk or its CPU is too slow: see its state directory's device and who shares its cores");
  findings.add(value("ranks_running") == 0 && value("resident_bytes") > value("idle_memory_budget_bytes"), "memory",
               Health::kWarn,
               bytes(value("resident_bytes")) + " without a rank, more than the budget of " +
                   bytes(value("idle_memory_budget_bytes")),
               "see docs/operating.md, 'An idle agent takes too much'");
  add_own_use(page, findings);
  if (earlier) add_rates(page, *earlier, findings);
  add_posts(page, findings);
  const std::string stalled = where(page, "trimtab_host_source_stalled", "source");
  findings.add(!stalled.empty(), "sources", Health::kWarn, "reading hangs: " + stalled,
               "a driver or a device does not answer (nvidia-smi, dmesg); everything else goes on");
  const std::string broken = where(page, "trimtab_host_source_failures_total", "source");
  findings.add(!broken.empty(), "sources", Health::kWarn, "reads failed: " + broken, "the agent's log says why");
  return std::move(findings).checks(counted(value("ranks_running")) + " ranks, connected to the coordinator");
}

std::vector<Check> coordinator_checks(const Samples& page) {
  const auto value = [&](const char* name) { return sum_of(page, std::string("trimtab_") + name); };
  const auto nodes = [&](const std::string& state) {
    double count = 0;
    for (const MetricSample& one : page) {
      count += one.name == "trimtab_nodes" && label_of(one, "state") == state ? one.value : 0;
    }
    return count;
  };
  Findings findings("coordinator");
  findings.add(nodes("lost") > 0, "nodes", Health::kWarn, counted(nodes("lost")) + " are lost",
               "'trimtab status' names them: look at their agents and the network between");
  findings.add(value("state_failures_total") > 0, "storage", Health::kFail,
               counted(value("state_failures_total")) + " transitions could not be stored at once",
               "its state directory is full or cannot be written: jobs wait until it can");
  const double failed = value_of(page, "trimtab_cost_batches_total", "outcome=\"failed\"").value_or(0);
  findings.add(failed > 0, "storage", Health::kFail, counted(failed) + " batches of costs could not be stored at once",
               "its cost database is full, cannot be written or does not answer; agents send them again until it can");
  findings.add(value("steps_dropped_total") > 0, "storage", Health::kWarn,
               counted(value("steps_dropped_total")) + " steps of ranks were dropped: their jobs waited for the state",
               "its state directory is full or cannot be written: jobs wait until it can");
  const std::string over = where(page, "trimtab_coordinator_over_budget", "what");
  findings.add(!over.empty(), "budget", Health::kWarn, "more than its budget: " + over,
               "see what grows, or raise memory_budget, cpu_budget or disk_budget");
  const std::string halted = where(page, "trimtab_job_halted", "job");
  findings.add(!halted.empty(), "jobs", Health::kWarn, "halted: " + halted,
               "its ranks crashed too often: mend what 'trimtab trials' says and hand it in again");
  const std::string held = where(page, "trimtab_node_kill_switch", "node");
  findings.add(!held.empty(), "kill switch", Health::kWarn, "thrown on " + held, "there: trimtab kill-switch release");
  const std::string wrong = where(page, "trimtab_node_clock_ahead_seconds", "node", kWrongClock);
  findings.add(!wrong.empty(), "clocks", Health::kWarn, "more than 1 s off: " + wrong,
               "let NTP or PTP set them; late ranks cannot be told there");
  const std::string refused = where(page, "trimtab_refused_total", "reason", kManyRefusals);
  findings.add(!refused.empty(), "access", Health::kWarn, "many were turned away: " + refused,
               "the log names their addresses and why");
  const double nodes_refused = value_of(page, "trimtab_refused_total", "reason=\"node\"").value_or(0);
  findings.add(
      nodes_refused > 0, "tenants", Health::kWarn,
      counted(nodes_refused) + " times an agent's certificate or token did not show its node, or whose jobs it runs",
      "the log names them and says what to do; docs/security.md, 'Whose jobs a node runs'");
  findings.add(
      value("frames_malformed_total") > 0, "protocol", Health::kWarn,
      counted(value("frames_malformed_total")) + " frames of agents were refused: no messages, or too many entries",
      "the log names the nodes: see what runs there, and bring agents and coordinator to one release");
  for (const char* outcome : {"refused", "lost"}) add_batches(page, outcome, findings);
  const std::string foreign = where(page, "trimtab_foreign_messages_total", "what");
  findings.add(!foreign.empty(), "nodes", Health::kWarn, "some spoke of what is another node's: " + foreign,
               "the log names them: look at what runs there");
  findings.add(value("retention_failures_total") > 0, "retention", Health::kWarn,
               counted(value("retention_failures_total")) + " attempts to remove what is over failed",
               "the log says why; it is kept until its database can be written");
  add_posts(page, findings);
  findings.add(value("loop_lag_seconds") > kLateLoop, "loop", Health::kWarn,
               seconds(value("loop_lag_seconds")) + " late",
               "its disk or its CPU is too slow: see its state directory's device and who shares its cores");
  return std::move(findings).checks(counted(nodes("connected")) + " nodes connected");
}

Check check_configuration_file(const std::string& path, const std::string& problem) {
  if (problem.empty()) return {"configuration", Health::kOk, path, ""};
  return {"configuration", Health::kFail, problem, "mend it; the daemon does not start with it"};
}

Check check_certificate(const std::string& path, const std::string& owner, Nanoseconds expires, Nanoseconds now) {
  const auto days = std::chrono::duration_cast<std::chrono::hours>(expires - now).count() / 24;
  const std::string whose = path + " of " + owner;
  if (expires - now > kSoon) {
    return {"certificate", Health::kOk, whose + ", " + std::to_string(days) + " days left", ""};
  }
  const std::string remedy = "'trimtab cert issue' makes a new one, which is read without a restart";
  if (expires > now)
    return {"certificate", Health::kWarn, whose + " ends in " + std::to_string(days) + " days", remedy};
  return {"certificate", Health::kFail, whose + " has expired", remedy};
}

}  // namespace trimtab::cli
