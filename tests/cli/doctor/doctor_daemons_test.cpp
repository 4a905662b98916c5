#include "doctor/daemons.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "doctor/certificates.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

const std::string kAgent =
    "# HELP trimtab_agent_ranks_running Ranks.\n# TYPE trimtab_agent_ranks_running gauge\n"
    "trimtab_agent_ranks_running 2\ntrimtab_agent_coordinator_connected 1\ntrimtab_agent_records_total 99\n";
const std::string kCoordinator = "trimtab_nodes{state=\"connected\"} 3\ntrimtab_nodes{state=\"lost\"} 0\n";

// The one check whose name ends with `what`.
Check named(const std::vector<Check>& checks, const std::string& what) {
  const auto found = std::ranges::find_if(checks, [&](const Check& one) { return one.name.ends_with(": " + what); });
  REQUIRE(found != checks.end());
  CHECK(found->health != Health::kOk);
  CHECK_FALSE(found->remedy.empty());
  return *found;
}

// As if these lines had come between two looks at it.
Check growing_agent_with(const std::string& lines, const std::string& what) {
  const EarlierPage earlier{parse_metric_page(kAgent), std::chrono::seconds(5)};
  return named(agent_checks(parse_metric_page(kAgent + lines), earlier), what);
}

Check growing_coordinator_with(const std::string& lines, const std::string& what) {
  const EarlierPage earlier{parse_metric_page(kCoordinator), std::chrono::seconds(5)};
  return named(coordinator_checks(parse_metric_page(kCoordinator + lines), earlier), what);
}

Check agent_with(const std::string& lines, const std::string& what) {
  return named(agent_checks(parse_metric_page(kAgent + lines)), what);
}

Check coordinator_with(const std::string& lines, const std::string& what) {
  return named(coordinator_checks(parse_metric_page(kCoordinator + lines)), what);
}

}  // namespace

TEST_CASE("a page of metrics is read, and what makes no sense is left out") {
  const auto page = parse_metric_page("# TYPE a gauge\na 1\nb{x=\"1 2\",y=\"z\"} 2.5\nnonsense\nc two\nd_total 1e9\n");
  REQUIRE(page.size() == 3);
  CHECK(page[0].name == "a");
  CHECK(page[1].labels == "x=\"1 2\",y=\"z\"");
  CHECK(page[1].value == 2.5);
  CHECK(page[2].value == 1e9);
}

TEST_CASE("daemons without a failure are well, in one line") {
  const auto agent = agent_checks(parse_metric_page(kAgent));
  REQUIRE(agent.size() == 1);
  CHECK(agent[0].health == Health::kOk);
  CHECK(agent[0].found == "2 ranks, connected to the coordinator");
  const auto coordinator = coordinator_checks(parse_metric_page(kCoordinator));
  REQUIRE(coordinator.size() == 1);
  CHECK(coordinator[0].found == "3 nodes connected");
}

