#include "agents/agents.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "agents/peer_text.hpp"
#include "agents/wire_commands.hpp"
#include "agents/wire_events.hpp"
#include "schema/frame_bounds.hpp"
#include "services.hpp"
#include "state_store.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

using Body = wire::FromAgent::BodyCase;

constexpr std::uint32_t kHeartbeatMs = 2000;
// The memory of a larger frame's message is given back.
constexpr std::size_t kKeptFrame = std::size_t{64} << 10;
// What one hello may say was acknowledged and is gone: a batch a second for thirty years.
constexpr std::uint64_t kMostLost = 1'000'000'000;
constexpr Nanoseconds kMostPrepared = std::chrono::hours(1);  // of one launch

std::int32_t bounded(std::uint32_t value) {
  return static_cast<std::int32_t>(std::min(value, 1U << 30));
}

}  // namespace

Agents::Agents(Services& services, JobTable& jobs, PeerPort port)
    : services_(services),
      jobs_(jobs),
      port_(std::move(port)),
      collectives_(services.for_costs, services.clocks, services.store.identity()),
      costs_(services.for_costs, [this](const BatchAnswer& answer) { batch_stored(answer); }),
      unfinished_(jobs) {
  launches_at_start_ = services_.store.last_launch();
}

Agents::~Agents() = default;

void Agents::message(std::uint64_t peer, std::string_view frame) {
  LoopTime& time = services_.loop_time;
  const Nanoseconds begun = services_.clock.monotonic();
  const Nanoseconds before = time.charged();
  take(peer, frame);
  const std::string* tenant = charged_tenant(peer);
  if (tenant != nullptr) time.charge_rest(*tenant, begun, services_.clock.monotonic(), before);
}

const std::string* Agents::charged_tenant(std::uint64_t peer) const {
  const Member* member = services_.members.by_peer(peer);
  return member == nullptr || member->tenant.empty() ? nullptr : &member->tenant;
}

Nanoseconds Agents::wait_of(std::uint64_t peer) const {
  const std::string* tenant = charged_tenant(peer);
  return tenant == nullptr ? Nanoseconds(0) : services_.loop_time.wait(*tenant, services_.clock.monotonic());
}

void Agents::take(std::uint64_t peer, std::string_view frame) {
  if (const Status bounded = check_from_agent(frame); !bounded.ok()) return refuse_frame(peer, bounded.error().message);
  auto from = std::exchange(spare_, nullptr);
  if (from == nullptr) from = std::make_unique<wire::FromAgent>();
  const bool parsed = from->ParseFromArray(frame.data(), static_cast<int>(frame.size()));
  if (parsed && from->body_case() != Body::BODY_NOT_SET) {
    dispatch(peer, frame, *from);
  } else {
    refuse_frame(peer, "a frame is not a message");
  }
  if (frame.size() <= kKeptFrame) spare_ = std::move(from);
}

void Agents::dispatch(std::uint64_t peer, std::string_view frame, const wire::FromAgent& from) {
  if (from.body_case() == Body::kHello) return hello(peer, from.hello());
  const Member* member = services_.members.by_peer(peer);
  if (member == nullptr) return refuse(peer, "the first message must be a hello");
  services_.members.heard(peer);
  switch (from.body_case()) {
    case Body::kHeartbeat:
      return heartbeat(peer, *member, from.heartbeat());
    case Body::kCostBatch:
      return cost_batch(peer, *member, from.cost_batch());
    case Body::kCommandDone:
      return command_done(*member, from.command_done());
    case Body::kCommandProgress:
      return command_moved(*member, from.command_progress());
    case Body::kRankEvent:
      return rank_event(*member, from.rank_event());
    case Body::kCollectiveStamps:
      return collective_stamps(*member, from.collective_stamps());
    case Body::kRankActivity:
      return rank_activity(*member, from.rank_activity());
    case Body::kTraceChunk:
      return trace_chunk(*member, from.trace_chunk(), frame);
    case Body::kTraceEnd:
      if (!services_.traces.ended(member->node, from.trace_end())) foreign(*member, "trace", "the end of a trace");
      return;
    case Body::kProbeReport:
      return services_.probing.report(member->node, from.probe_report());
    case Body::kHello:
    case Body::BODY_NOT_SET:
      return;
  }
}

