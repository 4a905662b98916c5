#pragma once

// Measured overlap slowdowns of one thing over its size (bytes, or a stand-in's channels), pooled and by the class of
// the computation. Built once; plain values.

#include <array>
#include <span>

#include "schema/statistics.hpp"

namespace trimtab::tuner {

// What kinds of kernels an operator is made of, by its kind: overlap slowdowns are measured by the kernels' class.
// Pure.

// As agents and benchmarks name them (docs/protocols.md, "Cost kinds").
enum class KernelClass : std::uint8_t { kGemm, kAttention, kNormalization, kElementwise, kOther };
inline constexpr std::size_t kKernelClasses = 5;
[[nodiscard]] std::optional<KernelClass> kernel_class_named(std::string_view name);

enum class ComputationKind : std::uint8_t { kProducts, kAttention, kNormalization, kElementwise, kLookup, kUnknown };
inline constexpr std::size_t kComputationKinds = 6;

// Of an operator of this kind ("attention", "mlp", ...): the first of a list of words that its kind contains.
[[nodiscard]] ComputationKind computation_of(std::string_view operator_kind);

// The classes that such an operator spends its time in; none = nobody knows.
[[nodiscard]] std::span<const KernelClass> classes_of(ComputationKind kind);

struct MeasuredSlowdown {
  double factor = 1;
  double error = 0;        // standard error
  std::int32_t cost = -1;  // the number of the cost that says most of it
};

// Of values at several sizes, linear in the logarithm of the size between neighbours.
class SlowdownCurve {
 public:
  // `statistics` in ppm, not empty; `cost`: whose they are. Size 0 = not known.
  void add(std::int64_t size, const Statistics& statistics, std::int32_t cost);
  // Sizes with fewer values are forgotten.
  void require(double values);

  [[nodiscard]] bool empty() const { return points_.empty(); }
  // From sizes within a factor of four (two of the powers of two that agents round to); nothing where there are none.
  [[nodiscard]] std::optional<MeasuredSlowdown> near(std::int64_t size) const;
  // From the nearest sizes, however far; from those of unknown size where there are no others.
  [[nodiscard]] std::optional<MeasuredSlowdown> nearest(std::int64_t size) const;
  // The mean of all sizes, one of which it is; the error says how far they lie apart.
  [[nodiscard]] std::optional<MeasuredSlowdown> mean_of_sizes() const;

 private:
  friend class ClassedSlowdowns;
  // Values of several costs as one, weighted by their number.
  struct Pool {
    double count = 0;
    double mean = 0;
    double squares = 0;  // of differences from the mean
    double most = 0;     // values of `cost`
    std::int32_t cost = -1;
    void add(double values, double their_mean, double their_squares, std::int32_t of);
    [[nodiscard]] MeasuredSlowdown slowdown() const;
  };
  [[nodiscard]] std::optional<MeasuredSlowdown> between(std::int64_t size, double reach) const;

  std::map<std::int64_t, Pool> points_;
};

// By class: the five of kernels, "mixed" (a communication beside several in turn), and none said (a benchmark's, beside
// a whole operator; or two communications at once).
class ClassedSlowdowns {
 public:
  void add(std::string_view kernel_class, std::int64_t size, const Statistics& statistics, std::int32_t cost);
  // To be called when all is added. Sizes with fewer than `values` values, of a class or of all, are forgotten.
  void settle(double values);

  enum class Reach : std::uint8_t { kNear, kNearest, kAnySize };
  // Beside such a computation: of the classes that it is made of, as far as measured. Half of it is taken to be of
  // either of two classes; that this is not known is in the error. `of_communication`: a communication advances at
  // 1 / beta of its speed, so that of two classes the harmonic mean counts.
  [[nodiscard]] std::optional<MeasuredSlowdown> of_kind(ComputationKind kind, std::int64_t size, Reach reach,
                                                        bool of_communication) const;
  // Whatever the class: as mixed where that was seen, else the classes' mean, one of which it is; their differences are
  // in the error.
  [[nodiscard]] std::optional<MeasuredSlowdown> of_any(std::int64_t size, Reach reach) const;
  // Where no class was said.
  [[nodiscard]] std::optional<MeasuredSlowdown> unclassed(std::int64_t size, Reach reach) const;

 private:
  static constexpr std::size_t kMixed = kKernelClasses;
  static constexpr std::size_t kUnclassed = kKernelClasses + 1;
  [[nodiscard]] static std::optional<MeasuredSlowdown> read(const SlowdownCurve& curve, std::int64_t size, Reach reach);

  std::array<SlowdownCurve, kKernelClasses + 2> classes_;
  SlowdownCurve any_;
};

}  // namespace trimtab::tuner