TEST_CASE("each failure of an agent is named with its remedy") {
  CHECK(named(agent_checks(parse_metric_page("trimtab_agent_ranks_running 0\n")), "link").health == Health::kWarn);
  CHECK(growing_agent_with("trimtab_agent_batches_failed_total 3\n", "storage").health == Health::kFail);
  CHECK(agent_with("trimtab_agent_costs_dropped_total 7\n", "spool").found.starts_with("7 values"));
  CHECK(agent_with("trimtab_agent_spool_bytes 2e8\n", "spool").found ==
        "191 MiB wait for the coordinator, and spool_limit is 256 MiB");
  const std::string limit = "trimtab_agent_spool_limit_bytes 1073741824\n";
  CHECK(agent_with(limit + "trimtab_agent_spool_bytes 6e8\n", "spool").found.ends_with("spool_limit is 1.00 GiB"));
  CHECK(agent_checks(parse_metric_page(kAgent + limit + "trimtab_agent_spool_bytes 5e8\n")).size() == 1);
  CHECK(growing_agent_with("trimtab_agent_records_total 198\ntrimtab_agent_records_dropped_total 1\n", "rings")
            .found.starts_with("1.0 %"));
  CHECK(agent_with("trimtab_agent_rings_broken_total 1\n", "rings").remedy.find("libtrimtab-inject.so") !=
        std::string::npos);
  CHECK(growing_agent_with("trimtab_agent_frames_refused_total 1\n", "protocol").health == Health::kWarn);
  CHECK(growing_agent_with("trimtab_agent_link_frames_refused_total 2\n", "protocol").remedy.find("max_frame") !=
        std::string::npos);
  CHECK(growing_agent_with("trimtab_agent_link_frames_unsent_total 5\n", "link").found ==
        "5 messages found link_queue full");
  CHECK(
      growing_agent_with("trimtab_agent_steps_dropped_total 9\n", "steps").found.starts_with("9 steps were not told"));
  CHECK(growing_agent_with("trimtab_agent_processes_refused_total 1\n", "users").remedy.find("trimtab-agent@USER") !=
        std::string::npos);
  const std::string idle = "trimtab_agent_coordinator_connected 1\ntrimtab_agent_idle_memory_budget_bytes 67108864\n";
  CHECK(named(agent_checks(parse_metric_page(idle + "trimtab_agent_resident_bytes 1e8\n")), "memory")
            .found.starts_with("95.4 MiB without a rank"));
  CHECK(
      growing_agent_with("trimtab_agent_rings_refused_total 4\n", "rings").found.starts_with("4 rings were not taken"));
  CHECK(agent_with("trimtab_agent_batches_refused_total 2\n", "costs").found.starts_with("2 batches are refused"));
  CHECK(agent_with("trimtab_agent_batches_aside 3\n", "costs").found.starts_with("3 batches cannot be read"));
  CHECK(agent_with("trimtab_agent_root{tenant=\"\"} 1\n", "root").health == Health::kWarn);
  CHECK(agent_checks(parse_metric_page(kAgent + "trimtab_agent_root{tenant=\"a\"} 1\n")).size() == 1);
  CHECK(agent_checks(parse_metric_page(kAgent + "trimtab_agent_root{tenant=\"\"} 0\n")).size() == 1);
  CHECK(agent_with("trimtab_agent_kill_switch 1\n", "kill switch").remedy == "trimtab kill-switch release");
  CHECK(agent_with("trimtab_agent_loop_lag_seconds 2.5\n", "loop").found == "2.5 s late");
  const std::string sources =
      "trimtab_host_source_stalled{source=\"gpu\"} 1\ntrimtab_host_source_stalled{source=\"cpu\"} 0\n";
  CHECK(agent_with(sources, "sources").found == "reading hangs: gpu");
  const std::string fault = "trimtab_agent_link_fault{link=\"NVLink 3 of GPU 2\",reading=\"up\"} 0.999\n";
  CHECK(agent_with(fault, "links").found ==
        "worse than they were, by their own counters, 95 % sure at least: NVLink 3 of GPU 2");
}

TEST_CASE("an agent's disk beyond its budget is named with its parts, and with what the largest goes down with") {
  const auto page = [](const char* databases, const char* logs, const char* scratch, int over) {
    return std::string("trimtab_agent_disk_bytes{what=\"databases\"} ") + databases +
           "\ntrimtab_agent_disk_bytes{what=\"logs\"} " + logs + "\ntrimtab_agent_disk_bytes{what=\"scratch\"} " +
           scratch +
           "\ntrimtab_agent_disk_bytes{what=\"snapshots\"} 9e12\ntrimtab_agent_disk_budget_bytes 2147483648\n"
           "trimtab_agent_over_budget{what=\"disk\"} " +
           std::to_string(over) + "\n";
  };
  const Check databases = agent_with(page("3221225472", "1048576", "0", 1), "disk");
  CHECK(databases.found ==
        "3.00 GiB (databases 3.00 GiB, logs 1.00 MiB, scratch of jobs 0 B), more than the budget of 2.00 GiB");
  CHECK(databases.remedy.find("VACUUM") != std::string::npos);
  CHECK(agent_with(page("1", "3e9", "2", 1), "disk").remedy.find("rank_log_limit") != std::string::npos);
  CHECK(agent_with(page("1", "2", "3e9", 1), "disk").remedy.starts_with("shorten job_retention"));
  CHECK(agent_checks(parse_metric_page(kAgent + page("1", "2", "3", 0))).size() == 1);
}

