#include "native/calibration/time_choice.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace trimtab::tuner {
namespace {

constexpr int kLinearizations = 3;  // of rows, once it is known what is applied
constexpr double kAsGood = 0.9;     // of the largest fall of errors: what is plainer and as good is taken

constexpr std::size_t kCollectives = place(static_cast<std::size_t>(CommunicationClass::kCollectives));
constexpr std::size_t kGradients = place(static_cast<std::size_t>(CommunicationClass::kGradients));
constexpr std::size_t kTransfers = place(static_cast<std::size_t>(CommunicationClass::kTransfers));

constexpr unsigned long long mask(std::initializer_list<std::size_t> parameters) {
  unsigned long long bits = 0;
  for (const std::size_t one : parameters) bits |= 1ULL << one;
  return bits;
}

// What may be applied at once, the plainer first. Two that are wrong against each other are seen together alone.
const std::array<Applied, 14> kSteps{mask({kComputing}),
                                     mask({kCommunication}),
                                     mask({kComputing, kCommunication}),
                                     mask({kGradients}),
                                     mask({kTransfers}),
                                     mask({kCollectives}),
                                     mask({kGradients, kTransfers, kCollectives}),
                                     mask({kComputing, kGradients, kTransfers, kCollectives}),
                                     mask({kOverlapping}),
                                     mask({kBubble}),
                                     mask({kFixed}),
                                     mask({kLaunching}),
                                     mask({kComputing, kLaunching}),
                                     mask({kComputing, kCommunication, kFixed, kCollectives, kGradients, kTransfers})};

constexpr std::array<std::size_t, kTimeParameters> kPrunedFirst{
    kBubble, kOverlapping, kFixed, kCommunication, kCollectives, kTransfers, kGradients, kLaunching, kComputing};

// Of observations that are left out: of their steps, and of what their stages waited for, as shares of the step, where
// that was told.
struct Errors {
  LeftOutErrors steps;
  LeftOutErrors waits;
  double residual = 0;  // of steps, as all of them are fitted
  [[nodiscard]] double of_steps() const { return mean(steps); }
  // The step as a whole, and in its parts.
  [[nodiscard]] double all() const { return mean(steps) + mean(waits); }
};

// What the errors are by chance.
struct Noise {
  double step = 0;
  double wait = 0;
};

// Of left out steps, by more than chance: in all, or in what stages wait for. A step is off by its measurement's noise
// and by what no factor explains.
bool fall(const Errors& before, const Errors& after, const Noise& chance) {
  if (after.of_steps() >= before.of_steps()) return false;
  return falls(before.steps, after.steps, root_of_squares(chance.step, after.residual)) ||
         falls(before.waits, after.waits, chance.wait);
}

// The error that is as good as the least.
double as_good(double before, double least) {
  return before - kAsGood * (before - least);
}

// The rows that a fit sees, and where it begins.
struct Fold {
  TimePrior prior;
  std::vector<TimeRow> rows;
};

class Chooser {
 public:
  explicit Chooser(MeasuredSteps& steps) : steps_(steps), at_(parameters(steps.base())) { linearize(); }

  TimeChoice run() {
    while (step()) {
    }
    settle();
    prune();
    return choice();
  }
  TimeChoice choice() {
    TimeChoice choice{steps_.base(), exact_errors()};
    const TimeFitter fitter(all_.prior, applied_);
    fitter.take(fitter.fit(all_.rows), choice.calibration);
    return choice;
  }

 private:
  // Around where the fit stands.
  void linearize() {
    all_ = fold_of(steps_.base(), steps_.rows(at_));
    without_.clear();
    if (steps_.one_base()) return;
    for (std::size_t i = 0; i < steps_.observations(); ++i) {
      without_.push_back(fold_of(steps_.base_without(i), steps_.rows_without(i, moved(steps_.base_without(i)))));
    }
  }
  static Fold fold_of(const Calibration& base, std::vector<TimeRow> rows) {
    Fold fold;
    fold.prior = prior_of(base, rows);
    fold.rows = std::move(rows);
    set_expected(fold.prior, fold.rows);
    return fold;
  }
  // As far from another base as the fit is from its own.
  [[nodiscard]] TimeSlopes moved(const Calibration& base) const {
    TimeSlopes at = parameters(base);
    const TimeSlopes from = parameters(steps_.base());
    for (std::size_t i = 0; i < kTimeParameters; ++i) at[i] += at_[i] - from[i];
    return at;
  }
  [[nodiscard]] const Fold& fold(std::size_t i) const { return without_.empty() ? all_ : without_[i]; }

