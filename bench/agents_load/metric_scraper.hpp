#pragma once

// Reads a daemon's page of metrics while it is under load, as a cluster's Prometheus does: at once and then each
// period, on a connection of its own; never more than one is on its way. The client blocks, so it runs on a thread: a
// page that is slow to come must not hold up the loop, whose agents it would measure. What came is counted on the loop.

#include <cstdint>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "net/event_loop.hpp"
#include "net/http_client.hpp"

namespace trimtab::load {

struct Scrapes {
  std::uint64_t made = 0;    // those that failed, too
  std::uint64_t failed = 0;  // no answer in ten seconds, another status than 200, or no page of metrics
  Nanoseconds slowest{0};
  Bytes largest_page = 0;
  std::string last_failure;
};

class MetricScraper {
 public:
  // Both must outlive it.
  MetricScraper(net::EventLoop& loop, const Clock& clock) : loop_(loop), clock_(clock) {}
  // Waits for the one that is on its way.
  ~MetricScraper();
  MetricScraper(const MetricScraper&) = delete;
  MetricScraper& operator=(const MetricScraper&) = delete;

  // REQUIRES: not started before.
  void start(net::HttpEndpoint endpoint, Nanoseconds period);
  // Begins none any more; the one that is on its way is counted when it has come.
  void stop() { timer_.cancel(); }
  // The daemon is about to be away on purpose: none is begun, and the one that is on its way does not count.
  void pause();
  void resume() { paused_ = false; }

  [[nodiscard]] bool idle() const { return !under_way_; }
  [[nodiscard]] const Scrapes& scrapes() const { return scrapes_; }

 private:
  void scrape();
  void ended(const Result<net::HttpReply>& reply, Nanoseconds took);

  net::EventLoop& loop_;
  const Clock& clock_;
  net::HttpEndpoint endpoint_;
  net::EventLoop::Timer timer_;
  std::thread thread_;
  bool under_way_ = false;
  bool paused_ = false;
  bool cut_off_ = false;  // a pause began while it was on its way
  Scrapes scrapes_;
};

}  // namespace trimtab::load
