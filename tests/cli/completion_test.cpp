#include "verbs/completion.hpp"

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>

#include <cstdio>
#include <fstream>

#include "command_line.hpp"
#include "daemons/process.hpp"
#include "skipping.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

class ScriptFile {
 public:
  explicit ScriptFile(const std::string& text) : path_("/tmp/trimtab-completion-" + std::to_string(getpid()) + ".sh") {
    std::ofstream(path_) << text;
  }
  ~ScriptFile() { std::remove(path_.c_str()); }
  ScriptFile(const ScriptFile&) = delete;
  ScriptFile& operator=(const ScriptFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What bash would offer at the end of the line, one a line.
std::string offered(const std::string& line) {
  Selection selection;
  const auto root = command_tree(selection);
  const ScriptFile script(bash_completion(*root) + "\nCOMP_WORDS=(" + line +
                          ")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n" +
                          "_trimtab\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
  const SystemClock clock;
  const auto outcome = run_command({"bash", script.path()}, clock, std::chrono::seconds(20));
  REQUIRE(outcome.exit_code == 0);
  return "\n" + outcome.output;
}

}  // namespace

TEST_CASE("bash offers verbs, their parts and their options") {
  CHECK(offered("trimtab se") == "\nsearch\n");
  CHECK(offered("trimtab plan ch") == "\ncheck\n");
  CHECK(offered("trimtab plan check --mo") == "\n--model\n");
  CHECK(offered("trimtab ''").find("\nevaluate\n") != std::string::npos);
}

TEST_CASE("bash offers the values that an option can have") {
  CHECK(offered("trimtab search --strategy ac") == "\naceso\n");
  CHECK(offered("trimtab completion --json").find("--json") != std::string::npos);
  CHECK(offered("trimtab search --seed 1") == "\n\n");
}

TEST_CASE("bash offers files where a file is wanted") {
  CHECK(offered("trimtab search --model /etc/host").find("/etc/hosts") != std::string::npos);
  CHECK(offered("trimtab plan show /etc/host").find("/etc/hosts") != std::string::npos);
}

TEST_CASE("the zsh script has a function for every verb") {
  Selection selection;
  const auto root = command_tree(selection);
  const std::string script = zsh_completion(*root);
  for (const char* name : {"_trimtab()", "_trimtab_search()", "_trimtab_plan_check()", "_trimtab_db_export()"}) {
    INFO(name);
    CHECK(script.find(name) != std::string::npos);
  }
  CHECK(script.starts_with("#compdef trimtab"));
}

TEST_CASE("zsh reads its script, apostrophes and all") {
  Selection selection;
  const auto root = command_tree(selection);
  const SystemClock clock;
  if (run_command({"zsh", "-f", "-c", "true"}, clock, std::chrono::seconds(20)).exit_code != 0) {
    return trimtab::test::skip("zsh is not installed");
  }
  const ScriptFile script("compdef() { }\n_arguments() { print -rl -- \"$@\" }\n" + zsh_completion(*root) +
                          "_trimtab_top\n");
  const auto outcome = run_command({"zsh", "-f", script.path()}, clock, std::chrono::seconds(20));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find("--json[") != std::string::npos);
}
