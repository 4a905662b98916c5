#pragma once

// The one thread beside the event loop, "trimtab-search". What runs there: the tuner's searches, one at a time, in the
// order they were asked for. Results come back as callbacks on the loop's thread. Nothing else is shared.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "net/event_loop.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

// What searches for jobs: a seam, so that tests can stand in for it. Loop thread only.
class Searches {
 public:
  virtual ~Searches() = default;
  // `done` is called later, on the loop; never once this object is gone.
  virtual void enqueue(SearchTask task, std::function<void(SearchReply)> done) = 0;
};

class SearchWorker final : public Searches {
 public:
  // The loop and the clock must outlive the worker.
  SearchWorker(net::EventLoop& loop, const Clock& clock);
  // Ends the search in progress at its next question whether to stop; callbacks that have not run yet never will.
  ~SearchWorker() override;
  SearchWorker(const SearchWorker&) = delete;
  SearchWorker& operator=(const SearchWorker&) = delete;

  void enqueue(SearchTask task, std::function<void(SearchReply)> done) override;

 private:
  struct Order {
    SearchTask task;
    std::function<void(SearchReply)> done;
  };
  void work();

  net::EventLoop& loop_;
  const Clock& clock_;
  std::atomic<bool> stopping_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // read and written on the loop's thread only
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Order> queue_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace trimtab::coordinator
