#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <sstream>

using namespace trimtab::cli;

namespace {

struct Said {
  int code = 0;
  std::string out;
  std::string err;
};

Said say(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, false};
  const int code = run(arguments, console);
  return {code, out.str(), err.str()};
}

void each_verb(const CLI::App& app, const std::vector<std::string>& path,
               const std::function<void(const CLI::App&, const std::vector<std::string>&)>& body) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> inner = path;
    inner.push_back(verb->get_name());
    body(*verb, inner);
    each_verb(*verb, inner, body);
  }
}

}  // namespace

TEST_CASE("a misspelt verb names the nearest one") {
  const Said said = say({"serach", "--model", "x"});
  CHECK(said.code == 2);
  CHECK(said.err.find("unknown verb 'serach'; did you mean 'search'?") != std::string::npos);
  CHECK(said.out.empty());
}

TEST_CASE("a misspelt flag names the nearest one, not the required one that it leaves missing") {
  const Said said = say({"search", "--modle", "x"});
  CHECK(said.code == 2);
  CHECK(said.err.find("trimtab search: unknown option '--modle'; did you mean '--model'?") != std::string::npos);
}

TEST_CASE("a misspelt flag with a value in it is named without the value") {
  CHECK(say({"up", "--agnets=2"}).err.find("unknown option '--agnets'; did you mean '--agents'?") != std::string::npos);
}

TEST_CASE("a misspelt part of a verb names the nearest one") {
  const Said said = say({"plan", "shwo", "x.json"});
  CHECK(said.code == 2);
  CHECK(said.err.find("trimtab plan: unknown verb 'shwo'; did you mean 'show'?") != std::string::npos);
}

TEST_CASE("a missing verb, flag or value says what is needed") {
  CHECK(say({}).code == 2);
  CHECK(say({}).err.find("needs a verb") != std::string::npos);
  CHECK(say({"db"}).err.find("needs a verb") != std::string::npos);
  CHECK(say({"search"}).err.find("--model is required") != std::string::npos);
  CHECK(say({"search", "--model"}).code == 2);
  CHECK(say({"plan", "show"}).code == 2);
  CHECK(say({"down", "--state", ""}).err.find("--state: a directory is needed") != std::string::npos);
  CHECK(say({"down", "now"}).err.find("did not expect the argument 'now'") != std::string::npos);
}

TEST_CASE("verbs that there are not are unknown") {
  for (const char* verb : {"fly", "certificate"}) {
    INFO(verb);
    CHECK(say({verb}).code == 2);
    CHECK(say({verb}).err.find("unknown verb") != std::string::npos);
  }
}

TEST_CASE("help and version are no errors and go to standard output") {
  CHECK(say({"--help"}).code == 0);
  CHECK(say({"--help"}).err.empty());
  CHECK(say({"--help"}).out.find("evaluate") != std::string::npos);
  CHECK(say({"--version"}).code == 0);
  CHECK(say({"--version"}).out.starts_with("trimtab "));
}

TEST_CASE("every verb has a description, an example and --json") {
  Selection selection;
  const auto root = command_tree(selection);
  each_verb(*root, {}, [](const CLI::App& verb, const std::vector<std::string>& path) {
    INFO(path.back());
    CHECK_FALSE(verb.get_description().empty());
    CHECK(verb.get_footer().find("trimtab " + path.front()) != std::string::npos);
    const bool leaf = verb.get_subcommands([](const CLI::App*) { return true; }).empty();
    if (leaf) CHECK(verb.get_option_no_throw("--json") != nullptr);
    std::vector<std::string> help = path;
    help.push_back("--help");
    CHECK(say(help).code == 0);
  });
}
