#pragma once

// What parts of a rank's or a stage's step terms (schema/prediction.hpp) were for, as a device's records tell; ms, of a
// step. Nothing = not known. Plain values. Pure.

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

namespace trimtab::coordinator {

struct TermParts {
  std::optional<double> own_ms = std::nullopt;           // of computation: collectives inside passes
  std::optional<double> bubble_ms = std::nullopt;        // of transfers: the other stage was not there yet
  std::optional<double> launch_bound_ms = std::nullopt;  // of idle: the host handed out too late
  std::optional<double> data_ms = std::nullopt;          // of idle: the next batch was awaited

  [[nodiscard]] bool known() const { return own_ms || bubble_ms || launch_bound_ms || data_ms; }
  bool operator==(const TermParts&) const = default;

  template <typename Visit>
  static void each(const Visit& visit) {
    visit("own_ms", &TermParts::own_ms);
    visit("bubble_ms", &TermParts::bubble_ms);
    visit("launch_bound_ms", &TermParts::launch_bound_ms);
    visit("data_ms", &TermParts::data_ms);
  }
};

// Their mean: of each part only where all told it.
class MeanParts {
 public:
  void add(const TermParts& parts) {
    std::size_t i = 0;
    TermParts::each([&](const char*, auto part) { sums_[i++].add(parts.*part); });
    ++count_;
  }
  [[nodiscard]] TermParts mean() const {
    TermParts mean;
    std::size_t i = 0;
    TermParts::each([&](const char*, auto part) {
      const Sum& sum = sums_[i++];
      if (count_ > 0 && sum.told == count_) mean.*part = sum.ms / count_;
    });
    return mean;
  }

 private:
  struct Sum {
    double ms = 0;
    std::int32_t told = 0;
    void add(const std::optional<double>& one) {
      ms += one.value_or(0);
      told += one ? 1 : 0;
    }
  };
  std::array<Sum, 4> sums_;
  std::int32_t count_ = 0;
};

}  // namespace trimtab::coordinator
