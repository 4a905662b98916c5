#pragma once

// A job's verdict card while the job runs, and as it is kept: folded in memory from what ranks tell, stored now and
// then, so that a coordinator that was started anew shows the former card until it has heard enough by itself. Pure:
// whoever owns it stores. Event loop's thread only.

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "card/card_fold.hpp"
#include "tuning/hardware/diagnosis.hpp"

namespace trimtab::coordinator {

class JobCard {
 public:
  static constexpr Nanoseconds kPeriod = std::chrono::seconds(30);
  // Of a fold that began in the middle of a job.
  static constexpr std::int64_t kEnough = 20;

  // `kept`: the card that was stored; empty = none.
  JobCard(std::string job, std::int32_t world_size, std::string kept)
      : fold_(std::move(job), world_size), kept_(std::move(kept)), goes_on_(!kept_.empty()) {}

  // `fingerprint_json`: what its node is, as its agent says. One that cannot be read is not named.
  void connected(std::int32_t rank, const std::string& node, std::uint64_t launch,
                 const std::string& fingerprint_json = "");
  void step(std::int32_t rank, const CardStep& step);
  [[nodiscard]] Status facts(std::int32_t rank, const std::string& facts_json);
  // `unknown_cupti`: no kernel of it can be recorded.
  void activity(std::int32_t rank, const api::LiveRank& activity, bool unknown_cupti) {
    fold_.activity(rank, activity, unknown_cupti);
  }

  // A look at the links between nodes; `first`: the look that came first under this job.
  void probed(const std::vector<Probe>& probes, const std::vector<Probe>& first);

  // An api::Card; empty where there is none yet.
  [[nodiscard]] std::string json() const;
  // What is to be stored now; nothing where nothing has changed, or not for long enough.
  [[nodiscard]] std::optional<std::string> next_to_keep(Nanoseconds now, bool is_over);

 private:
  CardFold fold_;
  std::string kept_;
  bool goes_on_;          // from a former coordinator's
  bool told_ = false;     // of a step, since it was stored last
  bool has_any_ = false;  // the fold has a step
  std::optional<Nanoseconds> stored_at_;
};

}  // namespace trimtab::coordinator
