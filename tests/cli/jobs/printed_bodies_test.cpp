// What the program prints of the coordinator's bodies that are committed in tests/coordinator/golden/api.

#include <catch2/catch.hpp>
#include <string>

#include "../../golden_text.hpp"
#include "files.hpp"
#include "jobs/coordinator_client.hpp"
#include "jobs/live_text.hpp"
#include "jobs/status_text.hpp"
#include "report/report.hpp"
#include "terminal_text.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

std::string body(const std::string& name) {
  return read_file(std::string(TRIMTAB_API_BODIES) + "/" + name + ".txt").value();
}

template <typename Document>
Document answered(const std::string& name) {
  return read_reply<Document>(body(name)).value();
}

std::string printed_events(const std::string& name) {
  std::string text;
  const auto events = answered<api::Events>(name);
  for (const api::Event& event : events.events)
    text += std::to_string(event.sequence) + " " + event.kind + ": " + printable(event.text) + "\n";
  return text;
}

std::string printed_report(const std::string& name) {
  const auto report = parse_report(body(name), name);
  return report.ok() ? report_text(*report) : report.error().message + "\n";
}

void check(const std::string& name, const std::string& text) {
  CHECK(test::golden_text(std::string(TRIMTAB_PRINTED) + "/" + name, text) == text);
}

}  // namespace

TEST_CASE("what is printed of the coordinator's bodies is as it was") {
  std::string all;
  const auto add = [&all](const std::string& name, const std::string& text) {
    all += "== " + name + "\n" + text + "\n";
  };
  for (const char* name : {"status", "status_of_tenant"}) add(name, describe(answered<api::ClusterStatus>(name)));
  for (const char* name : {"job_over", "job_asks", "job_awaiting", "frozen", "submitted"})
    add(name, describe(answered<api::Job>(name)));
  for (const char* name : {"trials", "trials_all"}) add(name, describe(answered<api::Trials>(name).trials));
  for (const char* name : {"live", "live_nobody"}) add(name, describe(answered<api::LiveJob>(name).ranks));
  add("audit", describe(answered<api::Audit>("audit").entries));
  add("events", printed_events("events"));
  for (const char* name : {"report", "report_running"}) add(name, printed_report(name));
  check("printed.txt", all);
}

TEST_CASE("the page of the coordinator's report is as it was") {
  check("report.html", report_html(parse_report(body("report"), "report").value()));
}
