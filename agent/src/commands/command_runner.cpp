#include "commands/command_runner.hpp"

#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "agent_database.hpp"
#include "base/text_parts.hpp"
#include "commands/checkpoint_copy.hpp"
#include "schema/device_memory.hpp"
#include "schema/hash64.hpp"
#include "schema/job_without_plan.hpp"
#include "schema/nccl_choice.hpp"
#include "schema/settings/job_programs.hpp"
#include "schema/target.hpp"

namespace trimtab::agent {

namespace {

constexpr double kMaxDeadlineSeconds = 24.0 * 3600;
constexpr double kDefaultDeadlineSeconds = 600;

Nanoseconds deadline_of(double seconds) {
  const double used =
      std::isfinite(seconds) && seconds > 0 ? std::min(seconds, kMaxDeadlineSeconds) : kDefaultDeadlineSeconds;
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(used));
}

// A file rendezvous is made by whoever comes first; its directory must be there.
void make_rendezvous_directory(const std::string& address) {
  constexpr std::string_view kFile = "file://";
  if (!address.starts_with(kFile)) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(address.substr(kFile.size())).parent_path(), ignored);
}

// In a trial a copy, so that what the job itself saves stays as it is.
bool has_own_checkpoint(const wire::Launch& asked, const Job& job) {
  return !job.checkpoint.empty() && !asked.variant().empty();
}

// Who they are and of which launch, nothing else.
std::vector<RankStart> named_ranks(const wire::Launch& asked, const Job& job) {
  std::vector<RankStart> ranks;
  for (const auto rank : asked.ranks()) {
    ranks.push_back({{job.name, asked.variant(), rank}, asked.launch(), asked.epoch(), {}, {}, {}, {}});
  }
  if (asked.nodes_size() > 0) {
    ranks.push_back({{job.name, asked.variant(), kLauncher}, asked.launch(), asked.epoch(), {}, {}, {}, {}});
  }
  return ranks;
}

// A kill of launches up to N reaches those that still copy a checkpoint. One of all launches is the end of the job, and
// reaches its description and its benchmarks, too.
bool is_reached(const wire::Command& command, const wire::Kill& kill) {
  const auto is_of_job = [&](const std::string& job_json) {
    const auto job = parse_job(job_json, "job");
    return job.ok() && job->name == kill.job();
  };
  if (command.has_launch()) {
    const bool meant = kill.launch() == 0 || command.launch().launch() <= kill.launch();
    return meant && command.launch().variant() == kill.variant() && is_of_job(command.launch().job_json());
  }
  if (kill.launch() != 0) return false;
  if (command.has_benchmark()) return is_of_job(command.benchmark().job_json());
  return command.has_describe() && is_of_job(command.describe().job_json());
}

// The job as the plan of the launch has it: with what that sets of the job's own knobs.
Result<Job> planned_job(const wire::Launch& asked, const Job& job, JobContext& jobs) {
  if (job.own_knobs.empty() || asked.plan_json().empty()) return job;
  TRIMTAB_TRY(const Plan* const plan, jobs.plan(job.name, asked.plan_json()));
  return with_own_settings(job, plan->own);
}

// The plan as the job's target reads it; the coordinator puts the model into such a job.
Status place_plan_of_target(const wire::Launch& asked, const Job& job, JobContext& jobs, const Scratch& scratch,
                            RankLaunch& launch) {
  if (job.target.empty() || asked.plan_json().empty() || tries_own_knobs_alone(job)) return {};
  TRIMTAB_TRY(ExportedPlan exported, jobs.exported(job, asked.plan_json()));
  launch.target_arguments = std::move(exported.arguments);
  launch.target_environment = std::move(exported.environment);
  if (exported.file_name.empty()) return {};
  launch.target_config = scratch.path() + "/" + std::to_string(asked.epoch()) + "-" + exported.file_name;
  return write_file(launch.target_config, exported.file_text);
}

