#include "solvers/sub_batch_schedule.hpp"

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

std::int32_t size_of(std::span<const Block> blocks) {
  return static_cast<std::int32_t>(blocks.size());
}

Round backward_round(std::span<const Block> blocks, std::int32_t n) {
  const Block& block = blocks[n];
  Round round{block.backward, block.backward_communication, 0, false, 0, n, RoundPass::kBackward};
  if (n + 1 < size_of(blocks) && blocks[n + 1].gather_backward > 0) {
    round.gather = blocks[n + 1].gather_backward;
    round.blocked = true;
  }
  return round;
}

// The blocks of a unit, computed again in order. The last one's communication is not needed: what comes of it is
// neither kept nor used (equation 1).
void add_recompute(std::span<const Block> blocks, std::int32_t begin, std::int32_t end, std::vector<Round>& rounds) {
  for (std::int32_t n = begin; n < end; ++n) {
    const Block& block = blocks[n];
    rounds.push_back({block.recompute, n + 1 < end ? block.forward_communication : 0, 0, false, block.recompute, n,
                      RoundPass::kRecompute});
    if (n > begin && block.gather_forward > 0) {
      rounds.back().gather = block.gather_forward;
      rounds.back().blocked = true;
    }
  }
}

bool recomputes(std::span<const Block> blocks, std::int32_t begin, std::int32_t end) {
  for (std::int32_t n = begin; n < end; ++n) {
    if (blocks[n].recompute > 0) return true;
  }
  return false;
}

// The unit's last block follows its own recompute without a communication between: one round.
void join_last_recompute(std::vector<Round>& rounds, const Round& backward) {
  Round& last = rounds.back();
  last.computation += backward.computation;
  last.communication = backward.communication;
  last.pass = RoundPass::kBackward;
  last.block = backward.block;
  // The gradient's gather comes before the backward half, which cannot begin sooner; the recompute before it could, but
  // the layout change blocks both.
  if (!backward.blocked) return;
  last.gather += backward.gather;
  last.blocked = true;
}

void add_unit(std::span<const Block> blocks, std::int32_t begin, std::int32_t end, bool cross_pass,
              std::vector<Round>& rounds) {
  std::int32_t n = end - 1;
  if (recomputes(blocks, begin, end)) {
    const std::size_t first = rounds.size();
    add_recompute(blocks, begin, end, rounds);
    if (cross_pass) {
      join_last_recompute(rounds, backward_round(blocks, n--));
    } else {
      rounds[first].blocked = true;
      rounds.push_back(backward_round(blocks, n--));
      rounds.back().blocked = true;
    }
  }
  for (; n >= begin; --n) rounds.push_back(backward_round(blocks, n));
}

// One stream: where it stands in the list, and what is left of the action that runs.
class Stream {
 public:
  Stream(std::span<const StreamAction> actions, bool communication, double slowdown)
      : actions_(actions), communication_(communication), slowdown_(slowdown) {
    find_next(0);
  }

  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] double left() const { return left_; }                     // at full speed
  [[nodiscard]] double left_beside() const { return left_ * slowdown_; }  // while the other runs too
  [[nodiscard]] std::size_t next() const { return next_; }
  [[nodiscard]] bool waits_for(std::int32_t after) const { return after >= static_cast<std::int32_t>(next_); }

  void begin(double now, std::span<StreamSpan> spans) {
    running_ = true;
    left_ = actions_[next_].length;
    spans[next_].begin = now;
  }
  void end(double now, std::span<StreamSpan> spans) {
    running_ = false;
    spans[next_].end = now;
    find_next(next_ + 1);
  }
  void pass_beside(double time) { left_ -= time / slowdown_; }

 private:
  void find_next(std::size_t from) {
    while (from < actions_.size() && actions_[from].communication != communication_) ++from;
    next_ = from;
  }

  std::span<const StreamAction> actions_;
  bool communication_;
  double slowdown_;
  std::size_t next_ = 0;  // of its own actions, the first that has not ended; the list's end where all have
  bool running_ = false;
  double left_ = 0;
};

class Player {
 public:
  Player(std::span<const StreamAction> actions, const OverlapSlowdown& slowdown, std::span<StreamSpan> spans)
      : actions_(actions),
        spans_(spans),
        computation_(actions, false, slowdown.computation),
        communication_(actions, true, slowdown.communication) {}

  double play() {
    while (begin_what_can()) advance();
    TRIMTAB_ASSERT(computation_.next() == actions_.size() && communication_.next() == actions_.size(),
                   "an action is after an earlier one");
    return now_;
  }

