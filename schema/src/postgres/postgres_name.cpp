#include "postgres_name.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/text_parts.hpp"
#include "store/database_backend.hpp"

namespace trimtab {

namespace {

using Parameters = std::map<std::string, std::string>;

// A server that does not answer must not stop an event loop for long.
constexpr std::array<std::pair<const char*, const char*>, 7> kDefaults{{{"connect_timeout", "5"},
                                                                        {"keepalives_idle", "10"},
                                                                        {"keepalives_interval", "5"},
                                                                        {"keepalives_count", "3"},
                                                                        {"tcp_user_timeout", "15000"},
                                                                        {"client_encoding", "UTF8"},
                                                                        {"fallback_application_name", "trimtab"}}};

bool may_hold_secret(const std::string& name) {
  return name.find('@') != std::string::npos || name.find("pass") != std::string::npos ||
         name.find('%') != std::string::npos;
}

Result<Parameters> read_parameters(const std::string& name) {
  char* raw_message = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
      PQconninfoParse(name.c_str(), &raw_message), &PQconninfoFree);
  const std::unique_ptr<char, decltype(&PQfreemem)> message(raw_message, &PQfreemem);
  if (options == nullptr) {
    std::string reason = message == nullptr || may_hold_secret(name) ? "libpq cannot read it" : message.get();
    while (!reason.empty() && reason.back() == '\n') reason.pop_back();
    return bad_input(without_secrets(name) +
                     " names no database: postgresql://USER@HOST:PORT/DATABASE is needed, but " + reason);
  }
  Parameters parameters;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) parameters[option->keyword] = option->val;
  }
  return parameters;
}

Status refuse_password(const std::string& name, const Parameters& parameters) {
  if (!parameters.contains("password") && !parameters.contains("sslpassword")) return {};
  return bad_input(without_secrets(name) +
                   ": a database's name must not hold a password, because others can read it on a command line and in "
                   "logs. Put it into a file that only you may read, ~/.pgpass or one that PGPASSFILE or "
                   "?passfile=/path names, as HOST:PORT:DATABASE:USER:PASSWORD");
}

std::string setting(const Parameters& parameters, const char* keyword, const char* variable) {
  const auto found = parameters.find(keyword);
  if (found != parameters.end()) return found->second;
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// Of a list, each.
bool is_local(std::string_view hosts) {
  return std::ranges::all_of(parted(hosts), is_local_host);
}

// Beyond this machine the connection is encrypted, and the server shows who it is unless the name says that encryption
// will do. A service file may name host and mode: what came of it is looked at after connecting.
Status choose_encryption(const std::string& name, Parameters& parameters) {
  const std::string mode = setting(parameters, "sslmode", "PGSSLMODE");
  if (mode == "disable" || mode == "allow" || mode == "prefer") {
    return bad_input(name + ": sslmode=" + mode +
                     " would send costs and names unencrypted to another machine. Use sslmode=verify-full, with the "
                     "authority's certificate in ~/.postgresql/root.crt or sslrootcert=/path");
  }
  const bool service = !setting(parameters, "service", "PGSERVICE").empty();
  if (mode.empty() && !service) parameters["sslmode"] = "verify-full";
  return {};
}

}  // namespace

bool is_local_host(std::string_view host) {
  return host.empty() || host.front() == '/' || host.front() == '@' || host == "localhost" || host == "::1" ||
         host.starts_with("127.");
}

Result<PostgresName> parse_postgres_name(const std::string& name) {
  TRIMTAB_TRY(Parameters parameters, read_parameters(name));
  TRIMTAB_TRY_STATUS(refuse_password(name, parameters));
  const bool local =
      is_local(setting(parameters, "host", "PGHOST")) && is_local(setting(parameters, "hostaddr", "PGHOSTADDR"));
  if (!local) TRIMTAB_TRY_STATUS(choose_encryption(name, parameters));
  for (const auto& [keyword, value] : kDefaults) parameters.try_emplace(keyword, value);
  return PostgresName{name, {parameters.begin(), parameters.end()}};
}

}  // namespace trimtab
