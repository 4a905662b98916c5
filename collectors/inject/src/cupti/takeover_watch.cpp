#include "takeover_watch.hpp"

#include <algorithm>

namespace trimtab::inject::cupti {

bool TakeoverWatch::stranded_long(const WatchSample& sample) {
  if (!sample.stranded) {
    stranded_ns_ = 0;
    return false;
  }
  if (stranded_ns_ == 0) stranded_ns_ = sample.now_ns;
  return sample.now_ns - stranded_ns_ >= options_.stranded_after_ns;
}

// A job that has launched kernels all along goes on, but no kernel comes and no buffer is wanted.
bool TakeoverWatch::quiet_long(const WatchSample& sample) const {
  return last_.kernels != 0 && sample.requested == last_.requested &&
         sample.progress - last_.progress >= options_.quiet_progress &&
         sample.now_ns - last_.now_ns >= options_.quiet_after_ns;
}

bool TakeoverWatch::evidence(const WatchSample& sample) {
  const bool foreign = sample.foreign - foreign_ >= options_.foreign_records;
  foreign_ = sample.foreign;
  const bool stranded = stranded_long(sample);
  if (sample.kernels != last_.kernels) last_ = sample;
  if (foreign || sample.kinds_gone) {
    suspected_ns_ = sample.now_ns;
    return true;
  }
  if (stranded) suspected_ns_ = stranded_ns_;
  const bool quiet = quiet_long(sample);
  if (quiet && !stranded) suspected_ns_ = last_.now_ns;
  return stranded || quiet;
}

void TakeoverWatch::paused(const WatchSample& sample) {
  last_ = sample;
  stranded_ns_ = 0;
}

TakeoverWatch::Action TakeoverWatch::next_phase(const WatchSample& sample, std::uint64_t steps) {
  const bool quiet = sample.kernels != 0 && sample.kernels == phase_.kernels && sample.requested == phase_.requested;
  if (!quiet) phase_ = sample;
  phase_steps_ = quiet ? phase_steps_ + steps : 0;
  if (phase_steps_ < options_.quiet_steps) return Action::kNone;
  suspected_ns_ = phase_.now_ns;
  return leave(sample.now_ns);
}

TakeoverWatch::Action TakeoverWatch::leave(std::uint64_t now_ns) {
  if (state_ == State::kTrial) back_off_ns_ = std::min(2 * back_off_ns_, options_.longest_back_off_ns);
  state_ = State::kForeign;
  until_ns_ = now_ns + back_off_ns_;
  return Action::kBackOff;
}

void TakeoverWatch::taken(std::uint64_t now_ns, bool recording) {
  state_ = State::kForeign;
  suspected_ns_ = now_ns;
  until_ns_ = recording ? UINT64_MAX : now_ns + options_.back_off_ns;
}

void TakeoverWatch::stopped(std::uint64_t now_ns) {
  if (state_ == State::kForeign) until_ns_ = now_ns + options_.back_off_ns;
}

void TakeoverWatch::given_back(std::uint64_t now_ns) {
  if (state_ == State::kForeign) until_ns_ = now_ns;
}

TakeoverWatch::Action TakeoverWatch::come_back(const WatchSample& sample) {
  state_ = State::kTrial;
  until_ns_ = sample.now_ns + options_.trial_ns;
  stranded_ns_ = 0;
  phase_ = {};
  phase_steps_ = 0;
  last_ = sample;
  return Action::kReturn;
}

TakeoverWatch::Action TakeoverWatch::look(const WatchSample& sample) {
  if (!started_) {
    started_ = true;
    last_ = sample;
  }
  if (state_ == State::kForeign) {
    foreign_ = sample.foreign;
    return sample.now_ns >= until_ns_ ? come_back(sample) : Action::kNone;
  }
  if (evidence(sample)) return leave(sample.now_ns);
  if (state_ == State::kTrial && sample.now_ns >= until_ns_) {
    state_ = State::kOurs;
    back_off_ns_ = options_.back_off_ns;
  }
  return Action::kNone;
}

}  // namespace trimtab::inject::cupti
