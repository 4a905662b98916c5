#include "jobs/search_worker.hpp"

#include <pthread.h>

#include <utility>

namespace trimtab::coordinator {

SearchWorker::SearchWorker(net::EventLoop& loop, const Clock& clock)
    : loop_(loop), clock_(clock), thread_([this] { work(); }) {
  pthread_setname_np(thread_.native_handle(), "trimtab-search");
}

SearchWorker::~SearchWorker() {
  *alive_ = false;
  stopping_ = true;
  // Taken and released: the worker is either before its check of stopping_ or already waiting.
  { const std::lock_guard lock(mutex_); }
  wanted_.notify_one();
  thread_.join();
}

void SearchWorker::enqueue(SearchTask task, std::function<void(SearchReply)> done) {
  loop_.assert_on_loop();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(task), std::move(done)});
  }
  wanted_.notify_one();
}

void SearchWorker::work() {
  while (true) {
    Order order;
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      order = std::move(queue_.front());
      queue_.pop_front();
    }
    SearchReply reply = plan_search(order.task, clock_, [this] { return stopping_.load(); });
    if (stopping_) return;
    loop_.post([alive = alive_, done = std::move(order.done), reply = std::move(reply)]() mutable {
      if (*alive) done(std::move(reply));
    });
  }
}

}  // namespace trimtab::coordinator