// From SIGTERM to SIGKILL. A job that is restarted for its trials saves a checkpoint before it ends, and has as long
// for that as for anything else; a trial's launch has nothing to save, and what must not be saved has no time.
Nanoseconds grace_of(const wire::Kill& asked, const std::string& state, Nanoseconds usual) {
  if (asked.unsaved()) return Nanoseconds(0);
  if (!asked.variant().empty() || !is_job_name(asked.job())) return usual;
  const auto text = read_file(Scratch(state, asked.job(), "").job());
  if (!text.ok()) return usual;
  const auto job = parse_job(*text, "the job's document");
  const bool saves = job.ok() && job->delivery == Delivery::kRestart;
  return saves ? std::max(usual, job->trials.deadline) : usual;
}

// Every rank of a launch must read the same table: a node that cannot have it fails the launch. It is read back,
// because what a rank then finds damaged it would leave out, alone among the ranks.
Status place_nccl_table(const wire::Launch& asked, const Scratch& scratch, RankLaunch& launch) {
  if (asked.nccl_table().empty()) return {};
  TRIMTAB_TRY(launch.nccl_table_id, nccl_table_id(asked.nccl_table()));
  launch.nccl_table = scratch.nccl_table(asked.launch());
  TRIMTAB_TRY_STATUS(write_file(launch.nccl_table, asked.nccl_table()));
  TRIMTAB_TRY(const std::string written, read_file(launch.nccl_table));
  if (written == asked.nccl_table()) return {};
  return unavailable("the table of NCCL choices " + launch.nccl_table + " does not read as it was written");
}

// A command that an earlier agent has begun and not finished is run again under the same name, and who meets in a file
// meets the dead there: so each run has a file of its own. All of its ranks are this agent's.
std::string rendezvous_of_benchmark(const std::string& asked, const std::string& scratch) {
  const bool is_address = asked.find("://") != std::string::npos;
  return rendezvous_address(is_address ? asked : asked + "-" + hash64_hex(std::to_string(random_seed())), scratch);
}

Status check_ranks(const google::protobuf::RepeatedField<std::uint32_t>& ranks, const Job& job) {
  if (ranks.empty()) return bad_input("no rank was named");
  for (const auto rank : ranks) {
    if (rank < static_cast<std::uint32_t>(job.world_size)) continue;
    return bad_input(fmt::format("rank {} is none of job {}'s {} ranks", rank, job.name, job.world_size));
  }
  return {};
}

}  // namespace

CommandRunner::CommandRunner(Surroundings surroundings, CommandLedger ledger)
    : surroundings_(std::move(surroundings)), ledger_(ledger) {
  if (!surroundings_.programs)
    surroundings_.programs = system_job_programs(surroundings_.loop, surroundings_.environment);
}

Status CommandRunner::serve(const std::string& coordinator) {
  TRIMTAB_TRY(const bool is_another, ledger_.serve(coordinator));
  if (!is_another) return {};
  unrecorded_.clear();
  surroundings_.ranks.forget_ended();
  return {};
}

void CommandRunner::run(const wire::Command& command) {
  if (running_.contains(command.id())) return;  // its reply will come
  record_late();
  if (const auto late = unrecorded_.find(command.id()); late != unrecorded_.end()) {
    if (late->second.command.SerializeAsString() == command.SerializeAsString()) return reply(late->second.done);
  }
  const auto known = ledger_.reply(command);
  if (!known.ok()) return finish(command.id(), failed_reply(known.error().message));
  if (*known) return reply(**known);
  running_[command.id()].command = command;
  if (const auto begun = begin(command); !begun.ok()) finish(command.id(), failed_reply(begun.error().message));
}

Status CommandRunner::begin(const wire::Command& command) {
  switch (command.body_case()) {
    case wire::Command::kDescribe:
      return describe(command);
    case wire::Command::kBenchmark:
      return benchmark(command);
    case wire::Command::kLaunch:
      return launch(command);
    case wire::Command::kKill:
      return kill(command);
    case wire::Command::BODY_NOT_SET:
      break;
  }
  return bad_input("this agent does not know that command; the coordinator may be of a later release");
}

// Its directories are its tenant's from then on.
Result<Job> CommandRunner::job_of(const wire::Command& command, const std::string& job_json) const {
  TRIMTAB_TRY(Job job, parse_job(job_json, "job"));
  if (surroundings_.give_directories && !command.tenant().empty()) {
    TRIMTAB_TRY_STATUS(surroundings_.give_directories(job.name, command.tenant()));
  }
  return job;
}

