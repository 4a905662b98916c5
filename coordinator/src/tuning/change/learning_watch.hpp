#pragma once

// Does training go on after a change of plan as it went before? For jobs that are restarted to change it, which cannot
// watch that themselves: a launch knows nothing of the one before. Decides from what steps tell of loss and gradient
// norm, within the bounds of the client's LearningGuard (client/python/trimtab/learning_guard.py): a value that is not
// finite is enough; else several steps in a row clearly outside of all before the change. A plain value; pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trimtab::coordinator {

// What a step tells of what is learnt.
struct Learnt {
  double loss = 0;           // 0 = not told
  double gradient_norm = 0;  // 0 = not told
  std::string not_finite;    // what became NaN or infinite: "loss" or "gradient norm"; empty = nothing
};

struct LearningWatch {
  static constexpr std::size_t kHistory = 24;       // steps before a change that those after it are compared with
  static constexpr std::size_t kHistoryLeast = 16;  // with fewer only what is not finite is noticed
  static constexpr std::int32_t kConsecutive = 4;
  static constexpr std::int32_t kWatched = 20;  // steps after a change
  static constexpr double kNormFactor = 2;      // a gradient norm must leave the range before by so much

  // The plan that step number `step` runs. Another one than before is watched, unless the job goes back to the one that
  // the watched one took the place of. True when it is another.
  bool runs(const std::string& hash, std::int64_t step);
  // A step's values. Why its plan has to go; empty = it need not.
  [[nodiscard]] std::string judge(const Learnt& step);
  [[nodiscard]] bool watching() const { return left > 0; }
  // Steps have told something that those to come can be compared with.
  [[nodiscard]] bool knows() const { return !before.empty(); }
  void stop();

  std::string plan;             // hash
  std::string plan_before;      // while the plan is watched: the one before it
  std::int64_t since_step = 0;  // the first under the plan
  std::int32_t left = 0;        // steps still to watch
  bool sound = true;            // the last step's values were finite
  std::vector<Learnt> before;   // the change that is watched
  std::vector<Learnt> recent;
  std::map<std::string, std::int32_t> outside;  // question -> how many steps in a row
};

}  // namespace trimtab::coordinator
