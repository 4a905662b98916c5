#pragma once

// What a shell script that launches a training job says, as far as that can be read without running it: its commands,
// with the variables and arrays put in that the same file sets. Pure; any thread.
//
// Understood are quotes, continued lines, comments, here-documents, assignments (also += and export), $NAME, ${NAME},
// ${NAME:-default}, "${NAME[@]}", $((sums)) and eval. A branch whose test compares known texts ([ $SIZE == 7B ]) is
// taken or passed over. What stands in any other branch or a loop is read as if it were run once. A variable that is
// set in several ways stays as it is written, and so does what only a run could tell: $(command), $1, variables of the
// environment.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab {

struct ScriptCommand {
  std::int64_t line = 1;  // where it begins
  std::vector<std::string> words;
};

struct LaunchScript {
  std::vector<ScriptCommand> commands;
  std::vector<ScriptCommand> documents;  // here-documents, in words
  std::vector<ScriptCommand> values;     // what variables and arrays were set to, in words
  std::vector<ScriptCommand> exports;    // one word each: NAME=VALUE
};

// The text of a file that a script takes in (". FILE", "source FILE"), by its path from the script's folder on;
// nothing: it is not to be had.
using SourcedText = std::function<std::optional<std::string>(const std::string& path)>;

// Fails on a quote that has no end and on letters that only look like blanks or dashes, naming the line. What a file
// says that is taken in has the line where that stands. One that is not to be had, or cannot be read, says nothing.
[[nodiscard]] Result<LaunchScript> read_script(std::string_view text, std::string_view source,
                                               const SourcedText& sourced = {});

// A file's words, one after another: blanks and ends of lines part them, quotes hold them together, # begins a remark,
// a backslash at the end of a line continues it. Fails like read_script.
[[nodiscard]] Result<std::vector<std::string>> shell_words(std::string_view text, std::string_view source);

struct LaunchWords {
  std::vector<std::string> words;
  bool command = false;  // with a launcher or a program in front; else options alone
};

// The words that have this option ("--num-layers"): of YAML with a line for each; else of the last command with it;
// else of all lines, here-documents or values that consist of options. Fails where there are none, and says what the
// file looks like.
[[nodiscard]] Result<LaunchWords> launch_words(std::string_view text, std::string_view source, std::string_view option,
                                               const SourcedText& sourced = {});

// The last value that words give an option ("deepspeed_config"): "--name value" or "--name=value"; dashes and
// underscores are one. Of an option without a value it is empty.
[[nodiscard]] std::optional<std::string> option_value(const std::vector<std::string>& words, std::string_view name);

}  // namespace trimtab