void Agents::hello(std::uint64_t peer, const wire::Hello& hello) {
  // No agent says it twice, and each is work for every job.
  if (const Member* known = services_.members.by_peer(peer)) {
    return refuse(peer, "this connection is node " + known->node + "'s already: a connection has one hello");
  }
  Introduction said = introduction(hello);
  if (port_.check_node) {
    auto tenant = port_.check_node(peer, hello.node(), hello.tenant());
    if (!tenant.ok()) return refuse(peer, tenant.error().message, "node");
    said.tenant = std::move(tenant).value();
  }
  if (port_.owner) said.owner = port_.owner(peer);
  const bool is_known = services_.members.by_node(hello.node()) != nullptr;
  if (is_known && !hellos_[hello.node()].next(services_.clock.monotonic()).say) {
    return refuse(peer,
                  "node " + hello.node() + " has introduced itself " + std::to_string(LogPace::kLines) +
                      " times within ten seconds: its agent is to try again later; see what ends its connections");
  }
  const net::PeerAddresses seen = port_.addresses ? port_.addresses(peer) : net::PeerAddresses();
  if (said.address.empty()) said.address = seen.remote;
  said.coordinator_address = seen.local;
  auto joined = services_.members.join(said, peer);
  if (!joined.ok()) {
    const std::string owner = services_.members.names().owner_of(hello.node());
    const bool of_another = !owner.empty() && owner != said.owner;
    return refuse(peer, joined.error().message, "agent", of_another ? ". The name is the token's of " + owner : "");
  }
  if (port_.introduced) port_.introduced(peer);
  services_.clocks.forget(hello.node());
  if (!joined->forgotten.empty()) forget(joined->forgotten);
  if (joined->former != 0) {
    // When the former connection is reported closed it is no longer the node's.
    node_gone(hello.node());
    port_.close(joined->former);
  }
  spdlog::info("node {} is here: {} devices, instance {}, release {}", hello.node(), hello.devices(), hello.instance(),
               hello.release());
  wire::ToAgent answer;
  answer.mutable_welcome()->set_protocol_version(services_.members.by_peer(peer)->protocol_version);
  answer.mutable_welcome()->set_release(TRIMTAB_RELEASE);
  answer.mutable_welcome()->set_coordinator(services_.store.identity());
  answer.mutable_welcome()->set_heartbeat_ms(kHeartbeatMs);
  const Numbers numbers = compare_batches(peer, hello);
  answer.mutable_welcome()->set_renew_instance(numbers == Numbers::kClash);
  answer.mutable_welcome()->set_costs_wait(numbers == Numbers::kUnknown);
  reply(peer, answer);
  unfinished_.introduced(*services_.members.by_peer(peer), hello);
  tell_unfinished();
  tell_unfinished(*services_.members.by_peer(peer));
  const std::uint64_t believed = launches_believed();
  take_launches(hello, believed);
  end_strays(hello, believed);
  // Before a job goes on, and tries a plan.
  if (hello.has_kill_switch()) said_kill_switch(*services_.members.by_peer(peer), hello.kill_switch());
  const Member here = *services_.members.by_peer(peer);
  for (const auto& [name, job] : jobs_.jobs()) {
    if (job->active()) tell_of_return(*job, hello, here, believed);
  }
  jobs_.tick();
}

// Whoever may connect can say any number of names: nothing is kept of one that nobody remembers.
void Agents::forget(const std::string& node) {
  services_.clocks.forget(node);
  collectives_.forget(node);
  hellos_.erase(node);
  strays_.erase(node);
}

void Agents::tell_unfinished() {
  if (!unfinished_.look()) return;
  for (const auto& [node, member] : services_.members.members()) {
    if (member.peer != 0) tell_unfinished(member);
  }
}

void Agents::tell_unfinished(const Member& member) {
  if (const auto news = unfinished_.news_for(member)) (void)port_.send(member.peer, *news);
}

// Ranks of jobs that are there already go on: nobody knows better where. They end when the node comes again, as
// others' do that a node does not serve.
void Agents::check_nodes() {
  if (!port_.check_node) return;
  for (const auto& [node, member] : services_.members.members()) {
    if (member.peer == 0) continue;
    const auto tenant = port_.check_node(member.peer, node, member.said_tenant);
    const bool as_before = tenant.ok() && *tenant == member.tenant;
    if (!services_.members.bar(member.peer, !as_before)) continue;
    if (as_before) {
      spdlog::info("node {} is given jobs again", node);
      continue;
    }
    const std::string why = tenant.ok() ? "it serves another tenant by now: restart its agent" : tenant.error().message;
    services_.refusals.refused("node", "node " + node, "no further job is placed there: " + why);
  }
}

