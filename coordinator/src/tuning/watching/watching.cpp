#include "tuning/watching/watching.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "base/numbers.hpp"
#include "base/units.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kBlocks = 4;  // of the job's first warm steps, which say how long a step takes
constexpr Nanoseconds kStoring = std::chrono::seconds(30);

bool holds(const NodeShare& share, std::int32_t rank) {
  return rank >= share.first_rank && rank < share.first_rank + share.ranks;
}

// Shares stay in the order of ranks, and neighbours of one node are one.
void merge(std::vector<NodeShare>& shares) {
  std::vector<NodeShare> merged;
  for (NodeShare& one : shares) {
    const bool goes_on = !merged.empty() && merged.back().node == one.node &&
                         merged.back().first_rank + merged.back().ranks == one.first_rank;
    if (goes_on) {
      merged.back().ranks += one.ranks;
    } else {
      merged.push_back(std::move(one));
    }
  }
  shares = std::move(merged);
}

void take_out(std::vector<NodeShare>& shares, std::int32_t rank) {
  const auto found = std::ranges::find_if(shares, [rank](const NodeShare& one) { return holds(one, rank); });
  if (found == shares.end()) return;
  const NodeShare whole = *found;
  const auto at = shares.erase(found);
  const std::int32_t before = rank - whole.first_rank;
  const std::int32_t behind = whole.ranks - before - 1;
  std::vector<NodeShare> rest;
  if (before > 0) rest.push_back({whole.node, whole.first_rank, before});
  if (behind > 0) rest.push_back({whole.node, rank + 1, behind});
  shares.insert(at, rest.begin(), rest.end());
}

}  // namespace

void Watching::resume() {
  for (const NodeShare& share : m_.state.nodes) {
    for (std::int32_t i = 0; i < share.ranks; ++i) ranks_[share.first_rank + i] = {};
  }
  told_at_ = joined_at_ = ended_at_ = stored_at_ = m_.now.monotonic;
  expect_the_living();
}

bool Watching::all_ended() const {
  return !ranks_.empty() && std::ranges::all_of(ranks_, [](const auto& one) { return one.second.ended; });
}

bool Watching::is_over_for(const RankWatched& rank) const {
  return all_ended() && rank.launch <= m_.state.launch;
}

bool Watching::is_held_elsewhere(const RankWatched& rank) const {
  const auto known = ranks_.find(rank.rank);
  if (rank.launch != m_.state.launch || known == ranks_.end() || known->second.ended) return false;
  const std::string node = m_.state.node_of(rank.rank);
  return node != rank.node && !m_.lost.contains(node);
}

Next Watching::handle(const Event& event) {
  if (const auto* const switches = std::get_if<KillSwitches>(&event)) m_.thrown = *switches;
  if (std::holds_alternative<Tick>(event)) return tick();
  if (const auto* const rank = std::get_if<RankWatched>(&event)) return handle(*rank);
  if (const auto* const told = std::get_if<FromRank>(&event)) return handle(*told);
  if (const auto* const lost = std::get_if<NodeLost>(&event)) handle(*lost);
  if (const auto* const back = std::get_if<NodeBack>(&event)) handle(*back);
  if (std::holds_alternative<RunReplaced>(event)) return replaced();
  return {};
}

Next Watching::handle(const RankWatched& rank) {
  TuningState& state = m_.state;
  told_at_ = m_.now.monotonic;
  if (rank.launch < state.launch) return {};  // of one that its launcher has replaced
  if (rank.launch > state.launch) begin_launch(rank);
  if (rank.world_size > state.world_size()) {
    state.job.world_size = rank.world_size;
    m_.forget_steps(true);
  }
  const auto [known, is_new] = ranks_.try_emplace(rank.rank);
  if (is_new) joined_at_ = m_.now.monotonic;
  if (std::exchange(known->second, {}).ended) {
    m_.out.note("ranks", "rank " + std::to_string(rank.rank) + " runs again");
  }
  give_to(rank.node, rank.rank);
  if (state.fingerprint.empty()) state.fingerprint = rank.fingerprint;
  expect_the_living();
  const bool complete = std::cmp_equal(ranks_.size(), state.world_size());
  return {complete && state.phase == Phase::kWaiting ? Next::kWatch : Next::kNothing};
}

void Watching::begin_launch(const RankWatched& rank) {
  m_.state.launch = rank.launch;
  m_.state.job.world_size = rank.world_size;
  m_.state.nodes.clear();
  m_.lost.clear();
  ranks_.clear();
  measured_.clear();
  m_.forget_steps(true);
  m_.out.changed = true;
  m_.out.note("ranks", "its launcher has started the ranks again: launch " + std::to_string(rank.launch));
}

void Watching::give_to(const std::string& node, std::int32_t rank) {
  std::vector<NodeShare>& shares = m_.state.nodes;
  m_.lost.erase(node);
  if (m_.state.node_of(rank) == node) return;
  take_out(shares, rank);
  const auto behind = std::ranges::find_if(shares, [rank](const NodeShare& one) { return one.first_rank > rank; });
  shares.insert(behind, {node, rank, 1});
  merge(shares);
  std::erase_if(m_.lost, [this](const std::string& one) { return m_.state.ranks_of(one).empty(); });
  m_.out.changed = true;
}

void Watching::expect_the_living() {
  const auto living = std::ranges::count_if(ranks_, [](const auto& one) { return !one.second.ended; });
  m_.assembly.expect(static_cast<std::int32_t>(std::max<std::ptrdiff_t>(living, 1)));
}

