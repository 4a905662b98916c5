#pragma once

// The command line: a verb and `--name value` pairs. Pure.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::bench {

class Options {
 public:
  // `known` are the names a verb takes, without dashes; those that end in '!' take no value.
  [[nodiscard]] static Result<Options> parse(std::span<const std::string> words,
                                             std::span<const std::string_view> known);

  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const;
  [[nodiscard]] Result<std::string> required(std::string_view name) const;
  // A whole number from `low` on.
  [[nodiscard]] Result<std::int64_t> integer(std::string_view name, std::int64_t otherwise, std::int64_t low) const;
  // "gemm,attention"
  [[nodiscard]] std::vector<std::string> texts(std::string_view name, std::string_view otherwise) const;
  // "5,20,100"
  [[nodiscard]] Result<std::vector<std::int64_t>> integers(std::string_view name, std::string_view otherwise) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace trimtab::bench