Status CommandRunner::describe(const wire::Command& command) {
  TRIMTAB_TRY(const Job job, job_of(command, command.describe().job_json()));
  auto callbacks_of = callbacks(command.id());
  callbacks_of.done = [this, id = command.id(), name = job.name](const wire::CommandDone& answer) {
    described(name, answer);
    finish(id, answer);
  };
  TRIMTAB_TRY(running_[command.id()].work, surroundings_.programs->describe(job, std::move(callbacks_of)));
  return {};
}

// Whether the document is right is for the coordinator to judge, who answers to its owner; here it only explains
// ranges.
void CommandRunner::described(const std::string& job, const wire::CommandDone& answer) {
  if (!answer.ok()) return;
  const auto remembered = surroundings_.jobs.remember_model(job, answer.output());
  if (!remembered.ok()) spdlog::warn("{}", remembered.error().message);
}

Status CommandRunner::benchmark(const wire::Command& command) {
  const auto& asked = command.benchmark();
  TRIMTAB_TRY(Job job, job_of(command, asked.job_json()));
  TRIMTAB_TRY_STATUS(check_ranks(asked.ranks(), job));
  const Scratch scratch(surroundings_.state, job.name, "");
  TRIMTAB_TRY_STATUS(scratch.create());
  BenchmarkOrder order;
  order.command = command.id();
  order.requests_json = asked.requests_json();
  order.ranks = {asked.ranks().begin(), asked.ranks().end()};
  order.node = surroundings_.places.node;
  order.rendezvous = rendezvous_of_benchmark(asked.rendezvous(), scratch.path());
  order.scratch = scratch.path();
  order.memory_limit = device_memory(job, surroundings_.memory);
  order.deadline = deadline_of(asked.deadline_s());
  order.job = job;
  make_rendezvous_directory(order.rendezvous);
  const std::function<Disturbance()> watched =
      surroundings_.watch_node ? surroundings_.watch_node() : [] { return Disturbance(); };
  const auto measured = [this, job, watched](std::vector<Cost> costs) {
    const Disturbance disturbance = watched();
    for (Cost& cost : costs) cost.source.disturbed = disturbance.of(cost.source.clock);
    surroundings_.measured(job, costs);
  };
  TRIMTAB_TRY(running_[command.id()].work, surroundings_.programs->benchmark(order, measured, callbacks(command.id())));
  return {};
}

Status CommandRunner::launch(const wire::Command& command) {
  const auto& asked = command.launch();
  TRIMTAB_TRY(const Job job, job_of(command, asked.job_json()));
  TRIMTAB_TRY_STATUS(check_ranks(asked.ranks(), job));
  if (!asked.variant().empty() && !is_job_name(asked.variant())) {
    return bad_input("a variant's name must be letters, digits, '.', '_' and '-', but it is '" + asked.variant() + "'");
  }
  if (asked.of_trial() && surroundings_.held()) {
    return no("the kill switch is thrown on this node: no trial is launched until " + surroundings_.places.kill_switch +
              " is removed");
  }
  const Scratch scratch(surroundings_.state, job.name, asked.variant());
  TRIMTAB_TRY_STATUS(scratch.create());
  if (!asked.plan_json().empty()) TRIMTAB_TRY_STATUS(write_file(scratch.plan(asked.epoch()), asked.plan_json()));
  TRIMTAB_TRY_STATUS(surroundings_.jobs.remember_job(job));
  const auto named = named_ranks(asked, job);
  TRIMTAB_TRY_STATUS(surroundings_.ranks.refuse_running(named));
  // Ranks that an earlier agent has started for this very command hold their copy already.
  const bool started =
      std::ranges::any_of(named, [this](const auto& one) { return surroundings_.ranks.has_started(one); });
  if (started || !has_own_checkpoint(asked, job)) return start_ranks(command, job);
  const auto moved = [this, id = command.id()] {
    wire::CommandProgress progress;
    progress.set_id(id);
    progress.set_what("the checkpoint is copied");
    callbacks(id).progress(progress);
  };
  running_[command.id()].work = std::make_unique<CheckpointCopy>(
      surroundings_.loop, scratch, asked.fresh() ? "" : job.checkpoint,
      CheckpointCopy::Handlers{moved, [this, command, job](const Status& copied, double speed) {
                                 checkpoint_copied(command, job, copied, speed);
                               }});
  return {};
}

