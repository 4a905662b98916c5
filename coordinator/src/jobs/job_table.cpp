#include "jobs/job_table.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "accounts.hpp"
#include "agents/membership.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "base/url.hpp"
#include "costs/nccl_tables.hpp"
#include "jobs/held_memory.hpp"
#include "schema/job_without_plan.hpp"
#include "schema/plan.hpp"
#include "schema/settings/job_programs.hpp"
#include "schema/target.hpp"
#include "state_store.hpp"
#include "tuner/search.hpp"

namespace trimtab::coordinator {

namespace {

std::string taken_by_another(const std::string& name) {
  return "the job name " + name + " is taken by another tenant; choose another name";
}

// Handing in a job that runs already is no mistake: who lost sight of it finds it again.
Status check_same(const JobRun& present, const Job& job, bool tune) {
  const TuningState& state = present.state();
  if (state.watched) {
    return no("job " + job.name + " runs, and was launched by its user: choose another name, or end that one first");
  }
  std::string difference = joined(differing_keys(state.job, job));
  if (state.tune != tune) {
    difference = state.tune ? "it is tuned, and not only profiled" : "it is only profiled, and not tuned";
  } else if (!difference.empty()) {
    difference = "it differs in " + difference;
  }
  if (difference.empty()) return {};
  return no("another job " + job.name + " is running (phase " + std::string(to_string(state.phase)) +
            "): " + difference + ". POST /v1/jobs/" + job.name + "/stop stops it");
}

bool mentions(const std::vector<std::string>& arguments, std::string_view placeholder) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& one) { return one.find(placeholder) != std::string::npos; });
}

// The value of `--snapshots` in either spelling.
bool snapshots_stay_on_node(const std::vector<std::string>& train) {
  for (std::size_t i = 0; i < train.size(); ++i) {
    if (train[i].starts_with("--snapshots={scratch}")) return true;
    if (train[i] == "--snapshots" && i + 1 < train.size() && train[i + 1].starts_with("{scratch}")) return true;
  }
  return false;
}

// A trial must not touch what the job itself saves, so the command must take the place of its checkpoints from us.
Status check_delivery(const Job& job, bool tune) {
  if (job.elastic && !job.submit.empty()) {
    return bad_input("job " + job.name +
                     " is elastic, but its launches are submitted: their nodes are the scheduler's to choose, and to "
                     "replace. Leave out elastic, or commands.submit");
  }
  if (job.elastic && snapshots_stay_on_node(job.train)) {
    return bad_input(
        "job " + job.name +
        " is elastic, which needs snapshots that the nodes which are left can read: name for --snapshots in " +
        "commands.train a folder that all nodes share, not {scratch}, which is each node's own");
  }
  if (job.delivery != Delivery::kRestart || !tune || job.mode == JobMode::kObserve) return {};
  if (job.checkpoint.empty() || !mentions(job.train, "{checkpoint}")) {
    return bad_input("job " + job.name +
                     " has delivery \"restart\": it needs the key checkpoint, where it saves and resumes, and " +
                     "{checkpoint} in commands.train, which is a copy of it in a trial");
  }
  if (job.allow_restarts && job.mode != JobMode::kRecommend && is_url(job.checkpoint)) {
    return bad_input("job " + job.name + " saves in " + job.checkpoint +
                     ", of which no trial can be given a copy: only a folder or a file of a file system is copied. "
                     "Let it save in a folder that its nodes see, or choose mode \"recommend\", which tries nothing");
  }
  return {};
}

// What may change the order of sums, or where they are computed, and so the last bits of a result. Cuts, transfers
// and recompute do neither.
constexpr std::string_view kNotExact[] = {"microbatch", "data_parallel", "sliced_microbatches", "tensor_parallel",
                                          "sharded",    "sub_batches",   "memory_switches",     "context_parallel"};

bool is_exact(const Segment& segment) {
  return segment.dp == 1 && segment.tp == 1 && segment.cp == 1 && segment.sharded == ShardedLevel::kNone &&
         segment.switches == Switches{};
}

