#pragma once

// Reads sources at a period. Each source has a thread of its own, so that one that hangs (a driver's lock, a network
// card's firmware) stops only itself: it becomes `stalled`, its samples are no longer given, and its thread is left
// behind when the sampler goes.

#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "host/source.hpp"

namespace trimtab::host {

enum class SourceState { kWaiting, kGood, kFailed, kStalled };

struct SourceReport {
  std::string source;
  SourceState state = SourceState::kWaiting;
  std::string message;  // why it failed, or since when it hangs
};

class Sampler final {
 public:
  // `clock` must outlive the sampler. A source whose read takes longer than three periods (at least 10 s) is stalled.
  Sampler(std::vector<std::unique_ptr<Source>> sources, Nanoseconds period, const Clock& clock);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // The newest samples of all sources that are well, and of every source whether it is (trimtab_host_source_...).
  // Never waits for a source.
  [[nodiscard]] Samples samples() const;

  // How each source is, in the order of the sources; for doctor.
  [[nodiscard]] std::vector<SourceReport> reports() const;
  // Those whose state has changed since the last call: one line for a log, not one for each period.
  [[nodiscard]] std::vector<SourceReport> changes();

  // Has every source read once more, and waits for that at most `limit`. False when one has not come back.
  bool refresh(Nanoseconds limit);

 private:
  class Lane;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::vector<SourceState> told_;
};

}  // namespace trimtab::host