 private:
  [[nodiscard]] bool ended(std::int32_t action) const {
    if (action < 0) return true;
    return !(actions_[action].communication ? communication_ : computation_).waits_for(action);
  }

  void begin_if_ready(Stream& stream) {
    if (stream.running() || stream.next() == actions_.size()) return;
    if (ended(actions_[stream.next()].after)) stream.begin(now_, spans_);
  }

  bool begin_what_can() {
    begin_if_ready(computation_);
    begin_if_ready(communication_);
    return computation_.running() || communication_.running();
  }

  // To the next end.
  void advance() {
    if (!computation_.running() || !communication_.running()) {
      Stream& alone = computation_.running() ? computation_ : communication_;
      now_ += alone.left();
      alone.end(now_, spans_);
      return;
    }
    const bool computation_first = computation_.left_beside() <= communication_.left_beside();
    Stream& first = computation_first ? computation_ : communication_;
    Stream& other = computation_first ? communication_ : computation_;
    const double time = first.left_beside();
    now_ += time;
    const bool together = other.left_beside() == time;
    other.pass_beside(time);
    first.end(now_, spans_);
    if (together) other.end(now_, spans_);
  }

  std::span<const StreamAction> actions_;
  std::span<StreamSpan> spans_;
  Stream computation_, communication_;
  double now_ = 0;
};

}  // namespace

void forward_rounds(std::span<const Block> blocks, std::vector<Round>& rounds) {
  rounds.clear();
  for (std::int32_t n = 0; n < size_of(blocks); ++n) {
    const Block& block = blocks[n];
    const bool gathers = n > 0 && block.gather_forward > 0;
    rounds.push_back({block.forward, block.forward_communication, gathers ? block.gather_forward : 0, gathers, 0, n,
                      RoundPass::kForward});
  }
}

void backward_rounds(std::span<const Block> blocks, const SubBatchSchedule& schedule, std::vector<Round>& rounds) {
  rounds.clear();
  for (std::int32_t end = size_of(blocks); end > 0;) {
    std::int32_t begin = end - 1;
    while (!schedule.recompute_after_communication && begin > 0 && !blocks[begin].begins_unit) --begin;
    add_unit(blocks, begin, end, schedule.cross_pass, rounds);
    end = begin;
  }
}

double rounds_time(std::span<const Round> rounds, const OverlapSlowdown& slowdown) {
  double time = 0;
  double before = 0;  // the second sub-batch's communication of the round before
  for (const Round& round : rounds) {
    time += round.blocked ? before + round.gather + round.computation : overlapped(round.computation, before, slowdown);
    time += overlapped(round.computation, round.communication, slowdown);
    before = round.communication;
  }
  return time + before;
}

double recomputed_at_once(std::span<const Round> rounds, std::span<const double> bytes) {
  double most = 0;
  double live = 0;
  for (const Round& round : rounds) {
    const double block = bytes[round.block];
    if (round.pass == RoundPass::kRecompute) {
      live += 2 * block;
      most = std::max(most, live);
    } else if (round.recompute > 0) {
      most = std::max(most, live + block);  // gone before the other sub-batch begins
    } else {
      live = std::max(0.0, live - 2 * block);
    }
  }
  return most;
}

StreamActions stream_actions(std::span<const Round> rounds, std::int32_t sub_batches) {
  TRIMTAB_ASSERT(sub_batches >= 1, "at least one sub-batch");
  StreamActions out;
  const auto add = [&out](bool communication, double length, std::int32_t after, RoundAction origin) {
    out.actions.push_back({communication, length, after});
    out.origins.push_back(origin);
    return static_cast<std::int32_t>(out.actions.size()) - 1;
  };
  std::vector<std::int32_t> arrived(static_cast<std::size_t>(sub_batches), -1);  // by sub-batch, its last communication
  std::int32_t last = -1;                                                        // of the round before
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(rounds.size()); ++r) {
    const Round& round = rounds[r];
    if (round.blocked && round.gather > 0) last = add(true, round.gather, last, {r, -1});
    for (std::int32_t x = 0; x < sub_batches; ++x) {
      const std::int32_t after = round.blocked && last >= 0 ? last : arrived[x];
      const std::int32_t computed = add(false, round.computation, after, {r, x});
      arrived[x] = add(true, round.communication, computed, {r, x});
    }
    last = arrived.back();
  }
  return out;
}

double run_two_streams(std::span<const StreamAction> actions, const OverlapSlowdown& slowdown,
                       std::span<StreamSpan> spans) {
  TRIMTAB_ASSERT(spans.size() == actions.size(), "a span for each action");
  return Player(actions, slowdown, spans).play();
}

}  // namespace trimtab::tuner
