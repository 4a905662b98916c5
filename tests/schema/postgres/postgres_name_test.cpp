#include "postgres/postgres_name.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "postgres/postgres_placeholders.hpp"
#include "schema/database.hpp"

using namespace trimtab;

namespace {

std::string parameter(const std::string& name, const std::string& keyword) {
  const PostgresName parsed = parse_postgres_name(name).value();
  for (const auto& [known, value] : parsed.parameters) {
    if (known == keyword) return value;
  }
  return "";
}

std::string refusal(const std::string& name) {
  const auto parsed = parse_postgres_name(name);
  return parsed.ok() ? "" : parsed.error().message;
}

}  // namespace

TEST_CASE("a server's name is told from a path") {
  CHECK(names_server("postgresql://db/costs"));
  CHECK(names_server("postgres:///costs"));
  CHECK_FALSE(names_server("costs.db"));
  CHECK_FALSE(names_server("/var/lib/postgresql://x"));
}

TEST_CASE("a password in a name is refused and not repeated") {
  for (const char* name :
       {"postgresql://ana:sesame@db.lab/costs", "postgresql://ana@db.lab/costs?password=sesame",
        "postgresql://ana@db.lab/costs?%70assword=sesame", "postgresql:///costs?user=ana&password=sesame",
        "postgresql://ana:sesame@[::1/costs", "postgresql://ana:se%00same@db.lab/costs",
        "postgresql://ana:p@sesame@db.lab/costs", "postgresql://db.lab/costs?sslpassword=sesame",
        "postgresql://ana@db.lab/costs?password=sesame&nonsense=1"}) {
    const std::string message = refusal(name);
    INFO(name << ": " << message);
    CHECK_FALSE(message.empty());
    CHECK(message.find("sesame") == std::string::npos);
    const auto opened = Database::open(name, DatabaseMode::kCreate, {1, "thing store", {"x"}, {"x"}});
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().message.find("sesame") == std::string::npos);
  }
  CHECK_THAT(refusal("postgresql://ana:sesame@db.lab/costs"),
             Catch::StartsWith("postgresql://ana@db.lab/costs") && Catch::Contains("PGPASSFILE"));
}

TEST_CASE("what is no server's name is refused with the reason") {
  CHECK_THAT(refusal("postgresql://db.lab/costs?nonsense=1"),
             Catch::Contains("names no database") && Catch::Contains("nonsense"));
}

TEST_CASE("to another machine the connection is encrypted, and the server shows who it is") {
  for (const char* variable : {"PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSERVICE"}) unsetenv(variable);
  CHECK(parameter("postgresql://db.lab/costs", "sslmode") == "verify-full");
  CHECK(parameter("postgresql://127.0.0.1,db.lab/costs", "sslmode") == "verify-full");
  CHECK(parameter("postgresql://db.lab/costs?sslmode=require", "sslmode") == "require");
  for (const char* name : {"postgresql:///costs?host=/run/postgresql", "postgresql://127.0.0.1/costs",
                           "postgresql://[::1]/costs", "postgresql://localhost/costs", "postgresql:///costs"}) {
    CHECK(parameter(name, "sslmode").empty());
  }
  CHECK(parameter("postgresql://localhost/costs?hostaddr=10.0.0.1", "sslmode") == "verify-full");
  for (const char* mode : {"disable", "allow", "prefer"}) {
    CHECK_THAT(refusal(std::string("postgresql://db.lab/costs?sslmode=") + mode), Catch::Contains("unencrypted"));
  }
  CHECK(refusal("postgresql://localhost/costs?sslmode=disable").empty());
}

TEST_CASE("what a name says goes before our bounds") {
  CHECK(parameter("postgresql:///costs", "connect_timeout") == "5");
  CHECK(parameter("postgresql:///costs?connect_timeout=20", "connect_timeout") == "20");
}

TEST_CASE("arguments are numbered as PostgreSQL does, but not inside quotes") {
  CHECK(with_dollars("SELECT ?, '?', \"?\", ?") == "SELECT $1, '?', \"?\", $2");
  CHECK(with_dollars("WHERE (?1 = '' OR job = ?1) LIMIT ?2") == "WHERE ($1 = '' OR job = $1) LIMIT $2");
  CHECK(with_dollars("SELECT 'it''s ?', ?") == "SELECT 'it''s ?', $1");
}