  // Of each observation, the fit without it.
  // Of all observations, the residual.
  template <typename Use>
  double leave_out(const Applied& applied, const Use& use) const {
    const TimeFitter of_all(all_.prior, applied);
    const TimeFit near = of_all.fit(all_.rows);
    for (std::size_t i = 0; i < steps_.observations(); ++i) {
      if (without_.empty()) {
        use(i, of_all.fit(all_.rows, i, &near));
        continue;
      }
      use(i, TimeFitter(without_[i].prior, applied).fit(without_[i].rows, i, &near));
    }
    return near.residual;
  }

  // By the rows: near where they are linear.
  [[nodiscard]] Errors errors(const Applied& applied) const {
    Errors all;
    all.residual = leave_out(applied, [&](std::size_t i, const TimeFit& fit) {
      const TimeSlopes at = factors(fit.at);
      double off = 0;
      double waits = 0;
      for (const TimeRow& row : fold(i).rows) {
        if (row.observation != i) continue;
        const double error = std::abs(row.model(at) - row.measured) / steps_.measured_ms(i);
        if (row.is_step) {
          all.steps.push_back(error);
        } else {
          off += error;
          ++waits;
        }
      }
      if (waits > 0) all.waits.push_back(off / waits);
    });
    return all;
  }
  // By the model itself.
  [[nodiscard]] LeftOutErrors exact_errors() const {
    LeftOutErrors all;
    leave_out(applied_, [&](std::size_t i, const TimeFit& fit) {
      all.push_back(std::abs(steps_.predict_without(i, fit.at) / steps_.measured_ms(i) - 1));
    });
    return all;
  }

  // Of measurements.
  [[nodiscard]] Noise noise() const {
    Noise squares;
    double steps = 0;
    double waits = 0;
    for (const TimeRow& row : all_.rows) {
      (row.is_step ? squares.step : squares.wait) += std::pow(row.noise / steps_.measured_ms(row.observation), 2);
      ++(row.is_step ? steps : waits);
    }
    return {std::sqrt(squares.step / steps), std::sqrt(squares.wait / std::max(waits, 1.0))};
  }

  // Applies what lets the errors of left out steps fall most; false where nothing does by more than chance.
  bool step() {
    struct Found {
      Applied applied;
      double error;
    };
    const Errors before = errors(applied_);
    const Noise chance = noise();
    std::vector<Found> found;
    double least = before.all();
    for (const Applied& more : kSteps) {
      const Applied applied = applied_ | more;
      if (applied == applied_) continue;
      const Errors after = errors(applied);
      if (!fall(before, after, chance)) continue;
      found.push_back({applied, after.all()});
      least = std::min(least, after.all());
    }
    if (found.empty()) return false;
    const double enough = as_good(before.all(), least);
    applied_ = std::ranges::find_if(found, [enough](const Found& of) { return of.error <= enough; })->applied;
    refit();
    return true;
  }

  void refit() {
    at_ = TimeFitter(all_.prior, applied_).fit(all_.rows).at;
    linearize();
  }
  void settle() {
    for (int i = 1; i < kLinearizations && applied_.any(); ++i) refit();
  }

  // What came in with others is applied no longer, where the rest is as good.
  void prune() {
    const Applied all = applied_;
    if (all.count() < 2) return;
    const double enough = as_good(errors({}).all(), errors(all).all());
    for (const std::size_t i : kPrunedFirst) {
      Applied fewer = applied_;
      fewer.reset(i);
      if (fewer != applied_ && fewer.any() && errors(fewer).all() <= enough) applied_ = fewer;
    }
    if (applied_ != all) refit();
  }

  MeasuredSteps& steps_;
  Applied applied_;
  TimeSlopes at_;
  Fold all_;
  std::vector<Fold> without_;  // by observation; empty where all are the same
};

}  // namespace

TimeChoice choose_factors(MeasuredSteps& steps) {
  return Chooser(steps).run();
}

TimeChoice stand_still(MeasuredSteps& steps) {
  return Chooser(steps).choice();
}

}  // namespace trimtab::tuner
