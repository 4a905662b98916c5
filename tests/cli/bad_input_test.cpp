#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "scene.hpp"

using namespace trimtab;
using nlohmann::json;

namespace {

// One clear line that holds these words, with this exit code, and nothing on standard output.
void refuses(const std::vector<std::string>& arguments, int code, const std::vector<std::string>& words) {
  const Outcome outcome = ::trimtab_program(arguments);
  INFO(arguments.front() << ": " << outcome.err);
  CHECK(outcome.exit_code == code);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("trimtab"));
  for (const std::string& word : words) {
    INFO(word);
    CHECK(outcome.err.find(word) != std::string::npos);
  }
}

// The variable is not there for programs that are started meanwhile.
class Unset {
 public:
  explicit Unset(const char* name) : name_(name) {
    if (const char* value = std::getenv(name); value != nullptr) before_ = value;
    ::unsetenv(name);
  }
  ~Unset() {
    if (before_) ::setenv(name_, before_->c_str(), 1);
  }
  Unset(const Unset&) = delete;
  Unset& operator=(const Unset&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("where the environment names no place for the state nothing is brought up in one that everybody shares") {
  const Unset state("TRIMTAB_STATE");
  const Unset base("XDG_STATE_HOME");
  const Unset home("HOME");
  for (const char* verb : {"up", "down"}) {
    refuses({verb}, 2, {"no place for the state", "XDG_STATE_HOME", "HOME", "--state"});
  }
  // What needs no state goes on, and so does who names one.
  refuses({"status", "--coordinator", "127.0.0.1:1"}, 3, {"127.0.0.1:1"});
  const Scratch scratch;
  CHECK(::trimtab_program({"down", "--state", scratch.path("")}).exit_code == 0);
  CHECK(::trimtab_program({"kill-switch", "show", "--agent-state", scratch.path("")}).exit_code == 0);
}

TEST_CASE("a file that is missing or a directory is named") {
  const Scene scene;
  refuses({"plan", "show", "/nonexistent/plan.json"}, 2, {"/nonexistent/plan.json", "No such file"});
  refuses({"plan", "show", "/tmp"}, 2, {"/tmp", "directory"});
  refuses({"db", "show", "/nonexistent/costs.db"}, 2, {"/nonexistent/costs.db"});
  refuses({"tune", "--job", "/nonexistent/job.toml"}, 2, {"/nonexistent/job.toml"});
}

TEST_CASE("a malformed document is refused by its path") {
  const Scene scene;
  json broken = json::parse(content_of(scene.plan));
  broken["stages"][0]["segments"][0]["dp"] = "two";
  const std::string typed = scene.scratch.file("typed.json", broken.dump());
  refuses({"plan", "show", typed}, 2, {"typed.json", "stages[0].segments[0].dp"});
  refuses({"plan", "show", scene.scratch.file("half.json", R"({"schema":)")}, 2, {"half.json"});
  refuses({"plan", "show", scene.scratch.file("empty.json", "")}, 2, {"empty.json"});
  refuses({"plan", "show", scene.scratch.file("binary.json", std::string("\x00\xff\xfe{", 4))}, 2, {"binary.json"});
  refuses(
      {"evaluate", "--model", scene.cluster, "--cluster", scene.cluster, "--costs", scene.costs, "--plan", scene.plan},
      2, {"cluster.json"});
}

TEST_CASE("a plan that does not fit the cluster or the model is refused with every broken rule") {
  const Scene scene;
  Plan plan = even_pipeline();
  plan.stages[1].devices = {5};
  refuses(scene.with({"evaluate", "--plan", scene.scratch.file("device.json", to_json(plan))}), 2, {"breaks", "5"});
  plan = even_pipeline();
  plan.stages[1].segments[0].operators = {3, 40};
  refuses(scene.with({"evaluate", "--plan", scene.scratch.file("operator.json", to_json(plan))}), 2, {"breaks", "40"});
}

TEST_CASE("a model whose operators nobody has measured is refused by their cost key") {
  const Scene scene;
  Model model = small_model();
  for (Operator& op : model.operators) op.cost_key = "never-measured";
  const std::string path = scene.scratch.file("unknown.json", to_json(model));
  const Outcome outcome = ::trimtab_program(
      {"search", "--model", path, "--cluster", scene.cluster, "--costs", scene.costs, "--budget", "100ev"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("never-measured") != std::string::npos);
}

TEST_CASE("an unknown strategy, cost model, space or budget names what is known") {
  const Scene scene;
  refuses(scene.with({"search", "--strategy", "acseo", "--budget", "10ev"}), 2, {"acseo", "aceso"});
  refuses(scene.with({"search", "--cost-model", "guess"}), 2, {"--cost-model", "native", "guess"});
  refuses(scene.with({"search", "--space", "world"}), 2, {"--space", "job", "world"});
  refuses(scene.with({"search", "--budget", "soon"}), 2, {"--budget", "soon", "2s"});
  refuses(scene.with({"search", "--knobs", "recompte"}), 2, {"recompte", "did you mean 'recompute'"});
  refuses(scene.with({"search", "--seed", "-1"}), 2, {"--seed"});
  refuses(scene.with({"search", "--threads", "0"}), 2, {"--threads"});
  refuses(scene.with({"search", "--aceso-max-hops", "0"}), 2, {"--aceso-max-hops"});
  refuses(scene.with({"search", "--oases-degrees", "17"}), 2, {"--oases-degrees", "0 to 16"});
  refuses(scene.with({"search", "--start", "/nonexistent.json"}), 2, {"/nonexistent.json"});
  refuses(scene.with({"search", "--calibration", "nobody"}), 2, {"nobody"});
  refuses({"db", "import", "--format", "acseo", "x", "y"}, 2, {"--format", "aceso", "acseo"});
  refuses({"db", "import", "--format", "aceso", "/nonexistent", "y"}, 2, {"/nonexistent", "directory"});
  refuses({"db", "export", scene.costs, "--to", "xml"}, 2, {"csv", "xml"});
  refuses({"completion", "fish"}, 2, {"bash", "fish"});
  refuses({"status", "--coordinator", "nowhere"}, 2, {"--coordinator", "HOST:PORT"});
  refuses({"up", "--agents", "0"}, 2, {"--agents"});
  refuses({"up", "--memory", "much"}, 2, {"--memory", "much"});
}

TEST_CASE("a foreign database is refused and left as it is") {
  const Scene scene;
  const std::string foreign = scene.scratch.file("foreign.db", "this is no database, but it is somebody's file\n");
  refuses({"db", "show", foreign}, 2, {"foreign.db"});
  refuses({"db", "merge", foreign, scene.costs}, 2, {"foreign.db"});
  CHECK(content_of(foreign) == "this is no database, but it is somebody's file\n");
}

TEST_CASE("a database of a newer release is refused") {
  const Scene scene;
  // user_version, big-endian at offset 60 of an SQLite file, is our schema's version.
  std::string bytes = content_of(scene.costs);
  REQUIRE(bytes.size() > 100);
  bytes[63] = static_cast<char>(99);
  const Outcome outcome = ::trimtab_program({"db", "show", scene.scratch.file("newer.db", bytes)});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("newer") != std::string::npos);
}

TEST_CASE("a source that is missing late in the list leaves the target unmade") {
  const Scene scene;
  const std::string target = scene.scratch.path("target.db");
  refuses({"db", "merge", target, scene.costs, "/nonexistent/late.db"}, 2, {"/nonexistent/late.db"});
  CHECK(access(target.c_str(), F_OK) != 0);
}

TEST_CASE("an output that cannot be written is something outside that failed") {
  const Scene scene;
  const Outcome outcome =
      ::trimtab_program(scene.with({"evaluate", "--plan", scene.plan, "--gantt", "/nonexistent/x.svg"}));
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("/nonexistent/x.svg") != std::string::npos);
}

TEST_CASE("a coordinator that is not there is something outside that failed") {
  const Scratch scratch;
  for (const char* verb : {"status", "trials", "top"}) {
    const Outcome outcome = ::trimtab_program({verb, "--coordinator", "127.0.0.1:1", "--state", scratch.path("s")});
    INFO(verb << ": " << outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.err.find("trimtab up") != std::string::npos);
  }
}
