#pragma once

// The variables that a shell script sets, as far as that can be told without running it. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

class ShellVariables {
 public:
  struct Value {
    std::vector<std::string> words;  // of a scalar one
    bool array = false;
    bool unsure = false;  // set in several ways
  };

  // `in_branch`: it may not come to this. A longer text than kMostBytes is not kept.
  static constexpr std::size_t kMostBytes = 1 << 20;
  void set(const std::string& name, std::vector<std::string> words, bool array, bool append, bool in_branch);
  void forget(const std::string& name);  // what it is cannot be told

  // Of what stands in ${...}, or behind $: NAME, NAME[@], NAME[*], NAME:-default, NAME-default, NAME:=default. Nothing:
  // it cannot be told. `text`: what a default stands for.
  struct Expansion {
    std::vector<std::string> words;
    bool apart = false;  // [@]: its words stay apart in quotes
  };
  [[nodiscard]] std::optional<Expansion> expand(std::string_view inside) const;
  // ${NAME:-default} of a variable that is not set: the default as it is written.
  [[nodiscard]] std::optional<std::string> default_of(std::string_view inside) const;
  // Of what stands in $((...)): + - * / % and parentheses over numbers and variables.
  [[nodiscard]] std::optional<std::int64_t> sum(std::string_view expression) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

[[nodiscard]] bool is_name_letter(char letter);
// The length of the name that the text begins with; 0: with none.
[[nodiscard]] std::size_t name_length(std::string_view text);

}  // namespace trimtab
