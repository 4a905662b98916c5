#include "tuning/change/checkpoints.hpp"

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "base/units.hpp"

namespace trimtab::coordinator {
namespace {

// An agent looks at the checkpoint every 50 ms, and steps are told as they end: what is noticed began so long ago at
// most.
constexpr double kNoticedWithinMs = 150;

std::string steps_words(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " step" : " steps");
}

std::string words_of(const CopyPrice& price) {
  const std::string files = std::to_string(price.files) + (price.files == 1 ? " file" : " files");
  const std::string where = price.store.empty() ? "" : " of the object store " + price.store;
  const std::string takes = " takes about " + format_ms(price.ms);
  return format_bytes(price.bytes) + " in " + files + where + takes + (price.shared ? " and no room" : "");
}

}  // namespace

bool Checkpoints::take(std::int32_t rank, const RankSaved& saved) {
  const TuningState& state = view_.state;
  if (!saved.restless.empty()) {
    tell_restless(state.node_of(rank), saved.restless);
    return false;
  }
  if (!saved.whole) {
    if (!writing_since_) writing_since_ = state.step;
    whole_on_.clear();
    prices_.clear();
    return false;
  }
  whole_on_.insert(state.node_of(rank));
  if (saved.copy) prices_[state.node_of(rank)] = *saved.copy;
  const bool everywhere =
      std::ranges::all_of(state.nodes, [&](const NodeShare& share) { return whole_on_.contains(share.node); });
  if (!everywhere) return false;
  whole_at_ = state.step;
  whole_since_ = std::exchange(writing_since_, std::nullopt).value_or(state.step);
  whole_on_.clear();
  take_prices();
  return true;
}

void Checkpoints::tell_restless(const std::string& node, const std::string& file) {
  if (std::exchange(restless_, true)) return;
  out_.note("warning", "no checkpoint in " + view_.state.job.checkpoint +
                           " is seen as whole: its files have changed for a minute without a rest, on node " + node +
                           " " + file + " last. Trials wait for one. If that file is none of a checkpoint, name the " +
                           "folder of checkpoints alone as the job's checkpoint");
}

void Checkpoints::take_prices() {
  if (prices_.empty()) return;
  const auto longest = std::ranges::max_element(prices_, {}, [](const auto& one) { return one.second.ms; });
  record_.copy_ms = longest->second.ms;
  record_.copy_words = words_of(longest->second);
  record_.copy_refused.clear();
  for (const auto& [node, price] : std::exchange(prices_, {})) {
    if (!price.refused.empty()) record_.copy_refused = "on node " + node + " " + price.refused;
  }
  out_.changed = true;
}

std::string Checkpoints::price_copy() {
  const bool told = record_.copy_words.empty() || std::exchange(priced_, true);
  if (!told) {
    out_.note("ranks", "what each launch of a trial copies of the checkpoint in " + view_.state.job.checkpoint + ": " +
                           record_.copy_words);
  }
  return record_.copy_refused;
}

bool Checkpoints::may_stop() const {
  return record_.saves_at_stop || (whole_at_ >= 0 && view_.state.step == whole_at_);
}

void Checkpoints::announce() {
  if (std::exchange(announced_, true)) return;
  const TuningState& state = view_.state;
  const std::string risk = record_.stops > 0
                               ? ""
                               : ". At risk until it has gone on from there once: all " + steps_words(state.step + 1) +
                                     " so far, should it not resume from it";
  out_.note("ranks", "a trial waits for the job's next checkpoint in " + state.job.checkpoint +
                         ": the job is stopped just after that" + risk);
}

void Checkpoints::stop() {
  const std::int64_t step = view_.state.step;
  record_.stopped_step = step;
  record_.saved_step = record_.saves_at_stop ? -1 : whole_since_;
  ++record_.stops;
  announced_ = false;
  if (record_.saves_at_stop) return;
  out_.note("ranks", "the job is stopped after step " + std::to_string(step) + ", just after its checkpoint of step " +
                         std::to_string(whole_since_));
}

void Checkpoints::stopped() {
  if (record_.stopped_step >= 0) record_.stopped_step = std::max(record_.stopped_step, view_.state.step);
}

std::string Checkpoints::judge(std::int64_t first_step) {
  if (record_.stopped_step < 0 || !record_.refused.empty()) return "";
  const std::int64_t stopped = record_.stopped_step;
  if (first_step > stopped) {
    // Where the checkpoint is of that very step, nobody knows whether another was saved at the end.
    if (record_.saved_step >= 0 && record_.saved_step < stopped) record_.saves_at_stop = true;
    return "";
  }
  const double step_ms = view_.state.incumbent_measured.mean_ms;
  const auto noticed_late = step_ms > 0 ? static_cast<std::int64_t>(kNoticedWithinMs / step_ms) : 0;
  const bool from_own = record_.saved_step >= 0 && first_step + noticed_late >= record_.saved_step;
  if (from_own) return "";
  const std::int64_t expected = record_.saved_step >= 0 ? record_.saved_step : stopped;
  record_.refused = "the job does not go on from its checkpoint in " + view_.state.job.checkpoint + ": after step " +
                    std::to_string(expected) + " came step " + std::to_string(first_step) +
                    ". It is not stopped for a trial any more, and runs on";
  out_.changed = true;
  out_.note("warning", record_.refused);
  return record_.refused;
}

void Checkpoints::resumed(std::int64_t first_step) {
  if (record_.stopped_step < 0) return;
  const std::string why = judge(first_step);
  const std::int64_t again = std::exchange(record_.stopped_step, -1) + 1 - first_step;
  out_.changed = true;
  if (again > 0) {
    out_.note("warning", "the job went on at step " + std::to_string(first_step) + ": " + steps_words(again) +
                             (again == 1 ? " is" : " are") + " trained again");
  }
}

void Checkpoints::forget() {
  writing_since_.reset();
  whole_on_.clear();
  prices_.clear();
  whole_at_ = whole_since_ = -1;
}

}  // namespace trimtab::coordinator
