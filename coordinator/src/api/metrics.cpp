#include "api/metrics.hpp"

#include <map>
#include <sstream>
#include <vector>

#include "accounts.hpp"
#include "agents/membership.hpp"
#include "jobs/job_table.hpp"
#include "net/credentials.hpp"
#include "schema/database.hpp"
#include "services.hpp"
#include "state_store.hpp"

namespace trimtab::coordinator {
namespace {

using Values = std::map<std::string, double>;  // by a label's value

class Page {
 public:
  void family(const char* name, const char* type, const char* help) {
    out_ << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
  }
  void sample(const char* name, const std::string& labels, double value) {
    out_ << name << labels << ' ' << net::metric_number(value) << '\n';
  }
  template <typename Number>
  void single(const char* name, const char* type, const char* help, Number value) {
    family(name, type, help);
    sample(name, "", static_cast<double>(value));
  }
  void labelled(const char* name, const char* type, const char* help, const char* label, const Values& values) {
    family(name, type, help);
    for (const auto& [value, count] : values) sample(name, "{" + std::string(label) + "=\"" + value + "\"}", count);
  }
  void append(const std::vector<net::Metric>& samples) { out_ << net::render_metrics(samples); }
  // What appends to a list of samples.
  template <typename Source, typename... Names>
  void append_of(const Source& source, const Names&... names) {
    std::vector<net::Metric> samples;
    source.append(samples, names...);
    append(samples);
  }
  [[nodiscard]] std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void count_trials(const TuningState& state, Values& trials) {
  for (const Trial& trial : state.trials) ++trials[std::string(to_string(trial.state))];
  const std::pair<TrialState, std::int32_t> forgotten[] = {{TrialState::kAdopted, state.forgotten.adopted},
                                                           {TrialState::kRejected, state.forgotten.rejected},
                                                           {TrialState::kFailed, state.forgotten.failed}};
  for (const auto& [of, count] : forgotten) {
    if (count > 0) trials[std::string(to_string(of))] += count;
  }
}

// Of those that are not over: a series for each run of the last months would be too many. Job names are
// [A-Za-z0-9._-]: nothing in them needs escaping.
template <typename Value>
Values of_jobs(const JobTable& jobs, const Value& value) {
  Values values;
  for (const auto& [name, job] : jobs.jobs()) {
    if (job->active()) values[name] = static_cast<double>(value(*job));
  }
  return values;
}

void job_metrics(Page& page, const JobTable& jobs) {
  Values phases;
  Values trials;
  for (const auto& [name, job] : jobs.jobs()) {
    ++phases[std::string(to_string(job->state().phase))];
    count_trials(job->state(), trials);
  }
  page.labelled("trimtab_jobs", "gauge", "Jobs by phase.", "phase", phases);
  page.labelled("trimtab_trials", "gauge", "Trials of the known jobs by state.", "state", trials);
  page.labelled("trimtab_job_step_seconds", "gauge", "Last training step of a job that is not over.", "job",
                of_jobs(jobs, [](const JobRun& job) { return job.state().step_ms / 1e3; }));
  page.labelled("trimtab_job_halted", "gauge",
                "1 = its ranks crashed too often; nothing runs until it is handed in again.", "job",
                of_jobs(jobs, [](const JobRun& job) { return job.state().doing == Doing::kHalted; }));
  page.labelled("trimtab_job_step", "gauge", "Number of the last training step of a job that is not over.", "job",
                of_jobs(jobs, [](const JobRun& job) { return job.state().step; }));
  page.labelled("trimtab_job_held", "gauge", "1 while a job's plan must stay: frozen, or a kill switch is thrown.",
                "job", of_jobs(jobs, [](const JobRun& job) { return !job.tuning().held_by().empty(); }));
  page.labelled("trimtab_job_overhead_ratio", "gauge",
                "What tuning has cost beyond the incumbent's steps, as a share of the time that the job takes.", "job",
                of_jobs(jobs, [](const JobRun& job) { return job.state().overhead_share(); }));
}

void step_metrics(Page& page, const JobTable& jobs) {
  std::vector<net::Metric> samples;
  for (const auto& [name, job] : jobs.jobs()) {
    if (!job->active()) continue;
    job->step_times().append(samples, "trimtab_job_step_duration_seconds", "Training steps of the jobs that run.",
                             "{job=\"" + name + "\"}");
  }
  page.append(samples);
}

void collective_metrics(Page& page, const Counters& counters) {
  const JoinCounters& join = counters.collectives;
  page.labelled("trimtab_collectives_total", "counter", "Sampled collectives, by what became of their join over ranks.",
                "outcome",
                {{"joined", join.joined},
                 {"incomplete", join.incomplete},
                 {"repeated", join.repeated},
                 {"contradictory", join.contradictory},
                 {"implausible", join.implausible},
                 {"unfit", join.unfit},
                 {"dropped", counters.collective_costs_dropped}});
  const TransferCounters& transfers = counters.transfers;
  page.labelled("trimtab_transfers_total", "counter",
                "Sampled sends and receives, by what became of their join (unfit and dropped: of either of the two).",
                "outcome",
                {{"joined", transfers.joined},
                 {"alone", transfers.alone},
                 {"unfit", transfers.unfit},
                 {"dropped", transfers.dropped}});
  page.single("trimtab_collective_late_unsure_total", "counter",
              "Joined collectives to which a rank seemed to come late, by less than the clocks' bounds prove.",
              join.unsure);
  page.single("trimtab_collective_clocks_contradict_total", "counter",
              "Joined collectives whose ends contradict the clocks of their hosts.", join.clocks_wrong);
  const auto ranks = [&](const char* name, const char* help, auto field) {
    page.family(name, "counter", help);
    for (const auto& [rank, seen] : counters.waiting) {
      page.sample(name, "{job=\"" + rank.first + "\",rank=\"" + std::to_string(rank.second) + "\"}",
                  static_cast<double>(seen.*field));
    }
  };
  ranks("trimtab_collective_waiting_seconds_total", "Time in joined collectives in which a rank waited for later ones.",
        &RankWaiting::waiting_seconds);
  ranks("trimtab_collective_transfer_seconds_total", "Time in joined collectives after all ranks had come.",
        &RankWaiting::transfer_seconds);
  ranks("trimtab_collective_joined_total", "Joined collectives of a rank.", &RankWaiting::collectives);
  ranks("trimtab_collective_late_total", "Joined collectives in which the others waited for this rank.",
        &RankWaiting::late);
}

void clock_metrics(Page& page, const NodeClocks& clocks) {
  Values ahead;
  Values unsure;
  for (const auto& [node, offset] : clocks.latest()) {
    ahead[net::label_value(node)] = static_cast<double>(offset.ns) / 1e9;
    unsure[net::label_value(node)] = static_cast<double>(offset.uncertainty_ns) / 1e9;
  }
  page.labelled("trimtab_node_clock_ahead_seconds", "gauge", "A node's clock less the coordinator's, by heartbeats.",
                "node", ahead);
  page.labelled("trimtab_node_clock_uncertainty_seconds", "gauge", "The true difference lies within this, either way.",
                "node", unsure);
}

void counter_metrics(Page& page, const Counters& counters) {
  page.labelled("trimtab_cost_batches_total", "counter", "Batches of costs from agents.", "outcome",
                {{"stored", counters.batches_stored},
                 {"repeated", counters.batches_repeated},
                 {"refused", counters.batches_refused},
                 {"lost", counters.batches_lost},
                 {"failed", counters.batches_failed}});
  page.labelled("trimtab_cost_entries_total", "counter", "Costs in those batches.", "outcome",
                {{"read", counters.cost_entries}, {"refused", counters.cost_entries_refused}});
  page.single("trimtab_frames_malformed_total", "counter",
              "Frames from agents that could not be read, or had too many entries to be.", counters.frames_malformed);
  page.single("trimtab_frames_delayed_total", "counter",
              "Times that an agent's frames came faster than max_message_rate or max_byte_rate and were read later.",
              counters.frames_delayed);
  page.single("trimtab_rank_events_total", "counter", "What ranks said or did.", counters.rank_events);
  page.single("trimtab_searches_total", "counter", "Searches asked of the tuner.", counters.searches);
  page.append_of(counters.search_times, "trimtab_search_seconds",
                 "How long searches took, waiting for others included.");
  page.append_of(counters.commit_times, "trimtab_cost_batch_commit_seconds",
                 "How long it took to store batches of costs, those of some milliseconds together.");
  page.single("trimtab_state_failures_total", "counter", "Transitions that could not be stored at once.",
              counters.state_failures);
  page.single("trimtab_steps_dropped_total", "counter",
              "Steps of ranks dropped because too many waited for a state that could not be stored.",
              counters.steps_dropped);
  page.labelled("trimtab_forgotten_total", "counter", "What was removed because it was over for long enough.", "what",
                {{"runs", counters.runs_forgotten}, {"audit_entries", counters.audit_forgotten}});
  page.single("trimtab_retention_failures_total", "counter", "Attempts to remove what is over that failed.",
              counters.retention_failures);
  page.single("trimtab_loop_lag_seconds", "gauge", "How late the event loop's last timer was.",
              counters.loop_lag_seconds);
  page.single("trimtab_loop_lag_max_seconds", "gauge", "The latest that a timer of the event loop ever was.",
              counters.loop_lag_max_seconds);
}

void storage_metrics(Page& page, const StorageWatch& storage) {
  const auto each = [&](const char* name, const char* type, const char* help, const auto& value) {
    Values values;
    for (const StorageWatch::Seen& one : storage.all()) values[one.name] = static_cast<double>(value(one.health));
    page.labelled(name, type, help, "database", values);
  };
  using Health = DatabaseHealth;
  each("trimtab_database_out_of_place", "gauge",
       "1 while a database stores nothing, since its file was removed or replaced.",
       [](const Health& health) { return !health.out_of_place.empty(); });
  each("trimtab_database_log_unwatched", "gauge",
       "1 while a log that is cut would not be noticed: the file beside it cannot be written.",
       [](const Health& health) { return !health.is_log_watched; });
  each("trimtab_database_written_back_total", "counter",
       "Times that a database was removed while it was open, and written back.",
       [](const Health& health) { return health.written_back; });
  each("trimtab_database_set_apart", "gauge",
       "Rows, and parts of tables, that could not be read when a database was opened.",
       [](const Health& health) { return health.set_apart; });
  each("trimtab_database_unreadable_rows_total", "counter", "Rows that were read without their checksum, and left out.",
       [](const Health& health) { return health.unreadable; });
  each("trimtab_database_checking", "gauge",
       "1 while a file that was too large to be checked when it was opened is checked beside the work.",
       [](const Health& health) { return health.is_checking; });
  each("trimtab_database_checked_rows_total", "counter", "Rows that this has read.",
       [](const Health& health) { return health.checked_rows; });
}

void budget_metrics(Page& page, const OwnUseWatch& own_use) {
  const Budgets& budgets = own_use.budgets();
  page.single("trimtab_coordinator_memory_budget_bytes", "gauge", "Memory that it takes before it warns.",
              budgets.memory);
  page.single("trimtab_coordinator_cpu_budget_cores", "gauge", "The same of processor time, over a minute.",
              budgets.cores);
  page.single("trimtab_coordinator_disk_budget_bytes", "gauge", "The same of disk, for databases that are files.",
              budgets.disk);
  page.single("trimtab_coordinator_costs_limit_bytes", "gauge",
              "What the rows of the cost database take, where it is a file, before no more costs are stored.",
              budgets.costs);
  page.single("trimtab_coordinator_cpu_cores", "gauge", "Processor time that it took over the last whole minute.",
              own_use.cpu_cores());
  page.labelled("trimtab_coordinator_over_budget", "gauge", "1 while it takes more than its budget.", "what",
                {own_use.over().begin(), own_use.over().end()});
}

void account_metrics(Page& page, const Services& services, const JobTable& jobs) {
  const Shares shares = shares_of(services.settings.accounted_memory());
  const net::Server::Taken taken = services.taken ? services.taken() : net::Server::Taken();
  const auto bytes = [](std::uint64_t count) { return static_cast<double>(count); };
  page.labelled("trimtab_coordinator_account_bytes", "gauge",
                "Of its memory, what is charged to jobs, requests, answers, half frames and frames that wait.",
                "account",
                {{"jobs", bytes(jobs.held_bytes())},
                 {"requests", bytes(taken.bodies)},
                 {"answers", bytes(taken.answers)},
                 {"half_frames", bytes(taken.half_frames)},
                 {"queues", bytes(taken.queues)}});
  page.labelled("trimtab_coordinator_account_limit_bytes", "gauge", "What each of these may be, of all together.",
                "account",
                {{"jobs", bytes(shares.jobs.together)},
                 {"requests", bytes(shares.bodies.together)},
                 {"answers", bytes(shares.answers.together)},
                 {"half_frames", bytes(shares.half_frames.together + shares.unknown_half_frames)},
                 {"queues", bytes(shares.queues)}});
  page.single("trimtab_jobs_not_loaded", "gauge", "Jobs that are stored and go on once there is room for them.",
              static_cast<double>(jobs.unloaded().size()));
}

}  // namespace

std::string metrics_text(const Services& services, const JobTable& jobs) {
  Page page;
  Values nodes = {{"connected", 0}, {"disconnected", 0}, {"lost", 0}};
  Values switches;
  for (const auto& [name, member] : services.members.members()) {
    ++nodes[member.state()];
    switches[net::label_value(name)] = member.kill_switch ? 1 : 0;
  }
  page.labelled("trimtab_node_kill_switch", "gauge", "1 while a node's kill switch is thrown.", "node", switches);
  page.labelled("trimtab_nodes", "gauge", "Nodes by state.", "state", nodes);
  job_metrics(page, jobs);
  step_metrics(page, jobs);
  counter_metrics(page, services.counters);
  storage_metrics(page, services.storage);
  collective_metrics(page, services.counters);
  clock_metrics(page, services.clocks);
  // All from the first scrape on: a counter that appears with its first event hides it.
  Values refusals = {{"tls", 0},       {"unauthenticated", 0},
                     {"forbidden", 0}, {"agent", 0},
                     {"foreign", 0},   {"malformed", 0},
                     {"too_large", 0}, {"slow", 0},
                     {"full", 0},      {"job", 0},
                     {"rate", 0},      {"node", 0}};
  for (const auto& [reason, count] : services.refusals.counts()) refusals[reason] = count;
  page.labelled("trimtab_refused_total", "counter", "Connections and requests that were turned away, by why.", "reason",
                refusals);
  Values foreign = {{"rank", 0},       {"command", 0},  {"trace", 0}, {"activity", 0},
                    {"collective", 0}, {"instance", 0}, {"launch", 0}};
  for (const auto& [what, count] : services.foreign.counts()) foreign[what] = count;
  page.labelled("trimtab_foreign_messages_total", "counter",
                "Messages of nodes about ranks, commands and traces of others, which changed nothing.", "what",
                foreign);
  if (const auto keys = services.cost_count.lately()) {
    page.single("trimtab_cost_keys", "gauge", "Keys that costs of any hardware and source are stored under.", *keys);
  }
  page.append(net::certificate_ends("trimtab_coordinator", services.tls.get()));
  if (services.exporter) page.append_of(*services.exporter);
  Values databases;
  if (const auto bytes = bytes_on_disk(services.store.name())) databases["state"] = static_cast<double>(*bytes);
  if (const auto bytes = bytes_on_disk(services.costs.name())) databases["costs"] = static_cast<double>(*bytes);
  page.labelled("trimtab_database_bytes", "gauge", "Databases on disk, where they are files, with their logs.",
                "database", databases);
  const OwnUse use = measure_own_use({});
  page.single("process_resident_memory_bytes", "gauge", "Resident memory.", use.memory_bytes);
  page.single("process_cpu_seconds_total", "counter", "CPU time, user and system.", use.cpu_seconds);
  if (services.own_use) budget_metrics(page, *services.own_use);
  account_metrics(page, services, jobs);
  return page.text();
}

std::optional<std::uint64_t> CostCount::lately() const {
  const Nanoseconds now = clock_.monotonic();
  if (count_ && now - counted_ < kPeriod) return count_;
  const auto count = costs_.key_count();
  count_ = count.ok() ? std::optional(*count) : std::nullopt;
  counted_ = now;
  return count_;
}

}  // namespace trimtab::coordinator