void Agents::revoke(std::uint64_t peer, const std::string& reason) {
  const Member* member = services_.members.by_peer(peer);
  const std::string node = member == nullptr ? "" : member->node;
  refuse(peer, reason, "revoked");
  if (node.empty()) return;
  note({kCoordinatorActor, "shut out node " + node, "", 0, reason});
  commit();  // what it was let in for
  closed(peer, reason);
  services_.members.lose(node);
  jobs_.feed_all(NodeLost{node});
}

// A node that is another tenant's from now on is lost to the job.
void Agents::tell_of_return(JobRun& job, const wire::Hello& hello, const Member& here, std::uint64_t believed) {
  if (!services_.members.serves(hello.node(), job.state().tenant) && has_ranks_on(job.state(), hello.node())) {
    spdlog::warn("job {}: node {} serves another tenant from now on", job.name(), hello.node());
    return job.feed(NodeLost{hello.node()});
  }
  NodeBack back = node_back(hello, job.name(), believed);
  back.fingerprint = here.fingerprint;
  back.devices = here.device_count();
  back.memory_bytes = here.memory_bytes;
  job.feed(std::move(back));
}

// This coordinator's database may be an older copy, and so may the agent's. Both go on, and no batch counts twice.
Agents::Numbers Agents::compare_batches(std::uint64_t peer, const wire::Hello& hello) {
  uncompared_.erase(peer);
  if (hello.held_from() == 0) return Numbers::kAgree;  // of an earlier release
  commit();                                            // what came over a former connection is stored, too
  // What another coordinator acknowledged need not be here.
  const bool acknowledged_here = hello.acknowledged_by() == services_.store.identity();
  const bool is_copy = services_.members.is_copy(hello.node());
  // Nor does anybody know which of two copies was acknowledged.
  const std::uint64_t held_from = acknowledged_here && !is_copy ? hello.held_from() : 0;
  const OriginNumbers said{hello.instance(), held_from, hello.last_batch(), hello.node()};
  const auto found = services_.costs.compare(said);
  if (!found.ok()) {
    spdlog::warn("node {}: its costs cannot be compared: {}", hello.node(), found.error().message);
    if (found.error().kind == ErrorKind::kBadInput) return Numbers::kAgree;
    uncompared_[peer] = said;
    return Numbers::kUnknown;
  }
  services_.counters.batches_lost += std::min(found->lost, kMostLost);
  if (found->lost > 0) {
    spdlog::warn(
        "node {}: {} batches of costs were acknowledged and are not here any more: the cost database was set back to "
        "an older copy. They are in costs.db of that node's agent",
        hello.node(), found->lost);
  }
  return judge(hello, *found, is_copy);
}

Agents::Numbers Agents::judge(const wire::Hello& hello, const OriginFindings& found, bool is_copy) {
  const bool is_own = found.node == hello.node();
  if (!found.node.empty() && !is_own) {
    services_.foreign.refused("instance", "node " + hello.node(),
                              "its agent has instance " + hello.instance() + ", which is node " + found.node +
                                  "'s: its state directory was copied, or the node was renamed. It goes on under a new "
                                  "instance. Give each agent a state directory of its own");
    return Numbers::kClash;
  }
  if (!found.ahead && (is_own || !is_copy)) return Numbers::kAgree;
  spdlog::warn(
      "node {}: batches of costs are here that its agent does not know: its state was set back to an older copy, or "
      "another node has a copy of it. It is given a new instance",
      hello.node());
  return Numbers::kClash;
}

// The agent comes again at once, and says what it has then.
void Agents::compare_again() {
  if (uncompared_.empty()) return;
  const auto [peer, said] = *uncompared_.begin();
  if (!services_.costs.compare(said).ok()) return;
  uncompared_.erase(peer);
  port_.close(peer);
}

// What agents say does not raise it: one that says anything must not use up the numbers.
std::uint64_t Agents::launches_believed() const {
  std::uint64_t given = launches_at_start_;
  for (const auto& [name, job] : jobs_.jobs()) given = std::max(given, job->state().launch);
  return given + kMostLaunchesAhead;
}

