#include "ranks/rank_sessions.hpp"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "node/agent_metric.hpp"
#include "records/activity_report.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kMaxReports = 4096;
// Each is a series of somebody's monitoring for as long as that remembers.
constexpr std::size_t kMostReportNames = 32;
// What a frame holds beside the plan's text.
constexpr std::size_t kMaxPlanBytes = (1U << 20) - 256;

using C = RankSessions::Counters;
constexpr CounterMetric<C> kCounters[] = {
    {"frames", "Frames from training processes.", &C::frames},
    {"frames_refused", "Frames that broke the protocol.", &C::refused_frames},
    {"frames_delayed",
     "Times that a process' frames came faster than max_message_rate or max_byte_rate and were read later.",
     &C::delayed},
    {"processes_unknown", "Processes that this agent did not launch.", &C::unknown_processes},
    {"watched_ranks_refused", "Processes that said to be a rank that another process is, or could not be watched.",
     &C::refused_watched},
    {"rank_reports_left_out", "Values that ranks reported under further names than the 32 that a job may have.",
     &C::reports_left_out},
    {"processes_refused",
     "Connections that were refused or ended: of other users' processes, too many of one process, without a whole "
     "frame "
     "in time, with too much of one that is not whole.",
     &C::refused_processes}};

}  // namespace

Status RankSessions::listen(net::EventLoop& loop, const std::string& path, const net::Rate& max_rate) {
  net::LocalServerHandlers handlers;
  handlers.opened = [this](Peer peer, pid_t pid, uid_t) { opened(peer, pid); };
  handlers.frame = [this](Peer peer, std::string_view json, int descriptor) { received(peer, json, descriptor); };
  handlers.closed = [this](Peer peer, const std::string&) { closed(peer); };
  handlers.refused = [this](pid_t pid, uid_t, const std::string& reason) {
    ++counters_.refused_processes;
    say_refused(pid, "is refused", reason);
  };
  handlers.delayed = [this](Peer) { ++counters_.delayed; };
  TRIMTAB_TRY(server_, net::LocalServer::start(loop, path, std::move(handlers), max_rate));
  serve({[this](Peer peer, std::string_view frame) { server_->send(peer, frame); },
         [this](Peer peer) { server_->close(peer); }});
  return {};
}

// Whoever may see the socket's file can cause it for ever.
void RankSessions::say_refused(pid_t pid, const char* what, const std::string& reason) {
  const LogPace::Answer answer = refusals_.next(surroundings_.clock.monotonic());
  if (answer.left_out > 0) spdlog::warn("{} more processes were refused or disconnected since", answer.left_out);
  if (answer.say) spdlog::warn("{} {}: {}", process_name(pid), what, reason);
}

// The same; apart from refusals, because a job that is only measured says it often.
void RankSessions::say_not_steered(pid_t pid, const HelloFrame& hello) {
  const LogPace::Answer answer = strangers_.next(surroundings_.clock.monotonic());
  if (answer.left_out > 0) spdlog::info("{} more processes that this agent did not launch came since", answer.left_out);
  if (!answer.say) return;
  spdlog::info("{} says it is rank {} of job '{}', but this agent did not launch it: it is not steered",
               process_name(pid), hello.rank ? std::to_string(*hello.rank) : "?", hello.job);
}

void RankSessions::received(Peer peer, std::string_view json, int descriptor) {
  Session& session = sessions_[peer];
  ++counters_.frames;
  const auto frame = parse_rank_frame(json);
  const Status handled = frame.ok() ? handle(peer, session, *frame, descriptor) : Status(frame.error());
  if (descriptor >= 0) ::close(descriptor);
  if (handled.ok()) return;
  ++counters_.refused_frames;
  say_refused(session.pid, "is disconnected", handled.error().message);
  port_.close(peer);
}

