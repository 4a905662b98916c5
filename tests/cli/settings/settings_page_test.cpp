// docs/settings.md has a table of each table of settings, between comments that name it. TRIMTAB_WRITE_GOLDEN=1 writes
// them anew.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "../../golden_text.hpp"
#include "agent/configuration.hpp"
#include "coordinator/settings.hpp"
#include "coordinator/simulation.hpp"
#include "readers.hpp"
#include "schema/settings/job_settings.hpp"

using namespace trimtab;

namespace {

using Facts = std::vector<SettingFacts>;

std::vector<std::pair<std::string, const Facts*>> tables() {
  return {{"coordinator", &coordinator::coordinator_settings().facts()},
          {"site", &coordinator::site_policy_settings().facts()},
          {"agent", &agent::agent_settings().facts()},
          {"job", &job_settings().facts()},
          {"scenario", &coordinator::scenario_settings().facts()},
          {"drift", &coordinator::drift_settings().facts()}};
}

std::string cell(const std::string& text) {
  std::string escaped;
  for (const char one : text) escaped += one == '*' || one == '|' ? std::string("\\") + one : std::string(1, one);
  return escaped;
}

// What could be written there stands as code, what is described as text.
std::string fallback(const SettingFacts& setting) {
  const bool described =
      setting.fallback == "none" || setting.fallback == "drawn" || setting.fallback.find(' ') != std::string::npos;
  return described ? cell(setting.fallback) : "`" + setting.fallback + "`";
}

std::string markdown(const Facts& facts) {
  std::string text = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const SettingFacts& one : facts) {
    text += "| `" + one.name + "` | " + cell(one.expected) + " | " + fallback(one) + " | " + cell(one.help) + " |\n";
  }
  return text;
}

}  // namespace

TEST_CASE("docs/settings.md says what the tables of settings say") {
  std::ifstream file(TRIMTAB_SETTINGS_PAGE, std::ios::binary);
  std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const auto& [name, facts] : tables()) {
    const std::string begin = "<!-- settings: " + name + " -->\n";
    const auto at = page.find(begin);
    const auto end = page.find("<!-- end -->", at);
    INFO(name);
    REQUIRE((at != std::string::npos && end != std::string::npos));
    page.replace(at + begin.size(), end - at - begin.size(), markdown(*facts));
  }
  CHECK(test::golden_text(TRIMTAB_SETTINGS_PAGE, page) == page);
}

TEST_CASE("every setting has a help, a name of its own, and is asked for wrong values") {
  for (const auto& [name, facts] : tables()) {
    const auto reader =
        std::ranges::find(settings_readers(), name == "drift" ? "scenario" : name, &SettingsReader::name);
    REQUIRE(reader != settings_readers().end());
    for (const SettingFacts& one : *facts) {
      INFO(one.name);
      CHECK_FALSE(one.help.empty());
      CHECK_FALSE(one.expected.empty());
      CHECK(std::ranges::count(*facts, one.name, &SettingFacts::name) == 1);
      const std::string any = one.name.substr(0, one.name.find('*'));
      CHECK(std::ranges::any_of(reader->keys, [&](const std::string& key) { return key.starts_with(any); }));
    }
  }
}
