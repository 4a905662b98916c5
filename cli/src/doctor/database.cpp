#include "doctor/database.hpp"

namespace trimtab::cli {

namespace {

std::string tables_text(const ServerInspection& seen) {
  if (seen.version == 0) return "no tables yet: the coordinator makes them when it starts";
  return "version " + std::to_string(seen.version);
}

// Found of one that can be used.
std::string found_text(const ServerInspection& seen) {
  const std::string held = seen.owner.empty() ? "" : ", held by " + seen.owner;
  return seen.server + " as " + seen.role + ", " + tables_text(seen) + held;
}

}  // namespace

Check check_server_database(const std::string& key, const Result<ServerInspection>& seen) {
  if (!seen.ok()) {
    return {key, Health::kFail, seen.error().message,
            "see docs/operating.md, 'The database server does not answer'; who asks here is this user, with this "
            "user's files: ask as the coordinator's"};
  }
  if (!seen->writable.ok()) {
    const bool newer = seen->version > seen->known;
    return {key, Health::kFail, found_text(*seen) + ": " + seen->writable.error().message,
            newer ? "see docs/operating.md, 'The database is of another version'"
                  : "see docs/operating.md, 'The database cannot be written'"};
  }
  if (seen->version > 0 && seen->version < seen->known) {
    return {key, Health::kWarn,
            found_text(*seen) + ", and this release upgrades it to " + std::to_string(seen->known) + " when it starts",
            "see docs/operating.md, 'The database is of another version': upgrade all that share it together"};
  }
  return {key, Health::kOk, found_text(*seen), ""};
}

std::vector<Check> database_checks(const coordinator::Settings& settings) {
  std::vector<Check> checks;
  for (const coordinator::ServerDatabase& one : coordinator::inspect_server_databases(settings)) {
    checks.push_back(check_server_database(one.key, one.seen));
  }
  return checks;
}

}  // namespace trimtab::cli
