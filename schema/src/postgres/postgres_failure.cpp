// PostgreSQL's failures in words that say what to do.

#include <array>

#include "postgres_session.hpp"

namespace trimtab {

namespace {

struct Advice {
  std::string_view state;  // or the first two characters of it, a class
  ErrorKind kind;
  const char* text;  // after the server's own words
};

// https://www.postgresql.org/docs/15/errcodes-appendix.html
constexpr std::array kAdvice{
    Advice{
        "25006", ErrorKind::kUnavailable,
        "a change needs a server and a role that may write; this is a standby or read-only. Name the primary, or add "
        "target_session_attrs=read-write"},
    Advice{"40", ErrorKind::kUnavailable,
           "other coordinators were in the way again and again; nothing of this change was stored. Try again"},
    Advice{"42501", ErrorKind::kUnavailable,
           "the role lacks a right. Let the tables' owner GRANT it, or make the role their owner"},
    Advice{"42P07", ErrorKind::kBadInput,
           "there is a table of that name that is not ours; nothing was changed. Give the program a schema of its own: "
           "CREATE SCHEMA trimtab AUTHORIZATION role; ALTER ROLE role SET search_path = trimtab"},
    Advice{"53100", ErrorKind::kUnavailable,
           "the server's disk is full; nothing of this change was stored. Free space there, then try again"},
    Advice{"53300", ErrorKind::kUnavailable,
           "the server takes no more connections. Close some, or raise max_connections"},
    Advice{"53", ErrorKind::kUnavailable,
           "the server lacks resources; nothing of this change was stored. Try again later"},
    Advice{"54", ErrorKind::kBadInput, "a name is longer than PostgreSQL can keep in order; nothing of it was stored"},
    Advice{"55P03", ErrorKind::kUnavailable,
           "another session has kept it locked for as long as lock_timeout allows; nothing of this change was stored. "
           "Wait "
           "for it or end it, then try again"},
    Advice{
        "57014", ErrorKind::kUnavailable,
        "the statement took longer than statement_timeout allows, or somebody cancelled it; nothing of this change was "
        "stored. See what burdens the server, or allow more: ALTER ROLE role SET statement_timeout = '5min'"},
    Advice{"57", ErrorKind::kUnavailable, "the server was stopped; nothing of this change was stored. Try again"},
    Advice{"58", ErrorKind::kUnavailable, "the server's disk or system failed. See the server's log"},
    Advice{"XX", ErrorKind::kUnavailable, "the server found its data damaged. Put a backup in its place"},
};

struct ConnectionAdvice {
  std::string_view words;  // of the reason
  const char* text;
};

// libpq 14 to 18, fe-secure-openssl.c, fe-secure-common.c and fe-connect.c.
constexpr std::array kConnectionAdvice{
    ConnectionAdvice{"certificate verify failed",
                     "Needed is a server's certificate that is valid today, signed by the authority in the file that "
                     "sslrootcert= names, else ~/.postgresql/root.crt. Name the authority of this server's, or give "
                     "the server one of yours"},
    ConnectionAdvice{"does not match host name",
                     "Needed is a server's certificate for the host that the name says. Write the host as the "
                     "certificate has it (with hostaddr= where it has another address), or give the server a "
                     "certificate for this one"},
    ConnectionAdvice{"root certificate file",
                     "Needed is the certificate of the authority that signed the server's. Put it there, or name its "
                     "file with sslrootcert=/path"},
    ConnectionAdvice{"too many",
                     "Needed is a free connection. Close some, or raise max_connections or the role's limit"},
    ConnectionAdvice{"connection slots are reserved",
                     "Needed is a free connection. Close some, or raise max_connections"},
    ConnectionAdvice{"server does not support SSL",
                     "Needed is a server that encrypts. Turn it on there, with ssl = on and a certificate for this "
                     "host in its ssl_cert_file"},
};

}  // namespace

bool may_pass_again(const PostgresFailure& failure) {
  return failure.lost || failure.state == "40001" || failure.state == "40P01";
}

std::string connection_advice(std::string_view reason) {
  for (const ConnectionAdvice& advice : kConnectionAdvice) {
    if (reason.find(advice.words) != std::string_view::npos) return advice.text;
  }
  return "Needed are a server that runs and takes this role, and the role's password, where it has one, in ~/.pgpass "
         "or "
         "the file that PGPASSFILE or ?passfile= names";
}

Error postgres_error(const PostgresFailure& failure, const std::string& subject) {
  if (failure.lost) {
    return unavailable(subject + ": the connection to the server was lost: " + failure.message +
                       ". See whether the server runs and can be reached, then try again");
  }
  const std::string reason = subject + ": " + failure.message + " (PostgreSQL " + failure.state + ")";
  for (const Advice& advice : kAdvice) {
    if (failure.state.starts_with(advice.state)) return {advice.kind, reason + ": " + advice.text};
  }
  return unavailable(reason + ". See the server's log");
}

}  // namespace trimtab
