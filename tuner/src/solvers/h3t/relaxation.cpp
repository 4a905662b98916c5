#include "solvers/h3t/relaxation.hpp"

namespace trimtab::tuner::h3t {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double real(std::int64_t whole) {
  return static_cast<double>(whole);
}

// What the priced path breaks and by how much: the direction in which prices rise.
struct Violations {
  std::vector<double> memory;
  double hidden = 0;
  std::vector<Ticks> lags;  // after each layer
  Label end;
  bool fits = false;
};

Violations violations_of(const StepProgram& program, const Relaxation& relaxation) {
  Violations of;
  Label label = label_of(program.starts()[relaxation.start()]);
  Bytes residents = 0;
  const std::vector<const Transition*> path = relaxation.path();
  for (const Transition* by : path) residents += by->resident;
  Ticks lag = 0;
  Bytes resident_here = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto layer = static_cast<std::int32_t>(i);
    const Bytes peak = label.level - resident_here + residents + path[i]->peak;
    of.memory.push_back(real(peak - program.device_limit()));
    lag = (i == 0 ? 0 : std::max<Ticks>(lag - program.optimizer(layer), 0)) + path[i]->write_back;
    of.lags.push_back(lag);
    label = extended(program, layer, label, *path[i]);
    resident_here += path[i]->resident;
  }
  of.hidden = program.host_matters() ? real(label.hidden - program.hidden_limit()) : 0;
  of.end = label;
  of.fits = label.peak <= program.device_limit() && of.hidden <= 0;
  return of;
}

Switching switching_of(const std::vector<const Transition*>& path) {
  Switching switching;
  for (const Transition* by : path) switching.push_back(switches_of(by->code));
  return switching;
}

Prices scaled(Prices prices, double factor) {
  for (double& price : prices.memory) price *= factor;
  prices.hidden *= factor;
  return prices;
}

class Subgradient {
 public:
  Subgradient(const StepProgram& program, Ticks known_ticks) : program_(program), known_(real(known_ticks)) {
    prices_.memory.assign(static_cast<std::size_t>(program.layers()), 0);
    prices_.lag.assign(static_cast<std::size_t>(program.layers()), 0);
  }

  void run(std::int32_t rounds, const std::function<bool()>& stop, RelaxedStep& out) {
    double step = 1;
    std::int32_t without_gain = 0;
    for (std::int32_t round = 0; round < rounds && !stop(); ++round) {
      Relaxation relaxation(program_, prices_);
      ++out.paths;
      const Violations of = violations_of(program_, relaxation);
      keep_path(relaxation, of, out);
      const double bound = relaxation.bound();
      if (best_.empty() || bound > best_.front().bound()) {
        best_.insert(best_.begin(), std::move(relaxation));
        without_gain = 0;
      } else if (++without_gain == 4) {
        step /= 2;
        without_gain = 0;
        prices_ = best_.front().prices();
        if (step < 1e-4) break;
      }
      if (!move(of, step * std::max(known_ - bound, 1e-4 * known_))) break;
    }
  }

  [[nodiscard]] const std::vector<Relaxation>& best() const { return best_; }

 private:
  void keep_path(const Relaxation& relaxation, const Violations& of, RelaxedStep& out) {
    if (!of.fits) return;
    const Ticks ticks = whole_ticks(program_, of.end);
    if (!out.path.empty() && out.path_ticks <= ticks) return;
    out.path = switching_of(relaxation.path());
    out.path_ticks = ticks;
    known_ = std::min(known_, real(ticks));
  }

  // False where nothing is broken and nothing is priced: the bound is the answer.
  bool move(const Violations& of, double distance) {
    double norm = 0;
    for (std::size_t i = 0; i < of.memory.size(); ++i) {
      if (of.memory[i] > 0 || prices_.memory[i] > 0) norm += of.memory[i] * of.memory[i];
    }
    if (of.hidden > 0 || prices_.hidden > 0) norm += of.hidden * of.hidden;
    for (std::size_t i = 1; i < of.lags.size(); ++i) {
      prices_.lag[i] = of.lags[i - 1] > program_.optimizer(static_cast<std::int32_t>(i)) ? 1 : 0;
    }
    if (norm <= 0) return std::exchange(lags_settled_, true) == false;
    const double length = distance / norm;
    for (std::size_t i = 0; i < of.memory.size(); ++i) {
      prices_.memory[i] = std::max(0.0, prices_.memory[i] + length * of.memory[i]);
    }
    prices_.hidden = std::max(0.0, prices_.hidden + length * of.hidden);
    return true;
  }

