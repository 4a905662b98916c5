#include <algorithm>
#include <optional>
#include <utility>

#include "base/numbers.hpp"
#include "doctor/findings.hpp"

namespace trimtab::cli {

namespace {

using Samples = std::vector<MetricSample>;

constexpr double kUsualSpool = 256 * 1048576.0;  // of an agent that does not say its limit
constexpr double kFilling = 0.5;
constexpr double kClearlyOver = 2;

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

// A counter of the agent's.
Counter count(const Pages& pages, const std::string& name) {
  return pages.counter("trimtab_agent_" + name + "_total");
}

void add_costs(const Pages& pages, Findings& findings) {
  const Counter failed = count(pages, "batches_failed");
  const std::string failures = counted(failed.total) + " attempts to store costs failed";
  findings.add(failed.grown > 0, "storage", Health::kFail, failures,
               "its state directory is full or cannot be written: free some space; nothing is lost while it runs");
  findings.add_past(failed, "storage", failures);
  const Counter dropped = count(pages, "costs_dropped");
  findings.add(dropped.total > 0, "spool", Health::kWarn,
               counted(dropped.total) + " values were dropped, spool and memory were full" + since_start(dropped),
               "bring the coordinator back, or raise spool_limit");
  const double waiting = sum_of(pages.now(), "trimtab_agent_spool_bytes");
  const double limit = value_of(pages.now(), "trimtab_agent_spool_limit_bytes", "").value_or(kUsualSpool);
  findings.add(waiting > kFilling * limit, "spool", Health::kWarn,
               bytes(waiting) + " wait for the coordinator, and spool_limit is " + bytes(limit),
               "bring the coordinator back; beyond spool_limit costs wait in memory");
  const Counter refused = count(pages, "batches_refused");
  findings.add(refused.total > 0, "costs", Health::kWarn,
               counted(refused.total) + " batches are refused by the coordinator for good" + since_start(refused),
               "the log says why; they stay in costs.db: bring both to one release, then 'trimtab db merge'");
  const double aside = sum_of(pages.now(), "trimtab_agent_batches_aside");
  findings.add(aside > 0, "costs", Health::kWarn,
               counted(aside) + " batches cannot be read by this release and are kept aside",
               "go back to the release that wrote them: it enters them when it starts");
}

void add_rings(const Pages& pages, Findings& findings) {
  const double lost = count(pages, "records_dropped").grown;
  const double records = count(pages, "records").grown + lost;
  findings.add(lost > 0, "rings", Health::kWarn,
               format_percent(lost / std::max(records, 1.0)) + " of the records found their ring full",
               "the agent had no CPU, or was away: look at its loop; costs come from the others");
  const Counter broken = count(pages, "rings_broken");
  const Counter malformed = count(pages, "records_malformed");
  const Counter both{broken.total + malformed.total, broken.grown + malformed.grown};
  findings.add(broken.total > 0 || malformed.grown > 0, "rings", Health::kWarn,
               counted(broken.total) + " rings given up, " + counted(malformed.total) + " records made no sense" +
                   since_start(both),
               "use the libtrimtab-inject.so of the agent's release in the jobs");
  const Counter refused = count(pages, "rings_refused");
  const std::string unmeasured = counted(refused.total) + " rings were not taken: their processes are not measured";
  findings.add(refused.grown > 0, "rings", Health::kWarn, unmeasured,
               "the log says which; raise ring_memory or ring_memory_of_process, or bring the job to the agent's "
               "release");
  findings.add_past(refused, "rings", unmeasured);
}

void add_messages(const Pages& pages, Findings& findings) {
  const Counter frames = count(pages, "frames_refused");
  findings.add(frames.grown > 0, "protocol", Health::kWarn,
               counted(frames.total) + " frames of training processes broke the protocol",
               "use the Python client of the agent's release in the jobs; the log names the frames");
  const Counter link_frames = count(pages, "link_frames_refused");
  findings.add(link_frames.grown > 0, "protocol", Health::kWarn,
               counted(link_frames.total) +
                   " frames of the coordinator were refused: too large, too many entries, or no messages",
               "the log says which: give the agent the coordinator's max_frame, and both one release");
  const Counter unsent = count(pages, "link_frames_unsent");
  findings.add(unsent.grown > 0, "link", Health::kWarn, counted(unsent.total) + " messages found link_queue full",
               "the coordinator or the way there is too slow: see its loop and the network; costs wait in the spool");
  const Counter steps = count(pages, "steps_dropped");
  findings.add(steps.grown > 0, "steps", Health::kWarn,
               counted(steps.total) + " steps were not told, the coordinator was away",
               "see why it was: tuning lacks these steps, and costs are there all the same");
  const Counter refused = count(pages, "processes_refused");
  const std::string strangers = counted(refused.total) + " connections of other users' processes were refused";
  findings.add(refused.grown > 0, "users", Health::kWarn, strangers,
               "run an agent as the user whose jobs are to be measured: trimtab-agent@USER");
  findings.add_past(refused, "users", strangers);
}

void add_sources(const Pages& pages, Findings& findings) {
  const std::string stalled = pages.where("trimtab_host_source_stalled", "source");
  findings.add(!stalled.empty(), "sources", Health::kWarn, "reading hangs: " + stalled,
               "a driver or a device does not answer (nvidia-smi, dmesg); everything else goes on");
  const std::string broken = pages.where_grown("trimtab_host_source_failures_total", "source");
  findings.add(!broken.empty(), "sources", Health::kWarn, "reads failed: " + broken, "the agent's log says why");
}

}  // namespace

std::vector<Check> agent_checks(const Samples& page, const std::optional<EarlierPage>& earlier) {
  const auto value = [&](const char* name) { return sum_of(page, std::string("trimtab_agent_") + name); };
  const Pages pages(page, earlier);
  Findings findings("agent");
  findings.add(value("coordinator_connected") == 0, "link", Health::kWarn, "the coordinator does not know this agent",
               "its log says why: a wrong address, a certificate, a coordinator that is not there; costs are spooled "
               "until then");
  add_costs(pages, findings);
  add_disk(page, findings);
  add_rings(pages, findings);
  add_messages(pages, findings);
  findings.add(is_root_for_all(page), "root", Health::kWarn,
               "ranks run as root, and jobs of every tenant are admitted (`run_as_root`)",
               "run an agent as each user (trimtab-agent@USER), or name the one tenant that may (`tenant`); then take "
               "`run_as_root` away");
  findings.add(value("kill_switch") > 0, "kill switch", Health::kWarn,
               "thrown: ranks here take no plan but their incumbents", "trimtab kill-switch release");
  add_loop(value("loop_lag_seconds"), findings);
  findings.add(value("ranks_running") == 0 && value("resident_bytes") > value("idle_memory_budget_bytes"), "memory",
               Health::kWarn,
               bytes(value("resident_bytes")) + " without a rank, more than the budget of " +
                   bytes(value("idle_memory_budget_bytes")),
               "see docs/operating.md, 'An idle agent takes too much'");
  add_own_use(page, findings);
  if (earlier) add_rates(page, *earlier, findings);
  add_posts(pages, findings);
  add_sources(pages, findings);
  return std::move(findings).checks(counted(value("ranks_running")) + " ranks, connected to the coordinator");
}

}  // namespace trimtab::cli
