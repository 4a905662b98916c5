#pragma once

// The words of a command line as Megatron-LM's parser takes them apart. Pure.

#include <optional>
#include <string>
#include <vector>

namespace trimtab {

struct MegatronArgument {
  std::string name;                 // without its dashes
  std::vector<std::string> values;  // a flag has none
};

// In their order; the last of a name counts. Both "--name value ..." and "--name=value". What stands before the first
// is no option's.
[[nodiscard]] std::vector<MegatronArgument> megatron_arguments(const std::vector<std::string>& words);

// The words behind the program (the first word in .py, or -m's module): what stands before are a launcher's. All of them
// where none is.
[[nodiscard]] std::vector<std::string> words_of_program(const std::vector<std::string>& words);

// The program in front of the options that by its name trains another kind of model: pretrain_t5.py,
// examples/mimo/train.py.
[[nodiscard]] std::optional<std::string> program_of_no_gpt(const std::vector<std::string>& words);

}  // namespace trimtab
