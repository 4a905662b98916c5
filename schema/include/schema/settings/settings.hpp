#pragma once

// One table of settings behind a file, environment variables, flags, their help and docs/settings.md. Agent,
// coordinator, job.toml and scenarios have one each. Errors name the place, the setting, what was expected and what was
// found; that of an unknown name the nearest known one. Tables are made once and never change; any thread.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "schema/settings/setting_kinds.hpp"

namespace trimtab {

// Where values come from. A file alone must have each value in its own type; where flags and the environment say the
// same things in words, the file may, too: devices = "2".
enum class SettingSources : std::uint8_t { kFile, kFileEnvironmentFlags };

// A setting but for its field.
struct SettingFacts {
  std::string name;  // in the file, "trials.blocks"; "environment.*" takes any name
  std::vector<GivenSetting::Type> types;
  std::string unit;
  std::string expected;
  std::string fallback;  // what it is where nobody says
  std::string help;
};

[[nodiscard]] std::string variable_of(const std::string& name);  // TRIMTAB_LOG_LEVEL
[[nodiscard]] std::string flag_of(const std::string& name);      // --log-level
[[nodiscard]] std::string help_of(const SettingFacts& setting);  // for a command line

// Each value of a TOML text, and each of its tables before what is in it. A file's `directory` is where its relative
// paths start.
[[nodiscard]] Result<std::vector<GivenSetting>> read_toml(std::string_view text, std::string_view source,
                                                          const std::string& directory = "");

// The field of a field: within(&Settings::budgets, &Budgets::memory).
template <typename Outer, typename Inner>
[[nodiscard]] auto within(Outer outer, Inner inner) {
  return [=](auto& target) -> auto& {
    return std::invoke(inner, std::invoke(outer, target));
  };
}

template <typename Target>
struct Setting {
  // `member` is a pointer to Target's field, or gives a reference to it. Without a `fallback` it is a new Target's.
  template <typename Field, typename Member>
  Setting(std::string name, SettingKind<Field> kind, Member member, std::string help,
          std::optional<std::string> fallback = {})
      : facts{std::move(name), kind.types, kind.unit, kind.expected, "", std::move(help)} {
    using Stored = std::remove_cvref_t<std::invoke_result_t<Member, Target&>>;
    if constexpr (std::is_enum_v<Stored> || std::is_constructible_v<Field, Stored>) {
      Target usual{};
      if (!fallback) fallback = kind.write(static_cast<Field>(std::invoke(member, usual)));
    }
    facts.fallback = fallback.value_or("none");
    set = [read = std::move(kind.read), member](Target& target, const GivenSetting& given) -> Status {
      TRIMTAB_TRY(Field value, read(given));
      if constexpr (std::is_arithmetic_v<Stored> || std::is_enum_v<Stored>) {
        std::invoke(member, target) = static_cast<Stored>(value);
      } else {
        std::invoke(member, target) = std::move(value);
      }
      return {};
    };
  }
  Setting(SettingFacts known, std::function<Status(Target&, const GivenSetting&)> setter)
      : facts(std::move(known)), set(std::move(setter)) {}

  SettingFacts facts;
  std::function<Status(Target&, const GivenSetting&)> set;
};

// What a table knows without its Target.
class SettingNames {
 public:
  SettingNames(SettingSources sources, std::vector<SettingFacts> facts) : sources_(sources), facts_(std::move(facts)) {}

  [[nodiscard]] const std::vector<SettingFacts>& facts() const { return facts_; }

 protected:
  // Which one is given, or nothing for a table around some of them. The error says that it is none of them, or of a
  // type that it cannot have.
  [[nodiscard]] Result<std::optional<std::size_t>> find(const GivenSetting& given) const;
  [[nodiscard]] static Status placed(const Status& status, const GivenSetting& given);

 private:
  [[nodiscard]] Error unknown(const GivenSetting& given) const;
  [[nodiscard]] bool is_table(const std::string& name) const;
  [[nodiscard]] bool suits(const SettingFacts& setting, GivenSetting::Type type) const;

  SettingSources sources_;
  std::vector<SettingFacts> facts_;
};

template <typename Target>
class SettingTable : public SettingNames {
 public:
  // `parts` follow each other.
  SettingTable(SettingSources sources, std::initializer_list<std::vector<Setting<Target>>> parts)
      : SettingNames(sources, facts_of(parts)) {
    for (const auto& part : parts) {
      for (const auto& one : part) setters_.push_back(one.set);
    }
  }

  [[nodiscard]] Status set(Target& target, const GivenSetting& given) const {
    TRIMTAB_TRY(const std::optional<std::size_t> index, find(given));
    return index ? placed(setters_[*index](target, given), given) : Status();
  }
  [[nodiscard]] Status set_from_toml(Target& target, std::string_view text, std::string_view source) const {
    TRIMTAB_TRY(const std::vector<GivenSetting> all, read_toml(text, source));
    for (const GivenSetting& given : all) TRIMTAB_TRY_STATUS(set(target, given));
    return {};
  }
  // `lookup` is getenv in production.
  [[nodiscard]] Status set_from_environment(
      Target& target, const std::function<std::optional<std::string>(const std::string&)>& lookup) const {
    for (const SettingFacts& one : facts()) {
      const std::string variable = variable_of(one.name);
      if (const auto text = lookup(variable)) TRIMTAB_TRY_STATUS(set(target, word(one.name, variable, *text)));
    }
    return {};
  }
  // REQUIRES: there is a setting of that name.
  [[nodiscard]] Status set_from_flag(Target& target, const std::string& name, const std::string& text) const {
    return set(target, word(name, flag_of(name), text));
  }

 private:
  static std::vector<SettingFacts> facts_of(std::initializer_list<std::vector<Setting<Target>>> parts) {
    std::vector<SettingFacts> facts;
    for (const auto& part : parts) {
      for (const auto& one : part) facts.push_back(one.facts);
    }
    return facts;
  }
  static GivenSetting word(const std::string& name, const std::string& place, const std::string& text) {
    return {name, name, place, GivenSetting::Type::kWord, text, "'" + text + "'", {}, {}};
  }

  std::vector<std::function<Status(Target&, const GivenSetting&)>> setters_;
};

}  // namespace trimtab
