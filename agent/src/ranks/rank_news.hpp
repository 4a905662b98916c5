#pragma once

// What ranks said and did, on its way to the coordinator. Steps are a stream: while the link is down the latest are
// kept, and those dropped are counted. All else is state: the last of each kind is kept for each rank and said again
// after every reconnection, so nothing is lost with a link. Nothing grows: of a rank that has ended stays what tells
// its end, until the coordinator has had that and says that the job is over; what those of all jobs take is bounded.
// The coordinator takes repetitions in its stride.

#include <deque>
#include <map>
#include <set>

#include "agent_database.hpp"
#include "net/metric_text.hpp"

namespace trimtab::agent {

class RankNews {
 public:
  // False when it could not be sent now.
  using Send = std::function<bool(const wire::FromAgent&)>;

  struct Limits {
    std::size_t steps = 4096;                        // that wait
    std::size_t ended_bytes = std::size_t{4} << 20;  // of ranks that have ended: a thousand with all their output
  };

  explicit RankNews(Send send) : RankNews(std::move(send), Limits()) {}
  RankNews(Send send, const Limits& limits) : send_(std::move(send)), limits_(limits) {}

  // `event` without its job, rank, launch and variant.
  void tell(const RankIdentity& id, std::uint64_t launch, wire::RankEvent event);
  // The rank is no longer connected; that is no news (its end is), but it must not be announced as connected.
  void disconnected(const RankIdentity& id);
  // All that is remembered of this launch's predecessors goes.
  void launched(const RankIdentity& id);
  // Of a job that is over for long: what its ranks said goes.
  void forget(const std::string& job);
  // The coordinator says that no other jobs are unfinished: what others' ranks that have ended said goes, once all of
  // it has been sent.
  void unfinished(const std::set<std::string>& jobs);

  // The link is open again: says what is so, then the steps that waited.
  void announce();
  // Goes on with what could not be sent because too much was queued.
  void retry();

  [[nodiscard]] std::uint64_t steps_dropped() const { return steps_dropped_; }
  [[nodiscard]] std::size_t steps_waiting() const { return steps_.size(); }
  // News of ranks that have ended for which there was no room.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  void append_metrics(std::vector<net::Metric>& into) const;
  // What is kept of ranks that have ended.
  [[nodiscard]] std::size_t ended_bytes() const { return ended_bytes_; }

 private:
  struct News {
    wire::RankEvent event;
    bool sent = false;  // over this connection
  };
  struct Rank {
    // By kind, in the order of telling: the end of a rank comes last, behind it only its submission's.
    std::map<int, News> news;
    std::uint64_t ended = 0;  // its place among those that have ended; 0 = it has not
    std::size_t bytes = 0;    // once it has ended
    bool over = false;        // and so is its job

    [[nodiscard]] bool all_sent() const;
    [[nodiscard]] bool has_exited() const;
    // It has exited, or all that is known of it is its submission.
    [[nodiscard]] bool has_ended() const;
  };
  using Ranks = std::map<RankIdentity, Rank>;

  void tell_step(wire::RankEvent event);
  void remember(Ranks::iterator rank, wire::RankEvent event, bool sent);
  void follow(const RankIdentity& id, std::uint64_t epoch, std::int64_t step);
  [[nodiscard]] bool send(const wire::RankEvent& event);
  void send_state();
  [[nodiscard]] bool send_some(Ranks::iterator first, Ranks::iterator last);
  void send_waiting_steps() {
    while (!steps_.empty() && send(steps_.front())) steps_.pop_front();
  }

  void place(Ranks::iterator rank);
  void leave_place(Rank& rank);
  Ranks::iterator erase(Ranks::iterator rank);
  void erase_over();
  void bound();
  void shorten(Ranks::iterator rank);

  Send send_;
  Limits limits_;
  Ranks ranks_;
  std::optional<RankIdentity> stopped_at_;  // whose news found no room
  std::deque<wire::RankEvent> steps_;
  std::uint64_t steps_dropped_ = 0;
  bool state_unsent_ = false;
  std::map<std::uint64_t, RankIdentity> ended_;  // those that have ended, the first one first
  std::uint64_t last_ended_ = 0;
  std::uint64_t shortened_ = 0;  // the last place whose rank's texts have been shortened
  std::size_t ended_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

// What of a rank's end, or its launcher's, the coordinator is told. Loop thread only.

// `log`: the path of what it printed, of which the last lines go along.
void tell_end(const LedgerRank& rank, const std::string& log, RankNews& news);

}  // namespace trimtab::agent
