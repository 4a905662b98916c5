#pragma once

// What recording really costs this job, measured on its own steps: the steps that a phase of recording touches take
// longer than those beside them, in which the collector leaves itself out. The constants of settings.hpp say what such
// a phase should cost. factor() is by how much they are wrong.
//
// Until a job's steps say something it is kUnmeasured. Then it is the upper bound of the median over the latest phases
// (95 %, by the sign test, so no assumption on how steps scatter), as soon as that is surely below or above what is
// believed. Noise alone changes nothing. A job that tells no steps keeps the constants. Pure; memory is fixed.

#include <array>
#include <cstdint>

namespace trimtab::inject::cupti {

class OwnCost {
 public:
  // An eager Llama of small kernels lost some 5 us a launch on an H100, a chain of kernels 1 us
  // (bench/results/gpu_check.md): until it is measured, the dearest that was seen.
  static constexpr double kUnmeasured = 5;
  static constexpr double kLeast = 0.5;
  static constexpr double kMost = 20;

  constexpr OwnCost() = default;

  // Times never go back; a step's end may be told after a phase that it lies in has ended. Phases do not overlap.
  void step_ended(std::uint64_t now_ns);
  // Steps' ends were missed: no step lies before the next one told.
  void steps_missed() { last_end_ns_ = 0; }
  void phase_begun(std::uint64_t begin_ns) { open_since_ns_ = begin_ns; }
  void phase_ended(std::uint64_t end_ns);
  // What the constants say that the latest phase has cost, without the factor: its records have come.
  void phase_cost(std::uint64_t base_ns);

  [[nodiscard]] double factor() const { return factor_; }
  // Phases that were compared with steps beside them.
  [[nodiscard]] std::uint64_t phases() const { return told_; }

 private:
  struct Step {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
  };
  struct Phase {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint64_t base_ns = 0;
    bool told = false;  // base_ns
  };
  static constexpr std::uint64_t kSteps = 256;  // remembered
  static constexpr std::uint64_t kPhases = 16;  // remembered, judged or not
  static constexpr std::uint64_t kRatios = 64;  // that the median is of
  static constexpr int kBeside = 4;             // clean steps on each side

  void judge();
  [[nodiscard]] bool judge(const Phase& phase);
  [[nodiscard]] bool is_clean(const Step& step) const;
  void learn(double ratio);

  std::array<Step, kSteps> steps_{};
  std::uint64_t ended_ = 0;
  std::uint64_t last_end_ns_ = 0;
  std::uint64_t open_since_ns_ = 0;  // of the phase that runs; 0: none
  std::array<Phase, kPhases> phases_{};
  std::uint64_t begun_ = 0;
  std::uint64_t judged_ = 0;
  std::array<double, kRatios> ratios_{};
  std::uint64_t told_ = 0;
  double factor_ = kUnmeasured;
};

// Where all kernels are recorded: a few whole steps now and then in which they are not, so that OwnCost has something
// to compare. A job that tells no steps is left as it is. Pure: time is an argument.
class StepsLeftOut {
 public:
  static constexpr std::uint64_t kEveryNs = 30'000'000'000;
  static constexpr std::uint64_t kEverySteps = 45;
  static constexpr std::uint64_t kSteps = 5;  // of which four are whole
  static constexpr std::uint64_t kLongestNs = 60'000'000'000;

  // Whether kernels are left out from now on. `settled`: what was recorded before has come.
  bool update(std::uint64_t now_ns, std::uint64_t steps, bool settled) {
    if (since_ns_ == 0) restart(now_ns, steps);
    const std::uint64_t lasted_ns = now_ns - since_ns_;
    const std::uint64_t ended = steps - since_steps_;
    const bool over = leaving_ ? (ended >= kSteps && settled) || lasted_ns >= kLongestNs
                               : ended >= kEverySteps && lasted_ns >= kEveryNs;
    if (over) {
      restart(now_ns, steps);
      leaving_ = !leaving_;
    }
    return leaving_;
  }

 private:
  void restart(std::uint64_t now_ns, std::uint64_t steps) {
    since_ns_ = now_ns;
    since_steps_ = steps;
  }

  std::uint64_t since_ns_ = 0;
  std::uint64_t since_steps_ = 0;
  bool leaving_ = false;
};

}  // namespace trimtab::inject::cupti