TEST_CASE("an agent's memory and processor time beyond what they may be beside ranks are named") {
  const auto page = [](const char* what, int over) {
    return std::string(
               "trimtab_agent_ranks_running 1\ntrimtab_agent_resident_bytes 2147483648\n"
               "trimtab_agent_memory_budget_bytes 1073741824\ntrimtab_agent_cpu_budget_cores 1\n") +
           "trimtab_agent_over_budget{what=\"" + what + "\"} " + std::to_string(over) + "\n";
  };
  CHECK(agent_with(page("memory", 1), "memory").found == "2.00 GiB, more than the budget of 1.00 GiB");
  CHECK(agent_with(page("cpu", 1), "CPU").found.starts_with("more than the budget of 100.0 % of a core"));
  for (const char* what : {"memory", "cpu"}) CHECK(agent_checks(parse_metric_page(kAgent + page(what, 0))).size() == 1);
}

TEST_CASE("what an agent takes while it idles, and what collectors take, is seen between two looks") {
  const auto page = [](double used, double cost, int ranks) {
    return parse_metric_page(
        "trimtab_agent_coordinator_connected 1\ntrimtab_agent_idle_cpu_budget_cores 0.01\n"
        "trimtab_agent_ranks_running " +
        std::to_string(ranks) + "\ntrimtab_agent_cpu_seconds_total " + std::to_string(used) +
        "\ntrimtab_rank_collector_budget_ratio{job=\"gpt\",rank=\"3\"} 0.01\n"
        "trimtab_rank_collector_cost_seconds_total{job=\"gpt\",rank=\"3\"} " +
        std::to_string(cost) + "\n");
  };
  const Nanoseconds between = std::chrono::seconds(5);
  const auto judged = [&](double used, double cost, int ranks) {
    return agent_checks(page(100 + used, 7 + cost, ranks), EarlierPage{page(100, 7, ranks), between});
  };
  CHECK(named(judged(0.2, 0, 0), "CPU").found == "4.0 % of a core without a rank, more than the budget of 1.0 %");
  CHECK(named(judged(0.2, 0.25, 1), "collectors").found == "more than twice their budget: gpt/3 (5.0 %)");
  CHECK(judged(0.2, 0.08, 1).size() == 1);
  CHECK(judged(0.04, 0, 0).at(0).health == Health::kOk);
  CHECK(agent_checks(page(100, 7, 0)).size() == 1);
}

TEST_CASE("posts of metrics that fail are named, of both daemons, a few are not") {
  const std::string ok = "trimtab_otlp_exports_total{result=\"ok\"} ";
  const std::string late = "\ntrimtab_otlp_exports_total{result=\"timeout\"} ";
  CHECK(growing_agent_with(ok + "90" + late + "20\n", "posts").found == "20 of 110 posts of metrics failed: timeout");
  CHECK(growing_coordinator_with(ok + "90" + late + "20\n", "posts").health == Health::kWarn);
  CHECK(overall(agent_checks(parse_metric_page(kAgent + ok + "90" + late + "20\n"))) == Health::kOk);
  CHECK(agent_with(ok + "0" + late + "20\n", "posts").found ==
        "20 of 20 posts of metrics failed: timeout (since the daemon's start)");
  CHECK(agent_checks(parse_metric_page(kAgent + ok + "90" + late + "5\n")).size() == 1);
}