// Whether plans without any knob of kNotExact compute what this one does.
bool is_exact(const Plan& plan) {
  if (plan.schedule.sliced_microbatches != 0 || plan.schedule.sub_batches > 1) return false;
  return std::ranges::all_of(plan.stages, [](const Stage& stage) {
    return std::ranges::all_of(stage.segments, [](const Segment& segment) { return is_exact(segment); });
  });
}

// The search knows knobs and no classes: a job that allows exact changes alone must leave it no other knob.
Status check_class(const Job& job) {
  if (job.change_class != "exact" || job.mode == JobMode::kObserve || tries_own_knobs_alone(job)) return {};
  const Knobs knobs = within_target(job.knobs, job.target);
  std::string wrong;
  for (const auto& [name, knob] : kKnobs) {
    if (!(knobs.*knob) || std::ranges::find(kNotExact, name) == std::end(kNotExact)) continue;
    wrong += (wrong.empty() ? "" : ", ") + std::string(name);
  }
  const std::string rounds = ", which changes results by rounding. Or set class = \"rounding\"";
  if (!wrong.empty()) {
    return bad_input("job " + job.name + " has class \"exact\": set false in [knobs] of job.toml: " + wrong +
                     "; each is a knob" + rounds);
  }
  const PlanText initial(job.initial_plan_json, "");
  if (initial.said() == nullptr || is_exact(*initial.said()))
    return {};  // the search says what is wrong with a plan that cannot be read
  return bad_input(
      "job " + job.name +
      " has class \"exact\": its initial plan has replicas, split operators, shards, memory switches, slices " +
      "or sub-batches, and every plan without them differs from it by that" + rounds +
      ", or begin with a plan of stages alone");
}

// Where no knob lets a plan use several ranks there is nothing to measure, and nothing to search.
Status check_knobs(const Job& job) {
  const Knobs knobs = within_target(job.knobs, job.target);
  if (job.world_size < 2 || knobs.pipeline || knobs.data_parallel || knobs.tensor_parallel) return {};
  return bad_input("job " + job.name + ": no plan uses its " + std::to_string(job.world_size) +
                   " ranks while pipeline, data_parallel and tensor_parallel are all false in [knobs] of job.toml. " +
                   "A knob says what plans may have at all: leave at least the one in that its ranks have");
}

Status check_strategy(const Job& job) {
  if (job.strategy.empty()) return {};
  const std::vector<std::string_view> known = tuner::strategies();
  if (std::find(known.begin(), known.end(), job.strategy) == known.end()) {
    return bad_input("job " + job.name + ": strategy: one of " + joined(known) + " is needed, found '" + job.strategy +
                     "'");
  }
  if (limits_plans(job.target) == (job.strategy == "target")) return {};
  return bad_input("job " + job.name + ": strategy: '" + job.strategy + "' does not go with target = '" + job.target +
                   "'; plans of a target are found by strategy 'target', which is used where none is named");
}

Status check_training(const Job& job) {
  if (job.train.empty()) return bad_input("job " + job.name + " needs commands.train");
  if (job.steps < 1) return bad_input("job " + job.name + " needs steps: how many it is going to train");
  return {};
}

}  // namespace

Status check_job(const Job& job, bool tune) {
  TRIMTAB_TRY_STATUS(check_programs(job));
  TRIMTAB_TRY_STATUS(check_delivery(job, tune));
  TRIMTAB_TRY_STATUS(check_strategy(job));
  TRIMTAB_TRY_STATUS(check_knobs(job));
  TRIMTAB_TRY_STATUS(check_own_knobs(job));
  if (tune) TRIMTAB_TRY_STATUS(check_class(job));
  if (!job.target.empty()) {
    const auto known = target_limits(job.target);
    if (!known.ok()) return wrap("job " + job.name, known.error());
  }
  if (tune && (has_no_plan(job) || tries_own_knobs_alone(job))) {
    TRIMTAB_TRY_STATUS(check_without_plan(job));
    return check_training(job);
  }
  if (job.benchmark.empty()) return bad_input("job " + job.name + " needs commands.benchmark to measure its operators");
  if (job.model_json.empty() && job.describe.empty()) {
    return bad_input("job " + job.name + " needs a model file or commands.describe");
  }
  return tune ? check_training(job) : Status();
}

