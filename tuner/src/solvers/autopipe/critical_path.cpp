#include "solvers/autopipe/critical_path.hpp"

#include <limits>

namespace trimtab::tuner::autopipe {
namespace {

constexpr double kNoTerm = -std::numeric_limits<double>::infinity();

// The begin of an action.
struct Place {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  bool forward = true;
  Part part = Part::kWhole;
};

// One of the terms whose maximum an action's begin is. `ran`: the place's action ended there; else it began, which let
// a sender go on.
struct Term {
  double value = kNoTerm;
  Place from;
  bool ran = true;
};

// Walks back from the last backward of stage 0 over the term that decided each begin: the later stage's, then the own
// stage's, then the earlier stage's where several did.
class Walk {
 public:
  Walk(const Pipeline& of, const RecordedPipeline& recorded)
      : of_(of), recorded_(recorded), blocking_(of.transfers == Transfers::kBlocking) {}

  // visit(place, begin) for each action on the path, last first.
  template <typename Visit>
  void run(Visit&& visit) const {
    Term decided{0, {0, of_.microbatches - 1, false, Part::kWhole}, true};
    while (true) {
      if (decided.ran) visit(decided.from, begin_of(decided.from));
      decided = decided.from.forward ? before_forward(decided.from) : before_backward(decided.from);
      if (decided.value == kNoTerm) return;
    }
  }

  [[nodiscard]] double length(const Place& place) const {
    if (!place.forward) return of_.backward[place.stage];
    return of_.forward[place.stage] * (place.part == Part::kWhole ? 1 : of_.half_slowdown / 2);
  }

 private:
  [[nodiscard]] double begin_of(const Place& place) const {
    if (!place.forward) return recorded_.backward_begin(place.stage, place.microbatch);
    if (place.part == Part::kSecondHalf) return recorded_.second_half_begin(place.stage, place.microbatch);
    return recorded_.forward_begin(place.stage, place.microbatch);
  }
  [[nodiscard]] bool in_halves(std::int32_t x, std::int32_t j) const { return j < of_.sliced && j <= of_.warmup(x); }
  // A forward by its last part.
  [[nodiscard]] Place whole(std::int32_t x, std::int32_t j) const {
    return {x, j, true, in_halves(x, j) ? Part::kSecondHalf : Part::kWhole};
  }
  [[nodiscard]] Term ended(const Place& place, double hop) const {
    // A meeting adds its hop after the maximum: it says nothing of which side was late.
    return {begin_of(place) + length(place) + (blocking_ ? 0 : hop), place, true};
  }
  [[nodiscard]] Term began(const Place& place) const { return {begin_of(place), place, false}; }

  static Term first_of(const Term& later, const Term& own, const Term& earlier) {
    Term best = earlier;
    if (own.value >= best.value) best = own;
    if (later.value >= best.value) best = later;
    return best;
  }

  [[nodiscard]] Term before_forward(const Place& at) const {
    const std::int32_t x = at.stage;
    if (at.microbatch > of_.warmup(x)) {
      const Term own = ended({x, at.microbatch - of_.warmup(x) - 1, false, Part::kWhole}, 0);
      return first_of({}, own, x > 0 ? ended(whole(x - 1, at.microbatch), of_.transfer[x - 1]) : Term{});
    }
    const double share = at.part == Part::kWhole ? 1.0 : 0.5;
    const Term earlier = x > 0 ? ended({x - 1, at.microbatch, true, at.part}, share * of_.transfer[x - 1]) : Term{};
    if (at.microbatch == 0 && at.part != Part::kSecondHalf) return earlier;
    const Place before =
        at.part == Part::kSecondHalf ? Place{x, at.microbatch, true, Part::kFirstHalf} : whole(x, at.microbatch - 1);
    const bool unsent = at.part == Part::kSecondHalf && at.microbatch == of_.warmup(x);
    if (!blocking_ || x + 1 == of_.stages || unsent) return first_of({}, ended(before, 0), earlier);
    return first_of(began({x + 1, before.microbatch, true, before.part}), {}, earlier);
  }

  [[nodiscard]] Term before_backward(const Place& at) const {
    const std::int32_t x = at.stage;
    const std::int32_t y = at.microbatch;
    const bool steady = of_.warmup(x) + y < of_.microbatches;
    const Term own = steady || y == 0 ? ended(whole(x, std::min(of_.warmup(x) + y, of_.microbatches - 1)), 0)
                                      : ended({x, y - 1, false, Part::kWhole}, 0);
    const Term later = x + 1 < of_.stages ? ended({x + 1, y, false, Part::kWhole}, of_.transfer[x]) : Term{};
    const bool held_up = blocking_ && !steady && x > 0 && y > 0;
    return first_of(later, own, held_up ? began({x - 1, y - 1, false, Part::kWhole}) : Term{});
  }

  const Pipeline& of_;
  const RecordedPipeline& recorded_;
  const bool blocking_;
};

}  // namespace

struct RecordedPipeline::Recorder {
  RecordedPipeline& into;

  void forward(std::int32_t x, std::int32_t j, Part part, double begin, double /*end*/) {
    (part == Part::kSecondHalf ? into.second_ : into.forward_)[into.at(x, j)] = begin;
  }
  void backward(std::int32_t x, std::int32_t y, double begin, double /*end*/) { into.backward_[into.at(x, y)] = begin; }
};

void RecordedPipeline::record(const Pipeline& pipeline, PipelineTimes& scratch) {
  microbatches_ = pipeline.microbatches;
  const std::size_t actions = at(pipeline.stages, 0);
  if (forward_.size() < actions) {
    forward_.resize(actions);
    backward_.resize(actions);
  }
  if (pipeline.sliced > 0 && second_.size() < actions) second_.resize(actions);
  Recorder recorder{*this};
  end_ = Recurrences<Recorder>(pipeline, scratch, recorder).run();
}

std::vector<PipelineAction> critical_path(const Pipeline& pipeline, const RecordedPipeline& recorded) {
  std::vector<PipelineAction> path;
  const Walk walk(pipeline, recorded);
  walk.run([&](const Place& place, double begin) {
    path.push_back({place.stage, place.microbatch, place.forward, place.part, begin, begin + walk.length(place)});
  });
  return path;
}

std::int32_t master_stage(const Pipeline& pipeline, const RecordedPipeline& recorded) {
  std::int32_t master = -1;
  double longest = 0;
  double stay = 0;
  std::int32_t stage = -1;
  const auto leave = [&] {
    if (stay > longest || (stay == longest && stay > 0 && stage > master)) {
      longest = stay;
      master = stage;
    }
    stay = 0;
  };
  const Walk walk(pipeline, recorded);
  walk.run([&](const Place& place, double /*begin*/) {
    if (place.stage != stage) leave();
    stage = place.stage;
    const std::int32_t warmup = pipeline.warmup(stage);
    const bool steady = place.forward ? place.microbatch >= warmup : place.microbatch + warmup < pipeline.microbatches;
    if (steady) stay += walk.length(place);
  });
  leave();
  if (master >= 0) return master;
  master = 0;
  for (std::int32_t x = 1; x < pipeline.stages; ++x) {
    const double most = pipeline.forward[master] + pipeline.backward[master];
    if (pipeline.forward[x] + pipeline.backward[x] >= most) master = x;
  }
  return master;
}

}  // namespace trimtab::tuner::autopipe
