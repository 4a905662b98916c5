#include "targets/megatron_arguments.hpp"

namespace trimtab {

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

}  // namespace trimtab
