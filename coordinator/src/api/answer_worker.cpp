#include "api/answer_worker.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {

AnswerWorker::AnswerWorker(net::EventLoop& loop) : loop_(loop), thread_([this] { work(); }) {
  pthread_setname_np(thread_.native_handle(), "trimtab-answers");
}

AnswerWorker::~AnswerWorker() {
  *alive_ = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

bool AnswerWorker::has_room(const std::string& caller) const {
  const auto own = std::ranges::count(waiting_, caller, &Asked::caller);
  return waiting_.size() < kMost && std::cmp_less(own, kMostOfCaller);
}

void AnswerWorker::enqueue(const std::string& caller, Prepare prepare, net::HttpResponse::Answer answer) {
  loop_.assert_on_loop();
  TRIMTAB_ASSERT(has_room(caller), "who has too many answers waiting is told so");
  waiting_.push_back({caller, std::move(prepare), std::move(answer)});
  next();
}

// The first of somebody else than the one before, else the first.
void AnswerWorker::next() {
  if (busy_ || waiting_.empty()) return;
  auto chosen = std::ranges::find_if(waiting_, [this](const Asked& one) { return one.caller != served_; });
  if (chosen == waiting_.end()) chosen = waiting_.begin();
  Asked asked = std::move(*chosen);
  waiting_.erase(chosen);
  busy_ = true;
  served_ = asked.caller;
  Making making = asked.prepare();
  {
    const std::lock_guard lock(mutex_);
    order_ = {std::move(making), std::move(asked.answer)};
  }
  wanted_.notify_one();
}

void AnswerWorker::work() {
  while (true) {
    Order order;
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [this] { return stopping_ || order_; });
      if (order_) order = *std::exchange(order_, std::nullopt);
    }
    // What an answer leaves behind is the loop's: it is let go of there.
    if (!order.making) return;
    auto response = std::make_shared<net::HttpResponse>(order.making());
    order.making = nullptr;
    loop_.post([this, alive = alive_, answer = std::move(order.answer), response] {
      if (!*alive) return;
      busy_ = false;
      if (response->later) {
        response->later(answer);
      } else {
        answer(std::move(*response));
      }
      next();
    });
  }
}

}  // namespace trimtab::coordinator