std::optional<double> CommandRunner::copy_speed(const std::string& job) const {
  const auto found = copy_speeds_.find(job);
  return found == copy_speeds_.end() ? std::nullopt : std::optional(found->second);
}

void CommandRunner::checkpoint_copied(const wire::Command& command, const Job& job, const Status& copied,
                                      double speed) {
  if (speed > 0) copy_speeds_[job.name] = speed;
  running_.at(command.id()).work.reset();
  const Status begun = copied.ok() ? start_ranks(command, job) : copied;
  if (!begun.ok()) finish(command.id(), failed_reply(begun.error().message));
}

Status CommandRunner::start_ranks(const wire::Command& command, const Job& job) {
  TRIMTAB_TRY_STATUS(start_launch(command.launch(), job));
  remember(command.launch(), job);
  const wire::Launch& asked = command.launch();
  wire::CommandDone reply = done_reply();
  if (asked.ranks_size() > 0) {
    reply.set_output(Scratch(surroundings_.state, job.name, asked.variant()).log(asked.ranks(0)));
  }
  // The machine's time, not one processor's.
  const auto processors = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  reply.set_prepared_ns(surroundings_.ranks.prepared().take_cost(job.name).count() / processors);
  surroundings_.loop.post([this, id = command.id(), reply = std::move(reply)] { finish(id, reply); });
  return {};
}

Status CommandRunner::start_launch(const wire::Launch& asked, const Job& job) {
  const Scratch scratch(surroundings_.state, job.name, asked.variant());
  TRIMTAB_TRY(const Job planned, planned_job(asked, job, surroundings_.jobs));
  TRIMTAB_TRY(const auto starts, rank_starts(asked, planned, scratch));
  for (const auto& start : starts) {
    if (!surroundings_.ranks.has_started(start)) surroundings_.launching(start.id);
  }
  return surroundings_.ranks.start(starts, asked.fresh());
}

RankLaunch CommandRunner::launch_of(const wire::Launch& asked, const Job& job, const Scratch& scratch) const {
  RankLaunch launch;
  launch.node = surroundings_.places.node;
  launch.scratch = scratch.path();
  launch.memory_limit = device_memory(job, surroundings_.memory);
  launch.steps = asked.steps() > 0 ? asked.steps() : job.steps;
  launch.launch = asked.launch();
  launch.variant = asked.variant();
  return launch;
}

// The command `submit`, on the node that the coordinator told where all ranks belong.
Result<RankStart> CommandRunner::launcher_start(const wire::Launch& asked, const Job& job,
                                                const Scratch& scratch) const {
  RankLaunch launch = launch_of(asked, job, scratch);
  launch.node_count = static_cast<std::uint32_t>(asked.nodes_size());
  const std::uint32_t ranks = asked.nodes(0).ranks();
  const bool even = std::ranges::all_of(asked.nodes(), [ranks](const auto& node) { return node.ranks() == ranks; });
  launch.ranks_per_node = even ? ranks : 0;
  launch.nodes = joined(asked.nodes(), ",", [](const auto& node) { return node.node(); });
  TRIMTAB_TRY(auto arguments, expand(job.submit, placeholders(job, launch)));
  return RankStart{{job.name, asked.variant(), kLauncher},
                   asked.launch(),
                   asked.epoch(),
                   std::move(arguments),
                   launcher_environment(surroundings_.environment, job, launch, surroundings_.places),
                   job.working_directory,
                   scratch.log(kLauncher)};
}

