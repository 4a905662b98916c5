#pragma once

// What looks at a job's hardware have said since it was last known to have changed. A single probe on a busy machine
// may be off by any factor, mostly because others were in its way; so little is asked of its distribution. Something
// has changed when each of the latest looks lies beyond every one of those before them, by a tenth at least and by more
// than those scatter; or when all of many looks are so much faster than what is known. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tuning/hardware/diagnosis.hpp"

namespace trimtab::coordinator {

class LookHistory {
 public:
  // As many looks must agree, beside as many before them. On noise recorded on a machine whose two cores had four to
  // ten programs to run, links are called faster by 1 % of looks at most (tests/coordinator/recorded_probes).
  static constexpr std::size_t kAgreeing = 3;
  static constexpr std::size_t kLeastBefore = 4;

  // From here on the hardware is as these say, or as the next looks do.
  void begin_anew(const std::vector<Probe>& probes = {});
  void add(const std::vector<Probe>& probes);
  // What has changed, the largest change first; `known`: what one probe of each has said. A finding's probe has the
  // median of the looks that agree. What changed between looks is told once.
  [[nodiscard]] std::vector<Finding> take_changes(const std::vector<Probe>& known);
  // The latest look alone, or with one before it, finds something faster: another one now may make it sure.
  [[nodiscard]] bool may_be_faster() const;
  // A single probe that is no further off than a look mostly is from the one before it.
  [[nodiscard]] bool is_usual(const Finding& finding) const;

 private:
  enum class Of { kPlain, kWhole, kRoundTrip };
  using Subject = std::tuple<std::int32_t, std::string, std::string, std::string, std::string, Of>;
  struct Series {
    std::vector<double> log_ms;  // the latest last
    Probe latest;
  };
  void add(const Probe& probe, Of of, double ms);
  [[nodiscard]] static Subject subject_of(const Probe& probe, Of of);
  [[nodiscard]] static Finding finding_of(const Series& series, Of of, double before, double now);
  [[nodiscard]] static std::optional<Finding> between_looks(Series& series, Of of);
  [[nodiscard]] static std::optional<Finding> faster_than_known(const Series& series, Of of, const Probe& known);
  std::map<Subject, Series> series_;
};

}  // namespace trimtab::coordinator