Status RankSessions::handle(Peer peer, Session& session, const RankFrame& frame, int& descriptor) {
  const auto* hello = std::get_if<HelloFrame>(&frame);
  const auto* ring = std::get_if<RingFrame>(&frame);
  if (session.is_ring) return bad_input("a connection that carries a ring stays silent");
  const auto* slot = std::get_if<SlotFrame>(&frame);
  const auto* launcher = std::get_if<LauncherFrame>(&frame);
  const bool introduces = hello != nullptr || ring != nullptr || slot != nullptr || launcher != nullptr;
  if (session.greeted && introduces) return bad_input("it has introduced itself before");
  if (hello != nullptr) return greet(peer, session, *hello);
  if (ring != nullptr) return take_ring(peer, session, *ring, descriptor);
  if (slot != nullptr) return fill_slot(peer, session, *slot);
  if (launcher != nullptr) return greet_launcher(session, *launcher);
  if (!session.greeted) return bad_input("its first frame must be a hello, a ring, a slot or a launcher");
  if (const auto* submission = std::get_if<SubmissionFrame>(&frame)) return say_of_submission(session, *submission);
  if (session.rank) say(session, frame);
  return {};
}

Status RankSessions::greet(Peer peer, Session& session, const HelloFrame& hello) {
  session.greeted = true;
  if (hello.watched) return greet_watched(peer, session, hello);
  port_.send(peer, welcome_frame(surroundings_.node));
  session.measures = hello.measures;
  if (hello.rank) session.rank = surroundings_.ranks.find(hello.job, *hello.rank, session.pid);
  if (!session.rank) {
    ++counters_.unknown_processes;
    say_not_steered(session.pid, hello);
    return {};
  }
  surroundings_.ranks.runs_epoch(session.rank->id, hello.epoch);
  surroundings_.ranks.trains(session.rank->id, session.pid);
  wire::RankEvent event;
  event.mutable_connected()->set_pid(session.pid);
  event.mutable_connected()->set_epoch(hello.epoch);
  event.mutable_connected()->set_step(hello.step);
  event.mutable_connected()->set_groups_ns(hello.groups_ns);
  event.mutable_connected()->set_build_ns(hello.build_ns);
  tell(session, std::move(event));
  for (const auto& frame : relay_.missed(session.rank->id.job, hello.epoch)) port_.send(peer, frame);
  return {};
}

// The kernel says which process it is. One that cannot be the rank is told so, and stays: it need not come again.
Status RankSessions::greet_watched(Peer peer, Session& session, const HelloFrame& hello) {
  LedgerRank said;
  said.id = {hello.job, "", *hello.rank};
  said.launch = hello.launch;
  said.watched_world_size = hello.world_size;
  const auto taken = surroundings_.ranks.take_watched(std::move(said), session.pid);
  if (!taken.ok()) {
    ++counters_.refused_watched;
    say_refused(session.pid, "is not watched", taken.error().message);
    port_.send(peer, refused_frame(taken.error().message));
    return {};
  }
  session.rank = taken->rank;
  port_.send(peer, welcome_frame(surroundings_.node));
  if (taken->is_new && taken->rank.is_watched()) surroundings_.news.launched(taken->rank.id);
  bind_rings(taken->rank);
  wire::RankEvent event;
  auto& connected = *event.mutable_connected();
  connected.set_pid(session.pid);
  connected.set_epoch(hello.epoch);
  connected.set_step(hello.step);
  connected.set_groups_ns(hello.groups_ns);
  connected.set_build_ns(hello.build_ns);
  connected.set_watched_world_size(taken->rank.watched_world_size);
  connected.set_local_rank(hello.local_rank);
  tell(session, std::move(event));
  return {};
}

// Those that its processes handed over before anybody could know whose they are.
void RankSessions::bind_rings(const LedgerRank& rank) {
  if (!rank.is_watched()) return;
  for (auto& [peer, session] : sessions_) {
    if (!session.is_ring || session.pid <= 0) continue;
    const bool is_own = session.pid == rank.pid;
    const bool of_other = session.rank.has_value();
    if (!is_own && (of_other || !surroundings_.ranks.belongs_to(session.pid, rank.pid))) continue;
    session.rank = rank;
    surroundings_.rings.belongs_to(peer, surroundings_.owner(rank.id.job), rank.id);
  }
}

// What the process is told makes it the rank: it introduces itself anew when it runs that.
Status RankSessions::fill_slot(Peer peer, Session& session, const SlotFrame& slot) {
  session.greeted = true;
  const auto start = surroundings_.ranks.take_slot({slot.job, slot.variant, slot.launch, slot.local_rank}, session.pid);
  if (!start.ok()) {
    say_refused(session.pid, "is given no rank", start.error().message);
    port_.send(peer, refused_frame(start.error().message));
    return {};
  }
  port_.send(peer, run_frame(start->arguments, start->environment, start->working_directory, start->log_path));
  return {};
}