  const StepProgram& program_;
  double known_;
  Prices prices_;
  bool lags_settled_ = false;
  std::vector<Relaxation> best_;
};

}  // namespace

Relaxation::Relaxation(const StepProgram& program, Prices prices) : program_(&program), prices_(std::move(prices)) {
  solve();
}

double Relaxation::cost(std::int32_t layer, const Transition& of) const {
  return real(of.ticks) + total_ * real(of.resident) + prices_.memory[layer] * real(of.peak) +
         weights_[layer + 1].level * real(of.kept) + prices_.hidden * real(of.host) +
         weights_[layer].lag * real(of.write_back);
}

void Relaxation::solve() {
  const std::int32_t layers = program_->layers();
  weights_.assign(static_cast<std::size_t>(layers) + 1, {});
  rest_.assign(static_cast<std::size_t>(layers) + 1, {});
  weights_[layers].lag = 1;
  for (std::int32_t i = layers - 1; i >= 0; --i) {
    weights_[i].level = weights_[i + 1].level + prices_.memory[i];
    weights_[i].lag = weights_[i + 1].lag * (i + 1 < layers ? prices_.lag[i + 1] : 1);
  }
  total_ = weights_[0].level;
  for (std::int32_t i = 0; i <= layers; ++i) weights_[i].peak = total_ - weights_[i].level;
  double end = real(program_->optimizer_sum()) - total_ * real(program_->device_limit());
  if (program_->host_matters()) end -= prices_.hidden * real(program_->hidden_limit());
  rest_[layers].fill(end);
  for (std::int32_t i = layers - 1; i >= 0; --i) {
    const double overlapped = i + 1 < layers ? weights_[i].lag * real(program_->optimizer(i + 1)) : 0;
    for (std::int32_t s = 0; s < kStates; ++s) {
      double best = kNever;
      for (const Transition& of : program_->of(i)[s]) {
        best = std::min(best, cost(i, of) + rest_[i + 1][of.next]);
      }
      rest_[i][s] = best - overlapped;
    }
  }
  bound_ = kNever;
  for (std::int32_t s = 0; s < 2; ++s) {
    const double of = bound(0, s, label_of(program_->starts()[s]));
    if (of < bound_) start_ = s;
    bound_ = std::min(bound_, of);
  }
}

std::vector<const Transition*> Relaxation::path() const {
  std::vector<const Transition*> path;
  std::int32_t state = start_;
  for (std::int32_t i = 0; i < program_->layers(); ++i) {
    const Transition* best = nullptr;
    double least = kNever;
    for (const Transition& of : program_->of(i)[state]) {
      const double through = cost(i, of) + rest_[i + 1][of.next];
      if (through < least) best = &of;
      least = std::min(least, through);
    }
    path.push_back(best);
    state = best->next;
  }
  return path;
}

RelaxedStep relax(const StepProgram& program, Ticks known_ticks, std::int32_t rounds,
                  const std::function<bool()>& stop) {
  RelaxedStep out;
  Subgradient search(program, known_ticks);
  search.run(rounds, stop, out);
  if (search.best().empty()) return out;
  const Relaxation& best = search.best().front();
  out.bounds.push_back(best);
  // Paths that have spent more or less than the relaxed one are bounded better by other prices.
  for (const double factor : {0.9, 1.1, 0.75, 1.3, 0.5, 2.0, 0.0}) {
    out.bounds.emplace_back(program, scaled(best.prices(), factor));
    ++out.paths;
  }
  return out;
}

}  // namespace trimtab::tuner::h3t
