#pragma once

// What recompute of whole name groups costs and saves in any range of the model, from prefix sums over the places of a
// model whose repetitions are folded. Immutable once built; any thread.

#include <cstdint>
#include <vector>

#include "papers/aceso/tables.hpp"

namespace trimtab::tuner::aceso {

// Where the operators of a model come again in the same order, so that a stage there is like one elsewhere.
struct Repetition {                     // by operator
  std::vector<std::int32_t> canonical;  // a stage inside one region is like the one that begins here
  std::vector<std::int32_t> region_end;
  std::vector<std::int32_t> period;
};
[[nodiscard]] Repetition find_repetition(const Tables& tables);

using GroupSet = std::uint64_t;  // a bit for each name group; models of more than 64 names do not use these tables
inline constexpr std::size_t kMaxGroups = 64;

// A model with the middle of its repetitions left out: where operators come again in the same order, sums over them
// grow by the same amount each time, so a table needs only a few of the periods. A place stands for an operator, or for
// all the operators of the middle that are alike.
class Folding {
 public:
  // Of a region's places: periods 0, 1 (for all of the middle) and 2, and from there on every operator.
  struct Region {
    std::int32_t base = 0;     // its first place
    std::int32_t period = 1;   // operators
    std::int32_t skipped = 0;  // periods that have no places of their own
    [[nodiscard]] std::int32_t middle() const { return base + period; }
    [[nodiscard]] std::int32_t tail() const { return base + 2 * period; }
  };
  struct Place {
    std::int32_t at = 0;
    std::int32_t skipped = 0;  // periods left out before the operator that sums before `at` do not count
    std::int32_t region = 0;
  };
  struct Range {
    std::int32_t begin = 0, end = 0;
  };
  // What tables need of a place's operator, whatever is taken.
  struct Facts {
    GroupSet here = 0;  // taken, one of these has the operator recomputed
    GroupSet next = 0;  // and of these the one behind it
    std::int32_t kind = 0;
    double activation_factor = 0;
    bool keeps_output = false;
    [[nodiscard]] bool recomputed(GroupSet taken) const { return (taken & here) != 0; }
    [[nodiscard]] bool saves(GroupSet taken) const { return (taken & here) != 0 && (taken & next) != 0; }
  };

  // Of every operator for itself where not `folded`.
  Folding(const Tables& tables, const Repetition& repetition, bool folded);

  [[nodiscard]] const std::vector<Facts>& facts() const { return facts_; }  // by place
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }
  // One past the last operator included.
  [[nodiscard]] const Place& place(std::int32_t op) const { return places_[op]; }
  // Places of the same values as the operators [begin, end), which are not empty.
  [[nodiscard]] Range places_of(std::int32_t begin, std::int32_t end) const;
  // Whether sums and runs over the places are those over all operators: where a run of saved activations ends in every
  // period that the folding leaves out.
  [[nodiscard]] bool serves(GroupSet taken) const;

 private:
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(facts_.size()); }
  void add_region(const Tables& tables, std::int32_t begin, std::int32_t end, std::int32_t period, bool folded);

  std::vector<Region> regions_;
  std::vector<Place> places_;  // by operator, and one past the last
  std::vector<Facts> facts_;
};

// One for a setting and a set of groups.
class RecomputeTable {
 public:
  // `folding` must outlive this and be one that serves() the groups.
  RecomputeTable(const Folding& folding, const SettingTable& setting, GroupSet taken);

  struct Sums {
    double time = 0;   // us of recomputed operators
    double saved = 0;  // MiB
    double back = 0;   // MiB that comes back, the kept checkpoints included
  };
  [[nodiscard]] GroupSet taken() const { return taken_; }
  [[nodiscard]] Sums before(std::int32_t op) const {
    const Folding::Place& place = folding_.place(op);
    const Sums& at = sums_[place.at];
    if (place.skipped == 0 || place.at >= folding_.regions()[place.region].tail()) return at;
    const Sums& each = periods_[place.region];
    return {at.time + place.skipped * each.time, at.saved + place.skipped * each.saved,
            at.back + place.skipped * each.back};
  }
  // The last operator of the run of saved activations that `op` is in; -1 where its activation is not saved.
  [[nodiscard]] std::int32_t run_end(std::int32_t op) const {
    const std::int32_t at = folding_.place(op).at;
    return run_end_[at] < 0 ? -1 : op + run_end_[at] - at;
  }
  // MiB of the run that ends at `op`, from the run's begin.
  [[nodiscard]] double run(std::int32_t op) const { return run_.at(folding_.place(op).at); }
  [[nodiscard]] double largest_run(std::int32_t begin, std::int32_t end) const {
    if (begin >= end) return 0;
    const Folding::Range places = folding_.places_of(begin, end);
    return run_(places.begin, places.end);
  }

 private:
  const Folding& folding_;
  GroupSet taken_;
  std::vector<Sums> sums_;             // by place, and one past the last
  std::vector<Sums> periods_;          // by region: of each period of its middle
  std::vector<std::int32_t> run_end_;  // places
  RangeMax run_;
};

}  // namespace trimtab::tuner::aceso
