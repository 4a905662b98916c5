#include "jobs/status_text.hpp"

#include <catch2/catch.hpp>

#include "jobs/coordinator_client.hpp"

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("the audit log is a table of who did what, when and why") {
  const auto entries = read_reply<api::Audit>(R"({"entries": [
      {"entry": 1, "at_ns": 1772373909000000000, "who": "ana@login1", "what": "freeze the job", "job": "gpt", "run": 2, "why": "night"},
      {"entry": 2, "at_ns": 1772373909000000000, "who": "coordinator", "what": "hold\u001b[2J the plan", "job": "gpt", "why": null}]})");
  REQUIRE(entries.ok());
  const std::string text = describe(entries->entries);
  INFO(text);
  CHECK(text.find("2026-03-01 14:05:09Z  ana@login1") != std::string::npos);
  CHECK(text.find("freeze the job") != std::string::npos);
  CHECK(text.find("night") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(describe(std::vector<api::AuditEntry>{}) == "the audit log is empty\n");
}

TEST_CASE("what is no audit log is an error and no crash") {
  CHECK_FALSE(read_reply<api::Audit>("[]").ok());
  CHECK_FALSE(read_reply<api::Audit>(R"({"entries": [{"who": 7}]})").ok());
  CHECK_FALSE(read_reply<api::Audit>("{").ok());
}
