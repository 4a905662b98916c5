#pragma once

// The members of a framework's configuration, read by their paths ("zero_optimization.stage"). It remembers what was
// asked for: the rest says nothing of a plan. Not for several threads.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "documents/json_document.hpp"

namespace trimtab {

// A member that makes it another plan, which none of ours says: where it is true, or above what is usual.
struct UnsayableMember {
  const char* path;
  std::int64_t usual;  // of numbers
  const char* why;
  bool is_list = false;  // one that is empty says nothing
};

class PlanMembers {
 public:
  // REQUIRES: an object, which outlives this.
  PlanMembers(const Json& json, std::string_view source) : json_(&json), source_(source) {}

  // Nothing where it is missing or null.
  [[nodiscard]] const Json* find(std::string_view path);
  [[nodiscard]] bool is_auto(std::string_view path);
  // These fail on a value of another type. Numbers are whole: 5e8 is one, too.
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(std::string_view path);
  // 1 to 2^30.
  [[nodiscard]] Result<std::optional<std::int32_t>> count(std::string_view path);
  [[nodiscard]] Result<std::int32_t> needed_count(std::string_view path);  // fails where it is missing, too
  // A list of numbers from 0 to below `layers`; empty where it is missing.
  [[nodiscard]] Result<std::vector<std::int32_t>> layer_numbers(std::string_view path, std::int32_t layers);
  [[nodiscard]] Result<bool> flag(std::string_view path, bool fallback);
  [[nodiscard]] Result<std::string> text(std::string_view path, std::string_view fallback);

  // Refuses the first that is there and says another plan.
  [[nodiscard]] Status check_sayable(std::span<const UnsayableMember> members);

  // What another reader of a part, which this one took whole, has found to say nothing of a plan.
  void pass_over(std::vector<std::string> paths);

  // "ds.json: zero_optimization.stage: expected ..."
  [[nodiscard]] Error refusal(std::string_view path, const std::string& why) const;
  // Paths of what nobody asked for; of an object in which nothing was asked for, its own.
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  void add_unread(const Json& object, const std::string& prefix, std::vector<std::string>& paths) const;
  [[nodiscard]] bool any_read_below(const std::string& path) const;

  const Json* json_;
  std::string source_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> passed_over_;
};

// Whether a list, with blanks or ends of lines before and behind each name, has this one.
[[nodiscard]] bool is_listed(std::string_view list, std::string_view name);

}  // namespace trimtab
