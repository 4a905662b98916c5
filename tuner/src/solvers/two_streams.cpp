#include "solvers/two_streams.hpp"

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

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

double run_two_streams(std::span<const StreamAction> actions, const OverlapSlowdown& slowdown,
                       std::span<StreamSpan> spans) {
  TRIMTAB_ASSERT(spans.size() == actions.size(), "a span for each action");
  return Player(actions, slowdown, spans).play();
}

}  // namespace trimtab::tuner
