#include "help_formatter.hpp"

namespace trimtab::cli {

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const std::string type = option->get_type_name();
  std::string text = type.empty() ? "" : " " + type;
  if (option->get_expected_max() > 1) text += " ...";
  return text;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (option->get_required()) text += " (required)";
  const std::string value = option->get_default_str();
  return value.empty() ? text : text + " (default: " + value + ")";
}

}  // namespace trimtab::cli
