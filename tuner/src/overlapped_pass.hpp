#pragma once

// Computation beside one serial communication channel. Communication that is ready runs beside the computation, each
// slowed by the other, until one of them ends: computing for c beside communication k, with slowdowns alpha and beta,
// takes c alpha + (k - c alpha / beta) if c alpha <= k beta, else k beta + (c - k beta / alpha). Plain state.

#include "link_costs.hpp"

namespace trimtab::tuner {

// Both sides' slowdown beyond 1, times a calibration's factor of overlap.
[[nodiscard]] inline OverlapSlowdown scaled(const OverlapSlowdown& of, double factor) {
  return {1 + factor * (of.computation - 1), 1 + factor * (of.communication - 1), of.measured};
}

class OverlappedPass {
 public:
  explicit OverlappedPass(const OverlapSlowdown& slowdown) : slowdown_(slowdown) {}

  void compute(double length) {
    const double beside = length * slowdown_.computation;       // if communication lasts that long
    const double drained = backlog_ * slowdown_.communication;  // if computation lasts that long
    if (beside <= drained) {
      time_ += beside;
      drain(beside / slowdown_.communication);
    } else {
      time_ += drained + (length - drained / slowdown_.computation);
      drain(backlog_);
    }
  }
  void communicate(double length) { backlog_ += length; }
  // Communication that a later computation needs: waited for by wait().
  void fetch(double length) {
    backlog_ += length;
    due_ = backlog_;
  }
  // Until everything up to the latest fetch has arrived; nothing computes meanwhile.
  void wait() {
    time_ += due_;
    drain(due_);
  }
  // A collective that everything waits for, and that the channel's backlog waits for too.
  void block(double length) { time_ += length; }

  [[nodiscard]] double computation_end() const { return time_; }
  [[nodiscard]] double communication_end() const { return time_ + backlog_; }

 private:
  void drain(double length) {
    backlog_ = length < backlog_ ? backlog_ - length : 0;
    due_ = length < due_ ? due_ - length : 0;
  }

  OverlapSlowdown slowdown_;
  double time_ = 0;
  double backlog_ = 0;
  double due_ = 0;  // of the backlog, what was fetched and not waited for
};

}  // namespace trimtab::tuner
