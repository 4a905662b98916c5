#pragma once

// Computation beside serial communication channels. Communication that is ready runs beside the computation, each
// slowed by the other, until one of them ends: computing for c beside communication k, with slowdowns alpha and beta,
// takes c alpha + (k - c alpha / beta) if c alpha <= k beta, else k beta + (c - k beta / alpha). What waits in the
// channel is sent in order, each with its own slowdowns. Gathers may have a channel apart from what is sent; then two
// communications run at once, and slow each other down too. Plain state.

#include <cstddef>

#include "native/costs/communication_slowdowns.hpp"

namespace trimtab::tuner {

// What waits in a channel, in order. What follows its like is one with it.
class CommunicationQueue {
 public:
  struct Item {
    double left = 0;  // at full speed
    const CommunicationSlowdowns* of = nullptr;
  };

  void push(double length, const CommunicationSlowdowns* of) {
    if (length <= 0) return;
    if (empty()) {
      front_ = {length, of};
      return;
    }
    Item& last = next_ < behind_.size() ? behind_.back() : front_;
    if (last.of == of) {
      last.left += length;
    } else {
      behind_.push_back({length, of});
    }
  }
  [[nodiscard]] bool empty() const { return front_.left <= 0; }
  // REQUIRES: !empty().
  [[nodiscard]] const Item& front() const { return front_; }
  void pop() { front_ = next_ < behind_.size() ? behind_[next_++] : Item{}; }
  // Of the first.
  void advance(double length) {
    front_.left -= length;
    if (front_.left <= 0) pop();
  }
  // Of as many as it takes.
  void drain(double length) {
    while (!empty() && front_.left <= length) {
      length -= front_.left;
      pop();
    }
    if (!empty()) front_.left -= length;
  }
  [[nodiscard]] double length() const {
    double all = front_.left;
    for (std::size_t i = next_; i < behind_.size(); ++i) all += behind_[i].left;
    return all;
  }

 private:
  Item front_;
  std::vector<Item> behind_;
  std::size_t next_ = 0;
};

class OverlappedPass {
 public:
  // `apart`: gathers have a channel of their own. REQUIRES then: gathers and what is sent know each other's slowdowns.
  explicit OverlappedPass(const OverlapScale& scale = {}, bool apart = false) : scale_(scale), apart_(apart) {}

  // A search spends much of its time here, so that what is common is inlined and what is rare is not.
  // `work`(c) is how it and the communication c slow each other down; `work.both`(c, g) the same beside c and a gather
  // g at once, of which the computation's side counts.
  template <typename Work>
  [[gnu::always_inline]] void compute(double length, const Work& work) {
    double spent = 0;
    if (!gathers_.empty()) [[unlikely]] {
      while (!sent_.empty() && !gathers_.empty()) {
        if (!step_beside_both(length, work, spent)) return pass(spent);
      }
      if (sent_.empty()) return pass(spent + beside_one(gathers_, length, work));
    }
    pass(spent + beside_one(sent_, length, work));
  }
  void communicate(double length, const CommunicationSlowdowns* of) { sent_.push(length, of); }
  // Communication that a later computation needs: waited for by wait().
  void fetch(double length, const CommunicationSlowdowns* of) {
    fetching().push(length, of);
    due_ = fetching().length();
  }
  // Until everything up to the latest fetch has arrived; nothing computes meanwhile.
  void wait() {
    if (due_ <= 0) return;
    while (apart_ && due_ > 0 && !sent_.empty() && !gathers_.empty()) run_both(due_);
    time_ += due_;
    fetching().drain(due_);
    due_ = 0;
  }
  // A collective that everything waits for, and that the channels' backlog waits for too.
  void block(double length) { time_ += length; }

  [[nodiscard]] double computation_end() const { return time_; }
  [[nodiscard]] double communication_end() const {
    if (sent_.empty() || gathers_.empty()) return time_ + (sent_.empty() ? gathers_ : sent_).length();
    OverlappedPass rest = *this;
    while (!rest.sent_.empty() && !rest.gathers_.empty()) rest.run_both(rest.gathers_.front().left);
    return rest.communication_end();
  }

 private:
  CommunicationQueue& fetching() { return apart_ ? gathers_ : sent_; }
  void pass(double time) { time_ += time; }

  void advance(CommunicationQueue& queue, double length) {
    queue.advance(length);
    if (&queue == &fetching()) due_ = length < due_ ? due_ - length : 0;
  }
  void end(CommunicationQueue& queue) { advance(queue, queue.front().left); }

  // How long it takes beside one channel, which moves on meanwhile.
  template <typename Work>
  [[gnu::always_inline]] double beside_one(CommunicationQueue& queue, double length, const Work& work) {
    double spent = 0;
    while (!queue.empty()) {
      OverlapSlowdown slowdown = work(*queue.front().of);
      if (!scale_.plain()) [[unlikely]]
        slowdown = scale_.of(slowdown);
      const double beside = length * slowdown.computation;                 // if communication lasts that long
      const double drained = queue.front().left * slowdown.communication;  // if computation lasts that long
      if (beside <= drained) {
        advance(queue, beside / slowdown.communication);
        return spent + beside;
      }
      spent += drained;
      length -= drained / slowdown.computation;
      end(queue);
    }
    return spent + length;
  }
  // Beside the first of both channels until one of the three ends; false where that is the computation.
  template <typename Work>
  [[gnu::noinline]] bool step_beside_both(double& length, const Work& work, double& spent) {
    const CommunicationSlowdowns& sent = *sent_.front().of;
    const CommunicationSlowdowns& gather = *gathers_.front().of;
    const OverlapSlowdown each = scale_.of(beside_each_other(sent, gather));
    const double alpha = scale_.of(work.both(sent, gather)).computation;
    const double sent_pace = scale_.of(work(sent)).communication * each.computation;
    const double gather_pace = scale_.of(work(gather)).communication * each.communication;
    const double computing = length * alpha;
    const double sending = sent_.front().left * sent_pace;
    const double gathering = gathers_.front().left * gather_pace;
    const double time = std::min({computing, sending, gathering});
    spent += time;
    length -= time / alpha;
    sending <= time ? end(sent_) : advance(sent_, time / sent_pace);
    gathering <= time ? end(gathers_) : advance(gathers_, time / gather_pace);
    return computing > time;
  }
  // Both channels, with nothing computed, until the first of either has ended or `most` of the gather.
  void run_both(double most) {
    const OverlapSlowdown each = scale_.of(beside_each_other(*sent_.front().of, *gathers_.front().of));
    const double gather = std::min(most, gathers_.front().left);
    const double sending = sent_.front().left * each.computation;
    const double gathering = gather * each.communication;
    time_ += std::min(sending, gathering);
    sending <= gathering ? end(sent_) : advance(sent_, gathering / each.computation);
    gathering <= sending ? advance(gathers_, gather) : advance(gathers_, sending / each.communication);
  }

  OverlapScale scale_;
  bool apart_ = false;
  double time_ = 0;
  CommunicationQueue sent_;
  CommunicationQueue gathers_;  // empty unless apart
  double due_ = 0;              // of what is fetched, what was not waited for
};

// A computation that slows every communication down alike.
struct AlikeWork {
  OverlapSlowdown slowdown;
  OverlapSlowdown operator()(const CommunicationSlowdowns&) const { return slowdown; }
  OverlapSlowdown both(const CommunicationSlowdowns&, const CommunicationSlowdowns&) const { return slowdown; }
};

}  // namespace trimtab::tuner
