#include "metric_scraper.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::load {

namespace {

constexpr Nanoseconds kAnswerTime = std::chrono::seconds(10);  // as Prometheus waits

// What is wrong with it, or "".
std::string objection_to(const Result<net::HttpReply>& reply) {
  if (!reply.ok()) return reply.error().message;
  if (reply->status != 200) return "status " + std::to_string(reply->status) + " instead of 200";
  return reply->body.find("\ntrimtab_") == std::string::npos ? "the page has no metric" : "";
}

}  // namespace

MetricScraper::~MetricScraper() {
  if (thread_.joinable()) thread_.join();
}

void MetricScraper::start(net::HttpEndpoint endpoint, Nanoseconds period) {
  endpoint_ = std::move(endpoint);
  timer_ = loop_.every(period, [this] { scrape(); });
  scrape();
}

void MetricScraper::pause() {
  paused_ = true;
  cut_off_ = under_way_;
}

void MetricScraper::scrape() {
  if (paused_ || under_way_) return;
  if (thread_.joinable()) thread_.join();  // the former one's: posting was the last that it did
  under_way_ = true;
  thread_ = std::thread([this] {
    const Nanoseconds begin = clock_.monotonic();
    auto reply = net::http_request(endpoint_, "GET", "/metrics", "", kAnswerTime);
    const Nanoseconds took = clock_.monotonic() - begin;
    loop_.post([this, reply = std::move(reply), took] { ended(reply, took); });
  });
}

void MetricScraper::ended(const Result<net::HttpReply>& reply, Nanoseconds took) {
  under_way_ = false;
  if (std::exchange(cut_off_, false)) return;
  ++scrapes_.made;
  scrapes_.slowest = std::max(scrapes_.slowest, took);
  if (std::string objection = objection_to(reply); !objection.empty()) {
    ++scrapes_.failed;
    scrapes_.last_failure = std::move(objection);
    return;
  }
  scrapes_.largest_page = std::max(scrapes_.largest_page, static_cast<Bytes>(reply->body.size()));
}

}  // namespace trimtab::load
