#include "targets/megatron/megatron_arguments.hpp"

#include <algorithm>
#include <string_view>

namespace trimtab {

namespace {

constexpr std::string_view kOtherModels[] = {"bert",  "t5",     "ict", "retro", "vision",
                                             "mamba", "hybrid", "vlm", "mimo",  "multimodal"};

// By the file's name; train.py by its folder's.
bool names_other_model(std::string_view path) {
  constexpr std::string_view kAnyModel = "/train.py";
  if (path.ends_with(kAnyModel)) path.remove_suffix(kAnyModel.size());
  path.remove_prefix(path.rfind('/') + 1);
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of("_-."), path.size());
    if (std::ranges::count(kOtherModels, path.substr(0, end)) > 0) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

bool is_program(const std::string& word) {
  return word.ends_with(".py");
}

}  // namespace

std::vector<MegatronArgument> megatron_arguments(const std::vector<std::string>& words) {
  std::vector<MegatronArgument> arguments;
  for (const std::string& word : words) {
    if (!word.starts_with("--")) {
      if (!arguments.empty()) arguments.back().values.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    arguments.push_back({word.substr(2, equals == std::string::npos ? equals : equals - 2), {}});
    if (equals != std::string::npos) arguments.back().values.push_back(word.substr(equals + 1));
  }
  return arguments;
}

std::vector<std::string> words_of_program(const std::vector<std::string>& words) {
  auto program = std::ranges::find_if(words, is_program);
  if (program == words.end()) {
    program = std::ranges::find(words, "-m");
    if (std::distance(program, words.end()) < 2) return words;
    ++program;
  }
  return {program + 1, words.end()};
}

std::optional<std::string> program_of_no_gpt(const std::vector<std::string>& words) {
  const auto program = std::ranges::find_if(words, is_program);
  return program != words.end() && names_other_model(*program) ? std::optional(*program) : std::nullopt;
}

}  // namespace trimtab
