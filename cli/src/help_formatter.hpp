#pragma once

// How --help shows an option: "--seed N  Seed of the random choices (default: 1)".

#include <CLI/CLI.hpp>
#include <string>

namespace trimtab::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace trimtab::cli
