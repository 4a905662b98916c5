#include "host/sampler.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/units.hpp"
#include "sources/sources.hpp"

namespace trimtab::host {

namespace {

constexpr Nanoseconds kLeastStall = std::chrono::seconds(10);

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

// One source with its thread, which shares the lane: a thread that hangs keeps what it uses. The clock is asked only
// while `stop_` is not set, which the sampler waits for under the lock.
class Sampler::Lane final : public std::enable_shared_from_this<Sampler::Lane> {
 public:
  Lane(std::unique_ptr<Source> source, Nanoseconds period, const Clock& clock)
      : source_(std::move(source)), period_(period), clock_(clock), begun_(clock.monotonic()) {}

  void start() {
    // Signals of the process are for the threads that expect them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([self = shared_from_this()] { self->run(); }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void stop() {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }

  std::uint64_t ask() {
    const std::scoped_lock lock(mutex_);
    wanted_ = reads_begun_ + 1;
    changed_.notify_all();
    return wanted_;
  }

  bool wait_for(std::uint64_t read, std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return reads_done_ >= read; });
  }

  SourceReport report() const {
    const std::scoped_lock lock(mutex_);
    return {std::string(source_->name()), state(), message()};
  }

  void add_to(Samples& all) const {
    const std::scoped_lock lock(mutex_);
    const SourceState now = state();
    const std::string name(source_->name());
    all.push_back({&kSourceUp, {{"source", name}}, now == SourceState::kGood ? 1.0 : 0.0});
    all.push_back({&kSourceStalled, {{"source", name}}, now == SourceState::kStalled ? 1.0 : 0.0});
    all.push_back({&kSourceFailures, {{"source", name}}, static_cast<double>(failures_)});
    all.push_back({&kSourceReadSeconds, {{"source", name}}, seconds(took_)});
    if (now == SourceState::kGood) all.insert(all.end(), samples_.begin(), samples_.end());
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      begun_ = clock_.monotonic();
      reading_ = true;
      const std::uint64_t number = ++reads_begun_;
      lock.unlock();
      auto result = source_->read();
      lock.lock();
      if (stop_) return;
      took_ = clock_.monotonic() - begun_;
      reading_ = false;
      keep(std::move(result));
      reads_done_ = number;
      changed_.notify_all();
      changed_.wait_for(lock, period_, [&] { return stop_ || wanted_ > reads_begun_; });
    }
  }

  void keep(Result<Samples> result) {
    last_ = result.ok() ? SourceState::kGood : SourceState::kFailed;
    failure_ = result.ok() ? "" : result.error().message;
    failures_ += result.ok() ? 0 : 1;
    samples_ = result.ok() ? std::move(result).value() : Samples{};
  }

  [[nodiscard]] SourceState state() const {
    const Nanoseconds limit = std::max(kLeastStall, period_ * 3);
    return reading_ && clock_.monotonic() - begun_ > limit ? SourceState::kStalled : last_;
  }

  [[nodiscard]] std::string message() const {
    return state() == SourceState::kStalled
               ? "a read has not come back for " + format_duration(clock_.monotonic() - begun_)
               : failure_;
  }

  const std::unique_ptr<Source> source_;
  const Nanoseconds period_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool reading_ = false;
  Nanoseconds begun_;
  Nanoseconds took_{0};
  std::uint64_t wanted_ = 0;
  std::uint64_t reads_begun_ = 0;
  std::uint64_t reads_done_ = 0;
  std::uint64_t failures_ = 0;
  SourceState last_ = SourceState::kWaiting;
  std::string failure_;
  Samples samples_;
};

Sampler::Sampler(std::vector<std::unique_ptr<Source>> sources, Nanoseconds period, const Clock& clock) {
  for (auto& source : sources) {
    lanes_.push_back(std::make_shared<Lane>(std::move(source), period, clock));
    lanes_.back()->start();
  }
  told_.assign(lanes_.size(), SourceState::kWaiting);
}

Sampler::~Sampler() {
  for (const auto& lane : lanes_) lane->stop();
}

Samples Sampler::samples() const {
  Samples all;
  for (const auto& lane : lanes_) lane->add_to(all);
  // Prometheus wants one name's samples together.
  std::ranges::stable_sort(
      all, [](const Sample& a, const Sample& b) { return std::string_view(a.measure->name) < b.measure->name; });
  return all;
}

std::vector<SourceReport> Sampler::reports() const {
  std::vector<SourceReport> all;
  for (const auto& lane : lanes_) all.push_back(lane->report());
  return all;
}

std::vector<SourceReport> Sampler::changes() {
  std::vector<SourceReport> changed;
  std::vector<SourceReport> all = reports();
  for (std::size_t lane = 0; lane < all.size(); ++lane) {
    if (std::exchange(told_[lane], all[lane].state) != all[lane].state) changed.push_back(std::move(all[lane]));
  }
  return changed;
}

bool Sampler::refresh(Nanoseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::vector<std::uint64_t> reads;
  for (const auto& lane : lanes_) reads.push_back(lane->ask());
  bool all = true;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) all = lanes_[lane]->wait_for(reads[lane], deadline) && all;
  return all;
}

}  // namespace trimtab::host
