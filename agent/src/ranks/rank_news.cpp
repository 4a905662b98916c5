#include "ranks/rank_news.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "node/agent_metric.hpp"
#include "processes/printable_text.hpp"
#include "schema/api/printed_text.hpp"

namespace trimtab::agent {

namespace {

constexpr int kExitedOrder = 1000;
constexpr int kSubmissionOrder = 1001;
// What a piece of news takes beside its own bytes, about.
constexpr std::size_t kBeside = 256;
// Of a text where there is no room for all of it.
constexpr std::size_t kShortText = 512;

int order_of(const wire::RankEvent& event) {
  if (event.has_exited()) return kExitedOrder;
  return event.has_submission() ? kSubmissionOrder : static_cast<int>(event.body_case());
}

// What a coordinator that was away when the rank ended has to know: that it ended, and whose fault that was, which the
// plan it ran last, a refusal and a failure tell.
bool tells_end(int order) {
  switch (order) {
    case wire::RankEvent::kPlanRefuse:
    case wire::RankEvent::kPlanActive:
    case wire::RankEvent::kPlanFailed:
    case wire::RankEvent::kBye:
    case kExitedOrder:
    case kSubmissionOrder:
      return true;
    default:
      return false;
  }
}

void keep_beginning(std::string& text) {
  text = first_of(text, kShortText);
}

void keep_end(std::string& text) {
  text = last_of(text, kShortText);
}

void shorten_texts(wire::RankEvent& event) {
  if (event.has_exited()) keep_end(*event.mutable_exited()->mutable_last_output());
  if (event.has_plan_failed()) keep_beginning(*event.mutable_plan_failed()->mutable_message());
  if (event.has_plan_refuse()) keep_beginning(*event.mutable_plan_refuse()->mutable_message());
  if (event.has_submission()) keep_beginning(*event.mutable_submission()->mutable_message());
}

}  // namespace

bool RankNews::Rank::all_sent() const {
  return std::ranges::all_of(news, [](const auto& one) { return one.second.sent; });
}

bool RankNews::Rank::has_exited() const {
  return news.contains(kExitedOrder);
}

bool RankNews::Rank::has_ended() const {
  return has_exited() || (news.size() == 1 && news.contains(kSubmissionOrder));
}

void RankNews::tell(const RankIdentity& id, std::uint64_t launch, wire::RankEvent event) {
  event.set_job(id.job);
  event.set_rank(id.rank);
  event.set_variant(id.variant);
  event.set_launch(launch);
  if (event.has_step()) {
    follow(id, event.step().epoch(), event.step().step());
    return tell_step(std::move(event));
  }
  // Nothing hangs on one of them.
  if (event.has_passes() || event.has_lives() || event.has_saved()) return static_cast<void>(send(event));
  if (event.has_plan_active()) follow(id, event.plan_active().epoch(), event.plan_active().step());
  const auto rank = ranks_.try_emplace(id).first;
  // It does not overtake what of this rank still waits.
  const bool sent = rank->second.all_sent() && send(event);
  if (!sent) state_unsent_ = true;
  remember(rank, std::move(event), sent);
}

void RankNews::tell_step(wire::RankEvent event) {
  if (steps_.empty() && send(event)) return;
  steps_.push_back(std::move(event));
  if (steps_.size() <= limits_.steps) return;
  steps_.pop_front();
  ++steps_dropped_;
}

void RankNews::remember(Ranks::iterator rank, wire::RankEvent event, bool sent) {
  auto& news = rank->second.news;
  const int order = order_of(event);
  if (rank->second.has_exited() && !tells_end(order)) return;  // it was on its way when the rank ended
  if (order == kExitedOrder) std::erase_if(news, [](const auto& one) { return !tells_end(one.first); });
  news.insert_or_assign(order, News{std::move(event), sent});
  rank->second.over = false;  // as far as the coordinator has said since
  place(rank);
}

// A rank that is announced as connected is announced with what it runs now.
void RankNews::follow(const RankIdentity& id, std::uint64_t epoch, std::int64_t step) {
  const auto rank = ranks_.find(id);
  if (rank == ranks_.end()) return;
  const auto connected = rank->second.news.find(wire::RankEvent::kConnected);
  if (connected == rank->second.news.end()) return;
  connected->second.event.mutable_connected()->set_epoch(epoch);
  connected->second.event.mutable_connected()->set_step(step);
}

void RankNews::disconnected(const RankIdentity& id) {
  const auto rank = ranks_.find(id);
  if (rank == ranks_.end() || rank->second.news.erase(wire::RankEvent::kConnected) == 0) return;
  rank->second.news.empty() ? static_cast<void>(erase(rank)) : place(rank);
}

void RankNews::launched(const RankIdentity& id) {
  if (const auto rank = ranks_.find(id); rank != ranks_.end()) erase(rank);
  std::erase_if(steps_, [&](const wire::RankEvent& step) {
    return step.job() == id.job && step.rank() == id.rank && step.variant() == id.variant;
  });
}

void RankNews::forget(const std::string& job) {
  for (auto rank = ranks_.begin(); rank != ranks_.end();) {
    rank = rank->first.job == job ? erase(rank) : std::next(rank);
  }
  std::erase_if(steps_, [&](const wire::RankEvent& step) { return step.job() == job; });
}

void RankNews::unfinished(const std::set<std::string>& jobs) {
  for (auto& [id, rank] : ranks_) rank.over = rank.ended != 0 && !jobs.contains(id.job);
  erase_over();
}

void RankNews::announce() {
  for (auto& [id, rank] : ranks_) {
    for (auto& [order, news] : rank.news) news.sent = false;
  }
  stopped_at_.reset();
  state_unsent_ = true;
  retry();
}

void RankNews::retry() {
  if (state_unsent_) send_state();
  if (!state_unsent_) send_waiting_steps();
}

// From where there was no room, or ranks that go on talking would keep those behind them from ever being told of.
void RankNews::send_state() {
  const auto from = stopped_at_ ? ranks_.lower_bound(*stopped_at_) : ranks_.begin();
  state_unsent_ = !send_some(from, ranks_.end()) || !send_some(ranks_.begin(), from);
  erase_over();
}

bool RankNews::send_some(Ranks::iterator first, Ranks::iterator last) {
  for (auto rank = first; rank != last; ++rank) {
    for (auto& [order, news] : rank->second.news) {
      if (news.sent) continue;
      if (!send(news.event)) {
        stopped_at_ = rank->first;
        return false;
      }
      news.sent = true;
    }
  }
  return true;
}

bool RankNews::send(const wire::RankEvent& event) {
  wire::FromAgent message;
  *message.mutable_rank_event() = event;
  return send_(message);
}

// Among those that have ended, as the latest; or not there, where it has not.
void RankNews::place(Ranks::iterator rank) {
  leave_place(rank->second);
  if (!rank->second.has_ended()) return;
  for (const auto& [order, news] : rank->second.news) rank->second.bytes += kBeside + news.event.ByteSizeLong();
  rank->second.ended = ++last_ended_;
  ended_.emplace(last_ended_, rank->first);
  ended_bytes_ += rank->second.bytes;
  bound();
}

void RankNews::leave_place(Rank& rank) {
  ended_.erase(std::exchange(rank.ended, 0));
  ended_bytes_ -= std::exchange(rank.bytes, 0);
}

RankNews::Ranks::iterator RankNews::erase(Ranks::iterator rank) {
  leave_place(rank->second);
  return ranks_.erase(rank);
}

// What is still to be sent of them goes once it has been.
void RankNews::erase_over() {
  for (auto rank = ranks_.begin(); rank != ranks_.end();) {
    rank = rank->second.over && rank->second.all_sent() ? erase(rank) : std::next(rank);
  }
}

// The oldest first give up most of their texts, then all.
void RankNews::bound() {
  while (ended_bytes_ > limits_.ended_bytes) {
    const auto whole = ended_.upper_bound(shortened_);
    if (whole != ended_.end()) {
      shortened_ = whole->first;
      shorten(ranks_.find(whole->second));
      continue;
    }
    const auto oldest = ranks_.find(ended_.begin()->second);
    dropped_ += oldest->second.news.size();
    erase(oldest);
  }
}

void RankNews::shorten(Ranks::iterator rank) {
  ended_bytes_ -= std::exchange(rank->second.bytes, 0);
  for (auto& [order, news] : rank->second.news) {
    shorten_texts(news.event);
    rank->second.bytes += kBeside + news.event.ByteSizeLong();
  }
  ended_bytes_ += rank->second.bytes;
}

void RankNews::append_metrics(std::vector<net::Metric>& into) const {
  add_counter(into, "steps_dropped", "Step events dropped while the coordinator was away.", steps_dropped_);
  add_counter(into, "rank_news_dropped", "News of ranks that have ended dropped because those of all took too much.",
              dropped_);
}

namespace {

// A traceback, and what a launcher such as torchrun prints behind it.
constexpr std::size_t kLastOutputBytes = 8192;

// One that has said how its submission ended has said goodbye; of any other nobody knows what became of the ranks.
void tell_launcher_end(const LedgerRank& launcher, const std::string& log, RankNews& news) {
  if (launcher.said_bye) return;
  const std::string output = last_lines_of_file(log, kLastOutputBytes);
  wire::RankEvent event;
  event.mutable_submission()->set_state("lost");
  event.mutable_submission()->set_message("the command `submit` ended (code " + std::to_string(launcher.exit_code) +
                                          ", signal " + std::to_string(launcher.signal) +
                                          ") and did not say how the launch did" +
                                          (output.empty() ? "" : std::string(api::kLastOutput) + output));
  news.tell({launcher.id.job, launcher.id.variant, 0}, launcher.launch, std::move(event));
}

}  // namespace

void tell_end(const LedgerRank& rank, const std::string& log, RankNews& news) {
  if (rank.id.rank == kLauncher) return tell_launcher_end(rank, log, news);
  // What a watched rank prints is its user's; a log of that name is an earlier job's.
  const std::string output = rank.is_watched() ? "" : last_lines_of_file(log, kLastOutputBytes);
  wire::RankEvent event;
  event.mutable_exited()->set_exit_code(rank.exit_code);
  event.mutable_exited()->set_signal(rank.signal);
  event.mutable_exited()->set_last_output(output);
  if (!rank.is_watched()) event.mutable_exited()->set_log(log);
  news.tell(rank.id, rank.launch, std::move(event));
}

}  // namespace trimtab::agent