Status JobTable::restore() {
  TRIMTAB_TRY(std::vector<StoredRun> runs, services_.store.latest_runs());
  std::ranges::stable_sort(runs, std::greater(), &StoredRun::active);  // those that go on have first call on the room
  for (const StoredRun& one : runs) TRIMTAB_TRY_STATUS(load(one));
  remove_old_files();
  for (auto& [name, job] : jobs_) job->resume();
  next_load_ = services_.clock.monotonic() + kBetweenLoads;
  return {};
}

// One at a time, so that no more than one is in memory beside those that have room.
Status JobTable::load(const StoredRun& stored) {
  auto read = services_.store.job(stored.run);
  if (!read.ok() && read.error().kind != ErrorKind::kBadInput) return read.error();
  if (!read.ok()) {
    spdlog::error("job left alone: {}: {}", stored.name, read.error().message);
    left_alone_ = true;
    return {};
  }
  TuningState& state = read->state;
  if (read->is_lost && stored.active) give_up(stored.run, state);
  const bool active = stored.active && !read->is_lost;
  const std::string tenant = state.tenant;
  const std::uint64_t bytes = coordinator::held_bytes(state);
  const Status room = check_account(stored.name, tenant, bytes, nullptr);
  if (active && !room.ok()) {
    if (!unloaded_.contains(stored.name)) spdlog::error("job {} stays stored: {}", stored.name, room.error().message);
    services_.members.hold(stored.run, {stored.name, tenant}, state.nodes, has_own_devices(state));
    unloaded_[stored.name] = {stored.run, tenant, bytes, room.error().message};
    return {};
  }
  state.job.knobs = within_target(state.job.knobs, state.job.target);
  auto& slot = jobs_[stored.name];
  slot = std::make_unique<JobRun>(stored.run, std::move(state), std::move(read->documents), services_);
  // A picture for its report may be missing, which is made while there is room for it.
  if (!active && (!room.ok() || slot->report_complete())) slot->shelve();
  unloaded_.erase(stored.name);
  return {};
}

// Where that cannot be stored, the next start finds the same.
void JobTable::give_up(std::int64_t run, const TuningState& state) const {
  const std::string& name = state.job.name;
  spdlog::error("job {} is given up: {}", name, state.failure);
  Transition transition;
  transition.state_changed = true;
  transition.notes.push_back({"phase", std::string(to_string(state.phase))});
  transition.notes.push_back({"warning", state.failure});
  transition.audit.push_back({kCoordinatorActor, "give up the job", name, run, state.failure, state.tenant});
  const Status stored = services_.store.save(run, state, transition, services_.clock.wall().count());
  if (!stored.ok()) spdlog::error("job {}: that it is given up cannot be stored: {}", name, stored.error().message);
}

void JobTable::load_late() {
  const Nanoseconds now = services_.clock.monotonic();
  if (unloaded_.empty() || now < next_load_) return;
  next_load_ = now + kBetweenLoads;
  const std::map<std::string, Unloaded> waiting = unloaded_;
  for (const auto& [name, one] : waiting) {
    if (!check_account(name, one.tenant, one.bytes, nullptr).ok()) continue;
    const Status loaded = load({one.run, name, true});
    if (!loaded.ok()) spdlog::error("job {} stays stored: {}", name, loaded.error().message);
    JobRun* const job = find(name);
    if (job == nullptr) continue;
    spdlog::info("job {} has room now, and goes on", name);
    job->resume();
  }
}

std::uint64_t JobTable::held_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, job] : jobs_) bytes += job->held_bytes();
  return bytes;
}

std::uint64_t JobTable::held_bytes(const std::string& tenant) const {
  std::uint64_t bytes = 0;
  for (const auto& [name, job] : jobs_) {
    if (job->state().tenant == tenant) bytes += job->held_bytes();
  }
  return bytes;
}

