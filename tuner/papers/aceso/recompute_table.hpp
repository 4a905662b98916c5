#pragma once

// What recompute of whole name groups costs and saves in any range of the model, from prefix sums over its folded
// places. One table for a setting and a set of groups; immutable once built.

#include <cstdint>
#include <vector>

#include "papers/aceso/folding.hpp"
#include "papers/aceso/tables.hpp"

namespace trimtab::tuner::aceso {

using GroupSet = std::uint64_t;  // a bit for each name group; models of more than 64 names do not use these tables
inline constexpr std::size_t kMaxGroups = 64;

// What tables need of a folding's places, whatever is taken. Immutable once built; any thread.
class RecomputePlaces {
 public:
  RecomputePlaces(const Tables& tables, Folding folding);

  struct Facts {
    GroupSet here = 0;  // taken, one of these has the operator recomputed
    GroupSet next = 0;  // and of these the one behind it
    std::int32_t kind = 0;
    double activation_factor = 0;
    bool keeps_output = false;
    [[nodiscard]] bool recomputed(GroupSet taken) const { return (taken & here) != 0; }
    [[nodiscard]] bool saves(GroupSet taken) const { return (taken & here) != 0 && (taken & next) != 0; }
  };
  [[nodiscard]] const Folding& folding() const { return folding_; }
  [[nodiscard]] const std::vector<Facts>& facts() const { return facts_; }
  // Whether sums and runs over the places are those over all operators: where a run of saved activations ends in every
  // period that the folding leaves out.
  [[nodiscard]] bool serve(GroupSet taken) const;

 private:
  Folding folding_;
  std::vector<Facts> facts_;
};

class RecomputeTable {
 public:
  // `places` must outlive this and be ones that serve() the groups.
  RecomputeTable(const RecomputePlaces& places, const SettingTable& setting, GroupSet taken);

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
  void add_skipped(const Folding::Region& region, Sums& sums, Sums& each) const;

  const Folding& folding_;
  GroupSet taken_;
  std::vector<Sums> sums_;             // by place, and one past the last
  std::vector<Sums> periods_;          // by region: of each period of its middle
  std::vector<std::int32_t> run_end_;  // places
  RangeMax run_;
};

}  // namespace trimtab::tuner::aceso
