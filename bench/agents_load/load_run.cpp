#include "load_run.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "coordinator_process.hpp"
#include "daemon_metrics.hpp"
#include "load_agent.hpp"
#include "load_certificates.hpp"
#include "metric_scraper.hpp"
#include "schema/cost_database.hpp"
#include "temporary_directory.hpp"

namespace trimtab::load {

namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kPacePeriod = 2ms;
constexpr Nanoseconds kConnectTime = 60s;
constexpr Nanoseconds kDrainTime = 120s;
constexpr Nanoseconds kScrapeTime = 15s;

double seconds_of(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

Nanoseconds nanoseconds_of(double seconds) {
  return Nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

double own_cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

Bytes size_of(const std::string& path) {
  std::error_code absent;
  const auto size = std::filesystem::file_size(path, absent);
  return absent ? 0 : static_cast<Bytes>(size);
}

class LoadRun {
 public:
  explicit LoadRun(const LoadOptions& options)
      : options_(options),
        total_rate_(options.batches_per_second * options.agents),
        load_("run" + std::to_string(clock_.wall().count()), options.agents, options.costs, options.values) {}

  Result<LoadResult> run() {
    if (directory_.path().empty()) return unavailable("no temporary directory can be made");
    TRIMTAB_TRY_STATUS(start());
    TRIMTAB_TRY_STATUS(connect());
    make_batches();
    wait_for_rest();
    ask_for_commits();
    for (const auto& agent : agents_) agent->stop();
    TRIMTAB_TRY_STATUS(fault_);
    note_use();
    TRIMTAB_TRY_STATUS(coordinator_->end(SIGTERM));
    TRIMTAB_TRY_STATUS(compare());
    return finish();
  }

 private:
  Status start() {
    std::vector<std::string> arguments = options_.arguments;
    if (!options_.cost_database.empty()) {
      arguments.insert(arguments.end(), {"--cost-database", options_.cost_database});
    }
    if (options_.tls) {
      TRIMTAB_TRY(certificates_, make_certificates(directory_.path(), options_.agents, clock_.wall()));
      arguments.insert(arguments.end(),
                       {"--tls-authority", certificates_.coordinator.authority, "--tls-certificate",
                        certificates_.coordinator.certificate, "--tls-key", certificates_.coordinator.key});
    }
    coordinator_ = std::make_unique<CoordinatorProcess>(options_.program, directory_.path(), std::move(arguments));
    return coordinator_->start();
  }

  Status connect() {
    const Nanoseconds begin = clock_.monotonic();
    for (std::uint32_t i = 0; i < options_.agents; ++i) {
      net::LinkOptions link;
      link.port = coordinator_->port();
      if (options_.tls) link.tls = certificates_.nodes[i];
      const auto due = [this, i](std::uint64_t number) { return due_time((number - 1) * options_.agents + i); };
      agents_.push_back(std::make_unique<LoadAgent>(loop_, clock_, link, i, load_, counts_, due));
      agents_.back()->start();
    }
    const auto all = [&] { return std::ranges::all_of(agents_, &LoadAgent::welcome); };
    if (!run_until(all, kConnectTime)) {
      return unavailable(std::to_string(counts_.welcomes) + " of " + std::to_string(options_.agents) +
                         " agents were welcome after a minute; the last one that was not: " + counts_.last_reason);
    }
    result_.connect_seconds = seconds_of(clock_.monotonic() - begin);
    return {};
  }

  // When the run's batch of this index is due: the agents take turns.
  [[nodiscard]] Nanoseconds due_time(std::uint64_t index) const {
    return begin_ + nanoseconds_of(static_cast<double>(index) / total_rate_);
  }

  void make_batches() {
    begin_ = clock_.monotonic();
    const Nanoseconds end = begin_ + nanoseconds_of(options_.seconds);
    const double cpu = coordinator_->use().cpu_seconds;
    const double own = own_cpu_seconds();
    std::uint64_t made = 0;
    const auto pace = loop_.every(kPacePeriod, [&] {
      const Nanoseconds now = std::min(clock_.monotonic(), end);
      for (; due_time(made) < now; ++made) agents_[made % agents_.size()]->make();
    });
    const auto sample = loop_.every(1s, [this] {
      note_use();
      for (const auto& agent : agents_) agent->look_after();
    });
    const auto faults = plan_faults();
    begin_scrapes();
    (void)run_until([&] { return clock_.monotonic() >= end; }, nanoseconds_of(options_.seconds + 1));
    scraper_.stop();
    note_use();
    const double seconds = seconds_of(clock_.monotonic() - begin_);
    result_.per_second = static_cast<double>(counts_.acknowledged) / seconds;
    result_.behind = counts_.made - counts_.acknowledged;
    result_.coordinator_cores = (coordinator_->use().cpu_seconds - (options_.kill_at ? 0 : cpu)) / seconds;
    result_.load_cores = (own_cpu_seconds() - own) / seconds;
  }

  void begin_scrapes() {
    if (options_.scrape_seconds <= 0) return;
    net::HttpEndpoint endpoint;
    endpoint.port = coordinator_->port();
    if (options_.tls) endpoint.tls = certificates_.person;
    scraper_.start(std::move(endpoint), nanoseconds_of(options_.scrape_seconds));
  }

  // Nobody can read a page of a coordinator that is away.
  std::vector<net::EventLoop::Timer> plan_faults() {
    std::vector<net::EventLoop::Timer> timers;
    const auto at = [&](double seconds, std::function<void()> work) {
      timers.push_back(loop_.after(nanoseconds_of(seconds), std::move(work)));
    };
    if (options_.kill_at) {
      at(*options_.kill_at, [this] {
        scraper_.pause();
        fault_ = coordinator_->end(SIGKILL);
      });
      at(*options_.kill_at + 1, [this] {
        fault_ = coordinator_->start();
        scraper_.resume();
      });
    }
    if (options_.stop_at) {
      at(*options_.stop_at, [this] {
        scraper_.pause();
        coordinator_->signal(SIGSTOP);
      });
      at(*options_.stop_at + options_.stop_seconds, [this] {
        coordinator_->signal(SIGCONT);
        scraper_.resume();
      });
    }
    return timers;
  }

  void wait_for_rest() {
    const Nanoseconds begin = clock_.monotonic();
    coordinator_->signal(SIGCONT);
    const auto look = loop_.every(1s, [this] {
      for (const auto& agent : agents_) agent->look_after();
    });
    (void)run_until([&] { return !fault_.ok() || std::ranges::all_of(agents_, &LoadAgent::idle); }, kDrainTime);
    result_.drain_seconds = seconds_of(clock_.monotonic() - begin);
    (void)run_until([this] { return scraper_.idle(); }, kScrapeTime);
  }

  // Under TLS it answers those alone who have a person's certificate, and one that was started anew has counted anew.
  void ask_for_commits() {
    if (options_.tls || options_.kill_at) return;
    const auto commits = ask_metric(coordinator_->port(), "trimtab_cost_batch_commit_seconds_count");
    if (commits && *commits > 0) result_.batches_per_commit = static_cast<double>(counts_.acknowledged) / *commits;
  }

  void note_use() {
    const ProcessUse use = coordinator_->use();
    if (use.resident == 0) return;  // between a kill and the next start
    result_.resident.push_back(use.resident);
    result_.resident_peak = std::max(result_.resident_peak, use.peak);
    result_.descriptors = std::max(result_.descriptors, use.descriptors);
    result_.database = size_of(directory_.file("costs.db"));
    result_.log = std::max(result_.log, size_of(directory_.file("costs.db-wal")));
  }

  Status compare() {
    const std::string name = options_.cost_database.empty() ? directory_.file("costs.db") : options_.cost_database;
    TRIMTAB_TRY(const auto database, CostDatabase::open(name, OpenMode::kReadWrite));
    const Nanoseconds begin = clock_.monotonic();
    TRIMTAB_TRY(const auto rows, database.rows());
    result_.read_seconds = seconds_of(clock_.monotonic() - begin);
    std::map<CostKey, Statistics> found;
    for (const CostRow& row : rows) {
      if (load_.owns(row.cost.key)) found[row.cost.key].merge(row.cost.statistics);
    }
    const auto expected = load_.expected();
    for (const auto& [key, statistics] : expected) {
      const auto there = found.find(key);
      if (there == found.end() || there->second != statistics) ++result_.miscounted;
    }
    for (const auto& [key, statistics] : found) result_.miscounted += expected.contains(key) ? 0 : 1;
    return {};
  }

  LoadResult finish() {
    result_.made = counts_.made;
    result_.acknowledged = counts_.acknowledged;
    result_.refused = counts_.refused;
    result_.sent_again = counts_.sent_again;
    result_.closes = counts_.closes;
    result_.latency_ns = counts_.latency_ns;
    result_.scrapes = scraper_.scrapes();
    return std::move(result_);
  }

  bool run_until(const std::function<bool()>& done, Nanoseconds limit) {
    const Nanoseconds end = clock_.monotonic() + limit;
    const auto look = loop_.every(5ms, [&] {
      if (done() || clock_.monotonic() > end) loop_.stop();
    });
    loop_.run();
    return done();
  }

  const LoadOptions& options_;
  double total_rate_;
  SystemClock clock_;
  TemporaryDirectory directory_;
  net::EventLoop loop_;
  CostLoad load_;
  LoadCounts counts_;
  LoadCertificates certificates_;
  MetricScraper scraper_{loop_, clock_};
  std::unique_ptr<CoordinatorProcess> coordinator_;  // goes before the scraper, which else would wait for its page
  Nanoseconds begin_{0};
  Status fault_;
  LoadResult result_;
  std::vector<std::unique_ptr<LoadAgent>> agents_;  // last: they use the loop
};

}  // namespace

Result<LoadResult> run_load(const LoadOptions& options) {
  return LoadRun(options).run();
}

}  // namespace trimtab::load
