#pragma once

// The steps of one rank that the card is made from: of the last ten minutes of training, warm-up left out. Where there
// are more than fit, every second one goes, chosen by its number alone: what two ranks keep are the same steps, or one
// keeps a part of the other's, so steps can be compared rank by rank.

#include <cstddef>
#include <cstdint>
#include <deque>

#include "card/card_step.hpp"

namespace trimtab::coordinator {

// In milliseconds. 52 bytes: a job may have 65,536 ranks.
struct KeptStep {
  std::int64_t step = 0;
  float at_s = 0;  // its end, in the rank's training time
  float wall = 0;  // without what was aside
  float data = 0;
  float forward = 0;
  float backward = 0;
  float recompute = 0;  // inside backward
  float optimizer = 0;
  float communication = 0;
  float stolen = -1;  // -1: not told
  std::uint32_t microbatches = 0;
  std::uint32_t count = 0;
  float tokens = 0;
  bool has_parts = false;
};

class KeptSteps {
 public:
  static constexpr std::int64_t kWarmup = 3;
  static constexpr float kWindowS = 600;

  // REQUIRES: capacity > 1. `warmup`: so many steps are left out at first.
  explicit KeptSteps(std::size_t capacity, std::int64_t warmup = kWarmup) : capacity_(capacity), warmup_(warmup) {}

  // A number that is not above the last one: the job has gone back, and the later steps are forgotten.
  void add(const CardStep& step);

  // By number.
  [[nodiscard]] const std::deque<KeptStep>& all() const { return kept_; }
  // With the warm-up, and with those that went.
  [[nodiscard]] std::int64_t told() const { return told_; }
  // What all of them took.
  [[nodiscard]] double trained_s() const { return trained_s_; }

 private:
  [[nodiscard]] bool is_chosen(std::int64_t step) const;
  void make_room();

  std::size_t capacity_;
  std::int64_t warmup_;
  std::deque<KeptStep> kept_;
  std::int64_t told_ = 0;
  std::int64_t preparations_ = 0;  // as the latest step told
  unsigned halvings_ = 0;
  double trained_s_ = 0;
};

}  // namespace trimtab::coordinator