Status JobTable::check_account(const std::string& name, const std::string& tenant, std::uint64_t bytes,
                               const JobRun* present) const {
  const AccountLimits limits = shares_of(services_.settings.accounted_memory()).jobs;
  const std::uint64_t former = present == nullptr ? 0 : present->held_bytes();
  const std::uint64_t own = held_bytes(tenant) - former;
  const std::uint64_t all = held_bytes() - former;
  const bool of_tenant = own + bytes > limits.each;
  if (!of_tenant && all + bytes <= limits.together) return {};
  const auto text = [](std::uint64_t amount) { return format_bytes(static_cast<Bytes>(amount)); };
  return no("job " + name + " needs " + text(bytes) +
            " of the coordinator's memory for what it was handed in with, but " +
            (of_tenant ? "the jobs of tenant " + tenant + " hold " + text(own) + " of the " + text(limits.each) +
                             " that one tenant's may"
                       : "all jobs hold " + text(all) + " of the " + text(limits.together) + " that they may") +
            ". Stop a job or wait until one is over (POST /v1/jobs/NAME/stop), make this one's model, plan, commands "
            "or environment smaller, or have whoever runs the coordinator raise memory_budget and what the system lets "
            "it have");
}

Result<Submitted> JobTable::submit(Job job, bool tune, const std::string& tenant) {
  TRIMTAB_TRY_STATUS(check_job(job, tune));
  job.knobs = within_target(job.knobs, job.target);  // no more is measured
  JobRun* const present = find(job.name);
  if (present != nullptr && present->state().tenant != tenant) {
    return no(taken_by_another(job.name));
  }
  if (present != nullptr && present->active()) {
    TRIMTAB_TRY_STATUS(check_same(*present, job, tune));
    present->feed(Order::kResume);
    return Submitted{present, true};
  }
  if (const std::string site = objection(services_.settings.site, job, tune); !site.empty()) return no(site);
  if (const auto stored = unloaded_.find(job.name); stored != unloaded_.end()) {
    if (!sees(tenant, stored->second.tenant)) return no(taken_by_another(job.name));
    return no("a job " + job.name + " is stored and goes on once there is room for it: " + stored->second.why);
  }
  TRIMTAB_TRY_STATUS(check_room(job.name, tenant));
  TRIMTAB_TRY_STATUS(check_account(job.name, tenant, needed_bytes(job), present));
  TuningState state;
  TRIMTAB_TRY(state.launch, services_.store.last_launch(job.name));
  state.tune = tune;
  state.tenant = tenant;
  state.job = std::move(job);
  TRIMTAB_TRY(JobRun* const begun, begin(std::move(state)));
  return Submitted{begun, false};
}

Result<JobRun*> JobTable::begin(TuningState state) {
  const std::string name = state.job.name;
  TRIMTAB_TRY(const std::int64_t run, services_.store.add_job(state, services_.clock.wall().count()));
  auto& slot = jobs_[name];
  slot = std::make_unique<JobRun>(run, std::move(state), StoredDocuments{}, services_);
  remove_old_files();
  slot->begin();
  return slot.get();
}

Result<JobRun*> JobTable::watch(const std::string& name, const RankWatched& rank, const std::string& tenant,
                                const std::function<bool(const std::string& tenant)>& serves) {
  JobRun* const present = find(name);
  if (present != nullptr && !serves(present->state().tenant)) {
    return no(taken_by_another(name));
  }
  if (present != nullptr && present->active()) {
    if (!present->state().watched) {
      return no("a job " + name + " runs that Trimtab has launched: give the one that its user launches another name");
    }
    if (!present->tuning().watching().is_over_for(rank)) return present;
    present->feed(RunReplaced{});
    if (present->active()) return unavailable("the end of job " + name + "'s former run cannot be stored yet");
  }
  const std::string owner = present == nullptr ? tenant : present->state().tenant;
  if (unloaded_.contains(name)) return no("a job " + name + " is stored and has no room: choose another name");
  TRIMTAB_TRY_STATUS(check_room(name, owner));
  TRIMTAB_TRY_STATUS(check_account(name, owner, needed_bytes(Job{}), present));
  TuningState state;
  state.tenant = owner;
  state.launch = rank.launch;
  state.job.name = name;
  state.watched = true;
  state.job.world_size = rank.world_size;
  state.initial = state.incumbent = {"", std::string(kAsLaunched)};
  spdlog::info("job {} of {} ranks was launched by its user: it is watched", name, rank.world_size);
  return begin(std::move(state));
}

