#include "completion.hpp"

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>

#include <cstdio>
#include <fstream>

#include "command_line.hpp"
#include "process.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

// What bash would offer at the end of the line, one a line.
std::string offered(const std::string& line) {
  Selection selection;
  const auto root = command_tree(selection);
  const std::string path = "/tmp/trimtab-completion-" + std::to_string(getpid()) + ".sh";
  std::ofstream(path) << bash_completion(*root) << "\nCOMP_WORDS=(" << line
                      << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n"
                      << "_trimtab\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const SystemClock clock;
  const auto outcome = run_command({"bash", path}, clock, std::chrono::seconds(20));
  std::remove(path.c_str());
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
