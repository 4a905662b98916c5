#pragma once

// A measured quantity over one axis (samples or bytes): exact at its points, linear between neighbours, and nothing
// outside of them unless the caller takes an estimate. Plain values.

#include <array>

#include "schema/model.hpp"
#include "tuner/cost_choice.hpp"

namespace trimtab::tuner {

enum class Quality : std::uint8_t { kMeasured, kEstimated, kMissing };

struct Value {
  double mean = 0;
  double error = 0;  // standard error of the mean
  Quality quality = Quality::kMissing;
  double spread = 0;  // standard deviation of one measurement; 0 where only one is known, or none
};

// The mean, its standard error and the spread in units of `unit`. One value alone says nothing of its spread: 5 % is
// taken then.
[[nodiscard]] Value measured(const Statistics& statistics, double unit);
// The same of a chosen cost: corrected, and less sure by how far the correction may be off. What training saw, or a
// disturbed machine measured, is its median: a few values of theirs are others' doing.
[[nodiscard]] Value measured(const ChosenCost& cost, double unit);

class Curve {
 public:
  Curve() = default;
  Curve(const std::map<std::int64_t, Statistics>& points, double unit);
  explicit Curve(const std::map<std::int64_t, Value>& points);

  [[nodiscard]] bool empty() const { return points_.empty(); }
  // kMissing outside of the measured points.
  [[nodiscard]] Value at(std::int64_t x) const;
  // The same, and beyond the first and last point, as far as this ratio of theirs, those in proportion, less sure by as
  // much as that is.
  [[nodiscard]] Value around(std::int64_t x, double ratio) const;
  // The nearest point scaled in proportion, with a standard error of 20 %. REQUIRES: !empty().
  [[nodiscard]] Value nearest(std::int64_t x) const;
  // A time of so many samples, outside of the points. Below them the line through the two lowest: what does not depend
  // on x stays. Above them in proportion to the highest: no better rate than what was measured. Never less than in
  // proportion; 20 % of standard error for each doubling away. REQUIRES: !empty().
  [[nodiscard]] Value of_samples(std::int64_t x) const;
  // A time of so many bytes on the wire. Outside of the points the line through the two nearest, which is a latency and
  // a bandwidth; of one point, in proportion. The error reaches what the other way would say. REQUIRES: !empty().
  [[nodiscard]] Value of_bytes(std::int64_t x) const;
  // The place of the point nearest to x. REQUIRES: !empty().
  [[nodiscard]] std::int64_t nearest_point(std::int64_t x) const { return closest(x).x; }
  // The only point's place, else 0.
  [[nodiscard]] std::int64_t only_point() const { return points_.size() == 1 ? points_.front().x : 0; }

 private:
  struct Point {
    std::int64_t x = 0;
    Value value;
  };
  // The line through the two lowest points or the two highest; in proportion where there is one.
  [[nodiscard]] double on_line(std::int64_t x) const;
  [[nodiscard]] const Point& closest(std::int64_t x) const;
  std::vector<Point> points_;  // ascending in x
};

// The measured costs of a model's operators as curves over samples, by cost key, tensor-parallel degree and sharding
// choice. Plain values.

// In the order of the cost kinds from kOperatorForward on.
enum class OperatorPart : std::uint8_t {
  kForward,
  kBackward,
  kStored,
  kWorking,
  kInput,
  kOutput,
  kParameters,
  kForwardReserve,
  kBackwardReserve,
};
inline constexpr std::size_t kOperatorParts = 9;

struct OperatorCurves {
  std::array<Curve, kOperatorParts> of_part;
  [[nodiscard]] const Curve& operator[](OperatorPart part) const { return of_part[static_cast<std::size_t>(part)]; }
};

// An update of parameters: what was measured here, else what is taken over.
struct MeasuredUpdate {
  Statistics here;
  Value taken_over;

  void add(const ChosenCost& cost);
  [[nodiscard]] bool empty() const { return here.empty() && taken_over.quality == Quality::kMissing; }
  [[nodiscard]] Value ms() const;
};

// One cost key's.
struct MeasuredOperator {
  std::map<std::pair<std::int32_t, bool>, OperatorCurves> at;              // (tp, alternate)
  std::map<std::pair<std::int32_t, std::string>, OperatorCurves> sharing;  // sequences: (tp, sharding)
  MeasuredUpdate optimizer;
  MeasuredUpdate host_optimizer;  // of an update on the host

  // nullptr where nothing was measured.
  [[nodiscard]] const OperatorCurves* find(std::int32_t tp, bool alternate) const {
    const auto found = at.find({tp, alternate});
    return found == at.end() ? nullptr : &found->second;
  }
};

// By cost key; each of the model's has an entry. Costs in another dtype do not count.
[[nodiscard]] std::map<std::string, MeasuredOperator> measured_operators(const Model& model,
                                                                         const std::vector<ChosenCost>& costs);

}  // namespace trimtab::tuner
