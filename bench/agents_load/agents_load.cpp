// How many agents one coordinator on this machine serves: real connections, the real protocol, a real coordinator
// process with its database on the disk. Each combination of --agents and --rate is a run of its own and a row of the
// table. Ends with 1 where something was lost or counted twice, the coordinator's page of metrics could not be read
// meanwhile, or a bound that was asked for does not hold.

#include <sys/resource.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "load_run.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::load;

struct Bounds {
  std::optional<double> p99_ms;
  std::optional<double> growth_mib;  // of the coordinator, from its first third to its end
};

constexpr const char* kHead =
    "| agents | batches/s each | costs | asked/s | acknowledged/s | p50 ms | p99 ms | max ms | behind at the end | "
    "coordinator's cores | load's cores | RSS MiB: first, end, peak | files | costs.db MiB | log MiB | batches a "
    "commit | all read in s | closed | sent again | refused | lost | miscounted | scrapes | scrapes failed | "
    "slowest scrape ms | largest page bytes |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

double mib(Bytes bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

double quantile_ms(const LoadResult& result, double q) {
  return result.latency_ns.empty() ? 0 : result.latency_ns.quantile(q) / 1e6;
}

std::string row(const LoadOptions& options, const LoadResult& result) {
  const double asked = options.agents * options.batches_per_second;
  const double most = result.latency_ns.empty() ? 0 : static_cast<double>(result.latency_ns.max()) / 1e6;
  const std::string together = result.batches_per_commit ? fmt::format("{:.1f}", *result.batches_per_commit) : "-";
  return fmt::format("| {} | {:g} | {} | {:.0f} | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {} ", options.agents,
                     options.batches_per_second, options.costs, asked, result.per_second, quantile_ms(result, 0.5),
                     quantile_ms(result, 0.99), most, result.behind) +
         fmt::format("| {:.2f} | {:.2f} | {:.1f}, {:.1f}, {:.1f} | {} | {:.1f} | {:.1f} | {} | {:.2f} ",
                     result.coordinator_cores, result.load_cores, mib(result.resident.front()),
                     mib(result.resident.back()), mib(result.resident_peak), result.descriptors, mib(result.database),
                     mib(result.log), together, result.read_seconds) +
         fmt::format("| {} | {} | {} | {} | {} ", result.closes, result.sent_again, result.refused,
                     result.made - result.acknowledged, result.miscounted) +
         fmt::format("| {} | {} | {:.1f} | {} |\n", result.scrapes.made, result.scrapes.failed,
                     static_cast<double>(result.scrapes.slowest.count()) / 1e6, result.scrapes.largest_page);
}

std::vector<std::string> objections(const LoadOptions& options, const LoadResult& result, const Bounds& bounds) {
  std::vector<std::string> found;
  const auto unless = [&](bool holds, const std::string& objection) {
    if (!holds) found.push_back(objection);
  };
  unless(result.made > 0, "no batch was made");
  unless(result.made == result.acknowledged, "batches were never acknowledged");
  unless(result.miscounted == 0, "costs were not counted once");
  unless(result.refused == 0, "batches were refused");
  const Scrapes& scrapes = result.scrapes;
  unless(options.scrape_seconds <= 0 || scrapes.made > 0, "the page of metrics was never read");
  unless(scrapes.failed == 0, fmt::format("{} of {} readings of /metrics failed, the last one: {}", scrapes.failed,
                                          scrapes.made, scrapes.last_failure));
  if (bounds.p99_ms) unless(quantile_ms(result, 0.99) <= *bounds.p99_ms, "the p99 is above its bound");
  const auto& resident = result.resident;
  const double growth = mib(resident.back() - resident[resident.size() / 3]);
  if (bounds.growth_mib)
    unless(growth <= *bounds.growth_mib, fmt::format("the coordinator grew by {:.1f} MiB", growth));
  return found;
}

// A thousand connections are a thousand descriptors, in this process and in the coordinator, which inherits the limit.
void allow_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string command_of(int argc, char** argv) {
  std::string command = std::filesystem::path(argv[0]).filename().string();
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--out") {
      ++i;
    } else {
      command += " " + std::string(argv[i]);
    }
  }
  return command;
}

}  // namespace

int main(int argc, char** argv) {
  LoadOptions options;
  Bounds bounds;
  options.program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "trimtab-coordinator").string();
  std::vector<std::uint32_t> agents{100};
  std::vector<double> rates{1};
  std::string out;
  CLI::App app{"Puts the load of many agents on one coordinator and measures how long acknowledgements take."};
  app.add_option("--agents", agents, "connections; several: a run each")->delimiter(',')->check(CLI::Range(1, 20000));
  app.add_option("--rate", rates, "batches per second of each agent; several: a run each")
      ->delimiter(',')
      ->check(CLI::Range(0.01, 10000.0));
  app.add_option("--seconds", options.seconds, "of each run")->check(CLI::Range(1.0, 86400.0));
  app.add_option("--costs", options.costs, "of a batch")->check(CLI::Range(1, 4096));
  app.add_option("--values", options.values, "measured of each cost")->check(CLI::Range(1, 4096));
  app.add_flag("--tls", options.tls, "mutual TLS, a certificate for each agent");
  app.add_option("--cost-database", options.cost_database, "postgresql://... instead of a file");
  app.add_option("--kill-at", options.kill_at, "seconds after which the coordinator is killed and started again");
  app.add_option("--stop-at", options.stop_at, "seconds after which the coordinator is stopped for a while");
  app.add_option("--stop-for", options.stop_seconds, "for how many seconds");
  app.add_option("--scrape-interval", options.scrape_seconds,
                 "seconds between two readings of /metrics, which must not fail; 0: none")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--coordinator", options.program, "the program");
  app.add_option("--p99-ms", bounds.p99_ms, "fail where the 99th percentile of acknowledgements is above this");
  app.add_option("--most-growth-mib", bounds.growth_mib,
                 "fail where the coordinator's memory grows by more than this in the last two thirds of a run");
  app.add_option("--out", out, "a file for the table, too");
  CLI11_PARSE(app, argc, argv);
  allow_descriptors();
  std::string table = "$ " + command_of(argc, argv) + "\n\n" + kHead;
  std::fputs(table.c_str(), stdout);
  bool good = true;
  for (const std::uint32_t count : agents) {
    for (const double rate : rates) {
      options.agents = count;
      options.batches_per_second = rate;
      const auto result = run_load(options);
      if (!result.ok()) {
        std::fprintf(stderr, "%u agents: %s\n", count, result.error().message.c_str());
        return 3;
      }
      table += row(options, *result);
      std::fputs(row(options, *result).c_str(), stdout);
      std::fflush(stdout);
      for (const std::string& objection : objections(options, *result, bounds)) {
        std::fprintf(stderr, "%u agents, %g batches a second each: %s\n", count, rate, objection.c_str());
        good = false;
      }
    }
  }
  if (!out.empty()) {
    std::ofstream file(out);
    file << table;
    file.close();
    if (!file) {
      std::fprintf(stderr, "couldn't write %s\n", out.c_str());
      return 3;
    }
  }
  return good ? 0 : 1;
}
