#pragma once

// Whether a job's step time has changed for good: a cumulative sum (Page 1954) over medians of a few steps, on
// logarithms, beside the job's own level and noise. A single slow step moves no median; what drifts slowly and little
// stays below the slack. Pure.
//
// Other work on a machine makes steps slow for seconds, comes and goes, and is as large as any change. No sum tells the
// two apart, time does: a change is told when no block has come back to the former level for `least_lasting`, or for
// as long as a stretch of other work would last in one of a hundred jobs, by those that this job has seen pass (five
// times `least_lasting` at most). That is the delay (bench/results/noise_and_drift.md). The first level is learnt over
// `least_lasting`, so that a slow stretch is not taken for it.
//
// A shared machine's own speed wanders besides, for longer than that. So a change must also be larger than what this
// job's level, over spans of `least_lasting`, has been seen to wander by. What is smaller is told once it has stayed
// for ten times `least_lasting`.

#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab::coordinator {

// On noise recorded from jobs, replayed in stretches of 25 steps, 200 runs each (tests/coordinator/recorded_steps):
// from the main job at most one false alarm in 2,000 steps each, and at least 190 changes of 15 % noticed within 80
// steps; from four ranks on two busy cores, probes among their steps, at most 20 and at least 180.
struct ChangePointRules {
  int block = 5;                // steps of a median
  int first_blocks = 4;         // that make a first level and noise: from then on changes are looked for
  int reference_blocks = 20;    // as many as there are to be: what is no change joins the first ones until then
  double least_shift = 0.08;    // of a step's time: less is not worth a word
  double threshold = 8;         // standard deviations, summed
  double least_lasting_ms = 0;  // of training: what has lasted for less is no change; 0 = whatever lasts a few blocks
};

struct StepChange {
  double before_ms = 0;
  double after_ms = 0;
  std::int64_t since_step = 0;  // where it began, as well as can be told
  [[nodiscard]] double ratio() const { return after_ms / before_ms; }
};

class ChangePoint {
 public:
  explicit ChangePoint(ChangePointRules rules = {}) : rules_(rules) {}

  // A step of the one plan that runs. Once it has told of a change it must be begun anew.
  [[nodiscard]] std::optional<StepChange> add(std::int64_t step, double wall_ms);
  // Another plan runs from here on, which on the same machine takes `ratio` times as long, as far as is known `low` to
  // `high` times: its own first steps tell which. REQUIRES: 0 <= low <= ratio <= high.
  void change_plan(double ratio, double low, double high);

 private:
  struct Block {
    std::int64_t begin = 0;
    double log_median = 0;
    double log_low = 0;  // the lower quartile: the steps that nothing has slowed down
    double ms = 0;       // of all its steps
  };
  struct Span {            // of `least_lasting` of training
    std::int64_t end = 0;  // the step at which its last block begins
    double log_low = 0;    // the lower quartile of its blocks' own
  };
  void learn();
  void shift(double by);
  [[nodiscard]] std::optional<StepChange> settle();
  [[nodiscard]] std::optional<StepChange> take(const Block& block);
  void join_reference();
  [[nodiscard]] std::optional<StepChange> judge();
  [[nodiscard]] bool tells_level(const std::vector<Block>& blocks) const;
  void note_stretch(const Block& block);
  [[nodiscard]] double longest_stretch_ms() const;
  [[nodiscard]] double wanted_ms() const;
  void note_span(const Block& block);
  [[nodiscard]] double wandering(std::int64_t before) const;
  [[nodiscard]] bool may_be_wandering(std::size_t from, double shift) const;
  [[nodiscard]] std::optional<StepChange> if_lasting(std::size_t from);
  [[nodiscard]] bool stays_off(std::size_t first, double shift) const;
  [[nodiscard]] bool was_never_as_fast(std::size_t first, double shift) const;
  [[nodiscard]] std::optional<StepChange> if_large(StepChange change) const;
  [[nodiscard]] StepChange change_since(std::size_t first) const;

  ChangePointRules rules_;
  std::vector<double> steps_;
  double steps_ms_ = 0;
  std::int64_t block_begin_ = 0;
  std::vector<Block> reference_;
  std::vector<Block> since_;    // after the reference, since either sum was last zero
  std::vector<Block> of_plan_;  // the first of a plan whose level is not sure, while there are not enough
  double least_ = 0;            // by which that level may be off, a logarithm
  double most_ = 0;
  double level_ = 0;
  double low_level_ = 0;  // of lower quartiles
  double sigma_ = 0;
  double slower_ = 0;
  double faster_ = 0;
  std::size_t slower_from_ = 0;
  std::size_t faster_from_ = 0;
  bool is_slow_ = false;   // the latest block: slower than the level
  double stretch_ms_ = 0;  // that blocks have been slow for without a break, but for the first: one alone is chance
  int passed_ = 0;         // such stretches, which have ended
  double passed_ms_ = 0;   // of all of them
  double calm_ms_ = 0;     // in which no block was slow
  std::vector<Span> spans_;
  std::vector<double> span_;  // lower quartiles of the blocks of one that is not yet whole
  double span_ms_ = 0;
};

}  // namespace trimtab::coordinator
