#include "card/kept_steps.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trimtab::coordinator {

namespace {

constexpr unsigned kMostHalvings = 40;

float ms(std::int64_t ns) {
  return static_cast<float>(static_cast<double>(std::max<std::int64_t>(ns, 0)) / 1e6);
}

std::uint32_t small(std::int64_t count) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 0, std::numeric_limits<std::uint32_t>::max()));
}

// Bits of a step's number that do not follow its period: a job that logs every tenth step does so in a tenth of those
// that are kept. The finalizer of splitmix64.
std::uint64_t mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31);
}

KeptStep kept(const CardStep& step, double at_s) {
  KeptStep one;
  one.step = step.step;
  one.at_s = static_cast<float>(at_s);
  one.wall = ms(step.wall_ns - (step.parts ? step.parts->aside_ns : 0));
  one.microbatches = small(step.microbatches);
  one.count = small(step.count);
  one.tokens = static_cast<float>(std::max<std::int64_t>(step.tokens, 0));
  one.has_parts = step.parts.has_value();
  if (!step.parts) return one;
  one.data = ms(step.parts->data_ns);
  one.forward = ms(step.parts->forward_ns);
  one.backward = ms(step.parts->backward_ns);
  one.recompute = std::min(ms(step.parts->recompute_ns), one.backward);
  one.optimizer = ms(step.parts->optimizer_ns);
  one.communication = ms(step.parts->communication_ns);
  if (step.parts->stolen_ns >= 0) one.stolen = ms(step.parts->stolen_ns);
  return one;
}

}  // namespace

void KeptSteps::add(const CardStep& step) {
  ++told_;
  trained_s_ += static_cast<double>(std::max<std::int64_t>(step.wall_ns, 0)) / 1e9;
  while (!kept_.empty() && kept_.back().step >= step.step) kept_.pop_back();
  const bool prepared = step.preparations > std::exchange(preparations_, step.preparations);
  if (told_ <= warmup_ || prepared || step.wall_ns <= 0) return;
  if (!is_chosen(step.step)) return;
  kept_.push_back(kept(step, trained_s_));
  make_room();
}

bool KeptSteps::is_chosen(std::int64_t step) const {
  const std::uint64_t bits = (std::uint64_t{1} << halvings_) - 1;
  return (mixed(static_cast<std::uint64_t>(step)) & bits) == 0;
}

void KeptSteps::make_room() {
  while (!kept_.empty() && kept_.front().at_s < kept_.back().at_s - kWindowS) kept_.pop_front();
  while (kept_.size() > capacity_ && halvings_ < kMostHalvings) {
    ++halvings_;
    std::erase_if(kept_, [this](const KeptStep& one) { return !is_chosen(one.step); });
  }
  while (kept_.size() > capacity_) kept_.pop_front();
  // Steps have become longer: more of them are kept again.
  if (halvings_ > 0 && kept_.size() < capacity_ / 8 && kept_.back().at_s > kWindowS) --halvings_;
}

}  // namespace trimtab::coordinator
