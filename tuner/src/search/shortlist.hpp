#pragma once

// The best plans of a search so far, without repeats and without excluded ones. Plain state; one per search.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "pricing/evaluator.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

class Shortlist {
 public:
  // `distinct`: of plans that differ in recompute alone, by less than this share of time, only the fastest is kept.
  Shortlist(std::size_t capacity, const std::vector<std::string>& excluded, double distinct = 0)
      : capacity_(capacity == 0 ? 1 : capacity), excluded_(excluded.begin(), excluded.end()), distinct_(distinct) {}

  // Whether a plan of this score would be taken.
  [[nodiscard]] bool wants(const Score& score) const {
    return score.fits() && (entries_.size() < capacity_ || score.ms < entries_.back().ms);
  }
  // False when the plan is excluded; a repeat and a near copy of a faster one are ignored.
  bool add(const Score& score, Plan plan);
  // Adds all plans of another one.
  void merge(const Shortlist& other);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] double best_ms() const;  // infinite when empty
  [[nodiscard]] bool excludes_any() const { return !excluded_.empty(); }
  [[nodiscard]] std::vector<Plan> plans() const;  // best first

 private:
  struct Entry {
    double ms = 0;
    std::string hash;
    Plan plan;
    Plan layout;  // only where near copies matter
  };
  [[nodiscard]] bool near(const Entry& faster, const Entry& slower) const;

  std::size_t capacity_;
  std::set<std::string> excluded_;
  double distinct_;
  std::vector<Entry> entries_;  // ascending in ms; equal times in order of arrival
};

}  // namespace trimtab::tuner