// A name that is known takes no further room.
Status JobTable::check_room(const std::string& name, const std::string& tenant) const {
  const auto unfinished = std::ranges::count_if(
      jobs_, [&](const auto& entry) { return entry.second->active() && entry.second->state().tenant == tenant; });
  if (std::cmp_greater_equal(unfinished, services_.settings.max_jobs_of_tenant)) {
    return no("tenant " + tenant + " has " + std::to_string(unfinished) + " jobs that are not over, and may have " +
              std::to_string(services_.settings.max_jobs_of_tenant) + " (max_jobs_of_tenant): stop one of them " +
              "(POST /v1/jobs/NAME/stop) or wait until one is over, then hand in job " + name + " again");
  }
  if (jobs_.contains(name)) return {};
  const std::size_t share = known_share();
  const auto known =
      std::ranges::count_if(jobs_, [&](const auto& entry) { return entry.second->state().tenant == tenant; });
  if (share < services_.settings.max_jobs && std::cmp_greater_equal(known, share)) {
    return no("this coordinator knows " + std::to_string(known) + " jobs of tenant " + tenant +
              ", those that are over too, and keeps " + std::to_string(share) +
              " (three quarters of max_jobs): hand in job " + name +
              " under the name of one that is over, or wait until the oldest is forgotten");
  }
  if (jobs_.size() < services_.settings.max_jobs) return {};
  return no("this coordinator knows " + std::to_string(jobs_.size()) + " jobs, those that are over too, and keeps " +
            std::to_string(services_.settings.max_jobs) + " (max_jobs): hand in job " + name +
            " under the name of one that is over, " +
            "or have whoever runs the coordinator shorten job_retention or raise max_jobs");
}

std::size_t JobTable::known_share() const {
  return services_.settings.max_jobs - services_.settings.max_jobs / 4;
}

std::optional<std::int64_t> JobTable::surplus() const {
  // So many of a full share are forgotten that the tenant's next jobs find room.
  const std::size_t share = known_share() - known_share() / 16;
  if (jobs_.size() <= share) return std::nullopt;
  std::map<std::string, std::size_t> known;
  for (const auto& [name, job] : jobs_) ++known[job->state().tenant];
  const auto most = std::ranges::max_element(known, {}, [](const auto& entry) { return entry.second; });
  if (most->second <= share) return std::nullopt;
  std::optional<std::int64_t> oldest;
  for (const auto& [name, job] : jobs_) {
    if (job->active() || job->state().tenant != most->first) continue;
    oldest = std::min(oldest.value_or(job->run()), job->run());
  }
  return oldest;
}

void JobTable::remove_old_files() const {
  if (!knows_all()) return;
  std::set<std::int64_t> runs;
  for (const auto& [name, job] : jobs_) {
    if (job->active()) runs.insert(job->run());
  }
  keep_nccl_tables_of(services_.nccl_table_directory, runs);
}

JobRun* JobTable::find(const std::string& name) {
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? nullptr : found->second.get();
}

JobRun* JobTable::find_run(std::int64_t run) {
  for (auto& [name, job] : jobs_) {
    if (job->run() == run) return job.get();
  }
  return nullptr;
}

void JobTable::forget(std::int64_t run) {
  std::erase_if(jobs_, [run](const auto& entry) { return entry.second->run() == run && !entry.second->active(); });
}

void JobTable::tick() {
  for (auto& [name, job] : jobs_) job->tick();
  load_late();
}

void JobTable::follow_holds() {
  for (auto& [name, job] : jobs_) job->follow_holds();
}

void JobTable::feed_all(const Event& event) {
  for (auto& [name, job] : jobs_) {
    if (job->active()) job->feed(event);
  }
}

}  // namespace trimtab::coordinator
