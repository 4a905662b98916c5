#pragma once

// Watches the folder in which a job saves, to tell when a checkpoint has been written and is whole. The folder is read
// on a thread of its own, for it may be on a slow file server.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "commands/copy_price.hpp"
#include "net/event_loop.hpp"

namespace trimtab::agent {

// What there is of a checkpoint: a sum of its files.
struct CheckpointLook {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;  // the latest change of a file or its name, by the file system's clock
  std::int64_t tracker_ns = 0;  // of the file that names the latest checkpoint and is written last; 0 = there is none
  bool renamed = false;         // the latest was given its name after it was written
  bool unfinished = false;      // a file's name says that it is not whole
  std::string latest = {};      // the path of the file that changed last

  bool operator==(const CheckpointLook&) const = default;
};

// Of a file or a folder; nothing in it where it is not there. At most 100,000 entries. Logs are left out: they change
// at each step.
[[nodiscard]] CheckpointLook look_at_checkpoint(const std::string& path);

// From look to look. Pure.
class SaveDetector {
 public:
  // After so long without a change it is whole: where a tracker or a new name says so, and else.
  static constexpr Nanoseconds kSettled = std::chrono::milliseconds(250);
  static constexpr Nanoseconds kSettledUntold = std::chrono::milliseconds(1500);
  static constexpr Nanoseconds kRestless = std::chrono::minutes(1);

  // kRestless: files have changed for so long without a rest. Told once of a detector.
  enum class News { kNothing, kBegun, kWhole, kRestless };
  // The first look is of what there was before.
  [[nodiscard]] News add(Nanoseconds now, const CheckpointLook& look);
  // It has been written to, and was not since the look before the last.
  [[nodiscard]] bool settles() const { return writing_ && settles_; }

 private:
  bool known_ = false;
  bool writing_ = false;
  bool settles_ = false;
  bool restless_ = false;  // was told
  CheckpointLook last_;
  CheckpointLook whole_;
  Nanoseconds begun_at_{0};
  Nanoseconds changed_at_{0};
};

// Destroying it ends the thread; nothing is told any more. Loop thread only.
class CheckpointWatch {
 public:
  // `price`: of a checkpoint that is whole; nothing where it could not be found.
  using Told =
      std::function<void(SaveDetector::News news, const CheckpointLook& look, const std::optional<CopyPrice>& price)>;
  CheckpointWatch(net::EventLoop& loop, std::string path, CopyPricer pricer, Told told);
  ~CheckpointWatch();
  CheckpointWatch(const CheckpointWatch&) = delete;
  CheckpointWatch& operator=(const CheckpointWatch&) = delete;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable wanted;
    bool stops = false;                // guarded by mutex
    CheckpointWatch* owner = nullptr;  // none once it is destroyed; the loop's alone
    CopyWatch pricing;
  };
  static void look_again(net::EventLoop& loop, const std::shared_ptr<Shared>& shared, const std::string& path,
                         CopyPricer pricer);

  Told told_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace trimtab::agent
