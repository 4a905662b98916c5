#pragma once

// What has happened: a job's events (GET /v1/jobs/NAME/events) and the audit log (GET /v1/audit). Both come in pages:
// what follows a number is asked for with after=NUMBER.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/api/fields.hpp"

namespace trimtab::api {

struct Event {
  std::int64_t sequence = 0;
  std::int64_t at_ns = 0;
  std::string kind;
  std::string text;
  Carried data;

  static constexpr void fields(auto&& visit) {
    visit("sequence", &Event::sequence, Presence::kUsual, "");
    visit("at_ns", &Event::at_ns, Presence::kUsual, "Wall clock.");
    visit("kind", &Event::kind, Presence::kUsual, "For example \"phase\", \"trial\" or \"warning\".");
    visit("text", &Event::text, Presence::kUsual, "For people.");
    visit("data", &Event::data, Presence::kUsual, "");
  }
};

struct Events {
  std::vector<Event> events;

  static constexpr void fields(auto&& visit) { visit("events", &Events::events, Presence::kNeeded, ""); }
};

struct AuditEntry {
  std::int64_t entry = 0;
  std::int64_t at_ns = 0;
  std::string who;
  std::string what;
  std::string job;
  std::int64_t run = 0;
  std::string why;

  static constexpr void fields(auto&& visit) {
    visit("entry", &AuditEntry::entry, Presence::kUsual, "Its number.");
    visit("at_ns", &AuditEntry::at_ns, Presence::kUsual, "Wall clock.");
    visit("who", &AuditEntry::who, Presence::kUsual, "");
    visit("what", &AuditEntry::what, Presence::kUsual, "");
    visit("job", &AuditEntry::job, Presence::kUsual, "");
    visit("run", &AuditEntry::run, Presence::kIfAny, "Of that job.");
    visit("why", &AuditEntry::why, Presence::kUsual, "");
  }
};

struct Audit {
  std::vector<AuditEntry> entries;

  static constexpr void fields(auto&& visit) { visit("entries", &Audit::entries, Presence::kNeeded, ""); }
};

}  // namespace trimtab::api