// A coordinator whose state is an older copy would number launches as those are numbered that agents have had since,
// and an agent starts none twice.
void Agents::take_launches(const wire::Hello& hello, std::uint64_t believed) {
  std::uint64_t highest = 0;
  const auto take = [&](const std::string& name, std::uint64_t launch) {
    if (launch > believed) {
      return services_.foreign.refused("launch", "node " + hello.node(),
                                       "it says that it has had launch " + std::to_string(launch) + " of job " + name +
                                           ", but this coordinator can have given out no more than " +
                                           std::to_string(believed) + ". It is left out");
    }
    const JobRun* job = jobs_.find(name);
    const bool known = job != nullptr && launch <= job->state().launch;
    if (!known) highest = std::max(highest, launch);
  };
  for (const wire::JobLaunch& one : hello.launches()) take(one.job(), one.launch());
  for (const wire::RunningRank& one : hello.running()) {
    if (!one.watched()) take(one.job(), one.launch());
  }
  if (highest == 0) return;
  const Status kept = services_.store.raise_last_launch(highest);
  if (!kept.ok()) spdlog::warn("node {} has had launch {}: {}", hello.node(), highest, kept.error().message);
}

void Agents::heartbeat(std::uint64_t peer, const Member& member, const wire::Heartbeat& heartbeat) {
  const auto now = [this] { return static_cast<std::uint64_t>(services_.clock.wall().count()); };
  services_.clocks.heard(member.node, heartbeat, now());
  said_kill_switch(member, heartbeat.kill_switch());
  wire::ToAgent answer;
  answer.mutable_heartbeat()->set_sent_ns(heartbeat.sent_ns());
  answer.mutable_heartbeat()->set_wall_ns(now());
  services_.clocks.answered(member.node, answer.heartbeat().wall_ns());
  reply(peer, answer);
}

void Agents::note(const AuditEntry& entry) {
  const Status stored = services_.store.add_audit(entry, services_.clock.wall().count());
  if (!stored.ok()) spdlog::error("the audit log lacks '{}' of {}: {}", entry.what, entry.who, stored.error().message);
}

void Agents::cost_batch(std::uint64_t peer, const Member& member, const wire::CostBatch& batch) {
  const bool first = costs_.empty();
  costs_.take(peer, member, batch);
  if (!port_.commit_soon || costs_.full()) return commit();
  if (first) port_.commit_soon();
}

void Agents::batch_stored(const BatchAnswer& stored) {
  if (!stored.refused.empty() && says(refused_batches_)) {
    spdlog::error("node {}: a batch of costs is refused: {}", stored.node, stored.refused);
  }
  wire::ToAgent answer;
  answer.mutable_batch_ack()->set_batch(stored.number);
  answer.mutable_batch_ack()->set_refused(stored.refused);
  reply(stored.peer, answer);
  if (!stored.refused.empty()) return;
  JobRun* job = jobs_.find(stored.job);
  if (job == nullptr || !has_ranks_on(job->state(), stored.node)) return;
  job->stored(stored);
}

// Nothing of a command that is forgotten, or that another node was given.
std::optional<CommandOwner> Agents::own_command(const Member& member, std::uint64_t id) {
  auto owner = services_.store.command_owner(id);
  if (!owner.ok() || !owner->has_value()) {
    spdlog::debug("node {} speaks of command {}, which nobody asked for or which is forgotten", member.node, id);
    return std::nullopt;
  }
  if ((*owner)->node == member.node) return std::move(owner).value();
  foreign(member, "command", "command " + std::to_string(id) + " of node " + (*owner)->node);
  return std::nullopt;
}

void Agents::command_moved(const Member& member, const wire::CommandProgress& moved) {
  const auto owner = own_command(member, moved.id());
  if (!owner) return;
  if (JobRun* job = jobs_.find_run(owner->run)) {
    job->feed(CommandMoved{owner->tag, bounded(moved.done()), bounded(moved.total()),
                           first_of(moved.what(), kLongestReason)});
  }
}

void Agents::command_done(const Member& member, const wire::CommandDone& done) {
  commit();  // what a command measured is there when it is done
  const auto owner = own_command(member, done.id());
  if (!owner) return;
  if (const auto known = strays_.find(member.node); known != strays_.end()) {
    known->second.open.erase({owner->run, owner->tag});
  }
  const Status marked = services_.store.command_done(done.id());
  if (!marked.ok()) spdlog::warn("command {}: {}", done.id(), marked.error().message);
  if (JobRun* job = jobs_.find_run(owner->run)) {
    job->feed(
        CommandFinished{owner->tag, done.ok(), first_of(done.error(), kLongestMessage), done.output(), done.killed(),
                        milliseconds(std::clamp(Nanoseconds(done.prepared_ns()), Nanoseconds(0), kMostPrepared))});
  }
}