Status RankSessions::greet_launcher(Session& session, const LauncherFrame& launcher) {
  session.greeted = true;
  session.launcher = surroundings_.ranks.find(launcher.job, kLauncher, session.pid);
  const bool is_known = session.launcher && session.launcher->launch == launcher.launch;
  return is_known ? Status{} : bad_input("it says it is a launcher, but this agent did not start it as one");
}

Status RankSessions::say_of_submission(const Session& session, const SubmissionFrame& frame) {
  if (!session.launcher) return bad_input("only a launcher tells of a submission");
  const LedgerRank& launcher = *session.launcher;
  if (frame.ended) surroundings_.ranks.said_bye(launcher.id);
  wire::RankEvent event;
  event.mutable_submission()->set_state(frame.state);
  event.mutable_submission()->set_message(frame.message);
  surroundings_.news.tell({launcher.id.job, launcher.id.variant, 0}, launcher.launch, std::move(event));
  return {};
}

Status RankSessions::take_ring(Peer peer, Session& session, const RingFrame& ring, int& descriptor) {
  if (descriptor < 0) {
    return bad_input(
        "it has no record ring, so its ranges are not recorded. It needs 4 MiB (TRIMTAB_RING_SLOTS) of memory, room "
        "for a file of that size (ulimit -f) and two descriptors (ulimit -n)");
  }
  session.greeted = true;
  session.is_ring = true;
  session.rank = surroundings_.ranks.find_watched(session.pid);
  if (ring.rank && !session.rank) session.rank = surroundings_.ranks.find(ring.job, *ring.rank, session.pid);
  // A short process has left its ring in the socket, and nothing in /proc.
  if (ring.rank && !session.rank && ring.launch > 0) {
    session.rank = surroundings_.ranks.find_ended({ring.job, ring.variant, *ring.rank}, ring.launch, session.pid);
  }
  const auto owner = surroundings_.owner(session.rank ? session.rank->id.job : "");
  const auto rank = session.rank ? std::optional(session.rank->id) : std::nullopt;
  const auto attached = surroundings_.rings.attach(peer, std::exchange(descriptor, -1), owner, rank, session.pid);
  if (!attached.ok()) {
    return wrap("its record ring is refused", attached.error());
  }
  if (session.rank && !session.rank->is_watched()) give_context(peer, session, session.rank->epoch, true);
  return {};
}

void RankSessions::say(const Session& session, const RankFrame& frame) {
  wire::RankEvent event;
  if (const auto* report = std::get_if<ReportFrame>(&frame)) return said_report(session, *report);
  if (const auto* step = std::get_if<wire::Step>(&frame)) {
    step_times_.try_emplace(session.rank->id, net::Histogram(net::kSecondBounds))
        .first->second.observe(static_cast<double>(step->wall_ns()) / 1e9);
    *event.mutable_step() = *step;
  }
  if (const auto* ack = std::get_if<wire::PlanAck>(&frame)) *event.mutable_plan_ack() = *ack;
  if (const auto* refusal = std::get_if<wire::PlanRefuse>(&frame)) *event.mutable_plan_refuse() = *refusal;
  if (const auto* failure = std::get_if<wire::PlanFailed>(&frame)) *event.mutable_plan_failed() = *failure;
  if (const auto* active = std::get_if<wire::PlanActive>(&frame)) {
    surroundings_.ranks.runs_epoch(session.rank->id, active->epoch());
    *event.mutable_plan_active() = *active;
  }
  if (const auto* facts = std::get_if<wire::Facts>(&frame)) *event.mutable_facts() = *facts;
  if (const auto* measured = std::get_if<wire::Measured>(&frame)) *event.mutable_measured() = *measured;
  if (const auto* bye = std::get_if<wire::Bye>(&frame)) {
    surroundings_.ranks.said_bye(session.rank->id);
    *event.mutable_bye() = *bye;
  }
  tell(session, std::move(event));
}

void RankSessions::said_report(const Session& session, const ReportFrame& frame) {
  const std::pair key(session.rank->id, frame.name);
  std::set<std::string>& names = report_names_[key.first.job];
  const bool has_name = names.contains(frame.name) || names.size() < kMostReportNames;
  if (!has_name || (reports_.size() >= kMaxReports && !reports_.contains(key))) {
    ++counters_.reports_left_out;
    return;
  }
  names.insert(frame.name);
  reports_[key] = frame.value;
}