Result<std::vector<RankStart>> CommandRunner::rank_starts(const wire::Launch& asked, const Job& job,
                                                          const Scratch& scratch) const {
  RankLaunch launch = launch_of(asked, job, scratch);
  if (!asked.plan_json().empty()) launch.plan_path = scratch.plan(asked.epoch());
  launch.rendezvous = rendezvous_address(asked.rendezvous(), scratch.path());
  launch.epoch = asked.epoch();
  TRIMTAB_TRY_STATUS(place_nccl_table(asked, scratch, launch));
  launch.checkpoint = has_own_checkpoint(asked, job) ? scratch.checkpoint() : job.checkpoint;
  TRIMTAB_TRY_STATUS(place_plan_of_target(asked, job, surroundings_.jobs, scratch, launch));
  make_rendezvous_directory(launch.rendezvous);
  const bool submitted = !job.submit.empty();
  // What a scheduler has given a slot (devices, binding) stays: only the job's part and ours are laid over it.
  const Environment base = submitted ? Environment{} : surroundings_.environment;
  std::vector<RankStart> starts;
  for (const auto rank : asked.ranks()) {
    launch.rank = rank;
    // What the target says is no text with placeholders.
    TRIMTAB_TRY(auto arguments,
                expand(job.train, placeholders(job, launch), job.target.empty() ? nullptr : &launch.target_arguments));
    Environment environment = rank_environment(base, job, launch, surroundings_.places);
    ask_for_notes(job, Scratch(surroundings_.state, job.name, "").imports(rank), environment);
    // Of the first rank already: all of them are in memory together.
    TRIMTAB_TRY_STATUS(check_words(arguments, environment, kMostWords));
    starts.push_back({{job.name, asked.variant(), rank},
                      asked.launch(),
                      asked.epoch(),
                      std::move(arguments),
                      std::move(environment),
                      job.working_directory,
                      scratch.log(rank),
                      submitted});
    ++launch.local_rank;
  }
  // Last: what it submits finds the ranks awaited.
  if (submitted && asked.nodes_size() > 0) {
    TRIMTAB_TRY(starts.emplace_back(), launcher_start(asked, job, scratch));
  }
  return starts;
}

Status CommandRunner::kill(const wire::Command& command) {
  const auto& asked = command.kill();
  in_trial_.erase(asked.job());
  give_up(asked);
  surroundings_.ranks.end(asked.job(), asked.variant(), asked.launch(),
                          grace_of(asked, surroundings_.state, surroundings_.kill_grace),
                          [this, id = command.id()] { finish(id, done_reply()); });
  return {};
}

// What is no rank yet.
void CommandRunner::give_up(const wire::Kill& kill) {
  std::vector<std::uint64_t> given_up;
  for (const auto& [id, one] : running_) {
    if (one.work && is_reached(one.command, kill)) given_up.push_back(id);
  }
  for (const auto id : given_up) {
    running_.at(id).work.reset();
    finish(id,
           failed_reply(running_.at(id).command.has_launch() ? "the launch was killed while its checkpoint was copied"
                                                             : "it was ended before it was done: its job is over"));
  }
}

CommandCallbacks CommandRunner::callbacks(std::uint64_t id) {
  return {[this](const wire::CommandProgress& progress) {
            wire::FromAgent message;
            *message.mutable_command_progress() = progress;
            surroundings_.send(message);
          },
          [this, id](const wire::CommandDone& answer) { finish(id, answer); }};
}

void CommandRunner::finish(std::uint64_t id, wire::CommandDone done) {
  done.set_id(id);
  if (const auto found = running_.find(id); found != running_.end()) {
    record(found->second.command, done);
    // The work that called us must not be destroyed under its own feet.
    surroundings_.loop.post([work = std::shared_ptr<RunningCommand>(std::move(found->second.work))] {});
    running_.erase(found);
  }
  if (!done.ok()) spdlog::warn("command {} failed: {}", id, done.error());
  reply(done);
}

void CommandRunner::record(const wire::Command& command, const wire::CommandDone& done) {
  const auto stored = ledger_.done(command, done);
  if (stored.ok()) return;
  spdlog::error("the reply to command {} is not written down yet: {}", done.id(), stored.error().message);
  unrecorded_[done.id()] = {command, done};
  if (unrecorded_.size() > CommandLedger::kKept) unrecorded_.erase(unrecorded_.begin());
}

void CommandRunner::record_late() {
  std::erase_if(unrecorded_,
                [this](const auto& late) { return ledger_.done(late.second.command, late.second.done).ok(); });
}

void CommandRunner::reply(const wire::CommandDone& done) {
  wire::FromAgent message;
  *message.mutable_command_done() = done;
  if (!surroundings_.send(message)) unsent_[done.id()] = done;
}

void CommandRunner::retry() {
  record_late();
  const auto waiting = std::exchange(unsent_, {});
  for (const auto& [id, done] : waiting) reply(done);
}

}  // namespace trimtab::agent
