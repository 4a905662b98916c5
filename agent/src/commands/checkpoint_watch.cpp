#include "commands/checkpoint_watch.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

namespace trimtab::agent {
namespace {

namespace fs = std::filesystem;

constexpr Nanoseconds kPeriod = std::chrono::milliseconds(50);
constexpr int kRestForLook = 20;  // times as long as a look took
constexpr std::int64_t kMostEntries = 100'000;

// Written last: by Megatron-LM, by DeepSpeed and others.
constexpr std::array<std::string_view, 2> kTrackers{"latest_checkpointed_iteration.txt", "latest"};
constexpr std::array<std::string_view, 6> kUnfinished{".tmp", ".temp", ".new", ".part", ".partial", ".incomplete"};
// What a program writes as it trains, into the folder of its checkpoints or below: TensorBoard's events, lines of JSON,
// tables.
constexpr std::array<std::string_view, 6> kLogs{".jsonl", ".log", ".csv", ".out", ".err", ".wandb"};

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

bool is_log(std::string_view name) {
  return name.find("tfevents") != std::string_view::npos ||
         std::ranges::any_of(kLogs, [&](std::string_view end) { return name.ends_with(end); });
}

void add(CheckpointLook& look, const fs::path& path) {
  const std::string name = path.filename().string();
  struct stat found {};
  if (is_log(name) || ::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return;
  const std::int64_t changed = nanoseconds(found.st_ctim);
  ++look.files;
  look.bytes += static_cast<std::int64_t>(found.st_size);
  if (changed >= look.changed_ns) {
    look.changed_ns = changed;
    look.renamed = changed > nanoseconds(found.st_mtim);
    look.latest = path.string();
  }
  if (std::ranges::find(kTrackers, name) != kTrackers.end()) look.tracker_ns = std::max(look.tracker_ns, changed);
  look.unfinished |= std::ranges::any_of(kUnfinished, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

CheckpointLook look_at_checkpoint(const std::string& path) {
  CheckpointLook look;
  std::error_code failure;
  if (!fs::is_directory(path, failure)) {
    add(look, path);
    return look;
  }
  fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    add(look, entry->path());
    if (look.files >= kMostEntries) break;
  }
  return look;
}

SaveDetector::News SaveDetector::add(Nanoseconds now, const CheckpointLook& look) {
  if (!std::exchange(known_, true)) {
    last_ = whole_ = look;
    return News::kNothing;
  }
  settles_ = look == last_;
  if (!settles_) {
    last_ = look;
    changed_at_ = now;
    if (!std::exchange(writing_, true)) {
      begun_at_ = now;
      return News::kBegun;
    }
    if (restless_ || now - begun_at_ < kRestless) return News::kNothing;
    restless_ = true;
    return News::kRestless;
  }
  if (!writing_ || look.unfinished || look.files == 0) return News::kNothing;
  // With a tracker the checkpoint is not whole before it names it.
  const bool tracked = look.tracker_ns != 0;
  if (tracked && look.tracker_ns == whole_.tracker_ns) return News::kNothing;
  const Nanoseconds settled = tracked || look.renamed ? kSettled : kSettledUntold;
  if (now - changed_at_ < settled) return News::kNothing;
  writing_ = false;
  whole_ = look;
  return News::kWhole;
}

CheckpointWatch::CheckpointWatch(net::EventLoop& loop, std::string path, CopyPricer pricer, Told told)
    : told_(std::move(told)) {
  shared_->owner = this;
  thread_ = std::thread([&loop, shared = shared_, path = std::move(path), pricer = std::move(pricer)] {
    look_again(loop, shared, path, pricer);
  });
}

CheckpointWatch::~CheckpointWatch() {
  shared_->owner = nullptr;
  shared_->pricing.cancelled = true;
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stops = true;
  }
  shared_->wanted.notify_all();
  thread_.join();
}

void CheckpointWatch::look_again(net::EventLoop& loop, const std::shared_ptr<Shared>& shared, const std::string& path,
                                 CopyPricer pricer) {
  const SystemClock clock;
  SaveDetector detector;
  CheckpointLook priced;
  std::optional<CopyPrice> price;  // of that
  std::unique_lock lock(shared->mutex);
  while (!shared->stops) {
    lock.unlock();
    const Nanoseconds begun = clock.monotonic();
    const CheckpointLook look = look_at_checkpoint(path);
    const Nanoseconds now = clock.monotonic();
    const SaveDetector::News news = detector.add(now, look);
    const bool whole = news == SaveDetector::News::kWhole;
    // Priced while it settles, so that the news does not wait for that.
    const bool is_due = (whole || detector.settles()) && std::exchange(priced, look) != look;
    if (is_due) price = pricer.price(path, shared->pricing);
    if (news != SaveDetector::News::kNothing) {
      loop.post([shared, look, news, price = whole ? price : std::nullopt] {
        if (shared->owner != nullptr) shared->owner->told_(news, look, price);
      });
    }
    lock.lock();
    shared->wanted.wait_for(lock, std::max(kPeriod, (now - begun) * kRestForLook), [&] { return shared->stops; });
  }
}

}  // namespace trimtab::agent
