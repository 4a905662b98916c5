#pragma once

// Answers that take long to make, on a thread of its own, "trimtab-answers", one at a time: the event loop goes on
// meanwhile. They are asked for in turn by callers, so that nobody's many hold up another's one, and each caller may
// have a few waiting. What an answer is made of is copied when its turn has come and not before, so that those that
// wait take next to nothing. Loop thread only.

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "net/event_loop.hpp"
#include "net/server.hpp"

namespace trimtab::coordinator {

class AnswerWorker {
 public:
  static constexpr std::size_t kMostOfCaller = 4;
  static constexpr std::size_t kMost = 256;

  // On the worker's thread: has copies and connections of its own. What `later` of its answer does is done on the loop,
  // at once.
  using Making = std::function<net::HttpResponse()>;
  // On the loop, when its turn has come: copies what the answer is made of. Not called when the worker is gone.
  using Prepare = std::function<Making()>;

  // The loop must outlive the worker.
  explicit AnswerWorker(net::EventLoop& loop);
  // Waits for the answer that is being made. Those that were asked for and are not there never come.
  ~AnswerWorker();
  AnswerWorker(const AnswerWorker&) = delete;
  AnswerWorker& operator=(const AnswerWorker&) = delete;

  // Whether one more of this caller may wait.
  [[nodiscard]] bool has_room(const std::string& caller) const;
  // REQUIRES: has_room().
  void enqueue(const std::string& caller, Prepare prepare, net::HttpResponse::Answer answer);
  [[nodiscard]] std::size_t waiting() const { return waiting_.size() + (busy_ ? 1 : 0); }

 private:
  struct Asked {
    std::string caller;
    Prepare prepare;
    net::HttpResponse::Answer answer;
  };
  void next();
  void work();

  net::EventLoop& loop_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // read and written on the loop's thread only
  std::list<Asked> waiting_;
  std::string served_;  // the caller whose answer was made last
  bool busy_ = false;
  std::mutex mutex_;
  std::condition_variable wanted_;
  struct Order {
    Making making;
    net::HttpResponse::Answer answer;
  };
  std::optional<Order> order_;  // guarded by mutex_
  bool stopping_ = false;       // guarded by mutex_
  std::thread thread_;
};

}  // namespace trimtab::coordinator