TEST_CASE("what a daemon's counters tell of its past is no failure of today") {
  const EarlierPage none{{}, std::chrono::seconds(5)};
  const auto stands_still = [](const std::string& page, auto checks) {
    const EarlierPage earlier{parse_metric_page(page), std::chrono::seconds(5)};
    return checks(parse_metric_page(page), earlier);
  };
  std::string past = kAgent;
  for (const char* name : {"batches_failed", "steps_dropped", "rings_refused", "processes_refused", "frames_refused",
                           "link_frames_refused", "link_frames_unsent", "records_dropped", "records_malformed"}) {
    past += std::string("trimtab_agent_") + name + "_total 7\n";
  }
  past += "trimtab_host_source_failures_total{source=\"gpu\"} 7\n";
  const auto agent = stands_still(past, agent_checks);
  CHECK(overall(agent) == Health::kOk);
  CHECK(agent[0].found == "2 ranks, connected to the coordinator");
  CHECK(agent[1].found == "7 attempts to store costs failed (since the daemon's start)");
  CHECK(overall(agent_checks(parse_metric_page(past))) == Health::kOk);
  CHECK(overall(agent_checks(parse_metric_page(past), none)) == Health::kFail);

  const auto coordinator =
      stands_still(kCoordinator +
                       "trimtab_state_failures_total 1\ntrimtab_cost_batches_total{outcome=\"failed\"} 4\n"
                       "trimtab_steps_dropped_total 6\ntrimtab_refused_total{reason=\"tls\"} 1000\n"
                       "trimtab_foreign_messages_total{what=\"trace\"} 1\ntrimtab_retention_failures_total 1\n"
                       "trimtab_frames_malformed_total 1\n",
                   coordinator_checks);
  CHECK(overall(coordinator) == Health::kOk);
  CHECK(coordinator[0].found == "3 nodes connected");
  CHECK(coordinator[1].name == "coordinator: storage");
  CHECK(coordinator[1].found == "1 transitions could not be stored at once (since the daemon's start)");
}

TEST_CASE("what was lost for good stays a warning, and says since when it is counted") {
  const auto found = [](const std::string& lines, const std::string& what) {
    const Check past = agent_with(lines, what);
    CHECK(past.health == Health::kWarn);
    CHECK(past.found.ends_with(" (since the daemon's start)"));
    const Check now = growing_agent_with(lines, what);
    CHECK(now.health == Health::kWarn);
    CHECK(now.found + " (since the daemon's start)" == past.found);
  };
  found("trimtab_agent_costs_dropped_total 7\n", "spool");
  found("trimtab_agent_batches_refused_total 2\n", "costs");
  found("trimtab_agent_rings_broken_total 1\n", "rings");
}

TEST_CASE("a daemon that was started anew between two looks counts from nothing") {
  const EarlierPage earlier{parse_metric_page(kCoordinator + "trimtab_state_failures_total 90\n"),
                            std::chrono::seconds(5)};
  const auto checks = coordinator_checks(parse_metric_page(kCoordinator + "trimtab_state_failures_total 2\n"), earlier);
  CHECK(named(checks, "storage").health == Health::kFail);
}