void RankSessions::pictured(Peer peer, const StepPicture& picture) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end() || !found->second.rank) return;
  wire::RankEvent event;
  auto& timeline = *event.mutable_timeline();
  timeline.set_epoch(picture.epoch);
  timeline.set_step(picture.step);
  timeline.set_begin_ns(picture.begin_ns);
  timeline.set_bars_json(picture.bars_json);
  tell(found->second, std::move(event));
}

void RankSessions::passed(Peer peer, const TimedStep& step) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end() || !found->second.rank) return;
  wire::RankEvent event;
  auto& passes = *event.mutable_passes();
  passes.set_epoch(step.epoch);
  passes.set_step(step.step);
  passes.set_busy_ns(step.busy_ns);
  if (step.terms) {
    wire::StepTerms& terms = *passes.mutable_terms();
    terms.set_computation_ns(step.terms->computation_ns);
    terms.set_collectives_ns(step.terms->collectives_ns);
    terms.set_gradients_ns(step.terms->gradients_ns);
    terms.set_transfers_ns(step.terms->transfers_ns);
    terms.set_idle_ns(step.terms->idle_ns);
    if (step.terms->own_ns) terms.set_own_ns(*step.terms->own_ns);
    if (step.terms->bubble_ns) terms.set_bubble_ns(*step.terms->bubble_ns);
    if (step.terms->launch_bound_ns) terms.set_launch_bound_ns(*step.terms->launch_bound_ns);
    if (step.terms->data_ns) terms.set_data_ns(*step.terms->data_ns);
  }
  tell(found->second, std::move(event));
}

void RankSessions::closed(Peer peer) {
  const auto found = sessions_.find(peer);
  if (found == sessions_.end()) return;
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.is_ring) return surroundings_.rings.producer_ended(peer);
  if (!session.rank || is_connected(session.rank->id)) return;
  const RankIdentity& id = session.rank->id;
  surroundings_.news.disconnected(id);
  step_times_.erase(id);
  std::erase_if(reports_, [&](const auto& report) { return report.first.first == id; });
}

// A process that a rank started may have introduced itself as that rank, too.
bool RankSessions::is_connected(const RankIdentity& id) const {
  return std::ranges::any_of(sessions_, [&](const auto& entry) {
    return entry.second.rank && !entry.second.is_ring && entry.second.rank->id == id;
  });
}

void RankSessions::tell(const Session& session, wire::RankEvent event) {
  surroundings_.news.tell(session.rank->id, session.rank->launch, std::move(event));
}

void RankSessions::propose(const std::string& job, std::uint64_t epoch, const std::string& plan_json, bool incumbent) {
  if (plan_json.size() > kMaxPlanBytes || !nlohmann::json::accept(plan_json)) {
    return refuse(job, epoch, "unsuitable", "the plan is no JSON document of less than 1 MiB");
  }
  if (held_ && !incumbent) {
    return refuse(job, epoch, "kill_switch", "the kill switch of node " + surroundings_.node + " is thrown");
  }
  const auto config = surroundings_.jobs.target_config(job, plan_json);
  if (!config.ok()) return refuse(job, epoch, "unsuitable", config.error().message);
  if (plan_json.size() + config->size() > kMaxPlanBytes) {
    return refuse(job, epoch, "unsuitable", "the plan and what the job's target reads of it have more than 1 MiB");
  }
  send_to_job(job, relay_.propose(job, epoch, plan_json, incumbent, *config));
  remember_plan(job, epoch, plan_json);
  give_context(job, epoch);
}

void RankSessions::unfinished(const std::set<std::string>& jobs) {
  const auto is_kept = [&](const std::string& job) { return jobs.contains(job) || surroundings_.ranks.is_active(job); };
  relay_.forget_all_but(is_kept);
  surroundings_.jobs.forget_all_but(is_kept);
}

void RankSessions::refuse(const std::string& job, std::uint64_t epoch, const char* reason, const std::string& message) {
  wire::RankEvent event;
  event.mutable_plan_refuse()->set_epoch(epoch);
  event.mutable_plan_refuse()->set_reason(reason);
  event.mutable_plan_refuse()->set_message(message);
  for (const auto& rank : surroundings_.ranks.all()) {
    if (rank.id.job == job && !rank.ended) surroundings_.news.tell(rank.id, rank.launch, event);
  }
}

