#include "recorded_machine.hpp"

#include <utility>

#include "../small_cluster.hpp"
#include "golden_file.hpp"

namespace trimtab::coordinator {

RecordedMachine::RecordedMachine(std::string name, TuningState state, Found found)
    : name_(std::move(name)), tuning_(std::move(state)), found_(std::move(found)) {
  clock.advance(std::chrono::hours(1));
}

void RecordedMachine::take(const std::string& call, const Event* event, Outcome outcome) {
  const Handled handled = take_handled(tuning_, call, event, {clock.monotonic(), clock.wall()}, std::move(outcome));
  transcript_.add(handled, tuning_);
  for (const Action& action : handled.actions) {
    if (const auto* search = std::get_if<SearchPlans>(&action)) answer(*search);
  }
}

void RecordedMachine::answer(const SearchPlans& search) {
  const auto found = found_.find(search.purpose);
  if (found == found_.end()) return;
  const auto& [plan, ms] = found->second;
  const PlanText& incumbent = state().incumbent;
  SearchReply reply;
  reply.initial = reply.incumbent = {incumbent, incumbent.hash, {100, 100, 95, 105, true}};
  for (std::size_t i = 0; i < state().observations.size(); ++i) reply.observed.push_back({"all", {100, 100, 95, 105}});
  if (!plan.empty()) reply.candidates.push_back({{plan, plan}, plan, {ms, ms, ms * 0.9, ms * 1.1, true}});
  feed(SearchFinished{search.number, reply});
}

void RecordedMachine::begin() {
  take("begin", nullptr, tuning_.begin({clock.monotonic(), clock.wall()}));
}

void RecordedMachine::resume() {
  take("resume", nullptr, tuning_.resume({clock.monotonic(), clock.wall()}));
}

void RecordedMachine::feed(const Event& event) {
  take("handle", &event, tuning_.handle(event, {clock.monotonic(), clock.wall()}));
}

void RecordedMachine::pass(Nanoseconds time) {
  clock.advance(time);
  feed(Tick{});
}

void RecordedMachine::tick(int seconds) {
  for (int second = 0; second < seconds; ++second) pass(std::chrono::seconds(1));
}

void RecordedMachine::steps(int count, double ms) {
  for (int i = 0; i < count; ++i, ++step_) {
    clock.advance(std::chrono::milliseconds(static_cast<int>(ms)));
    for (std::int32_t rank = 0; rank < state().world_size(); ++rank) {
      feed(FromRank{rank, state().launch, RankStep{step_, state().launch_epoch, ms, 1, "", 0}});
    }
  }
}

void RecordedMachine::carry_out(bool ok, const std::string& error) {
  // What is asked meanwhile is done, too; a job that asks for ever is not waited for.
  for (int i = 0; i < 100 && !state().outstanding.empty(); ++i) {
    feed(CommandFinished{state().outstanding.front().tag.text, ok, error, ""});
  }
}

void RecordedMachine::carry_out(CommandKind kind) {
  const std::vector<OutstandingCommand> commands = state().outstanding;
  for (const OutstandingCommand& one : commands) {
    if (one.kind == kind) feed(CommandFinished{one.tag.text, true, "", ""});
  }
}

void RecordedMachine::come_back(const std::string& node, const std::string& fingerprint, bool with_ranks) {
  NodeBack back{node, {}, 0, fingerprint, 1, 500};
  if (with_ranks) back.ranks.push_back({std::stoi(node.substr(1)), state().launch, state().launch_epoch});
  feed(back);
}

void RecordedMachine::check(bool with_state) {
  keep_whole("transcripts/" + name_, transcript_.whole());
  check_golden("transcripts/" + name_, transcript_.end(state(), with_state));
}

TuningState trained_state(const Job& job, int nodes) {
  TuningState state;
  state.job = job;
  state.job.world_size = nodes;
  state.job.steps = 100'000;
  state.job.trials.stop_after = false;
  state.phase = Phase::kTraining;
  for (int i = 0; i < nodes; ++i) state.nodes.push_back({"n" + std::to_string(i), i, 1});
  state.cluster = test::cluster_of(nodes);
  state.initial = state.incumbent = {"all", "all"};
  state.initial_measured = state.incumbent_measured = {100, 99, 101, 20};
  state.epoch_hashes = {{1, "all"}};
  state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
  state.launch_ms = 3000;
  return state;
}

}  // namespace trimtab::coordinator