TEST_CASE("each failure of a coordinator is named with its remedy") {
  CHECK(named(coordinator_checks(parse_metric_page("trimtab_nodes{state=\"lost\"} 2\n")), "nodes").found ==
        "2 are lost");
  CHECK(growing_coordinator_with("trimtab_state_failures_total 1\n", "storage").health == Health::kFail);
  CHECK(growing_coordinator_with("trimtab_cost_batches_total{outcome=\"failed\"} 4\n", "storage").found ==
        "4 batches of costs could not be stored at once");
  CHECK(growing_coordinator_with("trimtab_steps_dropped_total 6\n", "storage").found.starts_with("6 steps of ranks"));
  const std::string over =
      "trimtab_coordinator_over_budget{what=\"disk\"} 1\ntrimtab_coordinator_over_budget{what=\"cpu\"} 0\n";
  CHECK(coordinator_with(over, "budget").found == "more than its budget: disk");
  CHECK(coordinator_with("trimtab_job_halted{job=\"gpt\"} 1\ntrimtab_job_halted{job=\"t5\"} 0\n", "jobs").found ==
        "halted: gpt");
  CHECK(coordinator_with("trimtab_node_kill_switch{node=\"n0\"} 1\n", "kill switch").found == "thrown on n0");
  const std::string clocks =
      "trimtab_node_clock_ahead_seconds{node=\"n0\"} 0.01\ntrimtab_node_clock_ahead_seconds{node=\"n1\"} -7\n";
  CHECK(coordinator_with(clocks, "clocks").found == "more than 1 s off: n1");
  CHECK(growing_coordinator_with("trimtab_refused_total{reason=\"tls\"} 1000\n", "access").found ==
        "many were turned away: tls");
  CHECK(coordinator_checks(parse_metric_page(kCoordinator + "trimtab_refused_total{reason=\"tls\"} 3\n")).size() == 1);
  CHECK(coordinator_with("trimtab_cost_batches_total{outcome=\"refused\"} 2\n", "costs").found ==
        "2 batches of agents are refused (since the daemon's start)");
  CHECK(coordinator_with("trimtab_cost_batches_total{outcome=\"lost\"} 5\n", "costs").remedy.find("older copy") !=
        std::string::npos);
  CHECK(coordinator_checks(parse_metric_page(kCoordinator + "trimtab_cost_batches_total{outcome=\"stored\"} 5\n"))
            .size() == 1);
  CHECK(growing_coordinator_with("trimtab_foreign_messages_total{what=\"trace\"} 1\n", "nodes")
            .found.ends_with(": trace"));
  CHECK(growing_coordinator_with("trimtab_retention_failures_total 1\n", "retention").health == Health::kWarn);
  CHECK(growing_coordinator_with("trimtab_frames_malformed_total 1\n", "protocol").health == Health::kWarn);
  CHECK(coordinator_with("trimtab_loop_lag_seconds 9\n", "loop").health == Health::kWarn);
}

TEST_CASE("a certificate's end is told a month before") {
  using std::chrono::hours;
  const Nanoseconds now = hours(24 * 20'000);
  const auto judged = [&](int days, net::CertificateKind kind = net::CertificateKind::kNode) {
    net::CertificateDescription described;
    described.owner = {"n0", kind, now + hours(24 * days), "ana"};
    described.hosts = {"n0.lab"};
    return check_certificate("n0.crt", described, now);
  };
  CHECK(judged(31).health == Health::kOk);
  CHECK(judged(29).health == Health::kWarn);
  CHECK(judged(29).found == "n0.crt of n0 ends in 29 days");
  CHECK(judged(-1).health == Health::kFail);
  CHECK(judged(-1).found == "n0.crt of n0 has expired");
  // With all that the old one says.
  CHECK(judged(-1).remedy.find("'trimtab cert issue node n0 --tenant ana --host n0.lab --dir CA_DIRECTORY --out n0'") !=
        std::string::npos);
  const std::string authority = judged(29, net::CertificateKind::kAuthority).remedy;
  CHECK(authority.find("'trimtab cert init --dir NEW_CA_DIRECTORY'") != std::string::npos);
  CHECK(authority.find("cert issue") == std::string::npos);
}

TEST_CASE("a log that nobody would miss is told") {
  const std::string lines = "database_log_unwatched{database=\"costs\"} 1\n";
  CHECK(agent_with("trimtab_agent_" + lines, "storage").found.find("costs") != std::string::npos);
  CHECK(coordinator_with("trimtab_" + lines, "storage").found.find("costs") != std::string::npos);
}