bool Agents::may_tell(const Member& member, const JobRun& job, std::uint32_t rank, const char* what) {
  if (holds_rank(job.state(), member.node, rank)) return true;
  if (is_foreign_rank(job.state(), member.node, rank)) {
    foreign(member, what, "rank " + std::to_string(rank) + " of job " + job.name());
  }
  return false;
}

// What comes late, of a launch that is over, is left out in silence.
bool Agents::may_tell(const Member& member, const JobRun& job, const wire::RankEvent& event) {
  const TuningState& state = job.state();
  const bool was_launched = state.launch_epoch != 0 || state.watched;
  if (event.launch() != state.launch || !was_launched) return false;
  return may_tell(member, job, event.rank(), "rank");
}

void Agents::rank_event(const Member& member, const wire::RankEvent& event) {
  ++services_.counters.rank_events;
  if (event.has_timeline()) return timeline(member, event);
  if (event.has_facts()) return facts(member, event);
  if (const auto rank = rank_watched(event, member)) return watched(member, *rank, event.job());
  const auto news = from_rank(event);
  if (!news) {
    ++services_.counters.frames_malformed;
    return;
  }
  JobRun* job = jobs_.find(event.job());
  if (job == nullptr || !job->active() || !may_tell(member, *job, event)) return;
  tell_card(member, *job, event);
  job->feed(*news);
}

// Of a job that its user launched. The node is believed as to its own ranks.
void Agents::watched(const Member& member, const RankWatched& rank, const std::string& name) {
  const auto job = jobs_.watch(name, rank, member.tenant.empty() ? net::kEveryTenant : member.tenant,
                               [&](const std::string& tenant) { return member.serves(tenant); });
  if (!job.ok()) {
    return services_.refusals.refused("job", "node " + member.node,
                                      "rank " + std::to_string(rank.rank) + " of job " + name +
                                          ", which its user launched, is not watched: " + job.error().message);
  }
  if ((*job)->tuning().watching().is_held_elsewhere(rank)) {
    return foreign(member, "rank", "rank " + std::to_string(rank.rank) + " of job " + name);
  }
  (*job)->card().connected(rank.rank, rank.node, rank.launch, member.fingerprint_json);
  (*job)->feed(rank);
}

// What a trial's launch does is not the job's own.
void Agents::tell_card(const Member& member, JobRun& job, const wire::RankEvent& event) {
  if (!event.variant().empty()) return;
  const std::int32_t rank = bounded(event.rank());
  if (event.has_connected()) job.card().connected(rank, member.node, event.launch(), member.fingerprint_json);
  if (event.has_step()) job.card().step(rank, card_step(event.step()));
}

void Agents::facts(const Member& member, const wire::RankEvent& event) {
  JobRun* job = jobs_.find(event.job());
  if (job == nullptr || !job->active() || !event.variant().empty() || !may_tell(member, *job, event)) return;
  const bool fits = event.facts().facts_json().size() <= kLongestFacts;
  const Status taken =
      fits ? job->card().facts(bounded(event.rank()), event.facts().facts_json()) : bad_input("too long");
  if (!taken.ok()) ++services_.counters.frames_malformed;
}

void Agents::timeline(const Member& member, const wire::RankEvent& event) {
  JobRun* job = jobs_.find(event.job());
  if (job == nullptr || !event.variant().empty() || !may_tell(member, *job, event)) return;
  const wire::Timeline& seen = event.timeline();
  const Status taken = job->pictured(bounded(event.rank()), seen.epoch(), seen.begin_ns(), seen.bars_json());
  if (!taken.ok()) ++services_.counters.frames_malformed;
}

void Agents::rank_activity(const Member& member, const wire::RankActivity& activity) {
  JobRun* job = jobs_.find(activity.job());
  if (job == nullptr || !job->active()) return;
  if (activity.ByteSizeLong() > kLargestActivity) {
    ++services_.counters.frames_malformed;
    return;
  }
  if (may_tell(member, *job, activity.rank(), "activity")) {
    services_.live.told(activity, member.node, services_.clock.monotonic());
    if (const auto* const rank = services_.live.find(activity.job(), activity.rank()); rank != nullptr) {
      if (activity.variant().empty()) job->card().activity(bounded(activity.rank()), *rank, activity.unknown_cupti());
    }
  }
}