void RankSessions::hold(bool held) {
  held_ = held;
  if (!held) return;
  for (const auto& [job, frames] : relay_.cancel_trials()) {
    for (const std::string& frame : frames) send_to_job(job, frame);
  }
}

// For an agent that is restarted while the ranks run this plan.
void RankSessions::remember_plan(const std::string& job, std::uint64_t epoch, const std::string& plan_json) {
  for (const auto& rank : surroundings_.ranks.all()) {
    if (rank.id.job != job || rank.ended) continue;
    const auto written = write_file(surroundings_.ranks.scratch(rank.id).plan(epoch), plan_json);
    if (!written.ok()) spdlog::warn("{}", written.error().message);
    return;
  }
}

void RankSessions::commit(const std::string& job, std::uint64_t epoch, std::int64_t step) {
  send_to_job(job, relay_.commit(job, epoch, step));
}

bool RankSessions::measures(const RankIdentity& id) const {
  return std::ranges::any_of(sessions_, [&](const auto& entry) {
    return entry.second.measures && entry.second.rank && entry.second.rank->id == id;
  });
}

void RankSessions::measure_again(const std::string& job, std::uint64_t number, const std::string& request_json) {
  if (request_json.empty()) return send_to_job(job, measure_cancel_frame(number));
  const bool is_object = nlohmann::json::parse(request_json, nullptr, false).is_object();
  bool all_measure = is_object && !held_;
  for (const LedgerRank& rank : surroundings_.ranks.all()) {
    if (rank.id.job != job || rank.ended || rank.id.rank == kLauncher) continue;
    if (is_object && !held_ && measures(rank.id)) continue;
    all_measure = false;
    wire::RankEvent event;
    event.mutable_measured()->set_number(number);
    event.mutable_measured()->set_error(held_ ? "the kill switch of node " + surroundings_.node + " is thrown"
                                              : "the program of rank " + std::to_string(rank.id.rank) +
                                                    " does not measure between its steps");
    surroundings_.news.tell(rank.id, rank.launch, std::move(event));
  }
  if (all_measure) send_to_job(job, measure_frame(number, request_json));
}

void RankSessions::send_to_job(const std::string& job, std::string_view frame) {
  for (const auto& [peer, session] : sessions_) {
    if (session.rank && !session.is_ring && session.rank->id.job == job) port_.send(peer, frame);
  }
}

// A plan's meaning is known to the rings before the ranks switch: the `switch` range stands at the right place among
// the records.
void RankSessions::give_context(const std::string& job, std::uint64_t epoch) {
  for (const auto& [peer, session] : sessions_) {
    if (session.is_ring && session.rank && session.rank->id.job == job) give_context(peer, session, epoch, false);
  }
}

void RankSessions::give_context(Peer peer, const Session& session, std::uint64_t epoch, bool now) {
  const auto& id = session.rank->id;
  const std::string* proposed = relay_.plan(id.job, epoch);
  const auto context = proposed != nullptr ? surroundings_.jobs.context(id.job, id.rank, *proposed)
                                           : surroundings_.jobs.launched_context(surroundings_.ranks.scratch(id),
                                                                                 id.job, id.rank, epoch);
  if (context) surroundings_.rings.set_context(peer, epoch, *context, now);
}

std::size_t RankSessions::connected() const {
  std::size_t count = 0;
  for (const auto& [peer, session] : sessions_) count += session.rank && !session.is_ring ? 1 : 0;
  return count;
}

std::uint64_t RankSessions::steps_of(const RankIdentity& id) const {
  const auto told = step_times_.find(id);
  return told == step_times_.end() ? 0 : told->second.count();
}

void RankSessions::append_metrics(std::vector<net::Metric>& into) const {
  add_counters(into, kCounters, counters_);
  add_gauge(into, "ranks_connected", "Ranks that are connected to the socket.", connected());
  add_step_times(step_times_, into);
  for (const auto& [key, value] : reports_) {
    const std::string labels =
        net::labels({{"job", key.first.job}, {"rank", std::to_string(key.first.rank)}, {"name", key.second}});
    add_gauge(into, "rank_report", "What ranks reported, by name.", value, labels);
  }
}

}  // namespace trimtab::agent