Next Watching::handle(const FromRank& from) {
  const auto known = ranks_.find(from.rank);
  if (from.launch != m_.state.launch || known == ranks_.end()) return {};
  told_at_ = m_.now.monotonic;
  if (const auto* const step = std::get_if<RankStep>(&from.news)) {
    if (known->second.ended) return {};
    if (const auto whole = m_.assembly.add(from.rank, *step)) {
      m_.state.take(*whole);
      measure(*whole);
    }
  }
  if (const auto* const exited = std::get_if<RankExited>(&from.news)) {
    ended(from.rank, exited->exit_code == 0 && exited->signal == 0,
          describe_end(from.rank, *exited, m_.state.node_of(from.rank)));
    return end();
  }
  return {};
}

void Watching::ended(std::int32_t number, bool clean, const std::string& how) {
  Rank& rank = ranks_[number];
  if (!clean && !rank.ended) m_.out.note("ranks", how);
  rank = {true, clean, clean ? "" : how};
  ended_at_ = m_.now.monotonic;
  expect_the_living();
}

// One that ended badly may be restarted by its launcher. Where the first were quick the others are still to come.
Next Watching::end() {
  const bool is_gathering = m_.state.phase == Phase::kWaiting;
  if (!all_ended() || is_gathering) return {};
  const std::string how = how_it_ended();
  if (how.empty()) return {Next::kRanksEnded};
  return m_.now.monotonic - ended_at_ >= kRestarting ? Next{Next::kFail, how} : Next{};
}

std::string Watching::how_it_ended() const {
  const auto bad = std::ranges::find_if(ranks_, [](const auto& one) { return one.second.ended && !one.second.clean; });
  return bad == ranks_.end() ? "" : bad->second.how;
}

Next Watching::replaced() {
  const std::string how = how_it_ended();
  return how.empty() ? Next{Next::kRanksEnded} : Next{Next::kFail, how};
}

void Watching::handle(const NodeLost& lost) {
  if (m_.state.ranks_of(lost.node).empty() || !m_.lost.insert(lost.node).second) return;
  m_.lost_at = m_.now.monotonic;
  m_.out.changed = true;
  m_.out.note("warning", "node " + lost.node + " is lost: nothing is heard of its ranks");
}

// Its agent says which ranks live there, and then how others have ended, if it knows.
void Watching::handle(const NodeBack& back) {
  m_.lost.erase(back.node);
  for (const std::uint32_t rank : m_.state.ranks_of(back.node)) {
    const auto number = static_cast<std::int32_t>(rank);
    const bool lives = std::ranges::any_of(
        back.ranks, [&](const RankThere& one) { return one.rank == number && one.launch == m_.state.launch; });
    if (lives || ranks_[number].ended) continue;
    ended(number, false, "rank " + std::to_string(number) + " ended while its agent was away");
  }
}

Next Watching::tick() {
  const Nanoseconds now = m_.now.monotonic;
  if (m_.state.phase == Phase::kWaiting && !ranks_.empty() && now - joined_at_ >= kGathering) {
    m_.out.note("ranks", std::to_string(ranks_.size()) + " of " + std::to_string(m_.state.world_size()) +
                             " ranks are told of: the others do not run under Trimtab");
    return {Next::kWatch};
  }
  if (all_ended()) return end();
  const bool all_away = std::ranges::all_of(
      ranks_, [this](const auto& one) { return one.second.ended || m_.lost.contains(m_.state.node_of(one.first)); });
  if (!m_.lost.empty() && all_away && now - m_.lost_at >= kAway) {
    return {Next::kFail, "its nodes have been away for more than " + format_duration(kAway) +
                             ": nobody knows what became of its ranks"};
  }
  tell_silence();
  if (now - stored_at_ >= kStoring) {
    stored_at_ = now;
    m_.out.changed = true;
  }
  return {};
}

void Watching::tell_silence() {
  const Nanoseconds patience = m_.state.job.hang;
  if (ranks_.empty() || m_.now.monotonic - told_at_ <= patience || std::exchange(silence_told_, told_at_) == told_at_)
    return;
  m_.out.note("warning", "no sign of life from the ranks for more than " + format_duration(patience) +
                             ". The job is watched: nothing is ended");
}

// How long a step takes, from the first warm ones.
void Watching::measure(const JobStep& step) {
  TuningState& state = m_.state;
  if (state.initial_measured.steps > 0 || step.wall_ms <= 0) return;
  const bool warm = m_.since_change.settled();
  m_.since_change.add(step.wall_ms, step.prepared);
  const auto size = static_cast<std::size_t>(state.job.trials.measure_steps);
  if (warm && (measured_.empty() || measured_.back().size() == size)) measured_.emplace_back();
  const auto block = static_cast<std::int32_t>(std::max<std::ptrdiff_t>(std::ssize(measured_) - 1, 0));
  m_.out.steps.push_back({state.launch, step.step, step.epoch, 0, block, !warm, step.wall_ms, step.loss});
  if (!warm) return;
  measured_.back().push_back(step.wall_ms);
  if (measured_.size() < kBlocks || measured_.back().size() < size) return;
  state.initial_measured = state.incumbent_measured = summarize(measured_, state.noise);
  state.measured_step = state.step;
  m_.out.changed = true;
  m_.out.note("result", "a step takes " + format_ms(state.initial_measured.mean_ms) + ", as its user launched it");
}

}  // namespace trimtab::coordinator