void Agents::trace_chunk(const Member& member, const wire::TraceChunk& chunk, std::string_view frame) {
  const auto name = services_.traces.job_of(chunk.id());
  if (!name) return;  // it is over
  const JobRun* job = jobs_.find(*name);
  const bool of_another = job != nullptr && is_foreign_rank(job->state(), member.node, chunk.rank());
  if (!of_another && services_.traces.chunk(member.node, chunk, std::string(frame))) return;
  foreign(member, "trace", "a trace of rank " + std::to_string(chunk.rank()) + " of job " + *name);
}

void Agents::collective_stamps(const Member& member, const wire::CollectiveStamps& stamps) {
  if (stamps.fingerprint_json().size() > kLongestFingerprint) {
    ++services_.counters.frames_malformed;
    return;
  }
  const JobRun* job = jobs_.find(stamps.job());
  if (job == nullptr || !job->active()) return collectives_.take(stamps, member.node, 0);
  if (may_tell(member, *job, stamps.rank(), "collective")) {
    collectives_.take(stamps, member.node, job->state().world_size());
  }
}

void Agents::foreign(const Member& member, const char* what, const std::string& whose) {
  services_.foreign.refused(what, "node " + member.node, "it speaks of " + whose + ", which is not its own");
}

void Agents::refuse_frame(std::uint64_t peer, const std::string& reason) {
  ++services_.counters.frames_malformed;
  refuse(peer, reason + ": protocol version " + std::to_string(kSpokenVersions.newest) +
                   " is spoken here. See what runs as this node's agent");
}

void Agents::refuse(std::uint64_t peer, const std::string& reason, const char* kind, const std::string& for_log) {
  services_.refusals.refused(kind, name_of(peer), reason + for_log);
  wire::ToAgent answer;
  answer.mutable_refused()->set_reason(reason);
  reply(peer, answer);
  port_.close(peer);
}

std::string Agents::name_of(std::uint64_t peer) const {
  if (const Member* member = services_.members.by_peer(peer)) return "node " + member->node;
  const std::string address = port_.addresses ? port_.addresses(peer).remote : "";
  return address.empty() ? "an agent" : "an agent at " + address;
}

void Agents::closed(std::uint64_t peer, const std::string& reason) {
  if (const Member* member = services_.members.by_peer(peer)) {
    spdlog::info("node {} is disconnected: {}", member->node, reason);
    node_gone(member->node);
  }
  services_.members.disconnected(peer);
  uncompared_.erase(peer);
  unfinished_.gone(peer);
}

void Agents::node_gone(const std::string& node) {
  services_.traces.node_gone(node);
  services_.probing.node_gone(node);
}

void Agents::tick() {
  commit();
  compare_again();
  services_.live.forget_old(services_.clock.monotonic());
  services_.traces.tick();
  services_.probing.tick();
  take_kill_switches();
  if (port_.received_bytes) services_.members.listen(port_.received_bytes);
  for (const std::string& node : services_.members.expire()) {
    spdlog::warn("node {} is lost: silent for more than {} s", node,
                 std::chrono::duration_cast<std::chrono::seconds>(services_.members.node_timeout()).count());
    services_.traces.node_gone(node);
    // An agent that lives after all, behind a connection that stood all the time, comes again and says what runs there:
    // nothing else would end its absence.
    if (const std::uint64_t peer = services_.members.by_node(node)->peer; peer != 0) {
      services_.members.disconnected(peer);
      port_.close(peer);
    }
    jobs_.feed_all(NodeLost{node});
  }
  for (const std::string& node : services_.members.forget_unused()) forget(node);
  collectives_.tick();
  tell_unfinished();
  std::erase_if(services_.counters.waiting, [this](const auto& rank) {
    const JobRun* job = jobs_.find(rank.first.first);
    return job == nullptr || !job->active();
  });
}

void Agents::stop() {
  commit();
  (void)collectives_.store();
}

bool Agents::send(const std::string& node, const wire::ToAgent& message) {
  const Member* member = services_.members.by_node(node);
  return member != nullptr && member->peer != 0 && port_.send(member->peer, message.SerializeAsString());
}

void Agents::reply(std::uint64_t peer, const wire::ToAgent& message) {
  (void)port_.send(peer, message.SerializeAsString());
}

}  // namespace trimtab::coordinator
