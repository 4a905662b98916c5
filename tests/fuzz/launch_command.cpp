// A command line that trains, and a shell script with one: which launchers and ranks it has, and what becomes a rank.

#include <algorithm>

#include "base/check.hpp"
#include "init/command_reading.hpp"
#include "init/script_command.hpp"
#include "schema/launch_script.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

using Words = std::vector<std::string>;

bool ends_with(const Words& words, const Words& end) {
  return words.size() >= end.size() && std::equal(end.rbegin(), end.rend(), words.rbegin());
}

// Whether the reading says parts of these words, and nothing that is not among them.
void check_reading(const Words& words) {
  const cli::CommandReading reading = cli::read_command(words);
  TRIMTAB_ASSERT(ends_with(words, reading.rank_words), "what becomes a rank ends the command");
  TRIMTAB_ASSERT(ends_with(words, reading.script_options), "a script's options end the command");
  TRIMTAB_ASSERT(reading.launch_options.size() <= words.size(), "a launcher's options are words of the command");
  TRIMTAB_ASSERT(reading.world_size().value_or(1) > 0, "a launch has ranks");
  for (const auto* count : {&reading.per_node, &reading.nodes, &reading.processes}) {
    TRIMTAB_ASSERT(count->value_or(1) > 0, "counts are above 0");
  }
  if (!reading.rank_words.empty()) fuzz::understood();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  const auto words = shell_words(text, "command");
  if (fuzz::judge(words)) check_reading(*words);
  const auto launch = cli::launch_in_script(text, "train.sh");
  if (!launch) return 0;
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  TRIMTAB_ASSERT(launch->line >= 1 && launch->line <= lines, "a command begins on a line of the script");
  TRIMTAB_ASSERT(!launch->words.empty(), "a launch has words");
  check_reading(launch->words);
  return 0;
}
